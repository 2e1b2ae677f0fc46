"""What is published: records of 128 bytes in msgpack, the same for every system.

Ids and prices differ from record to record; every value has a fixed width, so that all records have the same size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

Record = dict[str, Any]

RECORD_BYTES = 128
#: Above 65,535: all ids take as many bytes.
FIRST_ID = 1_000_000
ARROW_ROWS = 1_024
#: Steps from one key to the next; prime, so that all keys come before one comes again.
KEY_STEP = 7_919

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder().decode


def _filled(record: Record) -> Record:
    """The record with a note that fills it up to its size."""
    rest = RECORD_BYTES - len(pack(record | {"note": ""}))
    # From 32 characters on, the length of a text takes a byte more.
    return record | {"note": "n" * (rest - 1 if rest > 32 else rest)}


_PLAIN = _filled({"symbol": "IBM", "exchange": "NYSE", "price": 100.0, "volume": 1_000, "id": FIRST_ID})
_KEYED = _filled({"key": "k000000", "price": 100.0, "volume": 1_000, "id": FIRST_ID})
_TIMED = _filled({"symbol": "IBM", "price": 100.0, "id": FIRST_ID, "sent_ns": 2**40})


def plain(count: int) -> list[Record]:
    """Quotes, for who takes everything."""
    return [_PLAIN | {"id": FIRST_ID + number, "price": 100.0 + number % 64} for number in range(count)]


def batches(count: int) -> list[pa.RecordBatch]:
    """The same quotes as Arrow batches."""
    table = pa.Table.from_pylist(plain(count)).combine_chunks()
    return list(table.to_batches(max_chunksize=ARROW_ROWS))


def timed(number: int, sent_ns: int) -> Record:
    """A quote that says when it was sent."""
    return _TIMED | {"id": FIRST_ID + number, "sent_ns": sent_ns}


def key(number: int) -> str:
    """The key of a subscription."""
    return f"k{number:06d}"


def key_numbers(count: int, keys: int) -> Iterator[int]:
    """The key that each of so many records has: all keys in turn, neighbours far apart."""
    return (number * KEY_STEP % keys for number in range(count))


def keyed(count: int, keys: int) -> list[Record]:
    """Records for one of so many keys each."""
    return [
        _KEYED | {"key": key(which), "id": FIRST_ID + number} for number, which in enumerate(key_numbers(count, keys))
    ]


def keys_of(connection: int, connections: int, keys: int) -> list[str]:
    """The keys that one of the connections subscribes to."""
    return [key(which) for which in range(connection, keys, connections)]


def expected(connection: int, connections: int, count: int, keys: int) -> int:
    """How many of the keyed records one of the connections must receive."""
    return sum(which % connections == connection for which in key_numbers(count, keys))
