"""What a matcher keeps is text, and what it works with is what the text means: here each becomes the other, once.

A subscription is only taken if its text can be read back. One that needs nothing but comparisons of plain values always can:
it is spelled here without being parsed to find out, and is itself kept as the meaning of its text.
"""

from __future__ import annotations

from functools import lru_cache

from sluice.errors import SluiceError
from sluice.limits import MAX_TEXT
from sluice.model.ordered import Ordered
from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.model.values import Kind, name_sql

#: Numbers up to here are written the same way by everyone.
_MAX_NUMBER = 10**15
#: On its way from `remember` into the cache.
_given: dict[str, Subscription] = {}


@lru_cache(maxsize=8_192)
def meaning(text: str) -> Subscription:
    """The subscription that a text means.

    >>> meaning("price > 3") is meaning("price > 3")
    True
    """
    return _given.pop(text, None) or parse(text)


def remember(text: str, subscription: Subscription) -> None:
    """Makes a subscription the known meaning of its text."""
    if subscription.id is None and subscription.filters:
        _given[text] = subscription
        meaning(text)
        _given.pop(text, None)  # where the meaning was known already


def text_of(subscription: Subscription) -> str:
    """A text that means a subscription; an error if there is none that `parse` reads.

    >>> text_of(parse("3 < price AND symbol IN ('SUN', 'IBM')"))
    "price > 3 AND symbol IN ('IBM', 'SUN')"
    """
    text = _plain_text(subscription)
    if text is not None:
        remember(text, subscription)
        return text
    text = subscription.to_sql()
    meaning(text)
    return text


def _plain_text(subscription: Subscription) -> str | None:
    """The text of one box of comparisons and lists; None if it is more, or has a name or a value that is not plain."""
    if len(subscription.filters) != 1 or subscription.filters[0].residuals:
        return None
    terms: list[str] = []
    for name, side in subscription.filters[0].constraints.items():
        spelled = _plain_name(name)
        if spelled is None or type(side) is not Ordered or not _is_plain(side):
            return None
        terms += _terms(spelled, side)
    text = " AND ".join(terms)
    return text if 0 < len(text) <= MAX_TEXT else None


def _is_plain(side: Ordered) -> bool:
    """Whether it lies within the numbers or the strings, between values that everyone writes the same way."""
    if not side.cuts:
        return False
    kind, end = side.cuts[0][0], side.cuts[-1]
    if kind not in (Kind.NUMBER, Kind.STRING) or (end[0] != kind and end != (kind + 1,)):
        return False
    if len(side.cuts) == 2 and len(side.cuts[0]) == len(end) == 1:
        return False  # the whole kind
    return (len(side.cuts) == 2 or side.points() is not None) and all(
        len(cut) == 1 or _is_plain_value(cut[1]) for cut in side.cuts
    )


def _is_plain_value(value: object) -> bool:
    # Exact types: those derived from them may print in a way of their own.
    if type(value) is str:
        return value.isascii() and value.isprintable() and "'" not in value and "\\" not in value
    return (type(value) is int or type(value) is float) and -_MAX_NUMBER < value < _MAX_NUMBER


def _terms(name: str, side: Ordered) -> list[str]:
    """One interval as comparisons, or single values as a list."""
    points = side.points()
    if points is not None:
        values = ", ".join(map(repr, points))
        return [f"{name} = {values}" if len(points) == 1 else f"{name} IN ({values})"]
    low, high = side.cuts
    terms = [f"{name} {'>' if low[2] else '>='} {low[1]!r}"] if len(low) == 3 else []
    return [*terms, f"{name} {'<=' if high[2] else '<'} {high[1]!r}"] if len(high) == 3 else terms


@lru_cache(maxsize=8_192)
def _plain_name(name: str) -> str | None:
    """The name of an attribute as text, if that is read as the same attribute."""
    text = name_sql(name)
    try:
        return text if list(parse(f"{text} = 1").filters[0].constraints) == [name] else None
    except SluiceError:
        return None
