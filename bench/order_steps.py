"""What order costs in a broker's step: the time for one publication, against the number of subscriptions and advertisements.

One broker with a client that publishes, one that subscribes and two neighbours, without sockets. Each publication is taken in,
passed on, held back and released by the neighbours' promises; the same without order is beside it. A publication matches one
subscription here and one behind each neighbour, whatever their number, so that only what order does could grow with it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from bench.command import say
from sluice import parse
from sluice.broker import Broker, BrokerConfig
from sluice.protocol.batch import Records
from sluice.protocol.events import Event, LinkUp, Received, Send
from sluice.protocol.messages import Ack, Await, Change, Deliver, Entry, Floor, Kind, Notify, Role, Snapshot, Version

NEIGHBOURS = ("west", "east")
Grows = Literal["subscriptions", "advertisements"]


@dataclass(frozen=True, slots=True)
class Step:
    """One size: so many subscriptions or advertisements at each neighbour, and what a publication cost."""

    grows: Grows
    size: int
    microseconds: float
    """With order: taking a publication in, and hearing the promises that release it."""
    unordered_microseconds: float
    """Where nobody asks for order."""


def broker_with(grows: Grows, size: int, *, ordered: bool) -> Broker:
    """A broker whose neighbours have told it of so many filters."""
    broker = Broker("here", BrokerConfig(routing="simple", advertisements="simple"))
    for name in ("publisher", "subscriber"):
        tell(broker, LinkUp(name, Role.CLIENT))
    for name in NEIGHBOURS:
        tell(broker, LinkUp(name, Role.BROKER, node=name))
    many = [parse(f"key = {key}") for key in range(size)]
    for kind, teller in ((Kind.ADVERTISEMENTS, "publisher"), (Kind.SUBSCRIPTIONS, "subscriber")):
        for name in (*NEIGHBOURS, teller):
            filters = many if kind.name.lower() == grows and name in NEIGHBOURS else many[:1]
            is_asking = ordered and name == "subscriber"
            entries = tuple(Entry(where, f"{name}/{n}", ordered=is_asking) for n, where in enumerate(filters))
            tell(broker, Received(name, Snapshot(kind, Version(1, 1), entries)))
    broker.forwarding.begin()
    return broker


def tell(broker: Broker, event: Event) -> None:
    """Has the broker take something in, and its neighbours acknowledge what they hear of it."""
    for effect in broker.step(event, 0.0):
        match effect:
            case Send(peer, Change(kind=kind, version=version) | Snapshot(kind=kind, version=version)):
                if peer in NEIGHBOURS:
                    tell(broker, Received(peer, Ack(kind, version)))
            case _:
                pass


def publish(broker: Broker, batch: Records, *, ordered: bool) -> tuple[float, int]:
    """Publishes one record; returns the seconds of all steps, and how many deliveries they led to."""
    spent, delivered = 0.0, 0
    events: list[Event] = [Received("publisher", Notify(batch))]
    while events:
        event = events.pop()
        start = time.process_time()
        effects = broker.step(event, 1.0)
        spent += time.process_time() - start
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Deliver):
                delivered += 1
            elif isinstance(effect, Send) and isinstance(effect.message, Await):
                events.append(Received(effect.peer, Floor(effect.message.time)))
    assert delivered == 1, "the subscriber gets it, and is released by the promises" if ordered else "and at once"
    return spent, delivered


def cost(grows: Grows, size: int, publications: int, *, ordered: bool) -> float:
    """The median cost of a publication, in microseconds."""
    broker, numbers = broker_with(grows, size, ordered=ordered), count(1)
    records = [{"key": 0, "x": 1.5}]
    batches = [Records.of("publisher", next(numbers), records) for _ in range(publications)]
    gc.collect()
    gc.disable()
    try:
        found = sorted(publish(broker, batch, ordered=ordered)[0] for batch in batches)
    finally:
        gc.enable()
    return found[len(found) // 2] * 1e6


def sweep(sizes: Sequence[int], publications: int) -> Iterator[Step]:
    """Along either scale."""
    scales: tuple[Grows, ...] = ("subscriptions", "advertisements")
    for grows in scales:
        for size in sizes:
            with_order, without = (cost(grows, size, publications, ordered=ordered) for ordered in (True, False))
            say(f"step, {size:,} {grows}".ljust(40) + f"{with_order:,.0f} µs, without order {without:,.0f} µs")
            yield Step(grows, size, with_order, without)
