"""Bytes into frames and back, without input or output.

A frame is its length (4 bytes, big-endian, of what follows), a type (1 byte) and a payload. A message that is longer than a
frame may be goes out in several, all but the last with the highest bit of the type set, and all but the last as long as frames
may be. What cannot be a frame raises `ProtocolError`: the connection is to be closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.errors import ProtocolError
from sluice.limits import MAX_FRAME_BYTES

#: Set in the type of a frame whose message goes on in the next frame.
MORE = 0x80
_HEAD = 5


def frame(type: int, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """A message as the pieces of one frame, or of several if it is long.

    >>> b"".join(frame(7, [b"ab", b"c"]))
    b'\\x00\\x00\\x00\\x04\\x07abc'
    """
    pieces = list(pieces)
    size = sum(map(len, pieces)) + 1
    if size <= MAX_FRAME_BYTES:
        yield size.to_bytes(4, "big") + type.to_bytes(1, "big")
        yield from pieces
        return
    body, most = b"".join(pieces), MAX_FRAME_BYTES - 1
    for start in range(0, len(body), most):
        part = body[start : start + most]
        more = MORE if start + most < len(body) else 0
        yield (len(part) + 1).to_bytes(4, "big") + (type | more).to_bytes(1, "big")
        yield part


class FrameReader:
    """Puts frames together from whatever pieces of the stream come in.

    >>> reader = FrameReader(max_message_bytes=100)
    >>> list(reader.feed(b"\\x00\\x00\\x00\\x04\\x07ab")), list(reader.feed(b"c"))
    ([], [(7, b'abc')])
    """

    __slots__ = ("_chunks", "_message", "_missing", "_type", "held", "max_message_bytes")

    def __init__(self, max_message_bytes: int) -> None:
        self.max_message_bytes = max_message_bytes
        self._chunks: list[bytes] = []
        #: How many bytes are missing before it is worth looking again.
        self._missing = _HEAD
        #: The parts of a message whose frames are not all here.
        self._message: list[bytes] = []
        self._type = -1
        #: Bytes that wait for the rest of their message.
        self.held = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The messages that are complete with this piece: type and payload."""
        self._chunks.append(data)
        self._missing -= len(data)
        self.held += len(data)
        if self._missing > 0:
            return
        data = b"".join(self._chunks) if len(self._chunks) > 1 else data
        start, end = 0, len(data)
        while end - start >= _HEAD:
            size = int.from_bytes(data[start : start + 4], "big")
            if not 1 <= size <= MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {size:,} bytes came, and frames have 1 to {MAX_FRAME_BYTES:,}")
            if end - start < 4 + size:
                break
            yield from self._whole(data[start + 4], data[start + _HEAD : start + 4 + size])
            start += 4 + size
        rest = data[start:]
        self._chunks = [rest] if rest else []
        needed = 4 + int.from_bytes(rest[:4], "big") if len(rest) >= _HEAD else _HEAD
        self._missing = needed - len(rest)
        self.held = len(rest) + sum(map(len, self._message))

    def _whole(self, type: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
        """A whole frame: a message, or a part of one."""
        if self._message and type & ~MORE != self._type:
            raise ProtocolError(f"a frame of type {type & ~MORE} came within a message of type {self._type}")
        if not self._message and not type & MORE:
            yield type, payload
            return
        # Small parts would cost more than they weigh, and empty ones would never end.
        if type & MORE and len(payload) + 1 < MAX_FRAME_BYTES:
            raise ProtocolError(
                f"a message goes on after a frame of {len(payload) + 1:,} bytes: fill the frames before the last"
            )
        self._type = type & ~MORE
        self._message.append(payload)
        size = sum(map(len, self._message))
        if size > self.max_message_bytes:
            raise ProtocolError(f"a message of more than {self.max_message_bytes:,} bytes came: say less at a time")
        if not type & MORE:
            message, self._message = b"".join(self._message), []
            yield self._type, message
