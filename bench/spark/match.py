"""The bulk match on Spark against joins: ``python -m bench.spark.match``.

Counting the matches of each subscription, for one and ten million quotes of W1 and up to a million subscriptions. Every
contestant has a process of its own, one after the other, with the same files and the same cores; all counts are
compared. Sluice is measured on one core too, and on a standalone master with one and with two workers of a core each. A
full run writes its tables, figures and plot to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench import machine
from bench.command import say
from bench.match import RESULTS, ChildError, child
from bench.report import Sheet
from bench.spark import data
from bench.spark.child import BINNED, CONTESTANTS, DUCKDB, OURS, PLAIN, RUNNING
from bench.spark.cluster import standalone

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Longest time for a contestant, preparation included.
LIMIT_SECONDS = 1_500.0
FULL = tuple((quotes, size) for quotes in (1_000_000, 10_000_000) for size in (10_000, 100_000, 1_000_000))
QUICK = ((20_000, 1_000), (20_000, 2_000))
#: Where two cores are measured against one, and a cluster against both; in a run without it the last case.
SCALED = (10_000_000, 100_000)
#: So many workers with a core each has a cluster.
WORKERS = (1, 2)
#: What a contestant is not asked for, and why.
SKIPPED: dict[str, tuple[Callable[[tuple[int, int]], bool], str]] = {
    PLAIN: (lambda case: case[0] * case[1] > 2 * 10**11, "every quote with every subscription of its symbol: too long"),
    BINNED: (lambda case: case[1] > 100_000, "bins of a million subscriptions: ninety million rows to lay out"),
    RUNNING: (lambda case: case[1] > 100_000, "cells of a million subscriptions: fifty million rows to lay out"),
    DUCKDB: (lambda case: case[0] * case[1] > 10**12, "makes every pair: too long"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One contestant on so many quotes and subscriptions."""

    contestant: str
    quotes: int
    subscriptions: int
    cores: int
    status: str
    reason: str = ""
    prepare_seconds: float = 0.0
    first_seconds: float = 0.0
    seconds: float = 0.0
    rounds: int = 0
    matches: int = 0
    digest: int = 0
    memory: list[dict[str, int]] | None = None
    #: Whether the cores are workers of a standalone master; else they are threads of one process, `local[cores]`.
    is_cluster: bool = False

    @property
    def master(self) -> str:
        """Where it ran, in words."""
        return f"{self.cores} worker{'s' * (self.cores > 1)}" if self.is_cluster else f"local[{self.cores}]"

    @property
    def case(self) -> tuple[int, int]:
        """What was matched."""
        return self.quotes, self.subscriptions


@dataclass(slots=True)
class SparkRun:
    """Everything that one run found."""

    command: str
    started: str
    load: tuple[float, float]
    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)

    def of(self, contestant: str, case: tuple[int, int], master: str = "local[2]") -> Figure | None:
        """A figure that was measured."""
        for figure in self.figures:
            if (figure.contestant, figure.case, figure.master, figure.status) == (contestant, case, master, "ok"):
                return figure
        return None

    def times(self, peer: Figure | None, case: tuple[int, int]) -> float | None:
        """How many times as fast as a peer Sluice is."""
        ours = self.of(OURS, case)
        return peer.seconds / ours.seconds if ours and peer and peer.status == "ok" else None


def measure(contestant: str, case: tuple[int, int], cores: int, rounds: int, master: str | None = None) -> Figure:
    """One contestant, on this machine or on the master of a cluster; what went wrong is part of the figure."""
    given = (contestant, *case, cores)
    is_cluster = master is not None
    if contestant in SKIPPED and SKIPPED[contestant][0](case):
        return Figure(*given, "skipped", SKIPPED[contestant][1])
    options = (contestant, str(case[0]), str(case[1]), "--cores", str(cores), "--rounds", str(rounds))
    where = () if master is None else ("--master", master)
    try:
        found = child("bench.spark.child", *options, *where, seconds=LIMIT_SECONDS)
        return Figure(*given, "ok", **found, is_cluster=is_cluster)
    except ChildError as error:
        return Figure(*given, "failed", str(error), is_cluster=is_cluster)


def carry_out(cases: Sequence[tuple[int, int]], contestants: Sequence[str], rounds: int, command: str) -> SparkRun:
    """Measures all contestants on all cases, and Sluice on one core too and on clusters of one and of two workers."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {name: metadata.version(name) for name in ("pyspark", "pandas", "deltalake")}
    run = SparkRun(command, started, (os.getloadavg()[0], 0.0), machine.describe() | versions)
    for quotes, subscriptions in cases:
        data.quotes(quotes)
        data.texts(subscriptions)
    for case in cases:
        for contestant in contestants:
            run.figures.append(measure(contestant, case, 2, rounds))
            tell(run.figures[-1])
    if OURS in contestants:
        case = _scaled(cases)
        run.figures.append(measure(OURS, case, 1, rounds))
        tell(run.figures[-1])
        for workers in WORKERS:
            with TemporaryDirectory(prefix="bench-cluster-") as folder, standalone(Path(folder), workers) as cluster:
                run.figures.append(measure(OURS, case, workers, rounds, cluster.master))
            tell(run.figures[-1])
    run.load = (run.load[0], os.getloadavg()[0])
    return run


def _scaled(cases: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The case on which cores and workers are measured against each other."""
    known = [*cases]
    return SCALED if SCALED in known else known[-1]


def tell(figure: Figure) -> None:
    """One line of progress."""
    what = f"{figure.quotes:>10,} x {figure.subscriptions:>9,}  {figure.contestant:<17} {figure.master:<9}"
    if figure.status == "ok":
        say(f"{what} {figure.seconds:8.2f} s (first {figure.first_seconds:.2f} s)  {figure.matches:,} matches")
    else:
        say(f"{what} {figure.status}: {figure.reason}")


def wrong(run: SparkRun) -> list[Figure]:
    """Whoever did not find the same counts as the first on the same case."""
    seen: dict[tuple[int, int], int] = {}
    return [
        figure
        for figure in run.figures
        if figure.status == "ok" and seen.setdefault(figure.case, figure.digest) != figure.digest
    ]


def sheets(run: SparkRun) -> list[Sheet]:
    """All tables of a run."""
    case = (1_000_000, 100_000)
    targets = [
        _target("1 M × 100 k against the plain join", 30, run.times(run.of(PLAIN, case), case)),
        _target("1 M × 100 k against the hand-binned join", 3, run.times(run.of(BINNED, case), case)),
        _target("1 M × 100 k against running counts", 3, run.times(run.of(RUNNING, case), case)),
        _target("10 M × 100 k, two cores against one", 1.7, run.times(run.of(OURS, SCALED, "local[1]"), SCALED)),
    ]
    differing = ", ".join(f"{figure.contestant} on {figure.case}" for figure in wrong(run))
    targets.append(("counts", "the same for all", differing or "the same for all", "NO" if differing else "yes"))
    found = [Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4)]
    rows = [
        (
            f"{figure.quotes:,}",
            f"{figure.subscriptions:,}",
            figure.contestant,
            figure.master,
            *_numbers(figure),
            "" if figure.contestant == OURS else _ratio(run.times(figure, figure.case)),
        )
        for figure in run.figures
        if figure.master == "local[2]"
    ]
    names = ("quotes", "subscriptions", "contestant", "master", "seconds", "first", "prepared in", "quotes/s", "ratio")
    reasons = {figure.contestant: figure.reason for figure in run.figures if figure.status == "skipped"}
    skipped = [f"Skipped, {contestant}: {reason}." for contestant, reason in reasons.items()]
    note = "Seconds: the median of the runs after the first; in brackets where the first was the only one. Ratio: by Sluice's."
    found.append(Sheet("Counting matches per subscription", names, rows, " ".join([note, *skipped]), words=4))
    found.append(_growth(run))
    found.append(_memory(run))
    described = [*run.machine.items(), ("started", run.started), ("command", f"`{run.command}`")]
    described.append(("load before and after", f"{run.load[0]:.1f}, {run.load[1]:.1f}"))
    found.append(Sheet("Machine", ("what", "which"), described, words=2))
    return [sheet for sheet in found if sheet.rows]


def _growth(run: SparkRun) -> Sheet:
    """Sluice on one core and on two, as threads of a process and as workers of a cluster."""
    case = _scaled(figure.case for figure in run.figures)
    rows = []
    for one, two in (("local[1]", "local[2]"), ("1 worker", "2 workers")):
        alone = run.of(OURS, case, one)
        for master in (one, two):
            figure = run.of(OURS, case, master)
            if figure is not None:
                times = None if alone is None else alone.seconds / figure.seconds
                rows.append((master, *_numbers(figure), _ratio(times)))
    names = ("master", "seconds", "first", "prepared in", "quotes/s", "against one core")
    note = (
        f"Sluice, {case[0]:,} quotes × {case[1]:,} subscriptions. Workers are those of a standalone master on this machine, "
        "with a core each; preparing includes packing the index for them, the first run copying it to them."
    )
    return Sheet("From one core to a cluster", names, rows, note)


def _memory(run: SparkRun) -> Sheet:
    largest = max(figure.subscriptions for figure in run.figures)
    rows = [
        (
            f"{figure.quotes:,} × {figure.subscriptions:,}, {figure.master}",
            *(f"{each[name] / 2**20:,.0f}" for name in ("rss", "pss", "own")),
        )
        for figure in run.figures
        if figure.memory and figure.subscriptions == largest
        for each in figure.memory
    ]
    names = ("a worker after", "resident, MiB", "share of it, MiB", "its own, MiB")
    note = "Resident counts pages that workers share in full; the share divides them among those who map them."
    return Sheet("Memory of the Python workers", names, rows, note)


def _target(what: str, wanted: float, found: float | None) -> tuple[str, str, str, str]:
    if found is None:
        return what, f"≥ {wanted:g}×", "not measured", "–"
    return what, f"≥ {wanted:g}×", f"{found:.1f}×", "yes" if found >= wanted else "NO"


def _numbers(figure: Figure) -> tuple[str, str, str, str]:
    if figure.status != "ok":
        return figure.status, "–", "–", "–"
    seconds = f"{figure.seconds:.2f}" if figure.rounds else f"({figure.seconds:.2f})"
    rate = f"{figure.quotes / figure.seconds:,.0f}"
    return seconds, f"{figure.first_seconds:.2f}", f"{figure.prepare_seconds:.1f}", rate


def _ratio(times: float | None) -> str:
    return "" if times is None else f"{times:.1f}×" if times >= 1 else f"{times:.2f}×"


_COLOURS = {OURS: "#0b6e4f", PLAIN: "#d1495b", BINNED: "#2e6fb7", RUNNING: "#edae49", DUCKDB: "#7d6b91"}


def plot(run: SparkRun, path: Path) -> None:
    """Seconds of every contestant, case by case, if there are several; and those of Sluice on one core and on more."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    contestants = [name for name in CONTESTANTS if any(each.contestant == name for each in run.figures)]
    panels = [_draw_contest] * (len(contestants) > 1) + [_draw_growth] * bool(_growth(run).rows)
    if not panels:
        return
    widths = [2.6 if panel is _draw_contest else 1.0 for panel in panels]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(3.8 * sum(widths), 4.4), width_ratios=widths, squeeze=False)
    for axis, draw in zip(axes.flat, panels, strict=True):
        draw(run, axis)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _draw_contest(run: SparkRun, axis: Axes) -> None:
    cases = list(dict.fromkeys(figure.case for figure in run.figures))
    width = 0.8 / len(CONTESTANTS)
    for place, contestant in enumerate(CONTESTANTS):
        found = [(at, one) for at, case in enumerate(cases) if (one := run.of(contestant, case)) is not None]
        places = [at + width * (place - (len(CONTESTANTS) - 1) / 2) for at, _ in found]
        label = "Sluice" if contestant == OURS else contestant
        drawn = axis.bar(places, [one.seconds for _, one in found], width, color=_COLOURS[contestant], label=label)
        axis.bar_label(drawn, [f"{one.seconds:,.3g}" for _, one in found], fontsize=7)
    axis.set_yscale("log")
    axis.margins(y=0.1)
    axis.set_xlim(-0.5, len(cases) - 0.5)
    axis.set_xticks(range(len(cases)), [f"{quotes:,}\n× {size:,}" for quotes, size in cases], fontsize=8)
    axis.set_xlabel("quotes × subscriptions (no bar: not measured)")
    axis.set_title("Counting matches on two cores, seconds (lower is better)", fontsize=11, loc="left")
    axis.legend(frameon=False, fontsize=9)


def _draw_growth(run: SparkRun, axis: Axes) -> None:
    case = _scaled(figure.case for figure in run.figures)
    masters = [str(row[0]) for row in _growth(run).rows]
    seconds = [found.seconds for master in masters if (found := run.of(OURS, case, master)) is not None]
    drawn = axis.bar(masters, seconds, 0.6, color=_COLOURS[OURS])
    axis.bar_label(drawn, [f"{each:.2f}" for each in seconds], fontsize=9)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel(f"{case[0]:,} quotes × {case[1]:,} subscriptions")
    axis.set_title("Sluice by cores, seconds", fontsize=11, loc="left")


def write(run: SparkRun, directory: Path, name: str) -> None:
    """The raw figures, the tables and the plot, under a name."""
    directory.mkdir(parents=True, exist_ok=True)
    raw: dict[str, Any] = asdict(run)
    (directory / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    plot(run, directory / f"{name}.png")
    head = (
        "# Matching on Spark: Sluice and joins\n\nWritten by `make bench-spark`; what is measured and how is in "
        f"[the README](../README.md#spark), the raw figures are in [{name}.json]({name}.json).\n\n"
        f"![seconds that matching takes, of each contestant and by cores]({name}.png)\n"
    )
    (directory / f"{name}.md").write_text("\n".join([head, *(sheet.markdown() for sheet in sheets(run))]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 1 if counts differ."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python -m bench.spark.match", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--cases", help="quotes x subscriptions, such as 1000000x100000,10000000x100000")
    parser.add_argument("--contestants", help=f"some of {','.join(CONTESTANTS)}")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs (default: 5)")
    parser.add_argument("--output", type=Path, metavar="DIRECTORY", help="write the results here")
    parser.add_argument("--name", default="spark-match", help="how the results are called (default: %(default)s)")
    options = parser.parse_args(given)
    cases = QUICK if options.quick else FULL
    if options.cases:
        cases = tuple((int(a), int(b)) for a, b in (case.split("x") for case in options.cases.split(",")))
    contestants = tuple(options.contestants.split(",")) if options.contestants else CONTESTANTS
    start = time.perf_counter()
    rounds = 1 if options.quick else options.rounds
    run = carry_out(cases, contestants, rounds, shlex.join(["python", "-m", "bench.spark", "match", *given]))
    console = Console(width=None if sys.stdout.isatty() else 160)
    for sheet in sheets(run):
        console.print(sheet.terminal())
    full = (cases, contestants, rounds) == (FULL, CONTESTANTS, 5)
    directory = options.output or (RESULTS if full else None)
    if directory is not None:
        write(run, directory, options.name)
        say(f"written to {os.path.relpath(directory)}")
    say(f"took {time.perf_counter() - start:.0f} s")
    return 1 if wrong(run) or any(each.status == "failed" for each in run.figures if each.contestant == OURS) else 0


if __name__ == "__main__":
    sys.exit(main())
