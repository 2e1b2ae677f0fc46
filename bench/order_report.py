"""Total order as tables for the terminal and for Markdown, and as plots: what was measured, and what was compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.order_degree import FIFO, ORDERED, Played
from bench.order_delays import Delay
from bench.order_steps import Step
from bench.report import Sheet
from bench.targets import Outcome

#: These must never break anything.
HOLD = ("sequencer", "rooted", "skeen", "floors")
#: Without a sequencer, also not after faults.
SURVIVE = ("rooted", "skeen", "floors")
#: At the highest load, floors get this many times as much through as the central sequencer.
RATIO = 2.0
#: The paper's detection takes so long for a publication; and it does not grow, here by more than so many times.
DETECTION_MICROSECONDS = 800.0
FLAT = 2.0
#: What nobody wants in order is delayed by no more than so many times what it is without any order.
UNORDERED_RATIO = 1.1
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
class Degree:
    """How well ordered the streams of subscribers were on one network of real processes."""

    brokers: int
    publications: int
    deliveries: int
    ordered: float
    fifo: float
    #: What breaks the specification.
    wrong: int

    @classmethod
    def of(cls, played: Played) -> Degree:
        """What a play came to."""
        deliveries = sum(map(len, played.streams.values()))
        ordered, fifo = round(played.degree(ORDERED), 5), round(played.degree(FIFO), 5)
        return cls(played.plan.brokers, len(played.published), deliveries, ordered, fifo, len(played.wrong()))


@dataclass(frozen=True, slots=True)
class OrderRun:
    """Everything that one run found."""

    command: str
    started: str = ""
    machine: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    degrees: list[Degree] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return asdict(self)

    def of(self, part: str) -> list[Row]:
        """The rows of a part."""
        return [row for row in self.rows if row.part == part]


def outcomes(run: OrderRun) -> list[Outcome]:
    """All targets, one by one."""
    found = [*_measured(run)]
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


def _measured(run: OrderRun) -> Iterator[Outcome]:
    """The targets of what was measured over real processes."""
    for grows in dict.fromkeys(step.grows for step in run.steps):
        costs = [step.microseconds for step in run.steps if step.grows == grows]
        largest = max(step.size for step in run.steps if step.grows == grows)
        what = f"a publication in a broker, up to {largest:,} {grows}"
        longest = max(costs)
        yield Outcome(f"{what}: the longest", "≤ 0.8 ms", f"{longest / 1e3:.2f} ms", longest <= DETECTION_MICROSECONDS)
        growth = costs[-1] / costs[0]
        yield Outcome(f"{what}: flat", f"≤ {FLAT:g}×", f"{growth:.2f}×", growth <= FLAT if largest >= 10_000 else None)
    for delay in run.delays:
        if 0 < delay.share < 100:
            what = f"{delay.algorithm}: what is not in order, beside {delay.share} % that is, to FIFO alone"
            reached = delay.ratio <= UNORDERED_RATIO if delay.windows > 1 else None
            yield Outcome(what, f"≤ {UNORDERED_RATIO:g}×", f"{delay.ratio:.2f}×", reached)
    for degree in run.degrees:
        where = f"{degree.brokers} broker processes"
        yield Outcome(f"ordering degree with order, {where}", "1", f"{degree.ordered:.4f}", degree.ordered == 1.0)
        yield Outcome("the same with FIFO links: the check can see", "< 1", f"{degree.fifo:.4f}", degree.fifo < 1.0)
        yield Outcome(f"lost, twice or out of order, {where}", "0", f"{degree.wrong}", degree.wrong == 0)


def sheets(run: OrderRun) -> list[Sheet]:
    """All tables of a run."""
    words = {True: "yes", False: "NO", None: "–"}
    targets = [(one.target, one.wanted, one.found, words[one.reached]) for one in outcomes(run)]
    found = [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        _steps(run),
        _delays(run),
        _degrees(run),
        _violations(run),
        _faults(run),
        _costs(run),
        _paper(run),
        _saturation(run),
        Sheet("Machine", ("", ""), [*run.machine.items()], f"`{run.command}`, {run.started}", words=2),
    ]
    return [sheet for sheet in found if sheet.rows]


def _steps(run: OrderRun) -> Sheet:
    rows = [
        (f"{step.size:,} {step.grows}", f"{step.microseconds:.0f}", f"{step.unordered_microseconds:.0f}")
        for step in run.steps
    ]
    note = (
        "Microseconds of processor time, the median of many publications: all steps of a broker between two neighbours, from "
        "taking a publication in until the promises that release it were heard. So many filters at each neighbour; a "
        "publication matches one. The paper reports less than 0.8 ms for its fast detection alone."
    )
    return Sheet("What a publication costs a broker", ("told by each neighbour", "in order", "no order"), rows, note)


def _delays(run: OrderRun) -> Sheet:
    rows = [
        (
            delay.algorithm,
            f"{delay.brokers}",
            f"{delay.share} %",
            str(delay.ordered),
            str(delay.near),
            str(delay.unordered),
            f"{delay.ratio:.2f}" if delay.ratio else "–",
            f"{delay.control:.1f}",
        )
        for delay in run.delays
    ]
    note = (
        "Milliseconds, median / 99th percentile, from the call of publish until the program has it: core brokers in a chain "
        "with five edge brokers each, all of them processes on this machine, and clients at every edge. Near: ordered "
        "publications at the broker of their own publisher, which the paper reports. Windows of all shares take turns in one "
        "network; ratio: the median of what is not in order to that of windows without order. Control: promises and "
        "questions for each publication; some ride on publications."
    )
    columns = ("algorithm", "brokers", "in order", "ordered", "near", "not ordered", "ratio", "control")
    return Sheet("Delays, end to end", columns, rows, note)


def _degrees(run: OrderRun) -> Sheet:
    rows = [
        (
            f"{degree.brokers}",
            f"{degree.publications:,}",
            f"{degree.deliveries:,}",
            f"{degree.ordered:.4f}",
            f"{degree.fifo:.4f}",
            f"{degree.wrong}",
        )
        for degree in run.degrees
    ]
    note = (
        "The mean normalised ordering degree of all pairs of subscribers, over real processes. Links lead through relays that "
        "take 3 ms on average, exponentially distributed, first in, first out: on loopback alone publications hardly ever "
        "meet, and FIFO links look perfect. Wrong: what the simulator's specification of order says of the recorded trace, "
        "and what was lost or came twice. The paper reports 0.9952 for FIFO links."
    )
    columns = ("brokers", "publications", "deliveries", "with order", "FIFO", "wrong")
    return Sheet("Ordering degree", columns, rows, note)


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
        "raw figures are in [order.json](order.json). Costs of a publication, delays and the ordering degree are measured over "
        "real processes; two cores cannot carry a distributed system that is saturated, so all that compares algorithms is "
        "counted in virtual time, the same on any machine.\n\n"
        "Beside the paper's figures:\n\n![costs, traffic, delays and brokers beside figures 5 to 8](order-figures.png)\n\n"
        "The algorithms side by side:\n\n![violations, delay, control messages and throughput](order.png)\n"
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
