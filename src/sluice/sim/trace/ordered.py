"""What a trace says about order: who asks for it, and what was withheld to keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A subscription is to get everything in the order of all."""

    at: float
    client: str
    subscription: str


@dataclass(frozen=True, slots=True)
class Marked:
    """Everybody is to get a publication in the order of all."""

    at: float
    client: str
    number: int


@dataclass(frozen=True, slots=True)
class Withheld:
    """A client is told that a notification came too late for the order of all, and for which of its subscriptions."""

    at: float
    client: str
    publisher: str
    number: int
    subscriptions: Names


OfOrder = Ordered | Marked | Withheld


def tell(event: OfOrder) -> str:
    """An event in words.

    >>> tell(Marked(1.0, "bob", 3))
    'bob#3 is to be in order for all'
    """
    match event:
        case Ordered(_, client, subscription):
            return f"{client} wants {subscription} in order"
        case Marked(_, client, number):
            return f"{client}#{number} is to be in order for all"
        case Withheld(_, client, publisher, number, subscriptions):
            return f"{client} is told that {publisher}#{number} came too late for {', '.join(subscriptions)}"
        case _:
            assert_never(event)
