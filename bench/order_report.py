"""A comparison of algorithms for total order as tables for the terminal and for Markdown, and as plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.report import Sheet
from bench.targets import Outcome

#: These must never break anything.
HOLD = ("sequencer", "rooted", "skeen", "floors")
#: Without a sequencer, also not after faults.
SURVIVE = ("rooted", "skeen", "floors")
#: At the highest load, floors get this many times as much through as the central sequencer.
RATIO = 2.0
#: It is saturated if it was offered this many times as much as it got through.
SATURATED = 4.0

_COLOURS = {
    "fifo": ("#8d99ae", "D"),
    "published, exact, whole queue": ("#e6a4a0", "X"),
    "published, exact, progressive": ("#d1495b", "s"),
    "published, fast, whole queue": ("#e6a4a0", "X"),
    "published, fast, progressive": ("#d1495b", "s"),
    "sequencer": ("#edae49", "^"),
    "rooted": ("#7d6b91", "v"),
    "skeen": ("#30638e", "P"),
    "floors": ("#0b6e4f", "o"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm under one load."""

    part: str
    algorithm: str
    load: float
    runs: int
    broken: dict[str, int]
    mean_added: float
    p95_added: float
    control: float
    carried: float
    degree: float
    throughput: float

    def share(self, check: str) -> str:
        """The share of runs in which a check failed."""
        return f"{self.broken.get(check, 0) / self.runs:.1%}"


@dataclass(frozen=True, slots=True)
class OrderRun:
    """Everything that one run found."""

    command: str
    rows: list[Row] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return {"command": self.command, "rows": [asdict(row) for row in self.rows]}

    def of(self, part: str) -> list[Row]:
        """The rows of a part."""
        return [row for row in self.rows if row.part == part]


def outcomes(run: OrderRun) -> list[Outcome]:
    """All targets, one by one."""
    found = []
    for part, names, what in (
        ("violations", HOLD, "nothing broken, no faults"),
        ("faults", SURVIVE, "nothing broken, with crashes and cuts"),
    ):
        for row in run.of(part):
            if row.algorithm in names:
                bad = sum(row.broken.values())
                shown = f"{bad:,} of {row.runs:,} runs"
                found.append(Outcome(f"{row.algorithm}: {what}", "0 runs", shown, bad == 0))
    for row in run.of("violations"):
        if row.algorithm not in HOLD:
            wanted = f"{row.algorithm}: breaks pairwise order, so that the check can see it"
            found.append(Outcome(wanted, "> 0 runs", row.share("pairwise order"), "pairwise order" in row.broken))
    busiest = {row.algorithm: row for row in sorted(run.of("saturation"), key=lambda row: row.load)}
    sequencer, floors = busiest.get("sequencer"), busiest.get("floors")
    if sequencer and floors:
        times = floors.throughput / sequencer.throughput
        reached = times >= RATIO if sequencer.load > SATURATED * sequencer.throughput else None
        found.append(Outcome("floors against the saturated sequencer", f"≥ {RATIO:g}×", f"{times:.1f}×", reached))
    return found


def sheets(run: OrderRun) -> list[Sheet]:
    """All tables of a run."""
    words = {True: "yes", False: "NO", None: "–"}
    targets = [(one.target, one.wanted, one.found, words[one.reached]) for one in outcomes(run)]
    found = [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        _violations(run),
        _faults(run),
        _costs(run),
        _paper(run),
        _saturation(run),
    ]
    return [sheet for sheet in found if sheet.rows]


def _violations(run: OrderRun) -> Sheet:
    rows = [
        (
            row.algorithm,
            row.share("pairwise order"),
            row.share("publisher order"),
            row.share("lost"),
            row.share("twice"),
            f"{row.degree:.4f}",
        )
        for row in run.of("violations")
    ]
    runs = max((row.runs for row in run.of("violations")), default=0)
    note = (
        f"Shares of {runs:,} random networks without faults: 3 to 12 brokers, 2 to 6 publishers, 2 to 8 subscribers, 1 to 4 "
        "values; links with constant, uniform and exponential delays. Degree: the mean normalised ordering degree of all "
        "pairs of subscribers at different brokers."
    )
    columns = ("algorithm", "pairwise order broken", "publisher order broken", "lost", "twice", "degree")
    return Sheet("How often order is broken", columns, rows, note)


def _faults(run: OrderRun) -> Sheet:
    rows = [(row.algorithm, row.share("pairwise order"), row.share("lost")) for row in run.of("faults")]
    runs = max((row.runs for row in run.of("faults")), default=0)
    note = (
        f"Shares of {runs:,} random networks with one or two crashes or broken links, and traffic before, during and after. "
        "Waits for ever: a subscriber never gets something that was published on its own side of every fault."
    )
    return Sheet("With faults", ("algorithm", "pairwise order broken", "waits for ever"), rows, note)


def _costs(run: OrderRun) -> Sheet:
    rows = [
        (
            row.algorithm,
            f"{row.load:g}",
            f"{row.mean_added:.1f}",
            f"{row.p95_added:.1f}",
            f"{row.control:.1f}",
            f"{row.carried:.1f}",
        )
        for row in sorted(run.of("costs"), key=lambda row: _place(row.algorithm))
    ]
    note = (
        "Links take constant time, one unit. Load: publications of each publisher in a unit of time. Added: delay beyond that "
        "of FIFO links. Control: messages about order for each publication; links crossed: by each publication itself."
    )
    columns = ("algorithm", "load", "added, mean", "added, p95", "control", "links crossed")
    return Sheet("What order costs", columns, rows, note)


def _paper(run: OrderRun) -> Sheet:
    rows = [
        (row.algorithm, f"{row.load:g}", f"{row.degree:.4f}", f"{row.mean_added:.1f}", f"{row.p95_added:.1f}")
        for row in sorted(run.of("paper"), key=lambda row: _place(row.algorithm))
    ]
    note = (
        "A chain of core brokers with five edge brokers each, a publisher and a subscriber at every edge, everybody gets "
        "everything. Load: publications of all publishers in a unit of time. The paper reports 0.9952 for FIFO links."
    )
    columns = ("algorithm", "load", "degree", "added, mean", "added, p95")
    return Sheet("The paper's topology, all in conflict", columns, rows, note)


def _saturation(run: OrderRun) -> Sheet:
    rows = [
        (
            row.algorithm,
            f"{row.load:.1f}",
            f"{row.throughput:.1f}",
            f"{row.mean_added:.1f}",
            f"{row.p95_added:.1f}",
            f"{row.control:.1f}",
        )
        for row in sorted(run.of("saturation"), key=lambda row: _place(row.algorithm))
    ]
    note = (
        "The same topology with a topic for every data centre; a fifth of the subscribers want another one's too. A broker "
        "handles 20 messages in a unit of time. Delivered: publications in a unit of time until everything was delivered."
    )
    columns = ("algorithm", "offered", "delivered", "added, mean", "added, p95", "control")
    return Sheet("Where brokers are saturated", columns, rows, note)


def _place(algorithm: str) -> int:
    return list(_COLOURS).index(algorithm)


def print_to(console: Console, run: OrderRun) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: OrderRun) -> str:
    """All tables as one page."""
    intro = (
        "# Total order\n\nWritten by `make bench-order`; what is compared and how is in [the README](../README.md#order), the "
        "raw figures are in [order.json](order.json). All of it is counted in virtual time, the same on any machine.\n\n"
        "![violations, delay, control messages and throughput](order.png)\n"
    )
    return "\n".join([intro, *(sheet.markdown() for sheet in sheets(run))]).rstrip() + "\n"


def plot(run: OrderRun, path: Path) -> None:
    """Violations as bars; delay, control messages and throughput against load."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ((bars, delays), (control, through)) = pyplot.subplots(2, 2, figsize=(11, 8))
    rows = run.of("violations")
    bars.barh(
        [row.algorithm for row in rows],
        [100 * row.broken.get("pairwise order", 0) / row.runs for row in rows],
        color=[_COLOURS[row.algorithm][0] for row in rows],
    )
    bars.invert_yaxis()
    bars.set_title("Runs that break pairwise order, %", fontsize=11, loc="left")
    _lines(delays, run.of("costs"), lambda row: row.mean_added)
    delays.set_title("Added delay, mean, in link delays", fontsize=11, loc="left")
    _lines(control, run.of("costs"), lambda row: row.control)
    control.set_title("Control messages for each publication", fontsize=11, loc="left")
    for axis in (delays, control):
        axis.set_xlabel("publications of each publisher in a link delay")
    _lines(through, run.of("saturation"), lambda row: row.throughput)
    through.set_title("Delivered in a link delay by busy brokers", fontsize=11, loc="left")
    through.set_xlabel("publications offered in a link delay")
    for axis in (bars, delays, control, through):
        axis.grid(True, axis="x" if axis is bars else "both", color="#e3e3e3", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        if axis is not bars and axis.lines:
            axis.set_xscale("log")
            axis.set_ylim(bottom=0)
    for axis, place in ((delays, (0.55, 0.55)), (through, "upper left")):
        if axis.lines:
            axis.legend(fontsize=8, frameon=False, loc=place)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _lines(axis: Any, rows: list[Row], shown: Callable[[Row], float]) -> None:
    for name in dict.fromkeys(row.algorithm for row in rows):
        colour, marker = _COLOURS[name]
        points = sorted((row.load, shown(row)) for row in rows if row.algorithm == name)
        axis.plot(
            [load for load, _ in points],
            [value for _, value in points],
            color=colour,
            marker=marker,
            label=name,
            linewidth=2.4 if name == "floors" else 1.6,
        )
