"""What the literals of the language stand for: strings, numbers, bytes, timestamps, dates, and casts of these.

Each function turns the text of one literal into its value, as Spark reads it, and raises ValueError with advice where
Spark would refuse it. The reader of the language and the shape cache both use them, so that they cannot disagree (the
model of section 4.3.1 leaves open how values are written).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from sluice.model import pattern

#: Turns the plain value of a literal into what it stands for; ValueError says what is wrong with it.
Decoder = Callable[[Any], Any]

STRING = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\""""
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYFD])?"
STRING_RE: Final = re.compile(STRING, re.DOTALL)
RAW_RE: Final = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""")
NUMBER_RE: Final = re.compile(NUMBER, re.IGNORECASE)
_NUMBER_PARTS: Final = re.compile(r"([0-9.]+)(e[+-]?[0-9]+)?(bd|[lsyfd])?", re.IGNORECASE)
QUOTED_RE: Final = re.compile(r"`(?:[^`]|``)*`")
#: Complete strings, quoted names and comments, or else a character that opens one and never closes it.
CLOSED_RE: Final = re.compile(rf"{STRING}|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|(?P<open>['\"`]|/\*)", re.DOTALL)

_ESCAPE_RE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|''|\"\"", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}

#: Digits of a number: Spark stops at 38; we let longer integers be, as long as they stay cheap.
_MAX_DIGITS: Final = 1000
_MAX_DECIMAL_DIGITS: Final = 38
_INTEGER_BITS: Final = {"l": 63, "s": 15, "y": 7}


def literal(raw: str, after_minus: bool = False) -> Any:
    r"""The value of a string or number as it is written; ValueError says what is wrong with it.

    >>> literal(r"'it\'s'"), literal(r"r'\n'"), literal("2.50"), literal("1e3"), literal("7L")
    ("it's", '\\n', Decimal('2.50'), 1000.0, 7)
    """
    first = raw[0]
    if first in "'\"":
        return unescape(raw)
    if first in "rR":
        return raw[2:-1]
    return _number(raw, not after_minus)


def unescape(raw: str) -> str:
    """The text of a quoted string, with Spark's escapes."""
    body = raw[1:-1]
    if "\\" not in body and raw[0] not in body:
        return body
    quotes = raw[0] * 2
    return _ESCAPE_RE.sub(lambda found: _unescaped(found, quotes), body)


def _unescaped(found: re.Match[str], quotes: str) -> str:
    four, eight, octal, char = found.groups()
    if char is not None:
        return _ESCAPED.get(char, char)
    if four or eight:
        code = int(four or eight, 16)
        if code > 0x10FFFF:
            raise ValueError(f"\\U{eight} is beyond the last character")
        return chr(code)
    if octal:
        return chr(int(octal, 8))
    return quotes[0] if found.group() == quotes else found.group()


def _bytes(digits: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]*", digits):
        raise ValueError("a binary literal has hexadecimal digits only, as in X'1F'")
    return bytes.fromhex("0" * (len(digits) % 2) + digits)


def _number(raw: str, room: int) -> int | float | Decimal:
    """A number; with a suffix it must be smaller than the bound by `room`, for there is one more negative integer."""
    parts = _NUMBER_PARTS.fullmatch(raw)
    if parts is None:
        raise ValueError(f"{raw[:40]} is not a number")
    digits, exponent, suffix = parts.group(1), parts.group(2) or "", (parts.group(3) or "").lower()
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of more than {_MAX_DIGITS} digits; round it")
    if suffix in _INTEGER_BITS:
        if not digits.isdigit() or exponent:
            raise ValueError(f"the suffix {raw[-1]} is for whole numbers")
        if int(digits) + room > 1 << _INTEGER_BITS[suffix]:
            raise ValueError(f"{raw} is out of the range of its suffix; leave the suffix out")
        return int(digits)
    if suffix == "bd" or (not suffix and not exponent and "." in digits):
        return _decimal(digits + exponent)
    if not suffix and not exponent:
        return int(digits)
    value = float(digits + exponent)
    if suffix == "f":
        value = struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3.4028235677973366e38 else float("inf")
    if value == float("inf"):
        raise ValueError(f"{raw} is too large; write CAST('Infinity' AS DOUBLE) for infinity")
    return value


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except ArithmeticError:  # an exponent beyond all bounds
        raise ValueError(f"{text[:40]} is not a decimal; round it") from None
    _, digits, exponent = value.as_tuple()
    places = len(digits) + max(cast(int, exponent), 0) if value else 1
    if max(places, -cast(int, exponent)) > _MAX_DECIMAL_DIGITS:
        raise ValueError(
            f"a decimal of more than {_MAX_DECIMAL_DIGITS} digits; round it, or write a double such as 1e50"
        )
    return value


_TIMESTAMP_RE: Final = re.compile(
    r"\+?([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?"
    r"(?: ?(Z|UTC|GMT|[+-][0-9]{1,2}(?::[0-9]{2})?))?)?)?)?)?)?"
)


def timestamp(text: str) -> datetime:
    """The moment that TIMESTAMP '...' names; without a zone it is UTC. Digits below a microsecond are cut off.

    >>> timestamp("2026-03-01 12:30:00.5").isoformat()
    '2026-03-01T12:30:00.500000+00:00'
    """
    found = _TIMESTAMP_RE.fullmatch(text.strip())
    advice = "write it like TIMESTAMP '2026-03-01 12:30:00' or '2026-03-01 12:30:00+01:00'"
    if found is None:
        raise ValueError(f"{text[:60]!r} is not a timestamp; {advice}")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int(f"{fraction or '':0<6.6}")
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micros, UTC
        )
        return moment - _offset(zone)
    except (ValueError, OverflowError):
        raise ValueError(f"there is no such moment as {text[:60]!r}; {advice}") from None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone[0] not in "+-":
        return timedelta(0)
    hours, _, minutes = zone[1:].partition(":")
    if int(hours) > 18 or int(minutes or 0) > 59:
        raise ValueError
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return -shift if zone[0] == "-" else shift


_DATE_RE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")


def date(text: str) -> datetime:
    """Midnight UTC of the day that DATE '...' names: so Spark compares a date with a timestamp."""
    found = _DATE_RE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:60]!r} is not a date; write it like DATE '2026-03-01'")
    year, month, day = found.groups()
    try:
        return datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    except ValueError:
        raise ValueError(f"there is no such day as {text[:60]!r}; write it like DATE '2026-03-01'") from None


TYPED: Final[Mapping[str, Decoder]] = {"timestamp": timestamp, "date": date, "x": _bytes}

_INTEGER_TYPES: Final = {
    "tinyint": 7, "byte": 7, "smallint": 15, "short": 15, "int": 31, "integer": 31, "bigint": 63, "long": 63,
}  # fmt: skip
_FLOAT_TEXT: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|([+-]?)inf(?:inity)?", re.IGNORECASE
)


def cast_literal(target: str, value: Any) -> Any:
    """CAST(literal AS target): what Spark gives; ValueError where Spark gives NULL or where we do not go along."""
    bad = ValueError(f"CAST of this literal AS {target.upper()} is not in the language; write the value itself")
    if value is None or isinstance(value, bool | bytes | datetime):
        raise bad
    if target == "string":
        if isinstance(value, str | int):
            return str(value)
        raise bad
    if target in ("double", "float", "real"):
        text = value.strip() if isinstance(value, str) else str(value)
        found = _FLOAT_TEXT.fullmatch(text)
        if found is None:
            raise bad
        number = float(text)
        if target != "double" and abs(number) < 3.4028235677973366e38:
            number = struct.unpack("f", struct.pack("f", number))[0]
        if number in (float("inf"), -float("inf")) and "inf" not in text.lower():
            raise bad
        return number
    if target in _INTEGER_TYPES:
        if isinstance(value, str):
            if not re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", value):
                raise bad
        elif abs(value) > 1 << 64:
            raise bad
        whole = int(value)
        bound = 1 << _INTEGER_TYPES[target]
        if not -bound <= whole < bound:
            raise bad
        return whole
    raise ValueError(f"CAST ... AS {target.upper()} is not in the language; there are {', '.join(CAST_TYPES)}")


CAST_TYPES: Final = ("DOUBLE", "FLOAT", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING")


def negative(value: Any) -> Any:
    """Minus a number, exactly."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def check_pattern(escape: str, text: str | None) -> None:
    """ValueError if the text is no LIKE pattern."""
    if text is not None and escape in text:
        pattern.parse(text, escape)
