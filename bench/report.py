"""A run as tables for the terminal and for Markdown, and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import OURS, Figure, Run
from bench.targets import outcomes, ratio
from bench.workloads import NOTIFICATIONS

_TITLES = {"w1": "W1: stock quotes, one equality, many matches", "w2": "W2: twenty attributes, few matches"}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table, to be printed either way."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: int = 1
    """How many of the first columns are text; the others are numbers, and stand to the right."""

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [f"## {self.title}", ""]
        lines.append(f"| {' | '.join(self.columns)} |")
        lines.append(f"|{'|'.join(['---'] * self.words + ['---:'] * (len(self.columns) - self.words))}|")
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([*lines, "", self.note, ""] if self.note else [*lines, ""])

    def terminal(self) -> Table:
        """The table for a terminal."""
        table = Table(title=self.title, title_justify="left", caption=self.note or None, caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.words else "right")
        for row in self.rows:
            table.add_row(*row)
        return table


def sheets(run: Run) -> list[Sheet]:
    """All tables of a run."""
    found = [_targets(run)]
    for workload in dict.fromkeys(figure.workload for figure in run.figures):
        found += [_speeds(run, workload), _formulations(run, workload)]
    return [sheet for sheet in (*found, _operations(run), _machine(run)) if sheet.rows]


def _targets(run: Run) -> Sheet:
    words = {True: "yes", False: "NO", None: "–"}
    rows = [(one.target, one.wanted, one.found, words[one.reached]) for one in outcomes(run)]
    note = "A peer is represented by the fastest of its formulations."
    return Sheet("Targets", ("target", "wanted", "found", "reached"), rows, note, words=4)


def _speed_row(run: Run, figure: Figure) -> tuple[str, ...]:
    ours = run.fastest(OURS, figure.workload, figure.size, figure.unit)
    times = ratio(ours, figure)
    mark = "" if figure.complete else "*"
    return (
        figure.system,
        figure.unit,
        f"{figure.size:,}",
        f"{figure.events_per_second:,.0f}{mark}",
        f"{figure.ids_per_second:,.0f}{mark}",
        f"{figure.microseconds_per_event:,.1f}",
        "" if figure.system == OURS or times is None else f"{times:,.1f}×",
    )


def _speeds(run: Run, workload: str) -> Sheet:
    rows: list[tuple[str, ...]] = []
    reasons: dict[str, None] = {}
    mine = [figure for figure in run.figures if figure.workload == workload]
    for size in dict.fromkeys(figure.size for figure in mine):
        for system in dict.fromkeys(figure.system for figure in mine):
            here = [figure for figure in mine if (figure.size, figure.system) == (size, system)]
            for unit in dict.fromkeys(figure.unit for figure in here):
                best = run.fastest(system, workload, size, unit)
                if best is not None:
                    rows.append(_speed_row(run, best))
                else:
                    rows.append((system, unit, f"{size:,}", "–", "–", "–", here[0].status))
                    reasons |= {f"{system}, {size:,}, {f.status}: {f.reason}": None for f in here if f.unit == unit}
    note = (
        f"Ratio: Sluice in the same unit, by the peer. * from a sample: as many of the {NOTIFICATIONS:,} notifications "
        f"as fit in {run.limit_seconds:g} s. Without a star: all of them, with the known total."
    )
    note = " ".join([note, *(f"{reason}." for reason in reasons)])
    columns = ("system", "unit", "subscriptions", "events/s", "ids/s", "µs/event", "Sluice is faster by")
    return Sheet(_TITLES[workload], columns, rows, note, words=2)


def _formulations(run: Run, workload: str) -> Sheet:
    mine = [figure for figure in run.figures if figure.workload == workload and figure.system != OURS]
    sizes = list(dict.fromkeys(figure.size for figure in mine))
    names = list(dict.fromkeys((figure.system, figure.formulation) for figure in mine))
    cells = {(f.system, f.formulation, f.size): f for f in mine}
    rows = []
    for system, formulation in names:
        row = [f"{system}: {formulation}"]
        for size in sizes:
            figure = cells.get((system, formulation, size))
            done = figure is not None and figure.status == "ok"
            row.append(f"{figure.events_per_second:,.0f} ({figure.build_seconds:,.1f} s)" if figure and done else "–")
        rows.append(tuple(row))
    columns = ("formulation", *(f"{size:,}" for size in sizes))
    note = "Events per second, and in brackets the seconds to build."
    return Sheet(f"{workload.upper()}: every formulation of the peers", columns, rows, note)


def _operations(run: Run) -> Sheet:
    columns = (
        "workload, subscriptions",
        "load, s",
        "save, s",
        "open, s",
        "adds/s",
        "removes/s",
        "match p50 / p99, quiet, µs",
        "match p50 / p99, changing, µs",
        "bytes each",
        "peak memory, MB",
    )
    rows = []
    for one in run.operations:
        quiet, meanwhile = one.get("match_microseconds_quiet"), one.get("match_microseconds_meanwhile")
        rows.append(
            (
                f"{one['workload'].upper()}, {one['size']:,}",
                f"{one['load_seconds']:.2f}",
                f"{one['save_seconds']:.3f}",
                f"{one['open_seconds']:.3f}",
                f"{one['adds_per_second']:,.0f}" if "adds_per_second" in one else "–",
                f"{one['removes_per_second']:,.0f}" if "removes_per_second" in one else "–",
                f"{quiet['p50']:.1f} / {quiet['p99']:.1f}" if quiet else "–",
                f"{meanwhile['p50']:.1f} / {meanwhile['p99']:.1f}" if meanwhile else "–",
                f"{one['bytes_per_subscription']:,.0f}" if "bytes_per_subscription" in one else "–",
                f"{one['peak_bytes'] / 1e6:,.0f}" if "peak_bytes" in one else "–",
            )
        )
    note = (
        "Changes: a random subscription removed and another added, one record matched after every ten such changes. "
        "Bytes each: growth of a fresh process that loads the subscriptions and nothing else; its peak includes "
        "Python, the libraries and the file of texts."
    )
    return Sheet("Sluice: load, save, change, memory", columns, rows, note)


def _machine(run: Run) -> Sheet:
    rows = [*run.machine.items(), ("started", run.started), ("command", f"`{run.command}`")]
    done = [figure for figure in run.figures if figure.status == "ok"]
    shared = [figure for figure in done if figure.elapsed_seconds > 1.15 * figure.seconds]
    note = "One core, one thread, for everybody; speeds are by processor time."
    if shared:
        note += (
            f" In {len(shared)} of {len(done)} measurements the core was shared with something else (elapsed time "
            "over 1.15 times the processor time): caches were shared too, so run again on a quiet machine."
        )
    return Sheet("Machine", ("what", "which"), rows, note, words=2)


def print_to(console: Console, run: Run) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: Run) -> str:
    """All tables as one page."""
    intro = (
        "# Matching: Sluice and its peers\n\n"
        "Written by `make bench-match`; what is measured and how is in [the README](../README.md), "
        "the raw figures are in [match.json](match.json).\n\n"
        "![cost of an event against the number of subscriptions](match.png)\n"
    )
    return "\n".join([intro, *(sheet.markdown() for sheet in sheets(run))])


_STYLES = {
    # system, unit: colour, marker, label
    (OURS, "batch"): ("#0b6e4f", "o", "Sluice, batches of 1,024"),
    (OURS, "record"): ("#5fb58f", "o", "Sluice, one record at a time"),
    ("duckdb", "batch"): ("#d1495b", "s", "DuckDB join"),
    ("polars", "batch"): ("#2e6fb7", "D", "Polars join"),
    ("lambdas", "record"): ("#edae49", "^", "indexed Python lambdas"),
    ("rule-engine", "record"): ("#7d6b91", "v", "rule-engine"),
}


def plot(run: Run, path: Path) -> None:
    """Cost of one event against the number of subscriptions, both workloads side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.artist import Artist

    workloads = list(dict.fromkeys(figure.workload for figure in run.figures))
    sizes = sorted({figure.size for figure in run.figures})
    figure, axes = pyplot.subplots(1, len(workloads), figsize=(6.2 * len(workloads), 5.0), sharey=True, squeeze=False)
    for axis, workload in zip(axes[0], workloads, strict=True):
        for (system, unit), (colour, marker, label) in _STYLES.items():
            best = [one for size in sizes if (one := run.fastest(system, workload, size, unit)) is not None]
            if not best:
                continue
            axis.plot(
                [one.size for one in best],
                [one.microseconds_per_event for one in best],
                color=colour,
                marker=marker,
                markersize=6,
                linewidth=2.4 if system == OURS else 1.6,
                linestyle="-" if unit == "batch" else "--",
                label=label,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(_TITLES[workload], fontsize=11, loc="left")
        axis.set_xlabel("subscriptions")
        axis.grid(True, which="major", color="#d9d9d9", linewidth=0.8)
        axis.grid(True, which="minor", axis="y", color="#f0f0f0", linewidth=0.5)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0][0].set_ylabel("µs per event, one core (lower is better)")
    handles: dict[str, Artist] = {}
    for axis in axes[0]:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(
        list(handles.values()), list(handles), loc="lower center", ncols=3, frameon=False, bbox_to_anchor=(0.5, -0.01)
    )
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
