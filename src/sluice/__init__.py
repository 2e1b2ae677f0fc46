"""Sluice: content-based publish/subscribe for Python.

Each subscriber writes the WHERE of a Spark SQL query, and every event reaches exactly those who asked for it.

>>> import sluice
>>> rules = sluice.Matcher()
>>> rule = rules.add("symbol = 'IBM' AND price > 120")
>>> rules.match({"symbol": "IBM", "price": 121.5}).tolist() == [rule]
True
"""

from sluice.errors import LimitError, MatcherError, NotificationError, ParseError, SluiceError
from sluice.match import Matcher
from sluice.model import Filter, Subscription, instance_of, parse, register

__version__ = "0.1.0"

__all__ = [
    "Filter",
    "LimitError",
    "Matcher",
    "MatcherError",
    "NotificationError",
    "ParseError",
    "SluiceError",
    "Subscription",
    "instance_of",
    "parse",
    "register",
]
