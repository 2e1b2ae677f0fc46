"""A run of the benchmark of reliable delivery as tables for the terminal and for Markdown, and as a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.broker_report import CPU_COLUMNS, CPU_NOTE, cpu, quiet, speed, status
from bench.brokers.figures import BrokerRun
from bench.brokers.records import RECORD_BYTES
from bench.brokers.stall import JETSTREAM, REDUNDANT, SINGLE, StallEntry, StallPlan
from bench.overhead import CHANGE_EVERY, MANY_BROKERS, MANY_SUBSCRIPTIONS, PAUSE_SECONDS, Point, Weights
from bench.report import Sheet
from bench.targets import Outcome
from sluice.broker.supervise import FIRST_RETRY_SECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEST_EFFORT, RELIABLE = "best-effort", "reliable"
#: Messages a second with reliable subscriptions, by those with best-effort ones, at least.
THROUGHPUT = 0.6
#: The median stall with redundant nodes by that of the peer, at most.
STALL = 0.2


@dataclass(frozen=True, slots=True)
class ReliableRun(BrokerRun):
    """Everything that one run found."""

    points: list[Point] = field(default_factory=list)
    stalls: list[StallEntry] = field(default_factory=list)
    stall_plan: StallPlan = field(default_factory=StallPlan)

    def stall_of(self, label: str) -> StallEntry | None:
        """A system, if it was measured and nothing was wrong."""
        for entry in self.stalls:
            if entry.label == label and entry.status == "ok" and entry.stalls:
                return entry
        return None


def scenario(brokers_per_node: int, one_of: int) -> str:
    """What a scenario of throughput is called."""
    inner = "1 inner broker" if brokers_per_node == 1 else f"{brokers_per_node} inner brokers"
    return f"{inner}, {'all' if one_of == 1 else f'1 of {one_of}'} wanted"


def outcomes(run: ReliableRun) -> list[Outcome]:
    """The targets of the parts that were run, one by one."""
    found = [_throughput(run, name) for name in dict.fromkeys(entry.scenario for entry in run.entries)]
    if run.stalls:
        ours, peer = run.stall_of(REDUNDANT), run.stall_of(JETSTREAM)
        times = ours.median() / peer.median() if ours and peer else None
        found.append(
            Outcome(
                f"stall, {REDUNDANT}, against {JETSTREAM}",
                f"≤ {STALL:g}×",
                "not measured" if times is None else f"{times:.3f}×",
                None if times is None else times <= STALL,
            )
        )
    return found


def _throughput(run: ReliableRun, name: str) -> Outcome:
    reliable, best_effort = run.find(name, RELIABLE), run.find(name, BEST_EFFORT)
    times = reliable.per_second / best_effort.per_second if reliable and best_effort else None
    shown = "not measured" if times is None else f"{times:.2f}×"
    target = f"throughput against best-effort, {name}"
    return Outcome(target, f"≥ {THROUGHPUT:g}×", shown, None if times is None else times >= THROUGHPUT)


def sheets(run: ReliableRun) -> list[Sheet]:
    """All tables of a run."""
    marks = {True: "reached", False: "MISSED", None: "–"}
    targets = [(one.target, one.wanted, one.found, marks[one.reached]) for one in outcomes(run)]
    by_brokers, by_subscriptions = scales(run)
    found = [
        Sheet("Targets", ("target", "wanted", "found", ""), targets, words=4),
        _rates(run),
        _bytes(f"Bytes against brokers of subscribers, {MANY_SUBSCRIPTIONS:,} subscriptions", by_brokers),
        _bytes(f"Bytes against subscriptions, at {MANY_BROKERS} brokers", by_subscriptions),
        _stalls(run),
        _each_stall(run),
        Sheet(
            "Machine",
            ("what", "which"),
            [*run.machine.items(), ("started", run.started), ("command", f"`{run.command}`")],
            quiet(run) if run.entries else "",
            words=2,
        ),
    ]
    return [sheet for sheet in found if sheet.rows]


def scales(run: ReliableRun) -> tuple[list[Point], list[Point]]:
    """The points with ever more brokers, and those with ever more subscriptions."""
    points = sorted(run.points, key=lambda one: (one.changes, one.brokers, one.subscriptions))
    by_brokers = [one for one in points if one.subscriptions == MANY_SUBSCRIPTIONS]
    return by_brokers, [one for one in points if one.brokers == MANY_BROKERS]


def _rates(run: ReliableRun) -> Sheet:
    rows = []
    for entry in run.entries:
        if entry.status != "ok":
            rows.append((entry.scenario, entry.label, status(entry), *[""] * 5))
            continue
        other = run.find(entry.scenario, BEST_EFFORT) if entry.label == RELIABLE else None
        times = f"{entry.per_second / other.per_second:.2f}×" if other else ""
        rows.append((entry.scenario, entry.label, *speed(entry), *cpu(entry), times))
    columns = ("three nodes in a line", "delivery", "messages/s", "least – most", *CPU_COLUMNS, "of best-effort")
    note = (
        f"Medians of {run.rounds}, in turn. Brokers with a data directory, so that every publication is on disk before it goes "
        f"on; records of {RECORD_BYTES} bytes. The publisher is at the first broker, the subscriber at the last. Messages are "
        f"counted as they are published, and all that are wanted arrive. {CPU_NOTE}"
    )
    return Sheet("Throughput", columns, rows, note, words=2)


def _bytes(title: str, points: Sequence[Point]) -> Sheet:
    rows = []
    for one in points:
        first = _cells(one, one.first, one.first_best_effort)
        last = _cells(one, one.last, one.last_best_effort)
        rows.append((f"{one.brokers:,}", f"{one.subscriptions:,}", "yes" if one.changes else "no", *first, *last))
    kinds = ("vectors", "silences", "reports", "tables", "of best-effort")
    columns = (
        "brokers",
        "subscriptions",
        "changes",
        *(f"{link}: {kind}" for link in ("first", "last") for kind in kinds),
    )
    note = (
        f"Bytes for one publication, of {1 / PAUSE_SECONDS:,.0f} a second, one at a time; half of them are for nobody, each "
        "other one is for one broker of subscribers. *First*: the link from the publisher's broker to the one in the middle, "
        "behind which all others are. *Last*: each link to a broker of subscribers, on average. Vectors are what messages with "
        "notifications say beyond these; reports say where streams end and how far everybody is; tables are what changes of "
        "tables weigh more than with best-effort subscriptions. *Of best-effort*: all bytes by those with best-effort "
        f"subscriptions. Changes: with a new subscription after every {CHANGE_EVERY} publications. These are counts, the same "
        "on any machine."
    )
    return Sheet(title, columns, rows, note, words=0)


def _cells(one: Point, weights: Weights, plain: Weights) -> tuple[str, ...]:
    kinds = [one.each(weights, name) for name in ("vectors", "silences", "reports")]
    tables = one.each(weights, "tables") - one.each(plain, "tables")
    return *(f"{each:.1f}" for each in (*kinds, tables)), f"{weights.all / plain.all:.2f}×"


def _stalls(run: ReliableRun) -> Sheet:
    rows = []
    peer = run.stall_of(JETSTREAM)
    for entry in run.stalls:
        if entry.status != "ok":
            rows.append((entry.label, entry.status + (f": {entry.reason}" if entry.reason else ""), *[""] * 6))
            continue
        times = f"{entry.median() / peer.median():.3f}×" if peer and entry is not peer else ""
        seconds = (
            entry.median(),
            entry.worst,
            entry.median(lambda stall: stall.death_seconds),
            entry.median(lambda stall: stall.later_seconds),
            max(stall.usual_seconds for stall in entry.stalls),
        )
        twice = sum(stall.twice for stall in entry.stalls)
        rows.append((entry.label, *(f"{each:.3f}" for each in seconds), f"{twice:,}", times))
    columns = (
        "system",
        "median, s",
        "worst, s",
        "when it died, s",
        "later, s",
        "worst before, s",
        "came twice",
        "of JetStream's median",
    )
    note = (
        f"{run.stall_plan.per_second} publications a second; the longest time between two deliveries after a broker was killed "
        f"(SIGKILL), less the usual one; {run.stall_plan.repetitions} times each, in turn, each time with fresh brokers. "
        "Publisher and subscriber are connected to brokers that live on; if anything was missing in the end it is said here. "
        "Sluice: three nodes in a line, a reliable subscription; the inner broker that carries the traffic dies, and `sluice "
        "up` starts it again. JetStream: a cluster of three servers with their defaults, a stream with three replicas and a "
        "durable push consumer; the leader of the stream dies; what is not acknowledged is published again. *Later*: the "
        f"longest wait that began over {FIRST_RETRY_SECONDS:g} s after the death, as when a broker is back; *worst before*: "
        "that before anything died."
    )
    return Sheet("Stall when a broker dies", columns, rows, note)


def _each_stall(run: ReliableRun) -> Sheet:
    rows = [
        (entry.label, ", ".join(f"{stall.death_seconds:.3f} / {stall.later_seconds:.3f}" for stall in entry.stalls))
        for entry in run.stalls
        if entry.stalls
    ]
    return Sheet(
        "Every stall, in seconds: when a broker died / later",
        ("system", "in the order of the repetitions"),
        rows,
        words=2,
    )


def print_to(console: Console, run: ReliableRun) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: ReliableRun) -> str:
    """All tables as one page."""
    intro = (
        "# Reliable delivery: what it costs and what it brings\n\n"
        "Written by `make bench-reliable`; what is measured and how is in [the README](../README.md#reliable-delivery), "
        "the raw figures are in [reliable.json](reliable.json).\n\n"
        "![throughput against best-effort, bytes of vectors and silences, stalls when a broker dies](reliable.png)\n"
    )
    return "\n".join([intro, *(sheet.markdown() for sheet in sheets(run))])


_OURS, _LIGHT, _PEER, _OTHER = "#0b6e4f", "#5fb58f", "#2e6fb7", "#edae49"


def plot(run: ReliableRun, path: Path) -> None:
    """Three panels: throughput, bytes, stalls; those that were measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels: list[Callable[[Axes], None]] = []
    if any(entry.trials for entry in run.entries):
        panels.append(lambda axis: _draw_rates(run, axis))
    if run.points:
        panels.append(lambda axis: _draw_bytes(run, axis))
    if any(entry.stalls for entry in run.stalls):
        panels.append(lambda axis: _draw_stalls(run, axis))
    if not panels:
        return
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5.6 * len(panels), 4.2), squeeze=False)
    for axis, draw in zip(axes[0], panels, strict=True):
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        draw(axis)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _draw_rates(run: ReliableRun, axis: Axes) -> None:
    names = list(dict.fromkeys(entry.scenario for entry in run.entries))[::-1]
    for shift, delivery, colour in ((0.2, BEST_EFFORT, _LIGHT), (-0.2, RELIABLE, _OURS)):
        rates = [entry.per_second if (entry := run.find(name, delivery)) else 0.0 for name in names]
        places = [number + shift for number in range(len(names))]
        drawn = axis.barh(places, rates, height=0.36, color=colour, label=delivery)
        axis.bar_label(drawn, [f" {rate:,.0f}" for rate in rates], fontsize=8)
    axis.set_yticks(range(len(names)), [name.replace(", ", "\n") for name in names])
    axis.set_xlim(0, 1.3 * max(axis.get_xlim()[1], 1.0))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1_000:,g}k" if value else "0")
    axis.set_title("Three nodes in a line, messages/s", fontsize=11, loc="left")
    axis.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)


def _draw_bytes(run: ReliableRun, axis: Axes) -> None:
    """On the link that all subscribers are behind: against brokers, and against subscriptions on a second scale."""
    above = axis.twiny()
    above.spines["right"].set_visible(False)
    by_brokers, by_subscriptions = scales(run)
    for scale, points, what, marker in (
        (axis, by_brokers, "brokers", "o"),
        (above, by_subscriptions, "subscriptions", "s"),
    ):
        for changes, dashes in ((False, "-"), (True, "--")):
            chosen = [one for one in points if one.changes == changes]
            for kind, colour in (("vectors", _OURS), ("silences", _OTHER)):
                scale.plot(
                    [getattr(one, what) for one in chosen],
                    [one.each(one.first, kind) for one in chosen],
                    color=colour,
                    linestyle=dashes,
                    marker=marker,
                    markersize=5,
                    markerfacecolor=colour if scale is axis else "white",
                    label=f"{kind}, by {what}{', changing' if changes else ''}",
                )
        scale.set_xscale("log", base=2)
        scale.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        scale.set_xlabel(f"{what} ({'filled' if scale is axis else 'hollow'})", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.grid(True, axis="y", color="#d9d9d9", linewidth=0.8)
    axis.set_title("Bytes for a publication on the first link", fontsize=11, loc="left")
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles, [label.replace(", by brokers", "") for label in labels], fontsize=8, frameon=False)


def _draw_stalls(run: ReliableRun, axis: Axes) -> None:
    entries = [entry for entry in run.stalls if entry.stalls][::-1]
    colours = {REDUNDANT: _OURS, SINGLE: _LIGHT, JETSTREAM: _PEER}
    for place, entry in enumerate(entries):
        axis.barh(place, entry.median(), height=0.5, color=colours[entry.label])
        axis.plot([stall.seconds for stall in entry.stalls], [place] * len(entry.stalls), "k|", markersize=9)
        axis.text(1.03 * entry.worst, place, f" {entry.median():.2f} s", va="center", fontsize=9)
    axis.set_yticks(range(len(entries)), [entry.label.replace(", ", "\n") for entry in entries])
    axis.set_xlim(0, 1.25 * max(entry.worst for entry in entries))
    axis.set_title("Stall when a broker dies, s (median, and each)", fontsize=11, loc="left")
