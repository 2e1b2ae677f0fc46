"""What must be so in a history: order as in section II, nothing lost and nothing twice; and the paper's ordering degree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from sluice.sim.broken import Broken
from sluice.sim.padres.network import History
from sluice.sim.padres.plan import Crash, Cut, Publication


def broken(history: History) -> list[Broken]:
    """Everything that is wrong with a history; what faults have cut off from a subscriber may be missing."""
    return [*pairwise_order(history), *publisher_order(history), *once(history), *lost(history)]


def pairwise_order(history: History) -> Iterator[Broken]:
    """Pairwise total order: two subscribers that both get two publications get them in the same order."""
    for (one, first), (other, second) in combinations(history.streams().items(), 2):
        place = {publication: number for number, publication in enumerate(second)}
        common = [publication for publication in first if publication in place]
        for earlier, later in pairwise(common):
            if place[earlier] > place[later]:
                yield Broken("pairwise order", f"{one} gets {earlier} before {later}, {other} the other way round")
                break


def publisher_order(history: History) -> Iterator[Broken]:
    """Per-publisher order: what one publisher publishes is delivered in its order."""
    for name, stream in history.streams().items():
        last: dict[str, int] = {}
        for publication in stream:
            if publication.number < last.get(publication.publisher, 0):
                yield Broken("publisher order", f"{name} gets {publication} after a later one")
            last[publication.publisher] = publication.number


def once(history: History) -> Iterator[Broken]:
    """Nothing is delivered twice, to somebody who does not want it, or without having been published."""
    wanted = {subscriber.name: subscriber.wanted for subscriber in history.plan.subscribers}
    for name, stream in history.streams().items():
        seen = set[Publication]()
        for publication in stream:
            if publication in seen:
                yield Broken("twice", f"{name} gets {publication} again")
            if publication.value not in wanted[name] or publication not in history.published:
                yield Broken("unwanted", f"{name} gets {publication}")
            seen.add(publication)


def lost(history: History) -> Iterator[Broken]:
    """Everything has been delivered to all who want it and can be reached, once nothing moves any more.

    After faults those can be reached who are on the same side. Whoever of them misses something waits for it for ever, and
    with most algorithms for everything that comes later too.
    """
    plan = history.plan
    crashed = frozenset(fault.broker for fault in plan.faults if isinstance(fault, Crash))
    cut = frozenset(frozenset(fault.link) for fault in plan.faults if isinstance(fault, Cut))
    side = plan.tree.without(crashed, cut)
    for subscriber in plan.subscribers:
        got = {publication for publication, _ in history.delivered[subscriber.name]}
        missing = [
            str(one)
            for one in history.published
            if one.value in subscriber.wanted
            and subscriber.broker in side.get(plan.publisher[one.publisher].broker, ())
            and one not in got
        ]
        if missing:
            yield Broken("lost", f"{subscriber.name} never gets {', '.join(missing)}")


def ordering_degree(one: Sequence[Publication], other: Sequence[Publication]) -> float:
    """The normalised ordering degree of section V: 1 for equal streams, less the farther publications are displaced.

    Σ (S − D) f(D) / S², where S is the length of the streams and f(D) the number of publications displaced by D; of both
    streams only what is in both of them counts.

    >>> p, q, r = (Publication("p", number, 0) for number in (1, 2, 3))
    >>> ordering_degree([p, q, r], [p, q, r]), ordering_degree([p, q], [q, p]), round(ordering_degree([p, q, r], [r, p, q]), 3)
    (1.0, 0.5, 0.556)
    """
    kept = set(other)
    common = [publication for publication in one if publication in kept]
    kept &= set(common)
    place = {publication: number for number, publication in enumerate(each for each in other if each in kept)}
    length = len(common)
    if not length:
        return 1.0
    return sum(length - abs(number - place[publication]) for number, publication in enumerate(common)) / length**2


def degrees(history: History) -> Iterator[float]:
    """The ordering degrees of all pairs of subscribers at different brokers that have two publications in common."""
    home = {subscriber.name: subscriber.broker for subscriber in history.plan.subscribers}
    for (one, first), (other, second) in combinations(history.streams().items(), 2):
        if home[one] != home[other] and len(set(first) & set(second)) > 1:
            yield ordering_degree(first, second)
