"""The plain matcher: every filter against every record, one by one. It is the oracle that the fast one must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.model.subscription import Subscription


def match(record: object, subscriptions: Mapping[int, Subscription]) -> list[int]:
    """The ids of the subscriptions that a record satisfies, in rising order.

    >>> from sluice import parse
    >>> match({"price": 5}, {1: parse("price > 3"), 2: parse("price > 7")})
    [1]
    """
    return sorted(id for id, subscription in subscriptions.items() if subscription.matches(record))


def match_batch(records: Iterable[object], subscriptions: Mapping[int, Subscription]) -> list[list[int]]:
    """The matching ids of each record."""
    return [match(record, subscriptions) for record in records]


def covering(subscription: Subscription, subscriptions: Mapping[int, Subscription]) -> list[int]:
    """The ids of the subscriptions that cover one, by asking each of them."""
    return sorted(id for id, other in subscriptions.items() if other.covers(subscription))


def covered(subscription: Subscription, subscriptions: Mapping[int, Subscription]) -> list[int]:
    """The ids of the subscriptions that one covers, by asking about each of them."""
    return sorted(id for id, other in subscriptions.items() if subscription.covers(other))


def overlapping(subscription: Subscription, subscriptions: Mapping[int, Subscription]) -> list[int]:
    """The ids of the subscriptions that overlap one, by asking each of them."""
    return sorted(id for id, other in subscriptions.items() if subscription.overlaps(other))


def merge_candidates(subscription: Subscription, subscriptions: Mapping[int, Subscription]) -> list[int]:
    """The ids of the subscriptions of one box that differ from this one in a single attribute."""
    return sorted(id for id, other in subscriptions.items() if _differ_in_one(subscription, other))


def _differ_in_one(a: Subscription, b: Subscription) -> bool:
    if len(a.filters) != 1 or len(b.filters) != 1:
        return False
    mine, theirs = a.filters[0], b.filters[0]
    if mine.residuals != theirs.residuals or mine.constraints.keys() != theirs.constraints.keys():
        return False
    return sum(side != theirs.constraints[name] for name, side in mine.constraints.items()) == 1
