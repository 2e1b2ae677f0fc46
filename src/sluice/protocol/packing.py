"""Batches of notifications as bytes, the same on links and in logs: a header, and the records as their publisher made them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from sluice.errors import ProtocolError
from sluice.limits import MAX_BATCH, MAX_NAME
from sluice.protocol.batch import Batch, Logged, Records, Rows

Piece = bytes | memoryview

_pack = msgspec.msgpack.Encoder().encode

# form (0 records, 1 rows), publisher, count, numbers, lengths, place in a log
_Header = tuple[int, str, int, int | bytes, bytes, tuple[str, int | bytes, int, int] | None]
_header = msgspec.msgpack.Decoder(_Header)


def encode_batch(batch: Batch) -> list[Piece]:
    """A batch as bytes: the length of its header, the header, the records as they are."""
    body = batch.body
    logged = batch.logged
    place = None
    if logged is not None:
        place = logged.stream, _encode_numbers(logged.offsets), logged.time_micros, logged.moment
    is_rows = isinstance(batch, Rows)
    lengths = encode_array("I", batch.lengths) if isinstance(batch, Records) else b""
    header = _pack((int(is_rows), batch.publisher, len(batch), _encode_numbers(batch.numbers), lengths, place))
    return [len(header).to_bytes(4, "big"), header, body]


def decode_batch(payload: bytes) -> Batch:
    """The batch in these bytes, each of its records readable."""
    batch = open_batch(payload)
    _ = batch.notifications
    return batch


def open_batch(payload: bytes) -> Batch:
    """The batch in these bytes, which were read before: nobody looks at its records now, only at its header."""
    end = 4 + int.from_bytes(payload[:4], "big")
    if end > len(payload):
        raise ProtocolError("a batch ends within its header")
    form, publisher, count, numbers, lengths, place = _header.decode(payload[4:end])
    if not 1 <= count <= MAX_BATCH:
        raise ProtocolError(f"a batch of {count:,} notifications came, and batches have 1 to {MAX_BATCH:,}")
    check_name(publisher)
    logged = None
    if place is not None:
        stream, offsets, time_micros, moment = place
        if not 0 <= moment < 1 << 63:
            raise ProtocolError(f"{moment} is no moment in the order of all")
        logged = Logged(check_name(stream), _decode_numbers(offsets, count), time_micros, moment)
    rising = _decode_numbers(numbers, count)
    body = payload[end:]
    if form == 1:
        return Rows(publisher, rising, body=body, logged=logged)
    if form != 0:
        raise ProtocolError(f"a batch has the unknown form {form}")
    sizes = decode_array("I", lengths, count)
    if sum(sizes) != len(body):
        raise ProtocolError(f"a batch has {len(body):,} bytes of records where {sum(sizes):,} were announced")
    return Records(publisher, rising, body=body, lengths=sizes, logged=logged)


def _encode_numbers(numbers: Sequence[int]) -> int | bytes:
    """Rising numbers: the first if they have no gaps."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return numbers[0]
    return encode_array("q", numbers)


def _decode_numbers(said: int | bytes, count: int) -> Sequence[int]:
    if isinstance(said, int):
        if not 0 <= said < 1 << 62:
            raise ProtocolError(f"{said} is no number of a notification")
        return range(said, said + count)
    numbers = decode_array("q", said, count)
    if numbers[0] < 0 or any(b <= a for a, b in pairwise(numbers)):
        raise ProtocolError("the numbers of a batch do not rise")
    return numbers


def encode_array(code: str, numbers: Sequence[int]) -> bytes:
    """Numbers of one size, packed."""
    return _little(
        numbers if isinstance(numbers, array) and numbers.typecode == code else array(code, numbers)
    ).tobytes()


def decode_array(code: str, data: bytes, count: int) -> array[int]:
    """The numbers in packed bytes, if they are so many."""
    numbers: array[int] = array(code)
    if len(data) != count * numbers.itemsize:
        raise ProtocolError(f"{len(data):,} bytes came where {count:,} numbers were announced")
    numbers.frombytes(data)
    return _little(numbers)


def _little(numbers: array[int]) -> array[int]:
    """Numbers with the bytes of each in the order in which they travel, the lowest first, or back again."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def check_name(name: str) -> str:
    """The name, if it can be one."""
    if not name or len(name) > MAX_NAME:
        raise ProtocolError(f"a name has 1 to {MAX_NAME} characters, not {len(name):,}")
    return name
