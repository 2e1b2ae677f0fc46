"""Values and ends of intervals as 64-bit keys that compare like the values do.

Numbers become the bits of a double in integer order, strings and bytes their first seven bytes and their length, timestamps
microseconds. A number that no double equals (an integer beyond 2**53) has two keys, of the doubles around it; a string of
more than seven bytes shares its key with others, so an interval that ends in one is *inexact* and a match must be confirmed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.model.values import Kind

#: Integers up to here are doubles; beyond it only some are.
EXACT = 2**53

_INFINITY = float("inf")
_LARGEST_DOUBLE = 1.7976931348623157e308
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_pack, _unpack = struct.Struct("<d").pack, struct.Struct("<q").unpack
_MASK = 0x7FFFFFFFFFFFFFFF


def double_key(value: float) -> int:
    """The key of a double.

    >>> double_key(-1.5) < double_key(-0.0) == double_key(0.0) < double_key(1e-300) < double_key(float("inf"))
    True
    """
    bits: int = _unpack(_pack(value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _MASK


def around(number: float) -> tuple[float, float]:
    """The largest double not above a number and the smallest not below it.

    >>> around(5), around(2**53 + 1)
    ((5.0, 5.0), (9007199254740992.0, 9007199254740994.0))
    """
    try:
        near = float(number)
    except OverflowError:
        return (_LARGEST_DOUBLE, _INFINITY) if number > 0 else (-_INFINITY, -_LARGEST_DOUBLE)
    if near == number:
        return near, near
    if near < number:
        return near, math.nextafter(near, _INFINITY)
    return math.nextafter(near, -_INFINITY), near


def text_key(text: bytes) -> int:
    """The key of a string (as UTF-8) or of bytes: exact up to seven bytes.

    >>> text_key(b"") < text_key(b"\\0") < text_key(b"ab") < text_key(b"abc") < text_key(b"abcdefgh") == text_key(b"abcdefgi")
    True
    """
    return int.from_bytes(text[:7].ljust(7, b"\0") + bytes([min(len(text), 8) + 1]), "big") - 2**63


def time_key(moment: datetime) -> int:
    """The key of a timestamp: microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def utf8(text: str) -> bytes:
    """UTF-8 in the order of the characters, also for lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


SMALLEST, LARGEST = -(2**63) + 1, 2**63 - 1


def ends(kind: int, low: Sequence[Any], high: Sequence[Any]) -> tuple[int, int, bool]:
    """The keys of an interval between two cuts of one kind, and whether they say it exactly."""
    if kind == Kind.NUMBER:
        return _low_number(low), _high_number(high), True
    if kind == Kind.TIMESTAMP:
        first = time_key(low[1]) + low[2] if len(low) == 3 else SMALLEST
        return first, time_key(high[1]) + high[2] - 1 if len(high) == 3 else LARGEST, True
    return _text_ends(kind, low, high)


def _low_number(cut: Sequence[Any]) -> int:
    if len(cut) == 1:
        return double_key(-_INFINITY)
    if type(cut[1]) is float:
        return double_key(cut[1]) + cut[2]  # type: ignore[no-any-return]
    ceiling = around(cut[1])[1]
    return double_key(ceiling) + (1 if cut[2] and ceiling == cut[1] else 0)


def _high_number(cut: Sequence[Any]) -> int:
    if len(cut) == 1:
        return double_key(_INFINITY)
    if type(cut[1]) is float:
        return double_key(cut[1]) - 1 + cut[2]  # type: ignore[no-any-return]
    floor = around(cut[1])[0]
    return double_key(floor) - (1 if not cut[2] and floor == cut[1] else 0)


def _text_ends(kind: int, low: Sequence[Any], high: Sequence[Any]) -> tuple[int, int, bool]:
    first, last, exact = SMALLEST, LARGEST, True
    if len(low) == 3:
        text = utf8(low[1]) if kind == Kind.STRING else low[1]
        first = text_key(text)
        if len(text) > 7:
            exact = False
        elif low[2]:
            first += 1
    if len(high) == 3:
        text = utf8(high[1]) if kind == Kind.STRING else high[1]
        last = text_key(text)
        if len(text) > 7:
            exact = False
        elif not high[2]:
            last -= 1
    return first, last, exact
