"""Which events concern which pattern: rows of notifications in, one small row for each event and pattern out.

The filters of all steps are one matcher, which every worker makes for itself. What comes out has the key, the steps that
matched and those few attributes that results tell; everything else stays behind before the shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sluice.match import Matcher
from sluice.model.notification import attributes, from_arrow
from sluice.model.values import Value, to_utc
from sluice.spark.compose.evaluate import Event
from sluice.spark.compose.pattern import Change, Pattern
from sluice.spark.compose.rules import LOGGED, Rules
from sluice.spark.rows import TIME, notifications, to_text

#: An event as it goes to the keeper of its key. Without a pattern it only says how late it is.
SELECTED = pa.schema([("pattern", pa.string()), ("key", pa.string()), ("event", pa.binary()), ("time", TIME)])
SELECTED_SPARK = "pattern string, key string, event binary, time timestamp"

_Selected = tuple[str | None, str | None, bytes | None, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.msgpack.Encoder().encode


class Selection:
    """Picks events out of batches of rows, as `DataFrame.mapInArrow` wants it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        steps = [(pattern, step) for pattern in self._rules.patterns for step in range(len(pattern.wheres))]
        matcher = Matcher()
        matcher.load((number, pattern.wheres[step]) for number, (pattern, step) in enumerate(steps))
        for batch in batches:
            if not batch.num_rows:
                continue
            rows: list[_Selected] = list(self._select(batch, matcher, steps))
            if self._rules.time == LOGGED:
                # The clock moves on with all that is read, also with what no pattern looks at.
                latest = pc.max(batch.column(LOGGED)).cast(pa.int64()).as_py()
                rows.append((None, None, None, latest))
            columns = list(zip(*rows, strict=True)) or [()] * len(SELECTED)
            yield pa.RecordBatch.from_arrays(
                [pa.array(values, field.type) for values, field in zip(columns, SELECTED, strict=True)], schema=SELECTED
            )

    def _select(self, batch: pa.RecordBatch, matcher: Matcher, steps: list[tuple[Pattern, int]]) -> Iterator[_Selected]:
        records = notifications(batch)
        offsets, ids = matcher.match_batch(records)
        matched = [row for row in range(batch.num_rows) if offsets[row + 1] > offsets[row]]
        if isinstance(records, list):
            flat: Iterable[dict[str, Value]] = (attributes(records[row]) for row in matched)
        else:
            flat = from_arrow(records.take(pa.array(matched, pa.int64())))
        streams, places = batch.column("_stream"), batch.column("_offset")
        for row, record in zip(matched, flat, strict=True):
            place = (streams[row].as_py(), places[row].as_py())
            logged = batch.column(LOGGED)[row].cast(pa.int64()).as_py() if self._rules.time == LOGGED else None
            time = _microseconds(record.get(self._rules.time)) if logged is None else logged
            by_pattern: dict[str, tuple[Pattern, list[int]]] = {}
            for number in sorted(ids[offsets[row] : offsets[row + 1]].tolist()):
                pattern, step = steps[number]
                by_pattern.setdefault(pattern.name, (pattern, []))[1].append(step)
            for name, (pattern, matching) in by_pattern.items():
                key = key_text(record, pattern.key)
                if key is not None:
                    event = _event(pattern, record, time, place, tuple(matching))
                    yield name, key, _encode(event), time or 0


def _event(
    pattern: Pattern, record: dict[str, Value], time: int | None, place: tuple[str, int], steps: tuple[int, ...]
) -> Event:
    values = {name: to_text(record[name]) for name in pattern.attributes if name in record}
    number = float(record[pattern.attribute]) if isinstance(pattern, Change) else 0.0
    return Event(time, *place, steps, values, number)


def key_text(record: dict[str, Value], key: Iterable[str]) -> str | None:
    """The key of an event as text; equal keys have equal texts. None if it lacks an attribute of it.

    >>> key_text({"a": 1, "b": "x"}, ["b", "a"]), key_text({"a": 1.0, "b": "x"}, ["b", "a"]), key_text({"a": 1}, ["b", "a"])
    ('["x", 1]', '["x", 1]', None)
    """
    values = [record.get(name) for name in key]
    if any(value is None or value != value for value in values):
        return None
    return to_text([_canonical(value) for value in values])


def _canonical(value: Value) -> Value:
    """Numbers are equal by what they are worth."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list() | tuple():
            return [_canonical(each) for each in value]
        case dict():
            return {name: _canonical(value[name]) for name in sorted(value)}
        case _:
            return value


def _microseconds(value: Any) -> int | None:
    """Microseconds since 1970 of a timestamp, or of a text in ISO 8601; None if it is no time."""
    if isinstance(value, str):
        try:
            value = to_utc(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            return None
    if not isinstance(value, datetime):
        return None
    since = value - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
