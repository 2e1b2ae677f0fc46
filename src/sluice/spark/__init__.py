"""The data pipeline on Apache Spark, through PySpark; installed with the extra `spark`.

Importing it starts nothing and loads nothing: each name is looked up in its room when it is first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.spark.archive.history import history
    from sluice.spark.frames import read, subscribe
    from sluice.spark.matching.destinations import write_per_subscriber
    from sluice.spark.matching.live import LiveSubscriptions, TableSubscriptions, match_live, versions_of
    from sluice.spark.matching.match import match
    from sluice.spark.session import register, session
    from sluice.spark.traffic.statistics import statistics, updating_statistics

#: Where each public name lives.
_ROOMS = {
    "LiveSubscriptions": "sluice.spark.matching.live",
    "TableSubscriptions": "sluice.spark.matching.live",
    "history": "sluice.spark.archive.history",
    "match": "sluice.spark.matching.match",
    "match_live": "sluice.spark.matching.live",
    "read": "sluice.spark.frames",
    "register": "sluice.spark.session",
    "session": "sluice.spark.session",
    "statistics": "sluice.spark.traffic.statistics",
    "subscribe": "sluice.spark.frames",
    "updating_statistics": "sluice.spark.traffic.statistics",
    "versions_of": "sluice.spark.matching.live",
    "write_per_subscriber": "sluice.spark.matching.destinations",
}

__all__ = [
    "LiveSubscriptions",
    "TableSubscriptions",
    "history",
    "match",
    "match_live",
    "read",
    "register",
    "session",
    "statistics",
    "subscribe",
    "updating_statistics",
    "versions_of",
    "write_per_subscriber",
]

__getattr__ = imported_when_asked(__name__, _ROOMS)


class _Package(ModuleType):
    """This package. Importing a room makes it an attribute here; where a public name is the same, that one stays."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _ROOMS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
