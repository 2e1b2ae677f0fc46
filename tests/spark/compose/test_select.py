"""Events are picked for the patterns that look at them: by filter, with their key, their time and what results tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from sluice.protocol.batch import Logged, Records
from sluice.spark.compose import Change, Count, Pattern, Rules, Sequence
from sluice.spark.compose.evaluate import Event
from sluice.spark.compose.select import SELECTED, Selection, key_text
from sluice.spark.rows import Layout

SECOND = 1_000_000
BOUGHT = Sequence(
    name="pair", key=("who",), steps=("a = 1", "a < 3"), within="1s", emit={"first": "1.o.total", "tags": "2.tags"}
)
LAYOUTS = (
    Layout(pa.schema([])),
    Layout(pa.schema([("a", pa.int64()), ("who", pa.string()), ("at", pa.timestamp("us", "UTC"))])),
    Layout(
        pa.schema([("o", pa.struct([("total", pa.int64())])), ("who", pa.float64()), ("tags", pa.list_(pa.string()))])
    ),
)


def select(
    records: list[dict[str, Any]], *patterns: Pattern, time: str = "_time", layout: Layout = LAYOUTS[0]
) -> list[tuple[str | None, str | None, Event | None, int]]:
    batch = Records.of("alice", 1, records).placed(Logged("b1", tuple(range(7, 7 + len(records))), 5 * SECOND))
    selection = Selection(Rules(patterns, time))
    (picked,) = selection([layout.arrange(batch), layout.arrange(batch).slice(0, 0)])
    assert picked.schema == SELECTED
    return [
        (
            row["pattern"],
            row["key"],
            None if row["event"] is None else msgspec.msgpack.decode(row["event"], type=Event),
            round(row["time"].timestamp() * SECOND),
        )
        for row in picked.to_pylist()
    ]


def test_steps_key_and_values_whatever_the_columns() -> None:
    records: list[dict[str, Any]] = [
        {"a": 1, "who": "bob", "o": {"total": 3}, "tags": ["x"]},
        {"a": 2, "who": 4.0},
        {"a": 9, "who": "eve"},
        {"a": 1},
    ]
    for layout in LAYOUTS:
        assert select(records, BOUGHT, layout=layout) == [
            (
                *("pair", '["bob"]'),
                Event(5 * SECOND, "b1", 7, (0, 1), {"who": '"bob"', "o.total": "3", "tags": '["x"]'}),
                5 * SECOND,
            ),
            ("pair", "[4]", Event(5 * SECOND, "b1", 8, (1,), {"who": "4.0"}), 5 * SECOND),
            (None, None, None, 5 * SECOND),
        ]


def test_an_event_may_concern_several_patterns() -> None:
    change = Change(name="change", attribute="a", percent=5, within="1s")
    count = Count(name="count", where="b = 1", at_least=2, within="1s")
    picked = select([{"a": 2, "b": 1}, {"a": -2}, {"a": "2"}, {"b": 1}], change, count)
    assert [(name, key, event and (event.offset, event.number)) for name, key, event, _ in picked] == [
        ("change", "[]", (7, 2.0)),
        ("count", "[]", (7, 0.0)),
        ("count", "[]", (10, 0.0)),
        (None, None, None),
    ]


def test_times_of_the_events_themselves() -> None:
    count = Count(name="count", where="a = 1", at_least=2, within="1s")
    moment = datetime(1970, 1, 1, 0, 0, 3, 250, tzinfo=UTC)
    for layout in LAYOUTS:
        picked = select(
            [
                {"a": 1, "at": moment},
                {"a": 1, "at": "1970-01-01T01:00:04+01:00"},
                {"a": 1, "at": "noon"},
                {"a": 1, "at": 17},
                {"a": 1},
            ],
            count,
            time="at",
            layout=layout,
        )
        assert [(event and event.time, clock) for _, _, event, clock in picked] == [
            (3 * SECOND + 250, 3 * SECOND + 250),
            (4 * SECOND, 4 * SECOND),
            (None, 0),
            (None, 0),
            (None, 0),
        ]


def test_equal_keys_have_equal_texts() -> None:
    same = key_text({"k": 10**20, "o": {"a": 1, "b": (2.0,)}}, ["k", "o"])
    assert same == key_text({"k": 1e20, "o": {"b": (2,), "a": 1.0}}, ["k", "o"])
    texts = {
        key_text({"k": value}, ["k"]) for value in (1, 1.5, True, "1", b"1", "true", datetime(1970, 1, 1, tzinfo=UTC))
    }
    assert len(texts) == 7 and None not in texts
    assert key_text({"k": float("nan")}, ["k"]) is None
    assert key_text({}, ["k"]) is None
    assert key_text({}, []) == "[]"
