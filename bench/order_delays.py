"""End-to-end delays over real processes: how much order costs those who ask for it, and those who do not.

At every edge broker are a plain publisher, one that asks for order, and a subscriber that wants everything. In a *window* a
share of all publications is ordered; windows of all shares take turns in one network, and the one without order, in which
brokers do what they would do if nobody ever asked, comes as often as the others. All clients read one clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Any

import sluice
from bench.command import say
from bench.data_centres import EDGES, acquainted, data_centres, edges_of, standing
from sluice.client.bus import Bus
from sluice.client.subscription import LiveSubscription

#: Percent of publications that are ordered; 0: FIFO links alone.
SHARES = (0, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class DelayPlan:
    """How long to measure what."""

    cores: int = 2
    edges: int = EDGES
    rounds: int = 4
    shares: tuple[int, ...] = SHARES
    #: Publications at each edge in a window, and the mean time between two of them.
    publications: int = 12
    mean_pause_seconds: float = 0.3
    limit_seconds: float = 300.0
    #: Settings of the brokers, for an algorithm other than the default one.
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """What one window found: delays in milliseconds, by whether their publication was ordered."""

    algorithm: str
    brokers: int
    share: int
    ordered: list[float]
    unordered: list[float]
    """Of all deliveries; `near` are those of ordered publications at the broker of their own publisher, as in the paper."""
    near: list[float]
    control: float
    """Promises and questions for each publication."""


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed; 0 if there are none."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else 0.0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The median of delays and their 99th percentile, in milliseconds; 0 where there are none."""

    p50: float
    p99: float

    @classmethod
    def of(cls, delays: Sequence[float]) -> Quantiles:
        """Those of all these."""
        return cls(round(quantile(delays, 0.5), 3), round(quantile(delays, 0.99), 3))

    def __str__(self) -> str:
        return f"{self.p50:.1f} / {self.p99:.1f}" if self.p50 else "–"


@dataclass(frozen=True, slots=True)
class Delay:
    """One share of ordered publications on one network, all windows together."""

    algorithm: str
    brokers: int
    share: int
    windows: int
    ordered: Quantiles
    unordered: Quantiles
    near: Quantiles
    ratio: float
    """The median delay of what is not ordered, to that of the windows in which nothing is."""
    control: float


@dataclass(slots=True)
class _Edge:
    """One edge broker with its clients."""

    name: str
    plain: Bus
    asking: Bus
    feed: LiveSubscription


async def measure(plan: DelayPlan, algorithm: str, seed: int = 0) -> list[Window]:
    """All windows of one network, in turn."""
    windows: list[Window] = []
    net = data_centres(plan.cores, plan.edges, plan.settings)
    async with asyncio.timeout(plan.limit_seconds), standing(net) as network, AsyncExitStack() as stack:
        places: list[_Edge] = []
        for name in edges_of(plan.cores, plan.edges):
            address = str(network.addresses[name])
            plain, asking, taking = [await stack.enter_async_context(sluice.connect(address)) for _ in range(3)]
            feed = await stack.enter_async_context(taking.subscribe("window IS NOT NULL"))
            places.append(_Edge(name, plain, asking, feed))
        await acquainted([place.plain for place in places], len(network.brokers))
        await asyncio.gather(*(place.feed.complete() for place in places))
        # The first window warms everybody up, and is not counted.
        turns = [plan.shares[-1], *(share for _ in range(plan.rounds) for share in plan.shares)]
        for number, share in enumerate(turns):
            window = await _window(plan, algorithm, places, [*network.brokers], share, Random(f"{seed} {number}"))
            if number:
                windows.append(window)
    return windows


async def _window(
    plan: DelayPlan, algorithm: str, places: list[_Edge], brokers: list[str], share: int, random: Random
) -> Window:
    reporter = places[0].plain
    before = await _said(reporter, brokers)
    found = Window(algorithm, len(brokers), share, [], [], [], 0.0)
    total = plan.publications * len(places)
    async with asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(_collect(place, found, total))
            group.create_task(_publish(plan, place, share, Random(random.random())))
    control = (await _said(reporter, brokers) - before) / total
    return Window(algorithm, len(brokers), share, found.ordered, found.unordered, found.near, control)


async def _said(reporter: Bus, brokers: list[str]) -> float:
    accounts = [(await reporter.describe(name))["order"] for name in brokers]
    return float(sum(account["floors"] + account["questions"] for account in accounts))


async def _publish(plan: DelayPlan, place: _Edge, share: int, random: Random) -> None:
    for _ in range(plan.publications):
        await asyncio.sleep(random.expovariate(1 / plan.mean_pause_seconds))
        is_ordered = random.random() * 100 < share
        record = {"window": 0, "by": place.name, "ordered": is_ordered, "at": time.perf_counter()}
        if is_ordered:
            await place.asking.publish(record, order="total")
        else:
            await place.plain.publish(record)


async def _collect(place: _Edge, found: Window, total: int) -> None:
    for _ in range(total):
        event = await anext(place.feed)
        delay = (time.perf_counter() - event["at"]) * 1e3
        (found.ordered if event["ordered"] else found.unordered).append(delay)
        if event["ordered"] and event["by"] == place.name:
            found.near.append(delay)
    if place.feed.gaps:
        raise AssertionError(f"the subscriber at {place.name} has missed something: {place.feed.gaps[0]}")


def sweep(plans: Mapping[str, DelayPlan], cores: Sequence[int]) -> Iterator[Delay]:
    """All shares on one network for each algorithm, and the whole load in order on smaller and larger ones."""
    for algorithm, plan in plans.items():
        yield from summarise(asyncio.run(measure(plan, algorithm)))
    (algorithm, plan), *_ = plans.items()
    for number in cores:
        if number != plan.cores:
            sized = DelayPlan(
                number, plan.edges, 2, (0, 100), plan.publications, plan.mean_pause_seconds, settings=plan.settings
            )
            yield from summarise(asyncio.run(measure(sized, algorithm)))


def summarise(windows: list[Window]) -> Iterator[Delay]:
    """All windows of one network, share by share."""
    fifo = [delay for window in windows if not window.share for delay in window.unordered]
    for share in dict.fromkeys(window.share for window in windows):
        same = [window for window in windows if window.share == share]
        ordered = [delay for window in same for delay in window.ordered]
        unordered = [delay for window in same for delay in window.unordered]
        near = [delay for window in same for delay in window.near]
        ratio = quantile(unordered, 0.5) / quantile(fifo, 0.5) if unordered and fifo else 0.0
        found = Delay(
            algorithm=same[0].algorithm,
            brokers=same[0].brokers,
            share=share,
            windows=len(same),
            ordered=Quantiles.of(ordered),
            unordered=Quantiles.of(unordered),
            near=Quantiles.of(near),
            ratio=round(ratio, 3),
            control=round(fmean(window.control for window in same), 2),
        )
        name = f"delay, {found.algorithm}, {found.brokers} brokers, {share} % in order"
        say(name.ljust(56) + f"in order {found.ordered.p50:.1f} ms, not {found.unordered.p50:.1f} ms")
        yield found
