"""Runs a plan under a protocol: virtual time, FIFO links with delays from the plan's seed, one link replaced by another.

Clients sit at their dispatchers and are told at once; links take time. What a dispatcher says is done right away, so a step is
whole. The old link breaks with some of what is under way. In a graceful plan everything that is under way arrives, and a
protocol that can do so goes on to use the link.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import assert_never

from sluice.sim.cugola.dispatcher import Control, Deliver, Dispatcher, Event, Protocol, Send
from sluice.sim.cugola.pattern import Reducer
from sluice.sim.cugola.plan import Client, Plan, Publication, Table
from sluice.sim.padres.network import Line, delay


@dataclass(slots=True)
class History:
    """What happened in a run."""

    plan: Plan
    reduce: Reducer
    #: The tables at the end.
    tables: dict[str, Table] = field(default_factory=dict)
    #: How often each client got each publication.
    delivered: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: Messages that are no events, the patterns that they name, and whoever sent or got one, from the substitution on.
    messages: int = 0
    entries: int = 0
    touched: dict[str, None] = field(default_factory=dict)
    #: When the last of them arrived.
    settled: float = 0.0

    @property
    def off_the_path(self) -> tuple[str, ...]:
        """The dispatchers that were touched and are not on the chain."""
        return tuple(one for one in self.touched if one not in self.plan.substitution.chain)

    @property
    def repair_time(self) -> float:
        """How long it took, where nothing happened but the substitution."""
        return max(self.settled - self.plan.time, 0.0)

    def lost(self) -> list[tuple[str, int]]:
        """What clients that stay did not get and should have."""
        return [each for each in self._due() if not self.delivered[each]]

    def due(self) -> int:
        """How many deliveries there must be to clients that stay."""
        return len(self._due())

    def _due(self) -> list[tuple[str, int]]:
        return [
            (client.name, publication.number)
            for client in self.plan.clients
            if client.stays
            for publication in self.plan.publications
            if client.pattern.matches(publication.value)
        ]


def run(plan: Plan, protocol: Protocol) -> History:
    """The history of a plan under a protocol, until nothing moves any more."""
    return Network(plan, protocol).run()


class Network:
    """One run."""

    def __init__(self, plan: Plan, protocol: Protocol) -> None:
        self._plan = plan
        self._protocol = protocol
        self._dispatchers: dict[str, Dispatcher] = {
            name: protocol.make(name, plan.tree.neighbours[name], table)
            for name, table in plan.first_tables(protocol.reduce).items()
        }
        self._lines = {
            direction: Line(Random(f"cugola {plan.seed} {' '.join(direction)}"))
            for one, other in (*plan.tree.links, plan.substitution.new)
            for direction in ((one, other), (other, one))
        }
        self._history = History(plan, protocol.reduce)
        self._now = 0.0
        self._count = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def run(self) -> History:
        """Lets everything happen that is planned, and what comes of it."""
        for client in self._plan.clients:
            if client.since:
                self._at(client.since, partial(self._come, client))
            if client.until is not None:
                self._at(client.until, partial(self._go, client))
        for publication in self._plan.publications:
            self._at(publication.time, partial(self._publish, publication))
        self._at(self._plan.time, self._replace)
        while self._agenda:
            self._now, _, act = heapq.heappop(self._agenda)
            act()
        self._history.tables = {name: one.table() for name, one in self._dispatchers.items()}
        return self._history

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (time, self._count, act))

    def _come(self, client: Client) -> None:
        self._step(client.dispatcher, lambda one: one.subscribe(client.name, client.pattern))

    def _go(self, client: Client) -> None:
        self._step(client.dispatcher, lambda one: one.unsubscribe(client.name))

    def _publish(self, publication: Publication) -> None:
        event = Event(publication.number, publication.value)
        self._step(publication.dispatcher, lambda one: one.event(None, event))

    def _replace(self) -> None:
        substitution = self._plan.substitution
        if not (self._plan.is_graceful and self._protocol.uses_old_link):
            self._cut(*substitution.old)
        for end in dict.fromkeys((*substitution.old, *substitution.new)):
            self._step(end, lambda one: one.replace(substitution, self._plan.is_graceful))

    def _cut(self, one: str, other: str) -> None:
        for direction in ((one, other), (other, one)):
            line = self._lines[direction]
            line.limit = line.sent if self._plan.is_graceful else line.random.randint(line.arrived, line.sent)

    def _step(self, name: str, step: Callable[[Dispatcher], None]) -> None:
        step(self._dispatchers[name])
        for effect in self._dispatchers[name].effects():
            match effect:
                case Send():
                    self._send((name, effect.neighbour), effect.message)
                case Deliver():
                    self._history.delivered[effect.client, effect.number] += 1
                case _:
                    assert_never(effect)

    def _send(self, direction: tuple[str, str], message: Event | Control) -> None:
        line = self._lines[direction]
        if line.limit is not None:
            return
        if isinstance(message, Control) and self._now >= self._plan.time:
            self._history.messages += 1
            self._history.entries += message.entries
            self._history.touched |= dict.fromkeys(direction)
        line.sent += 1
        line.last_arrival = max(line.last_arrival, self._now + delay(line.random, self._plan.delays))
        self._at(line.last_arrival, partial(self._arrive, direction, line.sent, message))

    def _arrive(self, direction: tuple[str, str], number: int, message: Event | Control) -> None:
        sender, receiver = direction
        line = self._lines[direction]
        if line.limit is not None and number > line.limit:
            return
        line.arrived = number
        match message:
            case Event():
                self._step(receiver, lambda one: one.event(sender, message))
            case Control():
                self._history.settled = self._now
                self._step(receiver, lambda one: one.receive(sender, message))
