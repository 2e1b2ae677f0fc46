"""Frames come out as they went in, however the stream is cut, and what cannot be a frame is refused at once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ProtocolError
from sluice.limits import MAX_FRAME_BYTES
from sluice.protocol.wire import frames
from sluice.protocol.wire.frames import MORE, FrameReader, frame

MESSAGES = st.lists(st.tuples(st.integers(0, MORE - 1), st.lists(st.binary(max_size=20), max_size=3)), max_size=5)


def read(data: bytes, *cuts: int, max_message_bytes: int = 1 << 30) -> list[tuple[int, bytes]]:
    reader = FrameReader(max_message_bytes)
    ends = [0, *sorted(cuts), len(data)]
    return [one for start, end in pairwise(ends) for one in reader.feed(data[start:end])]


@given(MESSAGES, st.lists(st.integers(0, 200), max_size=6), st.integers(2, 12))
def test_messages_come_out_as_they_went_in(
    messages: list[tuple[int, list[bytes]]], cuts: list[int], frame_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "MAX_FRAME_BYTES", frame_bytes)
        data = b"".join(piece for type, pieces in messages for piece in frame(type, pieces))
        found = read(data, *(min(cut, len(data)) for cut in cuts))
    assert found == [(type, b"".join(pieces)) for type, pieces in messages]


def test_a_stream_may_drip() -> None:
    data = b"".join((*frame(7, [b"abc"]), *frame(9, []), *frame(8, [b"x" * 300])))
    reader = FrameReader(1 << 20)
    found = [one for place in range(len(data)) for one in reader.feed(data[place : place + 1])]
    assert found == [(7, b"abc"), (9, b""), (8, b"x" * 300)] and reader.held == 0


def test_what_waits_for_the_rest_is_counted() -> None:
    reader = FrameReader(1 << 20)
    data = b"".join(frame(7, [b"abcdef"]))
    held = []
    for start in range(0, len(data), 4):
        list(reader.feed(data[start : start + 4]))
        held.append(reader.held)
    assert held == [4, 8, 0]


def test_a_long_message_is_several_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 4)
    data = b"".join(frame(3, [b"abcd", b"efgh"]))
    assert data == b"\0\0\0\x04\x83abc\0\0\0\x04\x83def\0\0\0\x03\x03gh"
    assert read(data) == [(3, b"abcdefgh")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0\0\0\x07", "a frame of 0 bytes"),
        ((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"\x07", "a frame of 4,194,305 bytes"),
        (b"\xff\xff\xff\xff\x07", "a frame of 4,294,967,295 bytes"),
        (b"GET / HTTP/1.1\r\n", "a frame of 1,195,725,856 bytes"),
        (b"\0\0\0\x01\x87", "fill the frames before the last"),
        (b"\0\0\0\x03\x87ab", "fill the frames before the last"),
    ],
)
def test_what_is_no_frame_is_refused_before_it_has_come(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read(data)


def test_a_message_may_not_be_longer_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 4)
    data = b"".join(frame(3, [b"x" * 30]))
    assert read(data, max_message_bytes=30) == [(3, b"x" * 30)]
    with pytest.raises(ProtocolError, match="more than 29 bytes"):
        read(data, max_message_bytes=29)
    reader = FrameReader(29)
    with pytest.raises(ProtocolError):
        for place in range(len(data)):
            list(reader.feed(data[place : place + 1]))
            assert reader.held <= 29 + 5


def test_nothing_comes_between_the_frames_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 4)
    part = b"\0\0\0\x04\x83abc"
    with pytest.raises(ProtocolError, match="a frame of type 4 came within a message of type 3"):
        read(part + b"\0\0\0\x02\x04x")
    assert read(part + b"\0\0\0\x01\x03") == [(3, b"abc")]
