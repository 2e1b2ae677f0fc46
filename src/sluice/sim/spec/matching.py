"""Which filters does a record match? The specification asks the algebra of `sluice.model`, once for each pair.

Simulated runs publish few different records and ask for few different filters, so the answers are kept by what a record says
rather than by the record.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sluice.model.parse import parse
from sluice.sim.trace.codec import to_json, to_text
from sluice.sim.trace.trace import Record

#: Texts of filters, parsed.
parsed = lru_cache(maxsize=16_384)(parse)

_SCALARS = frozenset({bool, int, float, str, bytes})


def record_key(record: Record) -> Any:
    """Something hashable that is equal only for records that match the same filters."""
    if _SCALARS.issuperset(map(type, record.values())):
        # With the types, because 1 and true are equal in Python and different in a filter.
        return tuple((name, type(value), value) for name, value in record.items())
    return to_text(to_json(dict(record)))


class Matching:
    """Answers that are asked for again and again."""

    __slots__ = ("_overlaps", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Any, dict[str, bool]] = {}
        self._overlaps: dict[tuple[str, str], bool] = {}

    def row(self, record: Record) -> dict[str, bool]:
        """The answers about a record, by the text of the filter; `matches` fills it."""
        return self._rows.setdefault(record_key(record), {})

    def matches(self, where: str, record: Record, row: dict[str, bool] | None = None) -> bool:
        """Whether a record matches a filter; `row` is that of the record, if the caller has it at hand."""
        if row is None:
            row = self.row(record)
        answer = row.get(where)
        if answer is None:
            answer = row[where] = parsed(where).matches(record)
        return answer

    def overlaps(self, a: str, b: str) -> bool:
        """Whether something may match both filters."""
        answer = self._overlaps.get((a, b))
        if answer is None:
            answer = self._overlaps[a, b] = parsed(a).overlaps(parsed(b))
        return answer


@lru_cache(maxsize=65_536)
def same(a: str, b: str) -> bool:
    """Whether two texts are the same filter, however they are written."""
    return a == b or parsed(a) == parsed(b)
