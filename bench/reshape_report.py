"""A comparison of ways to replace a link as tables for the terminal and for Markdown, and as plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.report import Sheet
from bench.targets import Outcome

#: Our entries and messages beside those of the straightforward way, in the network of this many brokers and subscriptions.
ENTRIES, MESSAGES = 0.3, 0.35
MEASURED_AT = (100, 10_000)

#: Our way where the old link has broken; otherwise it lives on until it is replaced.
BROKEN = "ours, broken link"
#: The brokers that run; the others are in the lab.
RUNNING = ("straightforward", "ours", BROKEN)

_COLOURS = {
    "straightforward": ("#d1495b", "s"),
    "straightforward, identity": ("#e6a4a0", "X"),
    "published, repaired": ("#30638e", "^"),
    "ours": ("#0b6e4f", "o"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A network: a random tree, and subscriptions at random brokers of it."""

    brokers: int
    subscriptions: int
    #: How the brokers that run reduce what they tell.
    routing: str = "covering"

    def __str__(self) -> str:
        return f"{self.brokers} brokers, {self.subscriptions:,} subscriptions, {self.routing}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How often a protocol of the lab ended with wrong tables, or told somebody who is not on the path."""

    protocol: str
    has_churn: bool
    runs: int
    wrong: int
    disturbing: int


@dataclass(frozen=True, slots=True)
class Row:
    """What one way costs in one network: means of some substitutions, and the sums of what was published (`Cost` says more)."""

    cell: Cell
    way: str
    #: Which of the links that were replaced: all, those that led to a leaf, or the others.
    links: str
    samples: int
    path: float
    messages: float
    entries: float
    all_messages: float
    all_entries: float
    acknowledgements: float
    touched: float
    off_the_path: float
    due: int
    lost: int
    repair_time: float


@dataclass(frozen=True, slots=True)
class ReshapeRun:
    """Everything that one run found."""

    command: str
    verdicts: list[Verdict] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return asdict(self)

    def of(self, cell: Cell, links: str = "all") -> dict[str, Row]:
        """The ways of a network."""
        return {row.way: row for row in self.rows if (row.cell, row.links) == (cell, links)}

    @property
    def all_links(self) -> list[Row]:
        """What replacing any of the links costs on average."""
        return [row for row in self.rows if row.links == "all"]


def outcomes(run: ReshapeRun) -> list[Outcome]:
    """All targets, one by one."""
    found = []
    for verdict in run.verdicts:
        shown = f"{verdict.wrong:,} of {verdict.runs:,} runs"
        if verdict.protocol == "published, literal":
            what = "published, literal: leaves wrong tables, so that the check can see it"
            found.append(Outcome(what, "> 0 runs", shown, verdict.wrong > 0))
        elif " but " not in verdict.protocol and verdict.has_churn:
            found.append(Outcome(f"{verdict.protocol}: tables are right", "0 runs", shown, verdict.wrong == 0))
    ours = run.of(Cell(*MEASURED_AT)).get("ours")
    other = run.of(Cell(*MEASURED_AT)).get("straightforward")
    if ours and other:
        for what, limit, share in (
            ("entries", ENTRIES, ours.entries / other.entries),
            ("messages", MESSAGES, ours.messages / other.messages),
        ):
            name = f"ours: {what}, beside the straightforward way, {Cell(*MEASURED_AT)}"
            found.append(Outcome(name, f"≤ {limit:g}×", f"{share:.2f}×", share <= limit))
    mine = [row for row in run.all_links if row.way in ("ours", BROKEN)]
    if mine:
        beside = sum(row.off_the_path for row in mine)
        is_path = all(row.touched == row.path for row in mine)
        found.append(Outcome("ours: brokers touched", "the path", f"{beside:g} beside it", not beside and is_path))
        lost = sum(row.lost for row in mine if row.way == "ours")
        found.append(Outcome("ours: publications lost", "0", f"{lost:,}", lost == 0))
    return found


def sheets(run: ReshapeRun) -> list[Sheet]:
    """All tables of a run."""
    words = {True: "yes", False: "NO", None: "–"}
    targets = [(one.target, one.wanted, one.found, words[one.reached]) for one in outcomes(run)]
    found = [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        _tables(run),
        _costs(run),
        _all(run),
        _shares(run),
    ]
    return [sheet for sheet in found if sheet.rows]


def _tables(run: ReshapeRun) -> Sheet:
    churned = {verdict.protocol: verdict for verdict in run.verdicts if verdict.has_churn}
    calm = {verdict.protocol: verdict for verdict in run.verdicts if not verdict.has_churn}
    rows = [
        (
            name,
            f"{churned[name].wrong / churned[name].runs:.1%}",
            f"{calm[name].wrong / calm[name].runs:.1%}",
            f"{calm[name].disturbing / calm[name].runs:.1%}",
        )
        for name in churned
        if name in calm
    ]
    runs = max((verdict.runs for verdict in run.verdicts), default=0)
    note = (
        f"Shares of {runs:,} random trees of 4 to 20 dispatchers, with clients that come and go meanwhile, and of as many "
        "where nothing happens but the substitution (calm). Off the path: somebody was told something who is not between the "
        "old link and the new one."
    )
    columns = ("protocol", "wrong tables", "wrong tables, calm", "off the path, calm")
    return Sheet("How often tables end up wrong", columns, rows, note)


def _costs(run: ReshapeRun) -> Sheet:
    samples = max((row.samples for row in run.all_links), default=0)
    rows = [
        (
            row.way,
            row.cell.routing if row.way in RUNNING else "identity",
            f"{row.cell.brokers}",
            f"{row.cell.subscriptions:,}",
            f"{row.path:.1f}",
            f"{row.messages:,.0f}",
            f"{row.entries:,.0f}",
            f"{row.touched:.1f}",
            f"{row.off_the_path:.1f}",
            f"{row.lost:,} of {row.due:,}" if row.due else "–",
            f"{row.repair_time:.0f}",
        )
        for row in run.all_links
    ]
    note = (
        f"Means of {samples} substitutions. Messages: about subscriptions, and those that steer the substitution; entries: the "
        "filters of subscriptions in them. Acknowledgements and other tables are below. The published protocol and the "
        "straightforward way under identity run in the lab, the others are the brokers that run. Ours is ordered while the old "
        "link lives; all others do without it from the beginning. Where it has broken, brokers believe for a time what came "
        "over it. Touched: brokers that sent or got anything about any table. Lost: of all that should have been delivered. "
        "Time: until the last message arrives, in link delays; ours ends with hanging up the old link, and publications take "
        "the new way before that."
    )
    columns = (
        "way",
        "routing",
        "brokers",
        "subscriptions",
        "path",
        "messages",
        "entries",
        "touched",
        "off the path",
        "lost",
        "time",
    )
    return Sheet("What a substitution costs", columns, rows, note, words=2)


def _all(run: ReshapeRun) -> Sheet:
    rows = [
        (
            row.way,
            row.cell.routing,
            f"{row.cell.brokers}",
            f"{row.cell.subscriptions:,}",
            f"{row.all_messages:,.0f}",
            f"{row.all_entries:,.0f}",
            f"{row.acknowledgements:,.0f}",
        )
        for row in run.all_links
        if row.way in RUNNING
    ]
    note = "The same with all tables of a broker: watches, interest, and which brokers there are, beside subscriptions."
    columns = ("way", "routing", "brokers", "subscriptions", "messages", "entries", "acknowledgements")
    return Sheet("All tables", columns, rows, note, words=2)


def _shares(run: ReshapeRun) -> Sheet:
    rows = []
    for cell in dict.fromkeys(row.cell for row in run.rows):
        for links in ("all", "leaf", "inner"):
            ways = run.of(cell, links)
            ours, other = ways.get("ours"), ways.get("straightforward")
            if ours and other:
                shares = [
                    f"{mine / max(others, 1):.2f}×"
                    for mine, others in (
                        (ours.messages, other.messages),
                        (ours.entries, other.entries),
                        (ours.all_messages, other.all_messages),
                        (ours.all_entries, other.all_entries),
                    )
                ]
                name = cell.routing, f"{cell.brokers}", f"{cell.subscriptions:,}"
                rows.append((links, *name, f"{ours.samples}", *shares))
    note = (
        "Leaf: the old link was the only one of a broker, which has to be told everything anew over the new link in any case. "
        "All tables: as in the table above."
    )
    columns = (
        "links",
        "routing",
        "brokers",
        "subscriptions",
        "samples",
        "messages",
        "entries",
        "messages, all tables",
        "entries, all tables",
    )
    return Sheet("Ours beside the straightforward way", columns, rows, note, words=2)


def print_to(console: Console, run: ReshapeRun) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: ReshapeRun) -> str:
    """All tables as one page."""
    intro = (
        "# Replacing a link\n\nWritten by `make bench-reshape`; what is compared and how is in "
        "[the README](../README.md#reshaping), the raw figures are in [reshape.json](reshape.json). All of it is counted in "
        "virtual time, the same on any machine.\n\n"
        "![messages, entries and brokers touched](reshape.png)\n"
    )
    return "\n".join([intro, *(sheet.markdown() for sheet in sheets(run))]).rstrip() + "\n"


def plot(run: ReshapeRun, path: Path) -> None:
    """Messages, entries and brokers touched against brokers, and entries against subscriptions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ((messages, touched), (entries, growth)) = pyplot.subplots(2, 2, figsize=(11, 8))
    rows = [row for row in run.all_links if row.cell.routing == "covering"]
    by_brokers = _most(rows, lambda row: row.cell.subscriptions)
    by_subscriptions = _most(rows, lambda row: row.cell.brokers)
    for axis, title, shown in (
        (messages, "Messages", lambda row: row.messages),
        (touched, "Brokers touched", lambda row: row.touched),
        (entries, "Filters sent", lambda row: row.entries),
    ):
        _lines(axis, by_brokers, lambda row: row.cell.brokers, shown)
        axis.set_title(f"{title}, by brokers", fontsize=11, loc="left")
        axis.set_xlabel("brokers")
    _lines(growth, by_subscriptions, lambda row: row.cell.subscriptions, lambda row: row.entries)
    growth.set_title("Filters sent, by subscriptions", fontsize=11, loc="left")
    growth.set_xlabel("subscriptions")
    for axis in (messages, touched, entries, growth):
        axis.grid(True, color="#e3e3e3", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        if axis.lines:
            axis.set_xscale("log")
            axis.set_yscale("log")
    if messages.lines:
        messages.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _most(rows: list[Row], key: Callable[[Row], int]) -> list[Row]:
    """The rows with the value of a key that most networks have."""
    keys = [key(row) for row in rows]
    usual = max(dict.fromkeys(keys), key=keys.count, default=0)
    return [row for row in rows if key(row) == usual]


def _lines(axis: Any, rows: list[Row], place: Callable[[Row], int], shown: Callable[[Row], float]) -> None:
    for name, (colour, marker) in _COLOURS.items():
        points = sorted((place(row), shown(row)) for row in rows if row.way == name)
        if points:
            axis.plot(
                [each for each, _ in points],
                [value for _, value in points],
                color=colour,
                marker=marker,
                label=name,
                linewidth=2.4 if name == "ours" else 1.6,
            )
