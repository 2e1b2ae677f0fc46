"""Imperfect merging with and without statistics: ``python -m bench.statistics``.

A tree of brokers, subscribers at its leaves, and traffic that is skewed: a few of a thousand symbols make most of it. For each
policy: how large are all routing tables together, and how many notifications cross a link in vain? The statistics are of other
notifications than those that are counted. Nothing here depends on the speed of the machine.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench import machine
from bench.command import say
from bench.match import RESULTS
from bench.report import Sheet
from sluice import Matcher
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Subscribe
from sluice.lab.network import Network
from sluice.lab.topology import Topology, hierarchy
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered, at_least, between, equals
from sluice.model.statistics import Statistics
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Kind
from sluice.protocol.route import Ratio, RoutingOptions, Traffic

SYMBOLS = 1_000
RATIOS = (1.1, 1.5, 2.0, 4.0, 20.0)
BUDGETS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


class Market:
    """Where quotes and wishes come from: symbols by Zipf's law, prices and volumes log-normal.

    In an *independent* market every symbol has the same prices. In a *dependent* one each has its own, and subscribers know
    it: that is what the statistics, which look at attributes one by one, know nothing of.
    """

    def __init__(self, is_dependent: bool) -> None:
        chance = Random("market")
        self._symbols = [f"S{number:03d}" for number in range(SYMBOLS)]
        chance.shuffle(self._symbols)
        self._weights = list(accumulate(1 / rank**1.1 for rank in range(1, SYMBOLS + 1)))
        self._level = {symbol: chance.lognormvariate(3, 1) if is_dependent else 20.0 for symbol in self._symbols}
        self._spread = 0.2 if is_dependent else 1.0

    def quotes(self, count: int, seed: str) -> list[dict[str, Any]]:
        """What is published."""
        chance = Random(seed)
        return [
            {
                "symbol": symbol,
                "price": round(self._level[symbol] * chance.lognormvariate(0, self._spread), 2),
                "volume": round(chance.lognormvariate(6, 1.5)),
            }
            for symbol in chance.choices(self._symbols, cum_weights=self._weights, k=count)
        ]

    def wishes(self, count: int, seed: str) -> list[Subscription]:
        """What is asked for: a symbol, frequent or not, a range of prices, and sometimes a volume."""
        chance = Random(seed)
        frequent = chance.choices(self._symbols, cum_weights=self._weights, k=count)
        return [self._wish(chance, chance.choice((chance.choice(self._symbols), symbol))) for symbol in frequent]

    def _wish(self, chance: Random, symbol: str) -> Subscription:
        middle = self._level[symbol] * chance.lognormvariate(0, 1.5 * self._spread)
        half = middle * chance.uniform(0.02, 0.3)
        sides: dict[str, Ordered] = {
            "symbol": equals(symbol),
            "price": between(round(middle - half, 1), round(middle + half, 1)),
        }
        if chance.random() < 0.3:
            sides["volume"] = at_least(round(chance.lognormvariate(6, 1.5)))
        return Subscription([Filter.of(sides)])


@dataclass(frozen=True, slots=True)
class Point:
    """One policy: what all tables hold, and of what crosses all links how much nobody behind them asked for."""

    market: str
    policy: str
    setting: float
    entries: int
    intervals: int
    in_vain: float


class Experiment:
    """One network, asked again and again with other policies."""

    def __init__(self, name: str, market: Market, subscriptions: int, notifications: int) -> None:
        self.name = name
        self.topology = hierarchy(2)
        self.wishes = market.wishes(subscriptions, "wishes")
        self.statistics = Statistics.of(market.quotes(10 * notifications, "past"))
        [self._quotes] = pa.Table.from_pylist(market.quotes(notifications, "future")).to_batches()
        self._wanted = {link: self._matches(self._behind(*link)) for link in _directions(self.topology)}

    def point(self, policy: str, setting: float) -> Point:
        """The tables under a policy, and what crosses the links with them."""
        network = self._network(policy, setting)
        entries = intervals = crossing = wanted = 0
        for here, there in self._wanted:
            held = network.brokers[here].tables[Kind.SUBSCRIPTIONS].replicas[there].entries
            filters = [entry.where for entry in held]
            crosses = self._matches(filters)
            assert not (self._wanted[here, there] & ~crosses).any(), "a notification would be lost"
            entries += len(filters)
            intervals += sum(map(_intervals, filters))
            crossing += int(crosses.sum())
            wanted += int(self._wanted[here, there].sum())
        return Point(self.name, policy, setting, entries, intervals, (crossing - wanted) / wanted)

    def _network(self, policy: str, setting: float) -> Network:
        options = RoutingOptions()
        if policy == "ratio":
            options = RoutingOptions(policy=Ratio(setting))
        elif policy == "traffic":
            options = RoutingOptions(policy=Traffic(self.statistics, setting))
        routing = "merging" if policy == "perfect" else "imperfect"
        network = Network(self.topology, BrokerConfig(routing=routing, options=options))
        for number, home in enumerate(self.topology.locals):
            client = network.join(f"client-{number}")
            for where in self.wishes[number :: len(self.topology.locals)]:
                network.command(client, Subscribe(client.new_id(), where))
            network.connect(client, home)
        network.link_all()
        return network

    def _behind(self, here: Peer, there: Peer) -> list[Subscription]:
        """What is asked for on the far side of a link."""
        side, new = {there}, [there]
        while new:
            broker = new.pop()
            for link in self.topology.links:
                for a, b in (link, link[::-1]):
                    if a == broker and b not in side and (a, b) != (there, here):
                        side.add(b)
                        new.append(b)
        homes = [number for number, home in enumerate(self.topology.locals) if home in side]
        return [where for number in homes for where in self.wishes[number :: len(self.topology.locals)]]

    def _matches(self, filters: Sequence[Subscription]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the notifications match any of these."""
        matcher = Matcher()
        for where in filters:
            matcher.add(where)
        offsets, _ = matcher.match_batch(self._quotes)
        return np.diff(offsets) > 0


def _directions(topology: Topology) -> Iterator[tuple[Peer, Peer]]:
    for upper, lower in topology.links:
        yield upper, lower
        yield lower, upper


def _intervals(where: Subscription) -> int:
    sides = [side for box in where.filters for side in box.constraints.values()]
    return sum(len(side.cuts) // 2 if isinstance(side, Ordered) else 1 for side in sides)


def carry_out(subscriptions: int, notifications: int, ratios: Sequence[float], budgets: Sequence[float]) -> list[Point]:
    """All policies in both markets."""
    points = []
    for name in ("independent", "dependent"):
        experiment = Experiment(name, Market(name == "dependent"), subscriptions, notifications)
        settings = [("perfect", 1.0), *(("ratio", one) for one in ratios), *(("traffic", one) for one in budgets)]
        for policy, setting in settings:
            points.append(experiment.point(policy, setting))
            say(f"{name}, {policy} {setting:g}: {points[-1].entries:,} entries, {points[-1].in_vain:.2%} in vain")
    return points


def curve(points: Sequence[Point], market: str, policy: str) -> list[Point]:
    """The points of one policy from the largest table to the smallest; every curve begins with perfect merging."""
    return sorted(
        (one for one in points if one.market == market and one.policy in ("perfect", policy)),
        key=lambda one: -one.entries,
    )


def at_size(line: Sequence[Point], entries: int) -> float:
    """What crosses links in vain on a curve where its tables have so many entries; infinite where it gets none so small."""
    for large, small in pairwise(line):
        if small.entries <= entries <= large.entries and small.entries < large.entries:
            way = (large.entries - entries) / (large.entries - small.entries)
            return large.in_vain + way * (small.in_vain - large.in_vain)
    return math.inf


def lies_below(points: Sequence[Point], market: str) -> bool:
    """Whether merging by traffic wastes less than merging by ratio at every table size that was measured."""
    ratios, traffic = curve(points, market, "ratio"), curve(points, market, "traffic")
    smallest = ratios[-1].entries
    return all(one.in_vain < at_size(ratios, one.entries) for one in traffic[1:] if one.entries >= smallest) and all(
        at_size(traffic, one.entries) < one.in_vain for one in ratios[1:] if one.in_vain > 0
    )


def sheets(points: Sequence[Point]) -> list[Sheet]:
    """The tables of a run."""
    found = []
    for market in ("independent", "dependent"):
        rows = [
            (
                {"perfect": "perfect merging", "ratio": "ratio", "traffic": "traffic"}[one.policy],
                "" if one.policy == "perfect" else f"{one.setting:g}",
                f"{one.entries:,}",
                f"{one.intervals:,}",
                f"{one.in_vain:.2%}",
            )
            for one in points
            if one.market == market
        ]
        verdict = "yes" if lies_below(points, market) else "NO"
        note = f"Less in vain with statistics at every table size measured: {verdict}."
        columns = ("policy", "setting", "entries of all tables", "intervals in them", "in vain")
        found.append(Sheet(f"Attributes {market}", columns, rows, note))
    return found


def draw(points: Sequence[Point], path: Path) -> None:
    """The curves of both markets."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sluice"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for axis, market in zip(axes, ("independent", "dependent"), strict=True):
        for policy, colour, label in (
            ("ratio", "#7d6b91", "by ratio, without statistics"),
            ("traffic", "#0b6e4f", "by traffic, with statistics"),
        ):
            line = curve(points, market, policy)
            axis.plot(
                [one.entries for one in line],
                [100 * one.in_vain for one in line],
                marker="o",
                markersize=4,
                color=colour,
                label=label,
            )
        axis.set_title(f"Attributes {market}", loc="left", fontsize=10.5)
        axis.set_xlabel("entries of all routing tables")
        axis.set_xlim(left=0)
        axis.grid(True, color="#e3e3e3", linewidth=0.8)
        axis.legend(fontsize=8, frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_ylabel("% more notifications over links than asked for")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def page(points: Sequence[Point], command: str, subscriptions: int, notifications: int) -> str:
    """The page of results."""
    system = ", ".join(f"{name} {value}" for name, value in machine.describe().items() if name in ("python", "sluice"))
    head = f"""# Imperfect merging with and without statistics

Written by `{command}` ({system}). These are counts, the same on any machine; what is
counted is in [the README](../README.md#statistics). {subscriptions:,} subscriptions at the leaves of a tree of
{len(hierarchy(2).brokers)} brokers, {notifications:,} notifications; the statistics are of {10 * notifications:,} others.
*In vain* is what crosses a link though nobody behind it asked for it, as a share of what had to.

![table sizes against traffic in vain](statistics.svg)
"""
    return "\n".join([head, *(sheet.markdown() for sheet in sheets(points))]).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and with --output writes the page and the plot; 1 if statistics did not help."""
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=2_000)
    parser.add_argument("--notifications", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="two settings of each policy, nothing written")
    chosen = parser.parse_args(arguments)
    ratios, budgets = (RATIOS[1:3], BUDGETS[1:3]) if chosen.quick else (RATIOS, BUDGETS)
    points = carry_out(chosen.subscriptions, chosen.notifications, ratios, budgets)
    console = Console()
    for sheet in sheets(points):
        console.print(sheet.terminal())
    if not chosen.quick:
        command = "make bench-statistics"
        (RESULTS / "statistics.md").write_text(page(points, command, chosen.subscriptions, chosen.notifications))
        draw(points, RESULTS / "statistics.svg")
    return 0 if lies_below(points, "independent") else 1


if __name__ == "__main__":
    raise SystemExit(main())
