"""A run of the routing benchmark as tables for the terminal and for Markdown, and as plots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from bench.pairwise import FORMULATIONS
from bench.report import Sheet
from bench.targets import Outcome
from sluice.lab import curves
from sluice.lab.expected import expected
from sluice.lab.experiment import Experiment, Result, Setup
from sluice.lab.topology import hierarchy
from sluice.lab.workload import Filters

#: One broker with 100,000 filters takes this many times as many changes a second as the faster plain loop.
RATIO, RATIO_SIZE = 100.0, 100_000
#: Events a second of the simulator, in each scenario.
EVENTS_PER_SECOND = 10_000.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the dissertation's figures, and what it shows."""

    number: str
    title: str
    experiment: Experiment
    filters: Filters
    routings: tuple[str, str]

    def curves(self) -> Iterator[tuple[str, bool]]:
        """The curves: routing algorithms, without and with advertisements."""
        return ((routing, advertisements) for routing in self.routings for advertisements in (False, True))

    @property
    def shows(self) -> Literal["remote_entries", "admin_messages"]:
        """What is on the axis."""
        return "remote_entries" if self.experiment == "table-size" else "admin_messages"


FIGURES = (
    Figure("6.2", "table size, simple and identity", "table-size", "quote", ("simple", "identity")),
    Figure("6.3", "table size, covering and merging", "table-size", "interval", ("covering", "merging")),
    Figure("6.5", "control messages, simple and identity", "admin-messages", "quote", ("simple", "identity")),
    Figure("6.6", "control messages, covering and merging", "admin-messages", "interval", ("covering", "merging")),
)


@dataclass(frozen=True, slots=True)
class RouteRun:
    """Everything that one run found."""

    command: str
    started: str
    limit_seconds: float
    machine: dict[str, str]
    changes: list[dict[str, Any]] = field(default_factory=list)
    simulator: list[dict[str, Any]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return {
            "command": self.command,
            "started": self.started,
            "limit_seconds": self.limit_seconds,
            "machine": self.machine,
            "changes": self.changes,
            "simulator": self.simulator,
            "lab": [result.to_json() for result in self.results],
        }

    def of(self, figure: Figure) -> list[Result]:
        """The points of a figure."""
        return [
            result
            for result in self.results
            if (result.experiment, result.filters) == (figure.experiment, figure.filters)
            and result.routing in figure.routings
        ]


def ratio(one: dict[str, Any]) -> float | None:
    """How many times as many changes a second the broker takes as the faster of the plain loops."""
    if "broker" not in one:
        return None
    fastest = max(one[formulation]["changes_per_second"] for formulation in FORMULATIONS)
    return float(one["broker"]["changes_per_second"] / fastest)


def outcomes(run: RouteRun) -> list[Outcome]:
    """All targets, one by one."""
    found = []
    for one in run.changes:
        if one["size"] == RATIO_SIZE:
            times = ratio(one)
            target = f"{one['routing']}, {RATIO_SIZE:,} filters, against the faster plain loop"
            shown = "not measured" if times is None else f"{times:,.0f}×"
            found.append(Outcome(target, f"≥ {RATIO:g}×", shown, None if times is None else times >= RATIO))
    for one in run.simulator:
        rate = one.get("events_per_second")
        shown = "not measured" if rate is None else f"{rate:,.0f}"
        reached = None if rate is None else rate >= EVENTS_PER_SECOND
        found.append(Outcome(f"simulator, {one['scenario']}", f"≥ {EVENTS_PER_SECOND:,.0f} events/s", shown, reached))
    return found


def sheets(run: RouteRun) -> list[Sheet]:
    """All tables of a run."""
    words = {True: "yes", False: "NO", None: "–"}
    targets = [(one.target, one.wanted, one.found, words[one.reached]) for one in outcomes(run)]
    found = [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        _changes(run),
        _simulator(run),
        *(_figure(run, figure) for figure in FIGURES),
        Sheet(
            "Machine",
            ("what", "which"),
            [*run.machine.items(), ("started", run.started), ("command", f"`{run.command}`")],
            "One core, one thread; speeds are by processor time.",
            words=2,
        ),
    ]
    return [sheet for sheet in found if sheet.rows]


def _changes(run: RouteRun) -> Sheet:
    rows = []
    for one in run.changes:
        times = ratio(one)
        if times is None:
            rows.append((one["routing"], f"{one['size']:,}", *("–" for _ in range(6 + len(FORMULATIONS)))))
            continue
        rate = one["broker"]["changes_per_second"]
        rows.append(
            (
                one["routing"],
                f"{one['size']:,}",
                f"{one['told']:,}",
                f"{rate:,.0f}",
                f"{1e6 / rate:,.0f}",
                *(f"{one[formulation]['changes_per_second']:,.2f}" for formulation in FORMULATIONS),
                f"{times:,.0f}×",
                f"{one['load_seconds']:.1f}",
                f"{one['bytes_per_filter']:,.0f}",
            )
        )
    columns = (
        "routing",
        "filters",
        "told a neighbour",
        "changes/s",
        "µs/change",
        *(f"plain loop ({formulation}), changes/s" for formulation in FORMULATIONS),
        "faster by",
        "load, s",
        "bytes each",
    )
    note = (
        "A change: one filter more or fewer, worked out for three neighbours and sent. The plain loops do the same changes, "
        f"at least four and for {run.limit_seconds:g} s. Faster by: against the faster of the two. Bytes each: growth of the "
        "process by the filters in all tables and outlets."
    )
    return Sheet("Subscription changes on one broker", columns, rows, note)


def _simulator(run: RouteRun) -> Sheet:
    rows = [
        (
            one["scenario"],
            *(
                (f"{one['events_per_second']:,.0f}", f"{one['events']:,}", f"{one['runs']:,}", f"{one['violations']:,}")
                if "events" in one
                else ("–", "–", "–", "–")
            ),
        )
        for one in run.simulator
    ]
    note = "Whole runs: planning, brokers, clients, faults, and all checks of the specification."
    return Sheet("Simulator", ("scenario", "events/s", "events", "runs", "violations"), rows, note)


def _figure(run: RouteRun, figure: Figure) -> Sheet:
    tree = hierarchy()
    cells = {(one.subscriptions, one.routing, one.advertisements): one for one in run.of(figure)}
    form = ",.0f" if figure.shows == "remote_entries" else ",.2f"
    rows = []
    for size in dict.fromkeys(subscriptions for subscriptions, _, _ in cells):
        row = [f"{size:,}"]
        for routing, advertisements in figure.curves():
            one = cells.get((size, routing, advertisements))
            if one is None:
                row.append("–")
                continue
            setup = Setup(
                experiment=one.experiment,
                routing=routing,
                subscriptions=size,
                advertisements=advertisements,
                filters=one.filters,
                seed=one.seed,
            )
            wanted = getattr(expected(setup, tree), figure.shows)
            row.append(f"{getattr(one, figure.shows):{form}} ({wanted:{form}})")
        rows.append(tuple(row))
    names = (f"{routing}{', adv.' if advertisements else ''}" for routing, advertisements in figure.curves())
    counted = (
        "remote entries of all brokers" if figure.shows == "remote_entries" else "messages between brokers a change"
    )
    note = f"Counted: {counted}; in brackets what is expected. {figure.filters.capitalize()} subscriptions."
    title = f"Figure {figure.number}: {figure.title}"
    return Sheet(title, ("subscriptions", *names), rows, note, words=0)


def print_to(console: Console, run: RouteRun) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: RouteRun) -> str:
    """All tables as one page."""
    intro = [
        "# Routing\n\nWritten by `make bench-route`; what is measured and how is in [the README](../README.md#routing), "
        "the raw figures are in [route.json](route.json).\n"
    ]
    if run.changes:
        intro.append("![changes a second against the number of filters](route.png)\n")
    if run.results:
        intro.append("![table sizes and control messages against the number of subscriptions](route-figures.png)\n")
    return "\n".join([*intro, *(sheet.markdown() for sheet in sheets(run))])


def plot_figures(run: RouteRun, path: Path) -> None:
    """The four figures as panels of one picture."""
    panels = [
        curves.Panel(figure.shows, f"As figure {figure.number}: {figure.title}", results)
        for figure in FIGURES
        if (results := run.of(figure))
    ]
    curves.draw(panels, hierarchy(), path)


def plot_changes(run: RouteRun, path: Path) -> None:
    """Changes a second against the number of filters, the broker beside the plain loops."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    styles = {"broker": ("#0b6e4f", "o", "Sluice"), "until found": ("#edae49", "^", "plain loop, until found")}
    styles |= {"all": ("#d1495b", "s", "plain loop, all")}
    routings = list(dict.fromkeys(one["routing"] for one in run.changes))
    figure, axes = pyplot.subplots(1, len(routings), figsize=(5.4 * len(routings), 4.4), sharey=True, squeeze=False)
    for axis, routing in zip(axes[0], routings, strict=True):
        for name, (colour, marker, label) in styles.items():
            points = [one for one in run.changes if one["routing"] == routing and name in one]
            axis.plot(
                [one["size"] for one in points],
                [one[name]["changes_per_second"] for one in points],
                color=colour,
                marker=marker,
                label=label,
                linewidth=2.4 if name == "broker" else 1.6,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"{routing.capitalize()}, three neighbours", fontsize=11, loc="left")
        axis.set_xlabel("filters that the broker holds")
        axis.grid(True, which="major", color="#d9d9d9", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0][0].set_ylabel("changes a second, one core (higher is better)")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
