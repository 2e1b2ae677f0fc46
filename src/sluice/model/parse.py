"""From the text of a WHERE to a subscription, in one call."""

from __future__ import annotations

from sluice.errors import LimitError
from sluice.model.compile import compile_filters
from sluice.model.shapes import parse_shape
from sluice.model.subscription import Subscription


def parse(text: str) -> Subscription:
    """The subscription that a WHERE text asks for; a `ParseError` says where a wrong text is wrong and what to write.

    >>> quotes = parse("symbol = 'IBM' AND price BETWEEN 100 AND 120")
    >>> quotes.matches({"symbol": "IBM", "price": 110})
    True
    >>> parse("NOT (price = 1)").matches({"symbol": "IBM"})
    False
    """
    predicate, constants = parse_shape(text)
    try:
        return Subscription(compile_filters(predicate, constants))
    except LimitError as error:
        raise LimitError(error.problem, text, 0) from None  # all of the text together is too large
