"""What was measured over real processes, in the axes of figures 5 to 8 of the paper.

The plots of the paper are not reproduced: what is drawn of it are the numbers that its text states, marked as such.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.order_delays import Delay
from bench.order_report import OrderRun

OURS, UNORDERED, PAPER = "#0b6e4f", "#8d99ae", "#d1495b"
#: What the text of section V says, read off there: seconds of detection at 300 filters, and at any number.
EXACT_DETECTION, FAST_DETECTION = (300, 10.0), 0.0008
#: Outgoing messages at the peak, by the share of publications in conflict.
PEAK_MESSAGES = {25: 2_000, 50: 6_000, 100: 9_000}
#: Milliseconds: the longest delay of FIFO and sequencer (figure 7), and what the fast detection stays below (figure 8).
BASELINE_MILLISECONDS, SPREAD_MILLISECONDS = 200.0, 250.0


def plot(run: OrderRun, path: Path) -> None:
    """Costs, traffic, delays by share and by brokers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ((costs, traffic), (shares, brokers)) = pyplot.subplots(2, 2, figsize=(11, 8))
    _costs(costs, run)
    _traffic(traffic, run)
    _shares(shares, run)
    _brokers(brokers, run)
    for axis in (costs, traffic, shares, brokers):
        axis.grid(True, color="#e3e3e3", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, frameon=False, ncols=2 if axis is shares else 1)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def _costs(axis: Any, run: OrderRun) -> None:
    """Figures 5(a) and 6(a): what a broker needs for a publication, against the filters it knows."""
    for grows, marker in (("subscriptions", "o"), ("advertisements", "s")):
        points = [(step.size, step.microseconds / 1e3) for step in run.steps if step.grows == grows]
        if points:
            axis.plot(*zip(*points, strict=True), color=OURS, marker=marker, label=f"floors, {grows}")
    axis.axhline(FAST_DETECTION * 1e3, color=PAPER, linestyle="--", label="paper, fast detection: below this (text)")
    size, seconds = EXACT_DETECTION
    axis.plot(
        [size], [seconds * 1e3], color=PAPER, marker="X", linestyle="", label="paper, progressive: up to this (text)"
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("filters known from a neighbour")
    axis.set_title("Figures 5(a), 6(a): a broker for a publication, ms", fontsize=11, loc="left")


def _traffic(axis: Any, run: OrderRun) -> None:
    """Figures 5(c) and 6(b): messages about order against the share of ordered publications, to those when all are."""
    paper = {share: count / PEAK_MESSAGES[100] for share, count in PEAK_MESSAGES.items()}
    axis.plot(list(paper), list(paper.values()), color=PAPER, marker="X", linestyle="--", label="paper (text)")
    for algorithm, delays in _by_algorithm(run).items():
        whole = next((delay.control for delay in delays if delay.share == 100), 0.0)
        if whole:
            points = [(delay.share, delay.control / whole) for delay in delays]
            axis.plot(*zip(*points, strict=True), color=OURS, marker="o", label=f"{algorithm}, {whole:.1f} at 100 %")
    axis.set_xlabel("ordered publications, %")
    axis.set_title("Figures 5(c), 6(b): messages about order, to 100 %", fontsize=11, loc="left")


def _shares(axis: Any, run: OrderRun) -> None:
    """Figures 5(d), 6(c) and 7: delays against the share of ordered publications."""
    for algorithm, delays in _by_algorithm(run).items():
        style = "-" if algorithm == "floors" else "--"
        for name, colour, kind in (("in order", OURS, "ordered"), ("not in order", UNORDERED, "unordered")):
            found = [(delay.share, getattr(delay, kind)) for delay in delays if getattr(delay, kind).p50]
            for place, quantile in (("o", "p50"), ("^", "p99")):
                points = [(share, getattr(quantiles, quantile)) for share, quantiles in found]
                if points:
                    label = f"{algorithm}, {name}, {quantile}"
                    axis.plot(*zip(*points, strict=True), color=colour, marker=place, linestyle=style, label=label)
    axis.axhline(BASELINE_MILLISECONDS, color=PAPER, linestyle=":", label="paper, FIFO and sequencer: longest (text)")
    axis.set_yscale("log")
    axis.set_ylim(top=5 * BASELINE_MILLISECONDS)
    axis.set_xlabel("ordered publications, %")
    axis.set_title("Figures 5(d), 6(c), 7: end to end, ms", fontsize=11, loc="left")


def _brokers(axis: Any, run: OrderRun) -> None:
    """Figure 8: delays against the number of brokers, everything in order."""
    whole = sorted((d for d in run.delays if d.share == 100 and d.algorithm == "floors"), key=lambda d: d.brokers)
    for marker, quantile in (("o", "p50"), ("^", "p99")):
        points = [(delay.brokers, getattr(delay.ordered, quantile)) for delay in whole]
        if points:
            axis.plot(*zip(*points, strict=True), color=OURS, marker=marker, label=f"floors, {quantile}")
    axis.axhline(SPREAD_MILLISECONDS, color=PAPER, linestyle="--", label="paper, to 20 brokers: below this (text)")
    axis.set_yscale("log")
    axis.set_xlabel("brokers")
    axis.set_title("Figure 8: end to end, everything in order, ms", fontsize=11, loc="left")


def _by_algorithm(run: OrderRun) -> dict[str, list[Delay]]:
    """The delays of the network on which all shares were measured."""
    found: dict[str, list[Delay]] = {}
    for delay in run.delays:
        known = found.setdefault(delay.algorithm, [])
        if not known or known[0].brokers == delay.brokers:
            known.append(delay)
    return found
