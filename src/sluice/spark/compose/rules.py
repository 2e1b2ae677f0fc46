"""Patterns as people write them down: a TOML file with one table for each, and the clock that they share.

The tables are called after the patterns and their keys after the fields, so that both are learnt once. What nothing is called
is an error that names the nearest: a misspelt bound must not be no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sluice.broker.settings import parse_duration, read_toml, unknown_key
from sluice.errors import ConfigurationError
from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence

T = TypeVar("T")

#: When the broker logged an event: the clock of those who do not name an attribute.
LOGGED = "_time"
DEFAULT_LATE_BY = "10s"

#: The tables of a file, and what each of them is.
TABLES: dict[str, type[Pattern]] = {"sequence": Sequence, "absence": Absence, "count": Count, "change": Change}


@dataclass(frozen=True, slots=True)
class Rules:
    """Patterns that are looked for together, by one clock.

    `time` is the attribute that says when an event happened, and `late_by` how long after a later event it may still come.
    """

    patterns: tuple[Pattern, ...]
    time: str = LOGGED
    late_by: str = DEFAULT_LATE_BY

    def __post_init__(self) -> None:
        if not self.patterns:
            raise ConfigurationError(f"there is no pattern: write one of {', '.join(f'[[{name}]]' for name in TABLES)}")
        names = [pattern.name for pattern in self.patterns]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two patterns are called {name!r}: their results could not be told apart")
        if not self.time:
            raise ConfigurationError("time is empty: name the attribute that says when an event happened")
        _ = self.late_by_milliseconds  # an error if it is none

    @property
    def late_by_milliseconds(self) -> int:
        """The bound on lateness, in the unit of Spark's watermarks; never shorter than what was said."""
        try:
            return math.ceil(parse_duration(self.late_by) * 1_000)
        except ConfigurationError as error:
            raise ConfigurationError(f"late_by: {error}") from None

    @property
    def where(self) -> str:
        """What all steps together look at: all else need not leave the brokers."""
        return " OR ".join(dict.fromkeys(f"({where})" for pattern in self.patterns for where in pattern.wheres))


def read_rules(file: Path) -> Rules:
    """The rules in a TOML file."""
    tables = read_toml(file)
    clock = tuple(field.name for field in fields(Rules) if field.name != "patterns")
    for key in tables:
        if key not in (*TABLES, *clock):
            raise unknown_key(key, str(file), (*TABLES, *clock))
    try:
        patterns = tuple(_patterns(tables))
        said = {key: _convert(tables[key], str, key) for key in clock if key in tables}
        return Rules(patterns, **said)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _patterns(tables: dict[str, Any]) -> Iterator[Pattern]:
    for name, kind in TABLES.items():
        given = tables.get(name, [])
        if isinstance(given, dict):
            raise ConfigurationError(f"there can be more than one {name}: write [[{name}]], with two brackets")
        for table in _convert(given, list[dict[str, Any]], f"[[{name}]]"):
            yield _pattern(name, kind, table)


def _pattern(name: str, kind: type[Pattern], table: dict[str, Any]) -> Pattern:
    known = {field.name: field for field in fields(kind)}
    called = f"[[{name}]] {table['name']!r}" if "name" in table else f"[[{name}]]"
    for key in table:
        if key not in known:
            raise unknown_key(key, called, known)
    for key, field in known.items():
        if key not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigurationError(f"{called} has no {key}, and cannot do without")
    if isinstance(table.get("key"), str):
        table = {**table, "key": [table["key"]]}
    return _convert(table, kind, called)


def _convert(value: Any, kind: type[T], called: str) -> T:
    """A value of a TOML file as what it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{called}: {str(error).replace('`', '').replace('$.', '')}") from None
