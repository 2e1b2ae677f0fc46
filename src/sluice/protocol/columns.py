"""Record batches as Arrow bytes and back, without trusting the bytes: what is read takes no more memory than was sent.

A stream is its schema and exactly one record batch. Whatever would make much out of little is refused before it is read:
compressed buffers, dictionaries, runs, views and columns of nothing that go on for ever.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
from pyarrow import types as arrow

from sluice.errors import NotificationError
from sluice.limits import MAX_VALUES

_PLAIN = (
    *(arrow.is_null, arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_decimal),
    *(arrow.is_string, arrow.is_large_string, arrow.is_binary, arrow.is_large_binary, arrow.is_fixed_size_binary),
    *(arrow.is_timestamp, arrow.is_date),
)
_UNCOMPRESSED = pa.ipc.IpcWriteOptions(compression=None)
_NESTED = (arrow.is_list, arrow.is_large_list, arrow.is_fixed_size_list, arrow.is_struct, arrow.is_map)


def read_columns(body: bytes | memoryview) -> pa.RecordBatch:
    """The one record batch in the bytes of an Arrow stream, every value of it valid."""
    try:
        source = pa.BufferReader(body)
        reader = pa.ipc.MessageReader.open_stream(source)
        schema = pa.ipc.read_schema(reader.read_next_message())
        _check_types(schema)
        message = reader.read_next_message()
        if message.type != "record batch" or _is_compressed(message.metadata):
            raise NotificationError("an Arrow batch came compressed or with dictionaries: send plain columns")
        table = pa.ipc.read_record_batch(message, schema)
        if any(True for _ in reader) or source.tell() < len(body):
            raise NotificationError("something follows an Arrow record batch: send one at a time, and nothing else")
        table.validate(full=True)
        _ = schema.names  # a name that is not UTF-8 shows only when it is read
    except (pa.ArrowException, OSError, StopIteration, ValueError, struct.error, RecursionError) as error:
        raise NotificationError(f"these bytes are not one Arrow record batch: {error}") from None
    # A value takes a bit at least, unless it is a value of nothing.
    if sum(_lengths(table)) > 8 * len(body) + MAX_VALUES:
        raise NotificationError(f"an Arrow batch of {len(body):,} bytes has too many empty values: leave them out")
    return table


def write_columns(table: pa.RecordBatch) -> memoryview:
    """A record batch as the bytes of an Arrow stream, its columns made plain."""
    sink = pa.BufferOutputStream()
    try:
        if not all(map(_is_plain, table.schema.types)):
            table = table.cast(pa.schema([field.with_type(_plain_type(field.type)) for field in table.schema]))
            _check_types(table.schema)
        with pa.ipc.new_stream(sink, table.schema, options=_UNCOMPRESSED) as writer:
            writer.write_batch(table)
    except (pa.ArrowException, ValueError) as error:
        raise NotificationError(f"a column has no plain form in which it can travel: {error}") from None
    return memoryview(sink.getvalue())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if arrow.is_dictionary(kind) or arrow.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if arrow.is_string_view(kind):
        return pa.string()
    return pa.binary() if arrow.is_binary_view(kind) else kind


def _check_types(schema: pa.Schema) -> None:
    for kind in schema.types:
        if not _is_plain(kind):
            raise NotificationError(f"a column of type {kind} cannot travel: cast it to a plain type")


@lru_cache(maxsize=1_024)
def _is_plain(kind: pa.DataType) -> bool:
    """Whether the values of a column are no larger than their bytes."""
    if any(test(kind) for test in _NESTED):
        return all(_is_plain(kind.field(part).type) for part in range(kind.num_fields))
    return any(test(kind) for test in _PLAIN)


def _lengths(table: pa.RecordBatch) -> Iterator[int]:
    """How many values every array has, those within others included."""
    waiting = [*table.columns]
    while waiting:
        array = waiting.pop()
        yield len(array)
        kind = array.type
        if arrow.is_struct(kind):
            waiting.extend(array.field(part) for part in range(kind.num_fields))
        elif arrow.is_map(kind):
            waiting += [array.keys, array.items]
        elif any(test(kind) for test in _NESTED):
            waiting.append(array.values)


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the header of a record batch says so. Arrow has checked that this is a sound flatbuffer."""
    data = metadata.to_pybytes()
    (message,) = struct.unpack_from("<I", data)
    header = _field(data, message, 2)
    (offset,) = struct.unpack_from("<I", data, header)
    return _field(data, header + offset, 3) != 0


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return table + int(offset) if offset else 0
