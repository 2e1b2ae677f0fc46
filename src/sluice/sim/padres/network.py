"""Runs a plan under an ordering: virtual time, FIFO links with delays from the plan's seed, crashes and cuts.

Clients sit at their brokers and are told at once; links between brokers take time, and brokers if the plan says so. What an
ordering says is done right away, so a step is whole: a broker that crashes does so between two of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, assert_never

from sluice.sim.padres.ordering import Carrier, Deliver, Ordering, Send
from sluice.sim.padres.plan import Crash, Cut, Delays, Fault, Place, Plan, Publication

#: Makes the ordering of one broker.
Algorithm = Callable[[Place], Ordering[Any]]


@dataclass(slots=True)
class History:
    """What happened in a run."""

    plan: Plan
    #: When each publication was published; those of a crashed broker were not.
    published: dict[Publication, float] = field(default_factory=dict)
    #: What each subscriber got, in its order, and when.
    delivered: dict[str, list[tuple[Publication, float]]] = field(default_factory=dict)
    #: Messages that carried a publication over a link, and all others.
    carried: int = 0
    control: int = 0

    def streams(self) -> dict[str, list[Publication]]:
        """What each subscriber got, in its order."""
        return {name: [publication for publication, _ in got] for name, got in self.delivered.items()}


@dataclass(slots=True)
class Line:
    """One direction of a link."""

    random: Random
    last_arrival: float = 0.0
    sent: int = 0
    arrived: int = 0
    #: Once it is broken: how many messages still get through.
    limit: int | None = None


def run(plan: Plan, algorithm: Algorithm) -> History:
    """The history of a plan under an algorithm, until nothing moves any more."""
    return Network(plan, algorithm).run()


class Network:
    """One run."""

    def __init__(self, plan: Plan, algorithm: Algorithm) -> None:
        self._plan = plan
        self._brokers = {broker: algorithm(plan.place(broker)) for broker in plan.tree.brokers}
        self._lines = {
            direction: Line(Random(f"padres {plan.seed} {' '.join(direction)}"))
            for one, other in plan.tree.links
            for direction in ((one, other), (other, one))
        }
        self._history = History(plan, delivered={subscriber.name: [] for subscriber in plan.subscribers})
        self._busy_until = dict.fromkeys(plan.tree.brokers, 0.0)
        self._now = 0.0
        self._count = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def run(self) -> History:
        """Lets everything happen that is planned, and what comes of it."""
        numbers: dict[str, int] = {}
        for time, name, value in self._plan.schedule:
            numbers[name] = numbers.get(name, 0) + 1
            self._at(time, partial(self._publish, Publication(name, numbers[name], value)))
        for fault in self._plan.faults:
            self._at(fault.time, partial(self._break, fault))
        while self._agenda:
            self._now, _, act = heapq.heappop(self._agenda)
            act()
        return self._history

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (time, self._count, act))

    def _publish(self, publication: Publication) -> None:
        broker = self._plan.publisher[publication.publisher].broker
        if broker in self._brokers:
            self._history.published[publication] = self._now
            self._handle(broker, lambda ordering: ordering.publish(publication))

    def _handle(self, broker: str, step: Callable[[Ordering[Any]], None]) -> None:
        """Lets a broker do something, as soon as it has done what it was given before."""
        if not self._plan.work:
            self._step(broker, step)
            return
        self._busy_until[broker] = max(self._now, self._busy_until[broker]) + self._plan.work
        self._at(self._busy_until[broker], partial(self._step, broker, step))

    def _step(self, broker: str, step: Callable[[Ordering[Any]], None]) -> None:
        if broker not in self._brokers:
            return
        step(self._brokers[broker])
        for effect in self._brokers[broker].effects():
            match effect:
                case Send():
                    self._send((broker, effect.neighbour), effect.message)
                case Deliver():
                    self._history.delivered[effect.subscriber].append((effect.publication, self._now))
                case _:
                    assert_never(effect)

    def _send(self, direction: tuple[str, str], message: object) -> None:
        line = self._lines[direction]
        if line.limit is not None:
            return
        if isinstance(message, Carrier):
            self._history.carried += 1
        else:
            self._history.control += 1
        line.sent += 1
        self._at(self._arrival(line), partial(self._arrive, direction, line.sent, message))

    def _arrival(self, line: Line) -> float:
        """When something sent now arrives: after a delay, and never before what was sent earlier."""
        line.last_arrival = max(line.last_arrival, self._now + delay(line.random, self._plan.delays))
        return line.last_arrival

    def _arrive(self, direction: tuple[str, str], number: int, message: object) -> None:
        sender, receiver = direction
        line = self._lines[direction]
        if line.limit is None or number <= line.limit:
            line.arrived = number
            self._handle(receiver, lambda ordering: ordering.receive(sender, message))

    def _break(self, fault: Fault) -> None:
        match fault:
            case Crash():
                self._brokers.pop(fault.broker, None)
                for neighbour in self._plan.tree.neighbours[fault.broker]:
                    self._cut(fault.broker, neighbour)
            case Cut():
                self._cut(*fault.link)
            case _:
                assert_never(fault)

    def _cut(self, one: str, other: str) -> None:
        for direction in ((one, other), (other, one)):
            line = self._lines[direction]
            if line.limit is None:
                line.limit = line.random.randint(line.arrived, line.sent)
                self._at(self._arrival(line), partial(self._notice, direction))

    def _notice(self, direction: tuple[str, str]) -> None:
        lost, broker = direction
        self._handle(broker, lambda ordering: ordering.lose(lost))


def delay(random: Random, delays: Delays) -> float:
    """How long a message is under way; one on average."""
    match delays:
        case "constant":
            return 1.0
        case "uniform":
            return random.uniform(0.1, 1.9)
        case "exponential":
            return random.expovariate(1.0)
        case _:
            assert_never(delays)
