"""Entries and records for tests of routing: few values and few attributes, so that filters cover and equal each other."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from sluice import LimitError, parse
from sluice.model.subscription import Subscription
from sluice.protocol.messages import Entry
from tests.generate import Generator, corner_records

#: Filters that mean the same, class by class. Those of the first three are different objects, too.
SAME = (
    ("s = 'ab' AND contains(s, 'ab')", "s = 'ab'"),
    ("s = 'ab' AND s LIKE 'a%b'", "s = 'ab' AND contains(s, 'b')", "s = 'ab'"),
    ("s IN ('ab', 'b') AND contains(s, 'b')", "s IN ('ab', 'b')"),
    ("x IN (1, 2) OR x BETWEEN 1 AND 2", "x BETWEEN 1 AND 2"),
    ("contains(s, 'b') AND s LIKE '%b%'", "contains(s, 'b')", "s LIKE '%b%'"),
    ("s LIKE 'a%' AND s LIKE '%b%'", "startswith(s, 'a') AND contains(s, 'b')"),
    ("true", "x IS NULL OR x IS NOT NULL"),
    ("x > 3 AND x >= 3", "x > 3"),
)


class Some:
    """Makes entries and records."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.language = Generator(source)
        self._number = 0

    def interval(self, name: str) -> str:
        low = self.random.randrange(8)
        high = low + self.random.randrange(5)
        return self.random.choice(
            (
                f"{name} BETWEEN {low} AND {high}",
                f"{name} BETWEEN {low} AND {high}",
                f"{name} > {low} AND {name} < {high + 1}",
                f"{name} >= {low}",
                f"{name} < {high}",
                f"{name} = {low}",
                f"{name} IN ({low}, {high}, {high + 2})",
                f"{name} IS NULL",
                f"{name} IS NOT NULL",
            )
        )

    def text(self) -> str:
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.35:
            return self.interval(pick(("x", "y")))
        if kind < 0.6:
            return f"{self.interval('x')} AND {self.interval('y')}"
        if kind < 0.7:
            return f"{self.interval(pick(('x', 'y')))} AND s {pick(('=', '!='))} '{pick('ab')}'"
        if kind < 0.75:
            return f"({self.text()}) OR ({self.text()})"
        if kind < 0.85:
            return pick(pick(SAME))
        if kind < 0.95:
            return pick(("x > y", "s LIKE 'a%b'", "s LIKE '%b%'", "startswith(s, 'a')", "contains(s, 'ab')", "false"))
        return self.language.filter()

    def filter(self) -> Subscription:
        while True:
            try:
                return parse(self.text())
            except LimitError:
                continue

    def entry(self) -> Entry:
        """An entry with an id of its own, as a client's."""
        self._number += 1
        return Entry(self.filter(), f"c/{self._number}")

    def records(self, filters: Iterable[Subscription]) -> list[dict[str, Any]]:
        """Records at and around the ends of filters, and some others."""
        found: list[dict[str, Any]] = [{}, self.language.record(typed=False)]
        for where in filters:
            corners = list(corner_records(where, self.random, most=4))
            found += self.random.sample(corners, min(4, len(corners)))
        for _ in range(10):
            values: dict[str, Any] = {
                "x": self.random.choice((None, *range(14), 2.5)),
                "y": self.random.choice((None, *range(14))),
                "s": self.random.choice((None, "", "a", "ab", "b", "axb")),
            }
            found.append({name: value for name, value in values.items() if value is not None})
        return found


def any_matches(filters: Iterable[Subscription], record: dict[str, Any]) -> bool:
    """Whether a record satisfies one of the filters."""
    return any(where.matches(record) for where in filters)
