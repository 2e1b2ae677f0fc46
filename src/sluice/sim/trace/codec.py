"""Any value of a notification as JSON, exactly: what JSON cannot say is an object with one key that begins with a dollar sign.

Equal values of one type give equal texts whatever the hash seed is, because the members of a set are put in the order of
their texts; reading a text back gives the value that was written, down to the type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sluice.errors import SluiceError


class TraceError(SluiceError):
    """A trace that cannot be written or read."""


#: Longer integers have no decimal text in Python; they are written in hexadecimal.
_MAX_BITS = 12_000

_SAME = frozenset({bool, str, type(None)})


def to_json(value: Any) -> Any:
    """A value as what `json` can write.

    >>> to_json({"price": 5, "raw": b"ab", "tags": {"new"}})
    {'price': 5, 'raw': {'$bytes': '6162'}, 'tags': {'$set': ['new']}}
    """
    kind = type(value)
    if kind in _SAME:
        return value
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is dict:
        return _record_to_json(value)
    if kind is tuple:
        return {"$tuple": [to_json(item) for item in value]}
    if kind is list:
        return [to_json(item) for item in value]
    if kind is bytes:
        return {"$bytes": value.hex()}
    if kind is datetime:
        return {"$time": value.isoformat()}
    if kind is set or kind is frozenset:
        return {f"${kind.__name__}": sorted((to_json(item) for item in value), key=to_text)}
    if isinstance(value, Mapping):
        return _record_to_json(dict(value))
    raise TraceError(
        f"a value of type {kind.__name__} has no place in a trace: record what sluice.model.notification.attributes makes of it"
    )


def _record_to_json(record: dict[Any, Any]) -> Any:
    if not all(type(name) is str for name in record):
        raise TraceError("the names in a record of a trace are strings")
    if any(name.startswith("$") for name in record):
        return {"$record": [[name, to_json(item)] for name, item in record.items()]}
    return {name: to_json(item) for name, item in record.items()}


def from_json(found: Any) -> Any:
    """The value that `to_json` was given.

    >>> from_json({"$tuple": [1, {"$float": "nan"}]})
    (1, nan)
    """
    if isinstance(found, list):
        return [from_json(item) for item in found]
    if not isinstance(found, dict):
        return found
    if len(found) == 1:
        [(name, inside)] = found.items()
        if name.startswith("$"):
            return _tagged(name, inside)
    return {name: from_json(item) for name, item in found.items()}


_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda inside: int(inside, 16),
    "$float": float,
    "$bytes": bytes.fromhex,
    "$time": datetime.fromisoformat,
    "$tuple": lambda inside: tuple(map(from_json, inside)),
    "$set": lambda inside: set(map(from_json, inside)),
    "$frozenset": lambda inside: frozenset(map(from_json, inside)),
    "$record": lambda inside: {name: from_json(item) for name, item in inside},
}


def _tagged(name: str, inside: Any) -> Any:
    reader = _READERS.get(name)
    if reader is None:
        raise TraceError(f"{name} is no type of value that a trace can hold; known are {', '.join(_READERS)}")
    try:
        return reader(inside)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{name} does not hold what it should: {error}") from None


def to_text(found: Any) -> str:
    """What `to_json` made, as one line of text."""
    return json.dumps(found, ensure_ascii=False, separators=(", ", ": "))
