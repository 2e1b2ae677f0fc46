"""Sluice: content-based publish/subscribe for Python.

Each subscriber writes the WHERE of a Spark SQL query, and every event reaches exactly those who asked for it.

>>> import sluice
>>> rules = sluice.Matcher()
>>> rule = rules.add("symbol = 'IBM' AND price > 120")
>>> rules.match({"symbol": "IBM", "price": 121.5}).tolist() == [rule]
True
"""

from typing import TYPE_CHECKING

from sluice.errors import (
    ConfigurationError,
    LimitError,
    LinkError,
    MatcherError,
    NotificationError,
    ParseError,
    ProtocolError,
    PublishError,
    RequestError,
    SluiceError,
    StoreError,
)
from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.client import BlockingBus, Bus, Event, Gap
    from sluice.client.connect import connect
    from sluice.match import Matcher
    from sluice.model import Filter, Subscription, instance_of, parse, register

__version__ = "0.1.0"

__all__ = [
    "BlockingBus",
    "Bus",
    "ConfigurationError",
    "Event",
    "Filter",
    "Gap",
    "LimitError",
    "LinkError",
    "Matcher",
    "MatcherError",
    "NotificationError",
    "ParseError",
    "ProtocolError",
    "PublishError",
    "RequestError",
    "SluiceError",
    "StoreError",
    "Subscription",
    "connect",
    "instance_of",
    "parse",
    "register",
]

__getattr__ = imported_when_asked(
    __name__,
    {
        "BlockingBus": "sluice.client",
        "Bus": "sluice.client",
        "Event": "sluice.client",
        "Filter": "sluice.model",
        "Gap": "sluice.client",
        "Matcher": "sluice.match",
        "Subscription": "sluice.model",
        "connect": "sluice.client.connect",
        "instance_of": "sluice.model",
        "parse": "sluice.model",
        "register": "sluice.model",
    },
)
