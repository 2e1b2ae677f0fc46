"""Notifications that travel together: publications of one publisher, in the order it made them.

A batch is either `Records` (msgpack, one body per record) or `Rows` (one Arrow record batch). Both are made from Python values
or from bytes and turn into the other form only when somebody asks: a broker decodes a record once, to match it, and sends on
the bytes that it got, whole or in part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import types as arrow

from sluice.errors import NotificationError
from sluice.limits import MAX_DIGITS, MAX_RECORD_BYTES
from sluice.model.notification import Notifications, attributes, decoded, from_arrow
from sluice.protocol.columns import read_columns, write_columns

#: The name of a broker or a client, unique in the network.
Peer = str


class NotificationId(NamedTuple):
    """A notification is published once: its publisher and the publisher's own count."""

    publisher: Peer
    number: int


class Stamp(NamedTuple):
    """Where publications stand in the one order of all: at a moment of the clock of the broker that took them in.

    A batch has one moment to itself, and its publications follow each other by their numbers.
    """

    time: int
    broker: Peer
    #: Whether their publisher has asked for order: then everybody gets them in it, and not only those who ask.
    is_marked: bool = False


#: What a publisher says that asks for order; its broker puts the moment in.
MARKED = Stamp(0, "", is_marked=True)


@dataclass(frozen=True, slots=True)
class Notification:
    """One published record with its identity."""

    id: NotificationId
    record: Mapping[str, Any]
    #: Its place in the order of all, if somebody asks for that.
    stamp: Stamp | None = None


class Place(NamedTuple):
    """Where a notification stands in the past of the whole network: in this order it is replayed."""

    time_micros: int
    stream: Peer
    offset: int


@dataclass(frozen=True, slots=True)
class Logged:
    """Where publications stand in the log of the broker that took them in."""

    stream: Peer
    offsets: Sequence[int]
    #: When that broker took them in, in microseconds since 1970.
    time_micros: int
    #: Their moment in the order of all, as in a `Stamp`: it rises with the offsets of a stream. 0: they have none.
    moment: int = 0

    def take(self, rows: Sequence[int]) -> Logged:
        """The places of some of them."""
        return Logged(self.stream, [self.offsets[row] for row in rows], self.time_micros, self.moment)

    def place(self, row: int) -> Place:
        """The place of one of them among those of all streams."""
        return Place(self.time_micros, self.stream, self.offsets[row])


class Batch(ABC):
    """What `Records` and `Rows` have in common."""

    __slots__ = ("logged", "numbers", "publisher", "stamp")

    def __init__(
        self, publisher: Peer, numbers: Sequence[int], logged: Logged | None, stamp: Stamp | None = None
    ) -> None:
        self.publisher = publisher
        #: The publisher's own count, rising.
        self.numbers = numbers
        self.logged = logged
        #: None where nobody has asked for order.
        self.stamp = stamp

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Notification]:
        for number, record in zip(self.numbers, self.records, strict=True):
            yield Notification(NotificationId(self.publisher, number), record, self.stamp)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return (self.publisher, [*self.numbers], self.logged_at(), self.stamp, [*self.records]) == (
            other.publisher,
            [*other.numbers],
            other.logged_at(),
            other.stamp,
            [*other.records],
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.publisher!r}, {[*self.numbers]}, {[*self.records]})"

    def id(self, row: int) -> NotificationId:
        """The identity of one of them."""
        return NotificationId(self.publisher, self.numbers[row])

    def logged_at(self) -> tuple[Peer, list[int], int, int] | None:
        """Where it is logged, as something that can be compared."""
        if self.logged is None:
            return None
        return self.logged.stream, [*self.logged.offsets], self.logged.time_micros, self.logged.moment

    @property
    @abstractmethod
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The records, as they were published."""

    @property
    @abstractmethod
    def notifications(self) -> Notifications | pa.RecordBatch:
        """The same as a matcher reads them."""

    @property
    @abstractmethod
    def body(self) -> bytes | memoryview:
        """The records as bytes."""

    @property
    def size(self) -> int:
        """How many bytes the records take."""
        return len(self.body)

    @abstractmethod
    def take(self, rows: Sequence[int]) -> Batch:
        """Some of the records, in rising order of their rows."""

    def whole_or(self, rows: Sequence[int]) -> Batch:
        """Some of the records; itself if that is all of them."""
        return self if len(rows) == len(self) else self.take(rows)

    @abstractmethod
    def placed(self, logged: Logged | None) -> Batch:
        """The same batch at its place in a log."""

    def stamped(self, stamp: Stamp | None) -> Batch:
        """The same batch at its place in the order of all."""
        if stamp == self.stamp:
            return self
        batch = self.placed(self.logged)
        batch.stamp = stamp
        return batch


class Records(Batch):
    """Records in msgpack.

    >>> batch = Records.of("alice", 1, [{"price": 5}, {"price": 7}])
    >>> [notification.record for notification in batch.take([1])], batch.take([1]).numbers
    ([{'price': 7}], [2])
    """

    __slots__ = ("_body", "_is_aligned", "_lengths", "_notifications", "_records")

    def __init__(
        self,
        publisher: Peer,
        numbers: Sequence[int],
        *,
        records: Sequence[Mapping[str, Any]] | None = None,
        body: bytes | memoryview | None = None,
        lengths: Sequence[int] = (),
        logged: Logged | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        super().__init__(publisher, numbers, logged, stamp)
        self._records: Sequence[Mapping[str, Any]] | None = records
        self._notifications: Notifications | None = None
        self._body = body
        self._lengths = lengths
        #: Whether every record is as long as is said; None: nobody has looked.
        self._is_aligned: bool | None = None if body is not None and len(numbers) > 1 else True

    @classmethod
    def of(cls, publisher: Peer, first: int, records: Sequence[Mapping[str, Any]]) -> Records:
        """Records that are published under numbers from `first` on."""
        return cls(publisher, range(first, first + len(records)), records=records)

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        if self._records is None:
            self._records = decode_records(self._body or b"", len(self.numbers))
        return self._records

    @property
    def notifications(self) -> Notifications:
        if self._notifications is None:
            if self._records is None:
                self._notifications = decoded(self.records)  # type: ignore[arg-type]
            else:
                self._notifications = Notifications(map(attributes, self._records))
        return self._notifications

    @property
    def body(self) -> bytes | memoryview:
        if self._body is None:
            parts = [_encode(record) for record in self.records]
            self._body, self._lengths = b"".join(parts), array("I", map(len, parts))
        return self._body

    @property
    def lengths(self) -> Sequence[int]:
        """How many bytes of the body each record takes."""
        if self._body is None:
            assert self.body is not None
        return self._lengths

    def take(self, rows: Sequence[int]) -> Records:
        numbers = [self.numbers[row] for row in rows]
        logged = None if self.logged is None else self.logged.take(rows)
        records: Sequence[Mapping[str, Any]] | None = None
        if self._records is not None or not self._check_lengths():
            records = [self.records[row] for row in rows]
        if self._body is None or not self._check_lengths():
            return Records(self.publisher, numbers, records=records, logged=logged, stamp=self.stamp)
        body, lengths = self._body, self._lengths
        ends = list(accumulate(lengths))
        parts = [body[ends[row] - lengths[row] : ends[row]] for row in rows]
        part = Records(
            self.publisher,
            numbers,
            records=records,
            body=b"".join(parts),
            lengths=array("I", map(len, parts)),
            logged=logged,
            stamp=self.stamp,
        )
        part._is_aligned = True
        return part

    def _check_lengths(self) -> bool:
        """Whether the body can be cut into its records.

        Whoever sent it may have said lengths that are not those of the records, and what is cut wrongly is unreadable to those
        who get it. Nobody needs to look before something is cut.
        """
        if self._is_aligned is None:
            raw = _raw_decoder.decode(_array_of(len(self.numbers), self._body or b""))
            self._is_aligned = [*map(len, map(memoryview, raw))] == [*self._lengths]  # type: ignore[arg-type]
        return self._is_aligned

    def placed(self, logged: Logged | None) -> Records:
        placed = Records(
            self.publisher,
            self.numbers,
            records=self._records,
            body=self._body,
            lengths=self._lengths,
            logged=logged,
            stamp=self.stamp,
        )
        placed._notifications = self._notifications
        placed._is_aligned = self._is_aligned
        return placed


class Rows(Batch):
    """Records in the columns of an Arrow record batch."""

    __slots__ = ("_body", "_records", "_table")

    def __init__(
        self,
        publisher: Peer,
        numbers: Sequence[int],
        *,
        table: pa.RecordBatch | None = None,
        body: bytes | memoryview | None = None,
        logged: Logged | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        super().__init__(publisher, numbers, logged, stamp)
        self._table = table
        self._body = body
        self._records: Sequence[Mapping[str, Any]] | None = None

    @property
    def table(self) -> pa.RecordBatch:
        """The columns."""
        if self._table is None:
            self._table = decode_table(self._body or b"", len(self.numbers))
        return self._table

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        if self._records is None:
            self._records = [nested(flat) for flat in from_arrow(self.table)]
        return self._records

    @property
    def notifications(self) -> pa.RecordBatch:
        return self.table

    @property
    def body(self) -> bytes | memoryview:
        if self._body is None:
            self._body = write_columns(self.table)
        return self._body

    def take(self, rows: Sequence[int]) -> Rows:
        numbers = [self.numbers[row] for row in rows]
        logged = None if self.logged is None else self.logged.take(rows)
        table = self.table.take(pa.array(rows, pa.int64()))
        return Rows(self.publisher, numbers, table=table, logged=logged, stamp=self.stamp)

    def placed(self, logged: Logged | None) -> Rows:
        return Rows(self.publisher, self.numbers, table=self._table, body=self._body, logged=logged, stamp=self.stamp)


def batches_of(notifications: Iterable[Notification]) -> Iterator[Records]:
    """Notifications of several publishers as batches, without changing their order."""
    for (publisher, stamp), group in groupby(notifications, lambda each: (each.id.publisher, each.stamp)):
        run: list[Notification] = []
        for notification in group:
            if run and notification.id.number <= run[-1].id.number:
                yield _records_of(publisher, stamp, run)
                run = []
            run.append(notification)
        yield _records_of(publisher, stamp, run)


def _records_of(publisher: Peer, stamp: Stamp | None, run: list[Notification]) -> Records:
    return Records(publisher, [each.id.number for each in run], records=[each.record for each in run], stamp=stamp)


# --- records as bytes -------------------------------------------------------------------------------------------------

#: Whole numbers that msgpack has no form for travel as an extension of this type: two's complement, big-endian.
_LARGE_INTEGER = 1


def _read_extension(code: int, data: memoryview) -> object:
    if code != _LARGE_INTEGER:
        raise NotificationError(
            f"a record has a value of the unknown extension type {code}: speak this protocol's version"
        )
    return _checked_integer(int.from_bytes(data, "big", signed=True))


_LARGEST_INTEGER = 10**MAX_DIGITS


def _checked_integer(value: int) -> int:
    if abs(value) >= _LARGEST_INTEGER:
        raise NotificationError(f"a whole number has more than {MAX_DIGITS:,} digits: publish a float or a string")
    return value


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[dict[str, Any]], ext_hook=_read_extension)
_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


def portable(record: object) -> dict[str, Any]:
    """A record as it travels: plain values, nested as it was published, without NULLs.

    >>> portable({"order": {"total": 12, "note": None}, "tags": {"new"}})
    {'order': {'total': 12}, 'tags': ['new']}
    """
    return nested(attributes(record))


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """A notification without the dotted names that its nested records have given it."""
    inner = tuple(f"{name}." for name, value in flat.items() if type(value) is dict)
    lists = any(type(value) is tuple for value in flat.values())
    if not inner and not lists:
        return flat
    return {name: _nested(value) for name, value in flat.items() if not name.startswith(inner)}


def _nested(value: Any) -> Any:
    if type(value) is dict:
        return nested(value)
    if type(value) is tuple:
        return [_nested(item) for item in value]
    return value


def encode_record(record: Mapping[str, Any]) -> bytes:
    """A portable record as msgpack, as it is published."""
    body = _encode(record)
    if len(body) > MAX_RECORD_BYTES:
        raise NotificationError(
            f"the record takes {len(body):,} bytes and the limit is {MAX_RECORD_BYTES:,}: publish a reference to the data"
        )
    return body


def _encode(record: Mapping[str, Any]) -> bytes:
    """The same for a record that was published before: it may have been written shorter then, and is let through."""
    try:
        return _encoder.encode(record)
    except OverflowError:
        return _encoder.encode(_with_large_integers(record))
    except UnicodeEncodeError as error:
        raise NotificationError(
            f"a string holds half of a surrogate pair, which has no UTF-8: {error.reason}"
        ) from None


def _with_large_integers(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**64:
        length = _checked_integer(value).bit_length() // 8 + 1
        return msgspec.msgpack.Ext(_LARGE_INTEGER, value.to_bytes(length, "big", signed=True))
    if isinstance(value, Mapping):
        return {name: _with_large_integers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_large_integers(item) for item in value]
    return value


def decode_records(body: bytes | memoryview, count: int) -> list[dict[str, Any]]:
    """The records in a body."""
    try:
        return _decoder.decode(_array_of(count, body))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NotificationError(f"these bytes are not {count:,} records in msgpack: {error}") from None


def _array_of(count: int, body: bytes | memoryview) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + body


def decode_table(body: bytes | memoryview, count: int) -> pa.RecordBatch:
    """The record batch in the bytes of an Arrow stream, every value of it checked."""
    table = read_columns(body)
    if table.num_rows != count:
        raise NotificationError(f"the Arrow batch has {table.num_rows:,} rows where {count:,} were announced")
    return checked(table)


def checked(table: pa.RecordBatch) -> pa.RecordBatch:
    """A record batch whose rows are all notifications; raises if some are not."""
    names = table.schema.names
    if len(names) > len(set(names)) or not all(map(_is_simple, table.schema.types)):
        for _ in from_arrow(table):
            pass
    return table


def _is_simple(kind: pa.DataType) -> bool:
    """Whether every value of a column can be read, so that nobody needs to look."""
    simple = (arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_string, arrow.is_large_string)
    return any(test(kind) for test in (*simple, arrow.is_binary, arrow.is_large_binary))
