"""Subscription changes on one broker: how many a second, and what a plain loop over all filters makes of the same changes.

The broker has three neighbours and clients that hold distinct filters, a stock and a price interval each, as in the lab. A
change is one filter more or one fewer; the broker works out what each neighbour must be told and sends it. Measures one size
and one routing algorithm, in a process of its own, and prints what it found as JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from bench.machine import resident, stay_on_one_core
from bench.pairwise import FORMULATIONS, Covering, Formulation, Merging, Plain
from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.lab.workload import MIDDLE_PRICE, MOST_DEVIATION, STOCKS, quote_interval
from sluice.model.subscription import Subscription
from sluice.protocol.events import Event, LinkUp, Received, Send
from sluice.protocol.export import Export
from sluice.protocol.messages import Ack, Change, Entry, Kind, Role, Snapshot, Version

NEIGHBOURS = ("north", "east", "west")
CLIENT = "client"
SEED = 20260301
#: Changes that are checked against the plain loop, filter by filter.
CHECKED = 40

#: One filter that comes (True) or goes.
Step = tuple[bool, Subscription]


def filters(count: int, seed: int = SEED) -> Iterator[Subscription]:
    """So many distinct interval filters."""
    chance = Random(seed)
    for _ in range(count):
        low = MIDDLE_PRICE - chance.uniform(0, MOST_DEVIATION)
        yield quote_interval(chance.randrange(STOCKS), low, MIDDLE_PRICE + chance.uniform(0, MOST_DEVIATION))


def changes(held: list[Subscription], seed: int = SEED + 1) -> Iterator[Step]:
    """Endless changes at a constant size: a random filter goes, a new one comes."""
    chance = Random(seed)
    fresh = filters(10**9, seed + 1)
    held = list(held)
    for new in fresh:
        place = chance.randrange(len(held))
        yield False, held[place]
        yield True, new
        held[place] = new


class Station:
    """A broker among its neighbours, who acknowledge whatever they are told."""

    def __init__(self, routing: str, held: list[Subscription]) -> None:
        self.broker = Broker("here", BrokerConfig(routing=routing))
        self._export = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
        self._ids: dict[Subscription, Entry] = {}
        self._next = 0
        for neighbour in NEIGHBOURS:
            self._step(LinkUp(neighbour, Role.BROKER))
        self._step(LinkUp(CLIENT, Role.CLIENT))
        self._export.change([self._entry(where) for where in held], ())
        self._step(Received(CLIENT, self._export.snapshot()))

    def change(self, step: Step) -> None:
        """One filter more or fewer."""
        come, where = step
        added = [self._entry(where)] if come else []
        removed = [] if come else [self._ids.pop(where)]
        message = self._export.change(added, removed)
        assert message is not None
        self._step(Received(CLIENT, message))

    def told(self, neighbour: str) -> list[Subscription]:
        """What a neighbour holds."""
        return [entry.where for entry in self.broker.tables[Kind.SUBSCRIPTIONS].exports[neighbour].sent]

    def _entry(self, where: Subscription) -> Entry:
        self._next += 1
        entry = self._ids[where] = Entry(where, f"{CLIENT}/{self._next}")
        return entry

    def _step(self, event: Event) -> None:
        for effect in self.broker.step(event, 0.0):
            match effect:
                case Send(peer, Change(kind=Kind.SUBSCRIPTIONS) | Snapshot(kind=Kind.SUBSCRIPTIONS) as message):
                    self.broker.step(Received(peer, Ack(message.kind, message.version)), 0.0)


def timed(act: Callable[[Step], None], steps: Iterator[Step], limit_seconds: float, least: int) -> dict[str, float]:
    """Changes until the time is over, `least` of them in any case; processor time, so that other load does not count."""
    gc.collect()
    gc.freeze()
    done, start = 0, time.process_time()
    try:
        while done < least or time.process_time() - start < limit_seconds:
            act(next(steps))
            done += 1
        seconds = time.process_time() - start
    finally:
        gc.unfreeze()
    return {"changes": done, "seconds": seconds, "changes_per_second": done / seconds}


def for_all_neighbours(plains: list[Plain]) -> Callable[[Step], None]:
    """What the broker does for each of its neighbours, done by each of these."""

    def act(step: Step) -> None:
        come, where = step
        for one in plains:
            if come:
                one.add(where)
            else:
                one.remove(where)

    return act


def told_by_brokers(routing: str, held: list[Subscription]) -> dict[str, list[Subscription]]:
    """What brokers tell a neighbour that has told nothing, by the algorithms that the plain loops are made of."""
    return {name: Station(name, held).told(NEIGHBOURS[0]) for name in dict.fromkeys(("covering", routing))}


def plains(
    routing: str, formulation: Formulation, held: list[Subscription], told: dict[str, list[Subscription]]
) -> list[Plain]:
    """A plain router for each neighbour, with the filters in it, that has told what brokers would tell."""
    covering = [Covering(formulation, held, told["covering"]) for _ in NEIGHBOURS]
    return [*covering] if routing == "covering" else [Merging(each, told[routing]) for each in covering]


def disagreement(routing: str, size: int) -> str:
    """What is wrong if the broker and the plain loops do not tell the same after some changes; empty if nothing is."""
    held = list(filters(size))
    station = Station(routing, held)
    told = told_by_brokers(routing, held)
    others = {formulation: plains(routing, formulation, held, told) for formulation in FORMULATIONS}
    steps = changes(held)
    for number in range(CHECKED):
        step = next(steps)
        station.change(step)
        for formulation, ours in others.items():
            for_all_neighbours(ours)(step)
            for neighbour, one in zip(NEIGHBOURS, ours, strict=True):
                if set(one.told) != set(station.told(neighbour)):
                    return f"{routing}, {formulation}: {neighbour} is told something else after change {number + 1}"
    return ""


def measure(routing: str, size: int, limit_seconds: float) -> dict[str, Any]:
    """The broker and the plain loops, on the same changes."""
    held = list(filters(size))
    Station(routing, held[:200]).change((False, held[0]))  # so that compiling the kernels is not measured
    before = resident()["rss"]
    start = time.process_time()
    station = Station(routing, held)
    found: dict[str, Any] = {
        "routing": routing,
        "size": size,
        "told": len(station.told(NEIGHBOURS[0])),
        "load_seconds": time.process_time() - start,
        "bytes_per_filter": (resident()["rss"] - before) / size,
        "broker": timed(station.change, changes(held), limit_seconds, 200),
    }
    del station
    told = told_by_brokers(routing, held)
    for formulation in FORMULATIONS:
        act = for_all_neighbours(plains(routing, formulation, held, told))
        found[formulation] = timed(act, changes(held), limit_seconds, 4)
    return found


def main() -> None:
    """Reads what to measure, measures it, prints it."""
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description=__doc__)
    parser.add_argument("routing", choices=("covering", "merging"))
    parser.add_argument("size", type=int)
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of one measurement")
    options = parser.parse_args()
    stay_on_one_core()
    print(json.dumps(measure(options.routing, options.size, options.seconds)))


if __name__ == "__main__":
    main()
