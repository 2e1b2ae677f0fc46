"""What must be so at every step: the S-Λ invariant, theorems 2 and 3, silences that say the truth, and a right history.

Each check gives words for what is wrong. They may ask the oracle, which no broker may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.sim.broken import Broken
from sluice.sim.gryphon.asked import Asked, Known, Oracle
from sluice.sim.gryphon.conjunction import Conjunctions, union
from sluice.sim.gryphon.message import Message
from sluice.sim.gryphon.publisher import Stream
from sluice.sim.gryphon.subscriber import Delivery, Subscriber


def uncovered(known: Known, conjunctions: Conjunctions) -> Iterator[Asked]:
    """The active subscriptions that Λ(e) does not cover: by invariant 1 there is none."""
    held = union(conjunctions)
    for asked in known.active:
        if asked.matched & ~held:
            yield asked


def invariant(where: str, known: Known, conjunctions: Conjunctions) -> Iterator[Broken]:
    """Invariant 1: Λ(e) covers S(e) − S̄(e)."""
    names = _names(uncovered(known, conjunctions))
    if names:
        yield Broken("invariant 1", f"{where} lacks conjunctions for {names}")


def theorem_two(where: str, was: tuple[Known, Conjunctions], now: tuple[Known, Conjunctions]) -> Iterator[Broken]:
    """Theorem 2: a broker that had the invariant has it after it applied a change."""
    names = _names(uncovered(*now))
    if names and not any(uncovered(*was)):
        yield Broken("theorem 2", f"{where} applied a change and lacks conjunctions for {names}")


def theorem_three(where: str, known: Known, conjunctions: Conjunctions) -> Iterator[Broken]:
    """Theorem 3: every conjunction of Λ(e) belongs to an active subscription in S(e)."""
    owned = {one for asked in known.active for one in asked.conjunctions}
    stray = [str(one) for one in conjunctions if one not in owned]
    if stray:
        yield Broken("theorem 3", f"{where} holds {'; '.join(stray)} for nobody")


def silence(where: str, message: Message, record: int, oracle: Oracle) -> Iterator[Broken]:
    """Condition 2 of theorem 1: no active subscription in S(m) matches what was filtered out."""
    if not message.is_silence:
        return
    wronged = (asked for asked in oracle.subscribed.values() if oracle.is_active(asked) and asked.matches(record))
    names = _names(asked for asked in wronged if message.stamp.includes(asked))
    if names:
        yield Broken("silence", f"{where} sends a silence for {message.sequence}, which matches {names} in S(m)")


def up_to_date(where: str, known: Known, shbs: frozenset[str], oracle: Oracle) -> Iterator[Broken]:
    """At rest, with everybody alive, a broker knows exactly the active subscriptions behind its edge."""
    active = {asked for asked in oracle.subscribed.values() if asked.shb in shbs and oracle.is_active(asked)}
    if known.active != active:
        yield Broken("out of date", f"{where} believes in {_names(known.active)} and not in {_names(active)}")


def passed_over(subscriber: Subscriber, sequence: int, record: int) -> Iterator[Broken]:
    """No subscription that has started and not ended takes a silence for what matches it."""
    for one in subscriber.deliveries.values():
        if one.start is not None and one.start <= sequence and one.end is None and one.asked.matches(record):
            yield Broken("passed over", f"{one.asked.id} takes a silence for {sequence}, which matches")


def history(delivery: Delivery, cursor: int, stream: Stream) -> Iterator[Broken]:
    """Exactly the matching publications from the start to the end, or to the cursor, in order and once."""
    if delivery.start is None:
        expected = []
    else:
        last = cursor if delivery.end is None else delivery.end
        numbers = range(delivery.start, last + 1)
        expected = [number for number in numbers if delivery.asked.matches(stream.record(number))]
    if delivery.delivered != expected:
        yield Broken("history", f"{delivery.asked.id} was delivered {delivery.delivered} and not {expected}")


def _names(subscriptions: Iterable[Asked]) -> str:
    return ", ".join(sorted(asked.id for asked in subscriptions))
