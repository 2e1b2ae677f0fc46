"""Every message comes back from its bytes, and bytes that are no message are refused, whatever they would have taken."""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import parse
from sluice.errors import NotificationError, ProtocolError
from sluice.limits import MAX_ADDRESS, MAX_BATCH, MAX_CLOCKS, MAX_DEPTH, MAX_DIGITS, MAX_NAME, MAX_RUNS, MAX_VECTORS
from sluice.protocol.batch import MARKED, Batch, Logged, Records, Rows, Stamp, batches_of, encode_record, portable
from sluice.protocol.messages import Change, Deliver, Entry, Kind, Notify, Passage, Quiet, Request, Version
from sluice.protocol.packing import decode_batch, encode_batch
from sluice.protocol.questions import Answer, Question, ReplayEvent
from sluice.protocol.wire import codec as wire
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import FrameReader
from sluice.protocol.wire.link import Anything
from sluice.protocol.wire.questions import ANSWERS, QUESTIONS
from sluice.protocol.wire.vectors import ClocksHeard, ClocksSaid
from tests.fuzz_frames import Fuzzer, check_decoding
from tests.protocol.test_batch import RECORDS

NUMBERS = {form.type: form.number for form in wire._FORMS}
pack = msgspec.msgpack.Encoder().encode


def again(message: Anything) -> Anything:
    """A message as one gets it who has only the bytes."""
    ((type, payload),) = FrameReader(1 << 30).feed(b"".join(encode(message)))
    return decode(type, payload)


def payload(message: Anything) -> bytes:
    ((_, found),) = FrameReader(1 << 30).feed(b"".join(encode(message)))
    return found


def stream(*tables: pa.RecordBatch, **options: Any) -> bytes:
    """Record batches as the bytes of one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
            writer.write_batch(table)
    return bytes(sink.getvalue())


def columns(**arrays: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*arrays.values()], [*arrays])


# --- back and forth ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.__name__)
def test_every_message_comes_back(kind: type[Anything]) -> None:
    fuzzer = Fuzzer(1)
    found = 0
    while found < 20:
        message = fuzzer.message()
        if type(message) is kind:
            found += 1
            # What is not a number equals nothing, so the text is compared.
            assert repr(again(message)) == repr(message)
            assert b"".join(encode(again(message))) == b"".join(encode(message))


@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_records_of_every_kind_come_back(records: list[dict[str, Any]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 2**40))
    steps = data.draw(st.lists(st.integers(1, 2**20), min_size=len(records), max_size=len(records)))
    numbers = [first + sum(steps[:row]) for row in range(len(records))]
    place = Logged("b", range(5, 5 + len(records)), data.draw(st.integers(0, 2**60)), data.draw(st.integers(0, 2**60)))
    batch = Records("ann", numbers, records=[*map(portable, records)], logged=data.draw(st.sampled_from((None, place))))
    for message in (Notify(batch), Deliver(batch, (("ann/1",), ("ann/2", "ann/3")), array("I", [1] * len(records)))):
        found = again(message)
        assert isinstance(found, Notify | Deliver) and found == message
        assert [*found.batch.numbers] == numbers and found.batch.logged_at() == batch.logged_at()
        assert bytes(found.batch.body) == bytes(batch.body), "the bytes are those that the publisher made"


def test_columns_of_every_kind_come_back() -> None:
    fuzzer = Fuzzer(2)
    rows = [batch for batch in (fuzzer.batch() for _ in range(100)) if isinstance(batch, Rows)]
    for batch in rows:
        found = decode_batch(b"".join(encode_batch(batch)))
        assert isinstance(found, Rows) and found.table.schema == batch.table.schema
        # What is not a number equals nothing, so the text is compared.
        assert repr(found) == repr(batch) and found.logged_at() == batch.logged_at()


def test_columns_that_are_not_plain_are_made_so() -> None:
    table = columns(
        d=pa.array(["a", "b", "a", None]).dictionary_encode(),
        v=pa.array(["x", None, "y" * 30, ""], pa.string_view()),
        w=pa.array([b"1"] * 4, pa.binary_view()),
        u=pa.array([b"0123456789abcdef"] * 4, pa.uuid()),
    )
    found = decode_batch(b"".join(encode_batch(Rows("ann", range(4), table=table))))
    assert [*found.records] == [*Rows("ann", range(4), table=table).records]
    nested = columns(x=pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))))
    for bad in (nested, columns(x=pa.array([1], pa.duration("s"))), deep(MAX_DEPTH + 1)):
        with pytest.raises(NotificationError, match=r"cannot travel|no plain form"):
            _ = Rows("ann", range(1), table=bad).body


def test_numbers_without_gaps_take_no_room() -> None:
    small = len(payload(Notify(Records.of("ann", 1, [{}] * 1000))))
    gaps = len(payload(Notify(Records("ann", range(0, 2000, 2), records=[{}] * 1000))))
    assert gaps - small == pytest.approx(8 * 1000, abs=10)


def test_a_message_longer_than_a_frame_comes_back() -> None:
    batch = Records.of("ann", 1, [{"x": "a" * 1_000_000, "n": n} for n in range(9)])
    assert again(Notify(batch)) == Notify(batch)
    assert len([*FrameReader(1 << 30).feed(b"".join(encode(Notify(batch))))]) == 1


# --- what is refused --------------------------------------------------------------------------------------------------


def test_wrong_bytes_are_messages_or_refused() -> None:
    counts = Counter(check_decoding(seed) for seed in range(3_000))
    assert all(counts[outcome] > 300 for outcome in ("decoded", "incomplete", "refused")), counts


@given(st.sampled_from([*NUMBERS.values(), 0, 7, 127, 255]), st.binary(max_size=80))
def test_any_bytes_of_any_type_are_a_message_or_refused(type: int, data: bytes) -> None:
    try:
        decode(type, data)
    except ProtocolError as error:
        assert str(error)


def test_every_prefix_and_every_extension_is_refused() -> None:
    fuzzer = Fuzzer(3)
    for message in (fuzzer.message() for _ in range(60)):
        data = payload(message)
        for cut in {*range(min(20, len(data))), max(0, len(data) - 1)}:
            with pytest.raises(ProtocolError):
                decode(NUMBERS[type(message)], data[:cut])
        with pytest.raises(ProtocolError):
            decode(NUMBERS[type(message)], data + b"\0")


CHANGE = (0, (1, 0), (1, 1))
ENTRY = ("x > 1", "ann/1", None, False, False)
CLOCKS = (0, {"b": 1})


@pytest.mark.parametrize(
    ("number", "content", "reason"),
    [
        (77, (), "unknown type 77"),
        (1, (1, 5, "ann", 1, 0, 0, None, None, None, None), "5 is not a valid Role"),
        (1, (1, 1, "ann", 1, 0, 9, None, None, None, None), "9 is not a valid Policy"),
        (1, (1, 1, "", 1, 0, 0, None, None, None, None), "a name has 1 to 200 characters"),
        (1, (1, 0, "b", 1, 0, 0, None, "", None, None), "a name has 1 to 200 characters"),
        (
            1,
            (1, 1, "x" * (MAX_NAME + 1), 1, 0, 0, None, None, None, None),
            "a name has 1 to 200 characters, not 201",
        ),
        (1, (1, 1, "ann", 1, 0), "length"),
        (1, (1, 1, b"ann", 1, 0, 0, None, None, None, None), "str"),
        (
            1,
            (1, 0, "b", 1, 0, 0, None, None, "x" * (MAX_ADDRESS + 1), None),
            "an address has at most 300 characters",
        ),
        (3, ("gone", False, ["x" * (MAX_ADDRESS + 1)]), "an address has at most 300 characters"),
        (2, (1, "b", 1, None, 0.0, None, None, None), "a heart cannot beat"),
        (2, (1, "b", 1, None, float("nan"), None, None, None), "a heart cannot beat"),
        (2, (1, "b", 1, None, float("inf"), None, None, None), "a heart cannot beat"),
        (2, (1, "b", 1, None, 1.0, "", None, None), "a name has 1 to 200 characters"),
        (16, (9, (1, 0), (1, 1), [], [], {}, False), "9 is not a valid Kind"),
        (16, (*CHANGE, [("x >", None, None, False, False)], [], {}, False), "cannot be read"),
        (16, (*CHANGE, [ENTRY, ENTRY], [], {}, False), "names an entry twice"),
        (16, (*CHANGE, [ENTRY], [ENTRY], {}, False), "names an entry twice"),
        (16, (*CHANGE, [], [ENTRY, ("x  >  1", "ann/1", None, False, False)], {}, False), "names an entry twice"),
        (16, (*CHANGE, [("x", None, (-1, None), False, False)], [], {}, False), "cannot be replayed"),
        (16, (*CHANGE, [("x", None, (None, float("nan")), False, False)], [], {}, False), "cannot be replayed"),
        (16, (*CHANGE, [], [], {"b": -1}, False), "the clock of b cannot be at -1"),
        (16, (*CHANGE, [], [], {"b": 2**63}, False), "the clock of b cannot be at"),
        (16, (*CHANGE, [], [], {"": 1}, False), "a name has 1 to 200 characters"),
        (19, (0, (1, 0), [("(" * 1_000 + "x" + ")" * 1_000, None, None, False, False)], {}, False), "cannot be read"),
        (19, (0, (1, 0), [], {f"b{n}": 1 for n in range(MAX_CLOCKS + 1)}, False), "clocks of 10,001 brokers"),
        (39, ("b", -1, ("ann/1",)), "-1 is neither an offset"),
        (39, ("", 1, ("ann/1",)), "a name has"),
        (41, ("b", [], ("ann/1",)), "0 numbers came for 1 to 4,096 stretches"),
        (41, ("b", [0, 1], ("ann/1",)), "no stretch of offsets"),
        (64, ("b", [1, 0, 1, 0], CLOCKS, None), "no stretch of offsets"),
        (64, ("b", [1, -1], CLOCKS, None), "no stretch of offsets"),
        (64, ("b", [1, 2**63 - 1], CLOCKS, None), "no stretch of offsets"),
        (64, ("b", [5, 1, 2], CLOCKS, None), "3 numbers came"),
        (64, ("b", [2, 0] * (MAX_RUNS + 1), CLOCKS, None), "8,194 numbers came"),
        (64, ("b", [5, 1], 0, None), "number 0 were never spelled out"),
        (64, ("b", [5, 1], -1, None), "number -1 were never spelled out"),
        (64, ("b", [5, 1], (1, {"b": 1}), None), "1 is no number for clocks"),
        (64, ("b", [5, 1], (-1, {"b": 1}), None), "-1 is no number for clocks"),
        (64, ("b", [5, 1], (0, {"b": -1}), None), "the clock of b cannot be at -1"),
        (64, ("b", [5, 1], CLOCKS, ""), "a name has"),
        (64, ("", [5, 1], CLOCKS, None), "a name has"),
        (65, ("b", -1, CLOCKS, 0), "-1 is neither an offset"),
        (65, ("b", 1, CLOCKS, -1), "nor a time of a clock"),
        (66, ("b", "", [5, 1], 1, 0), "a name has"),
        (66, ("b", "c", [5, 1], -1, 0), "nor a time of a clock"),
        (66, ("b", "c", [], 1, 2**63), "nor a time of a clock"),
        (67, ("b", [5, 1], ""), "a name has"),
        (68, ("b", {"c": -1}), "the clock of c cannot be at -1"),
        (80, (-1,), "-1 is neither an offset"),
        (81, (2**63,), "nor a time of a clock"),
        (48, ("ann/1", "b", "dance", None), "'dance' is none of fetch"),
        (48, ("ann/1", "b", "fetch", (0, None, "x")), "cannot be read"),
        (48, ("h/1", "ann/1", "replay", ([b"\0\0\0\x01\x90"], None, None, ())), "cannot be read"),
        (48, ("h/1", "ann/1", "replay", ([], (1, "b"), None, ())), "cannot be read"),
        (49, ("h/1", "replaying", ((1, "b", "c"), False)), "cannot be read"),
        (49, ("ann/1", "fetched", ([b"\0\0\0\x01\x90"], 0, 0, 0, ())), "cannot be read"),
    ],
)
def test_a_message_that_is_not_what_it_says_is_refused(number: int, content: Any, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(number, pack(content))


def batch_bytes(header: tuple[Any, ...], body: bytes = b"\x80") -> bytes:
    packed = pack(header)
    return len(packed).to_bytes(4, "big") + packed + body


LENGTH = struct.pack("<I", 1)
#: What stands before a batch of which nothing is said.
NO_HEAD = bytes(4)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends within its header"),
        (b"\xff\xff\xff\xff\x90", "ends within its header"),
        (batch_bytes((2, "ann", 1, 1, LENGTH, None)), "unknown form 2"),
        (batch_bytes((0, "ann", 0, 1, b"", None), b""), "batches have 1 to"),
        (batch_bytes((0, "ann", MAX_BATCH + 1, 1, LENGTH * (MAX_BATCH + 1), None)), "batches have 1 to"),
        (batch_bytes((0, "", 1, 1, LENGTH, None)), "a name has"),
        (batch_bytes((0, "ann", 1, -1, LENGTH, None)), "is no number"),
        (batch_bytes((0, "ann", 1, 2**62, LENGTH, None)), "is no number"),
        (batch_bytes((0, "ann", 2, struct.pack("<qq", 5, 5), LENGTH * 2, None), b"\x80\x80"), "do not rise"),
        (batch_bytes((0, "ann", 2, struct.pack("<qq", 6, 5), LENGTH * 2, None), b"\x80\x80"), "do not rise"),
        (batch_bytes((0, "ann", 2, struct.pack("<qq", -6, 5), LENGTH * 2, None), b"\x80\x80"), "do not rise"),
        (batch_bytes((0, "ann", 2, b"12345678", LENGTH * 2, None), b"\x80\x80"), "2 numbers were announced"),
        (batch_bytes((0, "ann", 1, 1, b"123", None)), "1 numbers were announced"),
        (batch_bytes((0, "ann", 1, 1, LENGTH, None), b"\x80\x80"), "2 bytes of records where 1"),
        (batch_bytes((0, "ann", 1, 1, LENGTH, None), b"\x01"), "not 1 records"),
        (batch_bytes((0, "ann", 1, 1, LENGTH, ("", 1, 0, 0))), "a name has"),
        (batch_bytes((0, "ann", 1, 1, LENGTH, ("b", b"12", 0, 0))), "numbers were announced"),
        (batch_bytes((0, "ann", 1, 1, LENGTH, ("b", 1, 0, -1))), "-1 is no moment"),
        (batch_bytes((1, "ann", 2, 1, b"", None), stream(columns(x=[1]))), "1 rows where 2 were announced"),
    ],
)
def test_a_batch_that_is_none_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises((ProtocolError, NotificationError), match=reason):
        decode_batch(data)
    with pytest.raises(ProtocolError, match=reason):
        decode(NUMBERS[Notify], NO_HEAD + data)


def test_a_delivery_says_whom_it_is_for() -> None:
    batch = b"".join(encode_batch(Records.of("ann", 1, [{}, {}])))
    for combinations, which in (((), b""), ((("a",), ("b",)), b""), ((("a",),), struct.pack("<II", 0, 1))):
        head = pack((combinations, which, False, None))
        with pytest.raises(ProtocolError, match="whom it is for"):
            decode(NUMBERS[Deliver], len(head).to_bytes(4, "big") + head + batch)


def test_whole_numbers_have_as_many_digits_as_python_reads() -> None:
    largest = 10**MAX_DIGITS - 1
    (record,) = decode_batch(b"".join(encode_batch(Records.of("ann", 1, [{"x": largest, "y": -largest}])))).records
    assert record == {"x": largest, "y": -largest}
    with pytest.raises(NotificationError, match="digits"):
        encode_record({"x": largest + 1})
    one_more = (largest + 1).to_bytes(2_000, "big", signed=True)
    body = pack({"x": msgspec.msgpack.Ext(1, one_more)})
    with pytest.raises(ProtocolError, match="digits"):
        whole = batch_bytes((0, "ann", 1, 1, struct.pack("<I", len(body)), None), body)
        decode(NUMBERS[Notify], NO_HEAD + whole)


# --- much from little -------------------------------------------------------------------------------------------------


def deep(levels: int) -> pa.RecordBatch:
    array = pa.array([1])
    for _ in range(levels):
        array = pa.StructArray.from_arrays([array], ["x"])
    return columns(x=array)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (stream(columns(x=pa.array([0] * 60_000)), compression="zstd"), "compressed"),
        (stream(columns(x=pa.array([0] * 60_000)), compression="lz4"), "compressed"),
        (stream(columns(x=pa.array(["a", "b"]).dictionary_encode())), "type dictionary"),
        (stream(columns(x=pa.array(["a" * 50], pa.string_view()))), "type string_view"),
        (stream(columns(x=pa.array([[1]], pa.list_view(pa.int64())))), "type list_view"),
        (stream(columns(x=pa.RunEndEncodedArray.from_arrays([5], [1]))), "type run_end_encoded"),
        (stream(columns(x=pa.array([[0]], pa.list_(pa.duration("s"))))), "type list"),
        (stream(columns(x=pa.ListArray.from_arrays([0, 2**31 - 1], pa.nulls(2**31 - 1)))), "too many empty values"),
        (stream(columns(x=pa.ListArray.from_arrays([0, 3_000_000], pa.nulls(3_000_000)))), "too many empty values"),
        (stream(columns(x=pa.FixedSizeListArray.from_arrays(pa.nulls(2**31 - 1), 2**31 - 1))), "too many empty values"),
        (stream(columns(**{f"c{n}": pa.nulls(65_536) for n in range(40)})), "too many empty values"),
        (stream(columns(x=[1]), columns(x=[2])), "something follows"),
        (stream(columns(x=[1])) * 2, "something follows"),
        (stream(columns(x=[1])) + b"\0", "something follows"),
        (stream(columns(x=[1]))[:-60], "not one Arrow record batch"),
        (b"", "not one Arrow record batch"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_columns_that_would_take_more_than_was_sent_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(NotificationError, match=reason):
        _ = Rows("ann", range(1), body=body).table


def test_a_column_of_nulls_is_allowed() -> None:
    assert [*Rows("ann", range(2), body=stream(columns(x=pa.nulls(2)))).records] == [{}, {}]


def test_old_metadata_is_read_as_well() -> None:
    body = stream(columns(x=[1]), metadata_version=pa.ipc.MetadataVersion.V4)
    assert [*Rows("ann", range(1), body=body).records] == [{"x": 1}]


# --- whoever lies about lengths hurts nobody else ---------------------------------------------------------------------


def lying(*records: dict[str, Any]) -> Batch:
    """A batch that can be read, but whose records are not as long as it says."""
    parts = [encode_record(record) for record in records]
    lengths = [len(part) for part in parts]
    lengths[0], lengths[-1] = lengths[0] - 1, lengths[-1] + 1
    header = (0, "ann", len(parts), 1, struct.pack(f"<{len(parts)}I", *lengths), None)
    return decode_batch(batch_bytes(header, b"".join(parts)))


def test_what_is_cut_out_of_a_batch_can_be_read_though_its_lengths_are_lies() -> None:
    batch = lying({"x": 1}, {"x": 2}, {"x": 300})
    for rows in ([0], [1], [2], [0, 1], [1, 2]):
        part = decode_batch(b"".join(encode_batch(batch.take(rows))))
        assert [*part.records] == [batch.records[row] for row in rows]
    whole = decode_batch(b"".join(encode_batch(batch.whole_or([0, 1, 2]))))
    assert [*whole.records] == [*batch.records]
    assert [*batch.placed(None).take([2]).records] == [{"x": 300}]


def test_a_record_may_become_longer_when_it_is_written_anew() -> None:
    """A publisher may write numbers shorter than we do; what has been let in can be sent on, also from a cache."""
    numbers = 200_000
    body = b"\x81\xa1x\xdd" + numbers.to_bytes(4, "big") + struct.pack(">Bf", 0xCA, 0.5) * numbers
    batch = decode_batch(batch_bytes((0, "ann", 1, 1, struct.pack("<I", len(body)), None), body))
    (copy,) = batches_of(batch)
    assert copy.size > batch.size > 1_000_000
    assert again(Notify(copy)) == Notify(batch)
    assert again(Request("h/1", "ann/1", ReplayEvent((copy,)))) == Request("h/1", "ann/1", ReplayEvent((batch,)))


# --- the table of messages --------------------------------------------------------------------------------------------


def test_numbers_of_messages_are_unique_and_leave_room() -> None:
    assert len({form.number for form in wire._FORMS}) == len(wire._FORMS) == len(NUMBERS)
    assert all(a.number < b.number < 128 for a, b in pairwise(wire._FORMS))
    said = [part.type for named in (QUESTIONS, ANSWERS) for part in named.values()]
    assert {*said} == {*get_args(Question), *get_args(Answer)}


def test_filters_of_entries_are_texts() -> None:
    entry = Entry(parse("price > 120 AND symbol = 'IBM'"), "ann/1")
    change = Change(Kind.SUBSCRIPTIONS, Version(1, 0), Version(1, 1), (entry,), ())
    assert b"price > 120" in b"".join(map(bytes, encode(change))) and again(change) == change


# --- passages ---------------------------------------------------------------------------------------------------------


def passing(offsets: list[int] | range, said_runs: list[int], vector: Any = CLOCKS, to: str | None = None) -> bytes:
    """The bytes of notifications of a log with these offsets, that come with such a passage."""
    batch = Records("ann", range(len(offsets)), records=[{}] * len(offsets), logged=Logged("b", offsets, 0))
    head = pack(((said_runs, vector, to), None, None))
    return len(head).to_bytes(4, "big") + head + b"".join(encode_batch(batch))


def test_a_passage_accounts_for_all_that_comes_with_it() -> None:
    for offsets, runs in ((range(5, 8), [5, 2]), (range(5, 8), [1, 100]), ([5, 9], [5, 0, 4, 0]), ([5, 9], [2, 9])):
        found = decode(NUMBERS[Notify], passing(offsets, runs))
        assert isinstance(found, Notify) and found.passage is not None and found.passage.stream == "b"
    for offsets, runs in ((range(5, 8), [5, 1]), (range(5, 8), [6, 9]), ([5, 9], [5, 2]), ([5, 9], [5, 0, 5, 0])):
        with pytest.raises(ProtocolError, match="does not account for it"):
            decode(NUMBERS[Notify], passing(offsets, runs))
    with pytest.raises(ProtocolError, match="a name has"):
        decode(NUMBERS[Notify], passing(range(5, 8), [5, 2], to=""))
    head = pack((([5, 2], CLOCKS, None), None, None))
    of_no_log = b"".join(encode_batch(Records.of("ann", 1, [{}])))
    with pytest.raises(ProtocolError, match="a batch of no log"):
        decode(NUMBERS[Notify], len(head).to_bytes(4, "big") + head + of_no_log)
    with pytest.raises(ProtocolError, match="ends within the head"):
        decode(NUMBERS[Notify], b"\0\0\xff\xff" + of_no_log)


def test_only_a_mark_names_no_broker() -> None:
    batch = Records.of("ann", 1, [{}])
    for stamp in (MARKED, Stamp(7, "b"), Stamp(7, "b", is_marked=True)):
        assert again(Notify(batch.stamped(stamp))) == Notify(batch.stamped(stamp))
    for stamp, floor, reason in ((Stamp(7, ""), 1, "a name has"), (Stamp(-1, "b"), 1, "-1 is"), (MARKED, -2, "-2 is")):
        with pytest.raises(ProtocolError, match=reason):
            again(Notify(batch.stamped(stamp), None, floor))


def quiet(clocks: dict[str, int]) -> Quiet:
    return Quiet(Passage("b", ((5, 7),), clocks))


def said_and_heard(messages: Iterable[Quiet]) -> list[int]:
    """Sends messages over one connection, compares them, and returns how many bytes each took."""
    said, heard = ClocksSaid(), ClocksHeard()
    sizes = []
    for message in messages:
        data = b"".join(encode(message, said))
        sizes.append(len(data))
        ((type, content),) = FrameReader(1 << 30).feed(data)
        assert decode(type, content, heard) == message
    return sizes


def test_clocks_are_spelled_out_once_on_a_connection() -> None:
    vectors = [{f"broker-{n}": (1 << 32) + version for n in range(20)} for version in range(3)]
    first, again_and_again = [quiet(vector) for vector in vectors], [quiet(vector) for vector in vectors * 5]
    sizes = said_and_heard([*first, *again_and_again])
    assert min(sizes[:3]) > 20 * 15 and max(sizes[3:]) < 20


def test_the_oldest_clocks_make_room_for_new_ones() -> None:
    random = Random(0)
    vectors = [{"a": time, "c": time % 7} for time in range(3 * MAX_VECTORS)]
    sizes = said_and_heard(quiet(random.choice(vectors)) for _ in range(5_000))
    assert sum(sizes[-1000:]) > 1000 * min(sizes), "some were spelled out again"
    over_and_over = said_and_heard(quiet(vectors[n % MAX_VECTORS]) for n in range(3 * MAX_VECTORS))
    assert max(over_and_over[MAX_VECTORS:]) < min(over_and_over[:MAX_VECTORS])
