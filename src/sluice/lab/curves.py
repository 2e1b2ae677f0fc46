"""Plots of what was counted against the number of subscriptions, with what should come out dashed beside it.

The panels follow figures 6.2, 6.3, 6.5 and 6.6. Those show drawings, not numbers; what can be laid beside our measurements are
the closed forms and limits that the text of sections 6.3 and 6.4 gives, and the expectations that follow from the workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sluice.errors import SluiceError
from sluice.lab.expected import Expected, expected
from sluice.lab.experiment import Result, Setup
from sluice.lab.topology import Topology
from sluice.lab.workload import SUBSCRIPTIONS_PER_CLIENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Endings of the files that can be written.
ENDINGS = (".png", ".svg", ".pdf")
#: Of the largest number of subscriptions, where the others are measured.
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)

_COLOURS = {
    "flooding": "#8c8c8c",
    "simple": "#d1495b",
    "identity": "#edae49",
    "covering": "#2e6fb7",
    "merging": "#0b6e4f",
    "imperfect": "#7d6b91",
}
_OTHER_COLOUR = "#222222"
#: Points at which an expectation is computed for its line.
_LINE_POINTS = 60


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: what it shows, under which title, and the measurements in it."""

    shows: Literal["remote_entries", "admin_messages"]
    title: str
    results: Sequence[Result]


def setups_up_to(setup: Setup, topology: Topology) -> list[Setup]:
    """The setup with smaller numbers of subscriptions first, for a curve."""
    sizes = sizes_up_to(setup.subscriptions, len(topology.locals))
    return [replace(setup, subscriptions=size) for size in sizes]


def sizes_up_to(subscriptions: int, homes: int) -> list[int]:
    """Numbers of subscriptions for a curve: the last is the given one, the others have equally many clients everywhere.

    >>> sizes_up_to(134_000, 67)
    [2680, 6700, 13400, 26800, 53600, 80400, 107200, 134000]
    >>> sizes_up_to(1_000, 67)
    [670, 1000]
    """
    unit = SUBSCRIPTIONS_PER_CLIENT * homes
    whole = {max(unit, round(subscriptions * fraction / unit) * unit) for fraction in FRACTIONS}
    return sorted({size for size in whole if size < subscriptions} | {subscriptions})


def check(path: Path) -> None:
    """Raises if a plot could not be written there: better before an hour of measuring than after it."""
    if path.suffix not in ENDINGS:
        raise SluiceError(f"{path}: a plot is a file that ends in {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise SluiceError(f"{path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SluiceError("a plot needs matplotlib: pip install 'sluice[bench]'") from None


def draw(panels: Sequence[Panel], topology: Topology, path: Path) -> None:
    """Writes a picture of the panels, two in a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(6.4 * columns, 4.6 * rows), squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw(axis, panel, topology)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _draw(axis: Axes, panel: Panel, topology: Topology) -> None:
    curves: dict[tuple[str, bool], list[Result]] = {}
    for result in panel.results:
        curves.setdefault((result.routing, result.advertisements), []).append(result)
    limits: dict[int, None] = {}
    for (routing, advertisements), results in curves.items():
        colour = _COLOURS.get(routing, _OTHER_COLOUR)
        sizes = [result.subscriptions for result in results]
        axis.plot(
            sizes,
            [getattr(result, panel.shows) for result in results],
            linestyle="none",
            color=colour,
            marker="o" if advertisements else "s",
            markerfacecolor=colour if not advertisements else "white",
            markersize=6,
            label=f"{routing}, with advertisements" if advertisements else routing,
        )
        line = [(size, _expected(results[0], size, topology)) for size in _between(min(sizes), max(sizes))]
        values = [(size, getattr(one, panel.shows)) for size, one in line]
        if all(value is not None for _, value in values):
            axis.plot([s for s, _ in values], [v for _, v in values], linestyle="--", linewidth=1.4, color=colour)
        limit = line[-1][1].most_entries
        if panel.shows == "remote_entries" and limit is not None:
            limits[limit] = None
    for limit in limits:
        axis.axhline(limit, color="#555555", linewidth=0.9, linestyle=":")
        axis.annotate(
            f"{limit:,}", (1.0, limit), xycoords=("axes fraction", "data"), fontsize=8, va="bottom", ha="right"
        )
    axis.set_yscale("log")
    axis.set_title(panel.title, fontsize=10.5, loc="left")
    axis.set_xlabel("subscriptions" if panel.shows == "remote_entries" else "subscriptions, half of them active")
    axis.set_ylabel(
        "remote entries of all tables" if panel.shows == "remote_entries" else "messages between brokers per change"
    )
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.grid(True, which="major", color="#e3e3e3", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.plot([], [], color="#555555", linestyle="--", linewidth=1.4, label="expected")
    if limits:
        axis.plot([], [], color="#555555", linestyle=":", linewidth=0.9, label="limit")
    axis.legend(fontsize=8, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _between(first: int, last: int) -> list[int]:
    """Numbers of subscriptions of whole clients, closer together where curves bend most."""
    if first == last:
        return [first]
    ratio = (last / first) ** (1 / (_LINE_POINTS - 1))
    return sorted({max(first, round(first * ratio**k / 10) * 10) for k in range(_LINE_POINTS)} | {last})


def _expected(result: Result, subscriptions: int, topology: Topology) -> Expected:
    setup = Setup(
        experiment=result.experiment,
        routing=result.routing,
        subscriptions=subscriptions,
        advertisements=result.advertisements,
        filters=result.filters,
        seed=result.seed,
    )
    return expected(setup, topology)


def panel_of(results: Sequence[Result]) -> Panel:
    """The measurements of one experiment on axes of their own."""
    shows: Literal["remote_entries", "admin_messages"]
    if results[0].experiment == "table-size":
        shows, title = "remote_entries", "Size of the routing tables"
    else:
        shows, title = "admin_messages", "Control messages"
    return Panel(shows, f"{title}, {results[0].filters} subscriptions", results)
