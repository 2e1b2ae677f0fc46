"""How well ordered the streams of subscribers are, over real processes: with order, and with FIFO links alone.

At every edge broker are a publisher, a subscriber that asks for order and one that does not; interests overlap. Everything that
is published and delivered is written down as a trace, which the specification of the simulator judges, and the normalised
ordering degree of section V is computed over all pairs of subscribers at different brokers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from statistics import fmean
from typing import Any

import sluice
from bench.data_centres import EDGES, acquainted, data_centres, edges_of, standing
from sluice import parse
from sluice.client.bus import Bus
from sluice.client.subscription import LiveSubscription
from sluice.sim.padres.checks import ordering_degree
from sluice.sim.padres.plan import Publication
from sluice.sim.spec import ORDER, check
from sluice.sim.trace.ordered import Ordered
from sluice.sim.trace.trace import Notified, Published, Subscribed, Trace

#: What subscribers want, one after the other.
WHERES = ("n >= 0", "n % 2 = 0", "n % 3 > 0")
ORDERED, FIFO = "ordered", "fifo"


@dataclass(frozen=True, slots=True)
class DegreePlan:
    """How much to publish where."""

    cores: int = 3
    edges: int = EDGES
    #: Publications of each publisher.
    publications: int = 60
    mean_pause_seconds: float = 0.01
    #: How long a link takes, on average.
    mean_delay_seconds: float = 0.003
    limit_seconds: float = 120.0
    #: Settings of the brokers, for an algorithm other than the default one.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def brokers(self) -> int:
        """All of them."""
        return self.cores * (1 + self.edges)


@dataclass(slots=True)
class Played:
    """What happened."""

    plan: DegreePlan
    trace: Trace = field(default_factory=Trace)
    published: list[tuple[Publication, dict[str, Any]]] = field(default_factory=list)
    #: What each subscriber got, by its kind and its edge.
    streams: dict[tuple[str, str], list[Publication]] = field(default_factory=dict)
    #: Publications that programs were told to have missed.
    gaps: int = 0
    #: What each broker says about order at the end.
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def degree(self, kind: str) -> float:
        """The mean normalised ordering degree of all pairs of subscribers of a kind."""
        streams = [stream for (which, _), stream in self.streams.items() if which == kind]
        return fmean(ordering_degree(one, other) for one, other in combinations(streams, 2))

    def wrong(self) -> list[str]:
        """Everything that breaks the specification: pairwise and per-publisher order, and what was lost or came twice."""
        # What comes may be written down before what was published is.
        events = sorted(self.trace.events, key=lambda event: isinstance(event, Notified))
        found = [str(violation) for violation in check(Trace(events), ORDER)]
        for (kind, edge), stream in self.streams.items():
            where = parse(_wanted(self.plan, edge))
            wanted = {publication for publication, record in self.published if where.matches(record)}
            if {*stream} != wanted or len(stream) != len(wanted):
                found.append(f"{kind} subscriber at {edge}: {len(stream)} publications, not {len(wanted)}")
        return found + ([f"{self.gaps} gaps"] if self.gaps else [])


def _wanted(plan: DegreePlan, edge: str) -> str:
    return WHERES[edges_of(plan.cores, plan.edges).index(edge) % len(WHERES)]


async def play(plan: DegreePlan, seed: int = 0) -> Played:
    """Lets everybody publish at once, and waits until all have got all."""
    played = Played(plan)
    edges = edges_of(plan.cores, plan.edges)
    net = data_centres(plan.cores, plan.edges, plan.settings)
    is_lost = asyncio.Event()
    async with (
        asyncio.timeout(plan.limit_seconds),
        standing(net, mean_seconds=plan.mean_delay_seconds, seed=seed) as network,
        AsyncExitStack() as stack,
    ):

        async def connected(edge: str) -> Bus:
            address = str(network.addresses[edge])
            return await stack.enter_async_context(sluice.connect(address, on_gap=lambda _: is_lost.set()))

        publishers = {edge: await connected(edge) for edge in edges}
        await acquainted([*publishers.values()], plan.brokers)
        subscriptions = {}
        for kind in (ORDERED, FIFO):
            for edge in edges:
                bus, where = await connected(edge), _wanted(plan, edge)
                feed = bus.subscribe(where, order="total" if kind == ORDERED else "none")
                subscriptions[kind, edge] = await stack.enter_async_context(feed)
                played.trace.append(Subscribed(time.monotonic(), bus.name, feed.id, where))
                if kind == ORDERED:
                    played.trace.append(Ordered(time.monotonic(), bus.name, feed.id))
        await asyncio.gather(*(feed.complete() for feed in subscriptions.values()))
        work = [asyncio.create_task(_collect(played, key, feed)) for key, feed in subscriptions.items()]
        work += [
            asyncio.create_task(_publish(played, bus, Random(f"{seed} {edge}"))) for edge, bus in publishers.items()
        ]
        # Who has missed something would wait for it for ever.
        alarm = asyncio.create_task(is_lost.wait())
        everything: asyncio.Future[Any] = asyncio.gather(*work)
        either: set[asyncio.Future[Any]] = {alarm, everything}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if is_lost.is_set():
            everything.cancel()
            await asyncio.wait(work)
        else:
            alarm.cancel()
            await everything
        played.gaps = sum(len(feed.gaps) for feed in subscriptions.values())
        reporter = publishers[edges[0]]
        played.accounts = {name: (await reporter.describe(name))["order"] for name in network.brokers}
    return played


async def _publish(played: Played, bus: Bus, random: Random) -> None:
    for n in range(played.plan.publications):
        record = {"n": n}
        number = await bus.publish(record)
        played.trace.append(Published(time.monotonic(), bus.name, number, record))
        played.published.append((Publication(bus.name, number, 0), record))
        await asyncio.sleep(random.expovariate(1 / played.plan.mean_pause_seconds))
    await bus.flush()


async def _collect(played: Played, key: tuple[str, str], feed: LiveSubscription) -> None:
    plan = played.plan
    where = parse(_wanted(plan, key[1]))
    left = len(edges_of(plan.cores, plan.edges)) * sum(where.matches({"n": n}) for n in range(plan.publications))
    stream = played.streams[key] = []
    client = feed.id.rpartition("/")[0]
    while left:
        event = await anext(feed)
        left -= 1
        stream.append(Publication(event.id.publisher, event.id.number, 0))
        played.trace.append(Notified(time.monotonic(), client, event.id.publisher, event.id.number, (feed.id,)))
