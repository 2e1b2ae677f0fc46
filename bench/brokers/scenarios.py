"""The scenarios: who competes in each, and the turns that they take.

All contestants of a scenario stand ready at once and are measured one after the other, round by round. Before that each is
warmed up, which also tells how many messages it should be given so that a measurement takes a few seconds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType

from bench.brokers.client import PERCENTILES, Order
from bench.brokers.contest import Client, ClientError, Contestant, Stand, standing
from bench.brokers.figures import OURS, Entry, Link
from bench.brokers.server import ServerError
from bench.command import say

PEERS = ("nats", "rabbitmq", "activemq")
#: Messages of the first warm-up; the slowest takes seconds for them.
FIRST_COUNT = 200
#: A warm-up that took less says little about the speed: it is repeated with more messages.
LONG_ENOUGH_SECONDS = 0.3
MOST_MESSAGES = 2_000_000
#: Unacknowledged publications that nats-py has under way at most; Sluice's client lets there be more.
WINDOW = 4_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and for how long."""

    rounds: int = 5
    trial_seconds: float = 2.0
    """How long a measurement should take."""
    limit_seconds: float = 60.0
    """How long a subscriber waits for what is missing."""
    keys: int = 10_000
    connections: int = 10
    per_second: int = 5_000
    latency_seconds: float = 10.0
    subscriptions: tuple[int, ...] = (1, 100, 10_000, 100_000, 1_000_000)
    brokers: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    link_messages: int = 70_000
    peers: tuple[str, ...] = PEERS


def keyed(label: str, system: str, keys: int, connections: int) -> Contestant:
    """Each message matches one of many subscriptions, which are spread over connections."""
    subscribers = tuple(
        Client("receive_keyed", {"connection": each, "connections": connections, "keys": keys})
        for each in range(connections)
    )
    return Contestant(label, system, Client("publish_keyed", {"keys": keys}), subscribers)


def one_to_one(_: Plan) -> Iterator[Sequence[Contestant]]:
    """One publisher, one subscriber, one message after the other; ours in Arrow batches too."""
    yield (
        Contestant("NATS", "nats", Client("publish", {"packs": False}), (Client("receive", {"unpacks": False}),)),
        Contestant(
            "NATS, clients pack and unpack",
            "nats",
            Client("publish", {"packs": True}),
            (Client("receive", {"unpacks": True}),),
        ),
        Contestant("Sluice", OURS, Client("publish"), (Client("receive"),)),
        Contestant("Sluice, Arrow batches", OURS, Client("publish_arrow"), (Client("receive_arrow"),)),
    )


def filters(plan: Plan) -> Iterator[Sequence[Contestant]]:
    """Many content subscriptions, of which each message matches one."""
    yield (
        keyed("ActiveMQ selectors", "activemq", plan.keys, plan.connections),
        keyed("RabbitMQ headers", "rabbitmq", plan.keys, plan.connections),
        keyed("Sluice", OURS, plan.keys, plan.connections),
    )


def latency(_: Plan) -> Iterator[Sequence[Contestant]]:
    """How long a message is under way when there are not many."""
    yield tuple(
        Contestant(label, system, Client("publish_paced"), (Client("receive_timed"),))
        for label, system in (("NATS", "nats"), ("Sluice", OURS))
    )


def durable(_: Plan) -> Iterator[Sequence[Contestant]]:
    """Publications that are acknowledged once they are on disk."""
    publisher = Client("publish_durable")
    yield (
        Contestant("NATS JetStream", "nats", publisher),
        Contestant("NATS JetStream, files written through", "nats", publisher, serve={"synchronous_files": True}),
        Contestant("Sluice", OURS, publisher, serve={"durable": True}),
        Contestant(
            f"Sluice, at most {WINDOW:,} under way",
            OURS,
            Client("publish_durable", {"window": WINDOW}),
            serve={"durable": True},
        ),
        Contestant("Sluice, without fsync", OURS, publisher, serve={"durable": True, "fsync": False}),
    )


def subscriptions(plan: Plan) -> Iterator[Sequence[Contestant]]:
    """One broker with ever more subscriptions, one size after the other."""
    for size in plan.subscriptions:
        yield (replace(keyed("Sluice", OURS, size, min(size, plan.connections)), size=size),)


def line(plan: Plan) -> Iterator[Sequence[Contestant]]:
    """A publisher at one end of a line of brokers, a subscriber at the other."""
    for size in plan.brokers:
        subscriber = Client("receive", broker=size - 1)
        yield (Contestant("Sluice", OURS, Client("publish"), (subscriber,), serve={"brokers": size}, size=size),)


#: Groups of contestants: those of one group take turns.
SCENARIOS: Mapping[str, Callable[[Plan], Iterator[Sequence[Contestant]]]] = MappingProxyType(
    {
        "one-to-one": one_to_one,
        "filters": filters,
        "latency": latency,
        "durable": durable,
        "subscriptions": subscriptions,
        "line": line,
    }
)


def version(system: str) -> str | None:
    """The installed version of a system; None if its broker or its Python client is missing."""
    try:
        module = importlib.import_module(f"bench.brokers.{system}")
    except ModuleNotFoundError:
        return None
    found: str | None = module.version()
    return found


async def compete(scenario: str, contestants: Sequence[Contestant], plan: Plan) -> list[Entry]:
    """Has the contestants take turns; how each did, in their order."""
    entries = []
    async with AsyncExitStack() as stack:
        turns = list[tuple[Entry, Stand, Order]]()
        for contestant in contestants:
            if contestant.system not in (*plan.peers, OURS):
                continue
            entry = Entry(scenario, contestant.label, contestant.system, version(contestant.system), contestant.size)
            entries.append(entry)
            if entry.version is None:
                entry.status = "not installed"
                continue
            try:
                stand = await stack.enter_async_context(standing(contestant))
                turns.append((entry, stand, await warm_up(stand, plan, paced=scenario == "latency")))
            except (ServerError, ClientError) as error:
                entry.status, entry.reason = "failed", str(error)
        for _ in range(plan.rounds):
            for entry, stand, order in turns:
                if entry.status == "ok":
                    await _measure(entry, stand, order)
    for entry in entries:
        _tell(entry)
    return entries


async def _measure(entry: Entry, stand: Stand, order: Order) -> None:
    try:
        trial = await stand.measure(order)
    except ClientError as error:
        entry.status, entry.reason = "failed", str(error)
        return
    if trial.missing:
        entry.status, entry.reason = "wrong", f"{trial.missing:,} of {trial.count:,} messages are missing or too many"
    entry.trials.append(trial)


async def measure_links(plan: Plan) -> list[Link]:
    """Bytes on each link of a line of brokers: publisher at one end, a subscriber at every broker, half of it for nobody."""
    from bench.brokers import ours

    size, found = max(plan.brokers), []
    for routing in ("flooding", "covering"):
        # Only half of the connections that share the keys are there.
        subscribers = tuple(
            Client("receive_keyed", {"connection": each, "connections": 2 * size, "keys": 2 * size}, broker=each)
            for each in range(size)
        )
        publisher = Client("publish_keyed", {"keys": 2 * size})
        contestant = Contestant("Sluice", OURS, publisher, subscribers, {"brokers": size, "routing": routing})
        async with standing(contestant) as stand:
            before = await ours.link_bytes(stand.server)
            trial = await stand.measure(Order(plan.link_messages, plan.limit_seconds))
            after = await ours.link_bytes(stand.server)
        if trial.missing:
            raise ClientError(f"{trial.missing:,} of {trial.count:,} messages are missing")
        found += [Link(routing, name, trial.count, after[name] - before[name]) for name in after]
        say(
            f"links, {routing}".ljust(24)
            + ", ".join(f"{one.bytes / one.count:,.0f}" for one in found[1 - size :])
            + " bytes"
        )
    return found


async def warm_up(stand: Stand, plan: Plan, *, paced: bool) -> Order:
    """Lets a contestant run until its speed is known; the order that keeps it busy for as long as the plan says."""
    if paced:
        order = Order(int(plan.per_second * plan.latency_seconds), plan.limit_seconds, plan.per_second)
        await stand.measure(replace(order, count=plan.per_second))
        return order
    order = Order(FIRST_COUNT, plan.limit_seconds)
    # The first messages find everything cold: they tell nothing about speed.
    await stand.measure(order)
    while True:
        trial = await stand.measure(order)
        if trial.missing:
            raise ClientError(
                f"{trial.missing:,} of {trial.count:,} messages are missing after {order.limit_seconds:g} s"
            )
        if trial.seconds >= min(LONG_ENOUGH_SECONDS, plan.trial_seconds) or order.count >= MOST_MESSAGES:
            return replace(order, count=min(MOST_MESSAGES, max(1, round(trial.per_second * plan.trial_seconds))))
        order = replace(order, count=order.count * 4)


def _tell(entry: Entry) -> None:
    """One line of progress."""
    size = f" {entry.size:,}" if entry.size else ""
    what = f"{entry.scenario}{size}".ljust(32) + entry.label.ljust(40)
    if entry.status != "ok":
        say(f"{what}{entry.status}{': ' if entry.reason else ''}{entry.reason}")
    elif entry.scenario == "latency":
        say(what + ", ".join(f"{name} {entry.latency_us(name):,.0f} µs" for name in PERCENTILES))
    else:
        say(f"{what}{entry.per_second:>12,.0f} messages/s")
