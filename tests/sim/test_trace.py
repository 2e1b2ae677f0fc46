"""Traces: exact in files, the same hash everywhere, and readable."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.sim.trace import trace as said
from sluice.sim.trace.codec import TraceError, from_json, to_json
from sluice.sim.trace.trace import (
    Configured,
    Notified,
    Published,
    Subscribed,
    Topology,
    Trace,
    TraceEvent,
    from_line,
    tell,
    to_line,
)

TEXTS = st.text(st.characters(), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    st.binary(max_size=4),
    st.datetimes(timezones=st.just(UTC)),
)
HASHABLE = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS, st.binary(), st.tuples(TEXTS, st.integers())
)
VALUES = st.recursive(
    SCALARS | st.sets(HASHABLE, max_size=4) | st.frozensets(HASHABLE, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=8,
)
RECORDS = st.dictionaries(TEXTS | st.sampled_from(["$set", "$bytes", "price"]), VALUES, max_size=4)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "float": st.floats(0, 1e9),
    "float | None": st.none() | st.floats(0),
    "str": TEXTS,
    "str | None": st.none() | TEXTS,
    "int": st.integers(),
    "bool": st.booleans(),
    "Names": st.lists(TEXTS, max_size=3).map(tuple),
    "Links": st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    "Record": RECORDS,
}
CLASSES: tuple[type, ...] = get_args(TraceEvent)
EVENTS: st.SearchStrategy[Any] = st.one_of(
    [st.builds(cls, *(FIELDS[str(field.type)] for field in dataclasses.fields(cls))) for cls in CLASSES]
)


def alike(a: object, b: object) -> bool:
    """Equality that also tells types and the sign of zero apart, and takes NaN for NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, set | frozenset) and isinstance(b, set | frozenset):
        return sorted(map(repr, a)) == sorted(map(repr, b))
    return a == b


@given(VALUES)
def test_any_value_comes_back_as_it_was(value: object) -> None:
    assert alike(from_json(to_json(value)), value)


@given(EVENTS)
def test_any_event_comes_back_as_it_was(event: TraceEvent) -> None:
    back = from_line(to_line(event))
    assert type(back) is type(event)
    for field in dataclasses.fields(event):
        assert alike(getattr(back, field.name), getattr(event, field.name))
    assert to_line(back) == to_line(event)


@given(EVENTS)
def test_any_event_can_be_told(event: TraceEvent) -> None:
    assert tell(event)


def test_integers_without_a_decimal_text() -> None:
    assert from_json(to_json(-(10**10_000))) == -(10**10_000)


def some_trace() -> Trace:
    return Trace(
        [
            Configured(0.0, advertisements=True, delay_seconds=0.5),
            Topology(0.0, ("a", "b"), (("a", "b"),)),
            Subscribed(0.25, "alice", "alice/1", "price > 3"),
            Published(
                1.0,
                "bob",
                1,
                {
                    "tags": {"new", "big", "x" * 50, "é"},
                    "days": frozenset(range(100)),
                    "raw": b"\x00",
                    "nan": math.nan,
                    "time": datetime(2026, 1, 1, tzinfo=UTC),
                    "two surrogates": "\ud83d\ude00",
                },
            ),
            Notified(1.5, "alice", "bob", 1, ("alice/1",)),
        ]
    )


def test_a_saved_trace_is_the_same_trace(tmp_path: Path) -> None:
    trace, path = some_trace(), tmp_path / "run.jsonl"
    trace.save(path)
    loaded = Trace.load(path)
    assert [*loaded.lines()] == [*trace.lines()]
    assert loaded.hash() == trace.hash() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(loaded) == 5
    assert loaded[4] == trace[4]


def test_every_event_counts_for_the_hash() -> None:
    trace = some_trace()
    before = trace.hash()
    trace.append(Notified(1.5, "alice", "bob", 1, ("alice/1",)))
    assert trace.hash() != before


PRINT_HASH = """
from tests.sim.test_trace import some_trace
print(some_trace().hash())
"""


def test_the_hash_does_not_depend_on_the_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_HASH],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2024")
    }
    assert printed == {some_trace().hash() + "\n"}


def test_a_story_is_a_line_an_event() -> None:
    trace = Trace([said.BrokerDown(0.5, "a"), said.Refused(1.0, "bob", 7), said.Quiet(2.0)])
    assert trace.story() == [
        "    0.500  broker a crashes",
        "    1.000  bob#7 is refused",
        "    2.000  faults are over, the tables are at rest",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: this is not JSON"),
        ("[]", 'line 1: an event is a JSON object with the key "event"'),
        ('{"event": "Exploded"}', "line 1: there is no event Exploded"),
        ('{"event": "Quiet"}', "line 1: Quiet has the fields at, not "),
        ('{"event": "Quiet", "at": "noon"}', "line 1: the field at of Quiet is 'noon', which is no float"),
        ('{"event": "Refused", "at": 1.0, "client": "a", "number": true}', "the field number of Refused is True"),
        ('{"event": "Published", "at": 1.0, "client": "a", "number": 1, "record": 3}', "the field record of Published"),
        ('{"event": "Topology", "at": 0, "brokers": ["a"], "links": [["a"]]}', "the field links of Topology"),
        (
            '{"event": "Published", "at": 1.0, "client": "a", "number": 1, "record": {"x": {"$bytes": "zz"}}}',
            r"\$bytes does not hold what it should",
        ),
        (
            '{"event": "Published", "at": 1.0, "client": "a", "number": 1, "record": {"x": {"$decimal": "1"}}}',
            r"\$decimal is no type of value",
        ),
        (b"\xff", "line 1: .* can't decode"),
    ],
)
def test_what_is_no_trace_is_refused(line: str | bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(TraceError, match=problem):
        Trace.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        Trace.load(tmp_path / "missing")


@pytest.mark.parametrize("value", [object(), 1j, {1: 2}])
def test_what_is_no_value_is_refused(value: object) -> None:
    with pytest.raises(TraceError, match=r"record what|are strings"):
        Trace([Published(0.0, "a", 1, {"x": value})]).hash()
