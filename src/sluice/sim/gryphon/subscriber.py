"""The SHB's end of the stream: messages in order, where each subscription starts and ends, what it was delivered between (3.4).

A subscription starts with the first message in order that has it in S(m). From then on every message must have it there; one
that has not is discarded, and asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sluice.sim.gryphon.asked import Asked
from sluice.sim.gryphon.message import Ack, Message, Nack, joined
from sluice.sim.gryphon.router import Leaf


@dataclass(slots=True)
class Delivery:
    """What a subscription was delivered: numbers of the stream, between its start and its end."""

    asked: Asked
    start: int | None = None
    end: int | None = None
    delivered: list[int] = field(default_factory=list)


class Subscriber:
    """An SHB: its tables, its cursor and its subscriptions outlive it; what has come too early does not."""

    __slots__ = ("_early", "cursor", "deliveries", "leaf", "name")

    def __init__(self, name: str, leaf: Leaf) -> None:
        self.name = name
        self.leaf = leaf
        #: The last message that has been dealt with.
        self.cursor = 0
        self.deliveries: dict[str, Delivery] = {}
        self._early: dict[int, Message] = {}

    def crash(self) -> None:
        """Keeps what is on disk."""
        self._early.clear()

    def started(self) -> tuple[Asked, ...]:
        """The subscriptions between their start and their end."""
        every = self.deliveries.values()
        return tuple(one.asked for one in every if one.start is not None and one.end is None)

    def nack(self) -> Nack:
        """Asks for what comes next."""
        return Nack(self.name, self.cursor, self.leaf.needed(self.started()))

    def ack(self) -> Ack:
        """Says what has been dealt with: never more, a later subscription may start right after it."""
        return Ack(self.name, self.cursor)

    def receive(self, message: Message) -> list[int]:
        """Takes a message and deals with all that is in order now; returns the numbers of the silences among it."""
        if message.sequence <= self.cursor:
            return []
        message = self.leaf.raised(message)
        self._early[message.sequence] = _better(self._early.get(message.sequence), message)
        silences = []
        while (following := self._early.pop(self.cursor + 1, None)) is not None:
            if not all(following.stamp.includes(asked) for asked in self.started()):
                break
            self._deliver(following)
            if following.is_silence:
                silences.append(following.sequence)
        return silences

    def _deliver(self, message: Message) -> None:
        self.cursor = message.sequence
        for one in self.deliveries.values():
            if one.end is not None:
                continue
            if one.start is None and message.stamp.includes(one.asked):
                one.start = message.sequence
            if one.start is not None and message.record is not None and one.asked.matches(message.record):
                one.delivered.append(message.sequence)


def _better(held: Message | None, message: Message) -> Message:
    """One of two copies: data before silences, with the subscriptions of both stamps: each says the truth for its own."""
    if held is None:
        return message
    record = held.record if message.record is None else message.record
    return replace(message, record=record, stamp=joined(held.stamp, message.stamp))
