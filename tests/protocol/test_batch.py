"""Batches keep what was published, whichever way they travel, and bytes that are no batch are refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import NotificationError
from sluice.limits import MAX_RECORD_BYTES
from sluice.model.notification import attributes
from sluice.protocol.batch import (
    Batch,
    Logged,
    Notification,
    NotificationId,
    Records,
    Rows,
    batches_of,
    decode_records,
    encode_record,
    portable,
)

SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.datetimes(timezones=st.sampled_from((UTC, timezone(timedelta(hours=-5))))),
)
NAMES = st.text(max_size=4).filter(lambda name: "." not in name)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=4)


def reread(batch: Records) -> Records:
    """The same batch as one gets it who has only the bytes."""
    return Records(batch.publisher, batch.numbers, body=bytes(batch.body), lengths=batch.lengths, logged=batch.logged)


def flat(batch: Batch) -> list[dict[str, Any]]:
    """What a filter sees of a batch."""
    return [dict(attributes(record)) for record in batch.records]


def table(*records: dict[str, Any]) -> Rows:
    return Rows("bob", range(1, len(records) + 1), table=pa.RecordBatch.from_pylist([*records]))


@given(st.lists(RECORDS, max_size=4))
def test_records_come_back_from_their_bytes(records: list[dict[str, Any]]) -> None:
    batch = Records.of("bob", 7, [portable(record) for record in records])
    again = reread(batch)
    assert flat(again) == flat(batch) == [attributes(record) for record in records]
    assert [*again.numbers] == [*range(7, 7 + len(records))] and len(again) == len(records)
    assert [*again.notifications] == [attributes(record) for record in records]
    assert sum(batch.lengths) == len(batch.body) == batch.size == again.size


@given(st.lists(RECORDS, min_size=1, max_size=5), st.data(), st.booleans())
def test_a_part_has_the_bytes_of_its_records(records: list[dict[str, Any]], data: st.DataObject, encoded: bool) -> None:
    batch = Records.of("bob", 1, [portable(record) for record in records])
    batch = batch.placed(Logged("b", range(10, 10 + len(records)), 5))
    rows = sorted(data.draw(st.sets(st.sampled_from(range(len(records))))))
    whole = reread(batch) if encoded else batch
    part = whole.take(rows)
    assert [*part.numbers] == [row + 1 for row in rows]
    assert part.logged_at() == ("b", [10 + row for row in rows], 5, 0)
    assert flat(part) == [flat(batch)[row] for row in rows]
    assert bytes(part.body) == b"".join(encode_record(batch.records[row]) for row in rows)
    assert flat(reread(part)) == flat(part)
    assert whole.whole_or(range(len(records))) is whole


@pytest.mark.parametrize(
    "value",
    [
        *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300, -(10**300), 0, -1),
        *(math.inf, -math.inf, -0.0, 5e-324, True, False, "", "\x00", "ü\U0001f600", b"", b"\xff" * 300),
        *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_values_at_the_edge_come_back_exactly(value: Any) -> None:
    for record in ({"x": value}, {"x": [value, {"y": value}]}, {"x": {"y": {"z": value}}}):
        (again,) = reread(Records.of("bob", 1, [portable(record)])).records
        assert repr(attributes(again)) == repr(attributes(record))


def test_nan_comes_back() -> None:
    (again,) = reread(Records.of("bob", 1, [{"x": math.nan}])).records
    assert math.isnan(again["x"])


def test_what_travels_is_nested_as_it_was_published_and_without_nulls() -> None:
    record = {"order": {"total": Decimal("1.5"), "note": None, "lines": [{"n": {"m": 1}}, None]}, "tags": {"b", "a"}}
    assert portable(record) == {
        "order": {"total": 1.5, "lines": [{"n": {"m": 1}}, None]},
        "tags": ["a", "b"],
    }
    assert attributes(portable(record)) == attributes(record)
    with pytest.raises(NotificationError):
        portable({"x": object()})


def test_a_batch_is_a_row_of_notifications() -> None:
    batch = Records.of("bob", 3, [{"x": 1}, {"x": 2}])
    assert [*batch] == [
        Notification(NotificationId("bob", 3), {"x": 1}),
        Notification(NotificationId("bob", 4), {"x": 2}),
    ]
    assert batch.id(1) == ("bob", 4) and "bob" in repr(batch)
    assert batch != Records.of("bob", 4, [{"x": 1}, {"x": 2}]) and batch != Records.of("eve", 3, [{"x": 1}, {"x": 2}])
    assert batch != batch.placed(Logged("b", (1, 2), 0)) and batch.placed(Logged("b", (1, 2), 0)).placed(None) == batch
    assert batch != "a batch"


def test_rows_are_the_same_in_another_form() -> None:
    rows = table({"x": 1, "o": {"p": "a"}}, {"x": None, "o": {"p": "b"}}, {"x": 3, "o": None})
    again = Rows("bob", rows.numbers, body=bytes(rows.body))
    assert again == rows and [*again.records] == [{"x": 1, "o": {"p": "a"}}, {"o": {"p": "b"}}, {"x": 3}]
    assert again.notifications.equals(rows.table)
    part = again.placed(Logged("b", (4, 5, 6), 9)).take([0, 2])
    assert [*part.records] == [{"x": 1, "o": {"p": "a"}}, {"x": 3}] and [*part.numbers] == [1, 3]
    assert part.logged_at() == ("b", [4, 6], 9, 0)
    assert Rows("bob", part.numbers, body=part.body).table.equals(part.table)
    assert part == Records("bob", [1, 3], records=part.records, logged=part.logged)


def test_notifications_become_batches_without_changing_their_order() -> None:
    notes = [
        Notification(NotificationId(publisher, number), {"n": number})
        for publisher, number in (("a", 1), ("a", 3), ("b", 2), ("a", 2), ("a", 4), ("a", 4))
    ]
    batches = [*batches_of(notes)]
    assert [(batch.publisher, [*batch.numbers]) for batch in batches] == [
        ("a", [1, 3]),
        ("b", [2]),
        ("a", [2, 4]),
        ("a", [4]),
    ]
    assert [note for batch in batches for note in batch] == notes
    assert [*batches_of([])] == []


def test_what_has_no_bytes_is_refused() -> None:
    with pytest.raises(NotificationError, match="surrogate"):
        encode_record({"x": "\ud800"})
    with pytest.raises(NotificationError, match="the limit is"):
        encode_record({"x": "a" * MAX_RECORD_BYTES})
    assert encode_record({"x": "a" * (MAX_RECORD_BYTES - 100)})


MALFORMED = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda record, place, byte: bytes([*record[:place], byte, *record[place + 1 :]]),
        RECORDS.map(lambda record: encode_record(portable(record))),
        st.integers(0, 80),
        st.integers(0, 255),
    ),
)


@given(MALFORMED, st.integers(0, 3))
def test_bytes_that_are_no_records_are_refused_and_nothing_else_happens(body: bytes, count: int) -> None:
    batch = Records("bob", range(count), body=body, lengths=[len(body)])
    try:
        assert len(batch.records) == count
        assert len(batch.notifications) == count
    except NotificationError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"\x80", 2),
        (b"\x80\x80", 1),
        (b"\x01", 1),
        (b"\x81\x01\x02", 1),  # a name that is no string
        (b"\x81\xa1x\x81\x90\x01", 1),  # a key that cannot be looked up
        (b"\x81\xa1x\xd4\x02\x00", 1),  # an extension that nobody knows
        (b"\x81\xa1x\xd6\xff", 1),
        (b"\x81\xa1x" + b"\x91" * 5000, 1),
        (b"\x81\xa1x" + b"\x91" * 5000 + b"\x00", 1),
        (b"\x81\xa1x\xdd\xff\xff\xff\xff", 1),
        (b"\x81\xa1\xff\x00", 1),
        (b"\x81\xa1x\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1),  # a time that is none
    ],
)
def test_broken_records_are_refused(body: bytes, count: int) -> None:
    with pytest.raises(NotificationError):
        _ = Records("bob", range(count), body=body, lengths=[]).notifications
    with pytest.raises(NotificationError):
        _ = [attributes(record) for record in decode_records(memoryview(body), count)]


@given(st.one_of(st.binary(max_size=80), st.tuples(st.integers(0, 700), st.integers(0, 255))))
def test_bytes_that_are_no_columns_are_refused_and_nothing_else_happens(damage: bytes | tuple[int, int]) -> None:
    if isinstance(damage, bytes):
        body = damage
    else:
        changed = bytearray(table({"x": 1, "s": "abc"}, {"x": 2, "s": "d"}).body)
        changed[damage[0] % len(changed)] = damage[1]
        body = bytes(changed)
    rows = Rows("bob", range(2), body=body)
    try:
        assert len(rows.records) == 2
    except NotificationError as error:
        assert str(error)


def test_columns_are_as_many_as_was_said() -> None:
    body = table({"x": 1}, {"x": 2}).body
    with pytest.raises(NotificationError, match="2 rows where 3"):
        _ = Rows("bob", range(3), body=body).table
