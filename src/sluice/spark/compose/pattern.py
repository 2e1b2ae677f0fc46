"""What can be looked for over time: a sequence, an absence, a count and a change, each among events with the same key.

A pattern is a frozen dataclass that is checked when it is made: what cannot work is an error that says which pattern and why.
What each of them finds, to the letter, is in its docstring; `sluice.spark.compose.evaluate` does it, event by event.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sluice.broker.settings import parse_duration
from sluice.errors import ConfigurationError, SluiceError
from sluice.limits import MAX_PARTIAL
from sluice.model import parse
from sluice.model.values import name_sql

Direction = Literal["up", "down", "either"]

#: What every result says by itself, so that nothing else can be called so.
RESULT_NAMES = ("pattern", "outcome", "started", "ended", "events", "percent")


@dataclass(frozen=True, slots=True)
class Emitted:
    """An attribute of a result that is taken from one of the events it was found in; the first event is number 0."""

    name: str
    event: int
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern(ABC):
    """What all patterns have.

    `key` names the attributes in which all events of a result agree; an event that lacks one takes no part. Without a key all
    events belong together. Two events are `within` a time if theirs differ by that much or less. `emit` puts attributes of
    the events into the result: `{"low": "2.price"}` calls the price of the second event `low`.
    """

    name: str
    key: tuple[str, ...] = ()
    within: str
    emit: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("a pattern has no name: give it one, which its results will carry")
        if "" in self.key:
            raise self._error(f"key is {self.key!r}: give the names of attributes, as in ('symbol',)")
        if self.within_microseconds <= 0:
            raise self._error(f"within is {self.within}, and nothing happens in no time: say for example 5m")
        for number, where in enumerate(self.wheres, 1):
            self._check_where(number, where)
        for emitted in self.emitted:
            if emitted.name in RESULT_NAMES or emitted.name in self.key:
                raise self._error(
                    f"emit gives the name {emitted.name!r}, which every result has already: choose another"
                )

    @property
    def within_microseconds(self) -> int:
        """The time between the first and the last event of a result, at most."""
        try:
            return round(parse_duration(self.within) * 1_000_000)
        except ConfigurationError as error:
            raise self._error(f"within: {error}") from None

    @property
    @abstractmethod
    def wheres(self) -> tuple[str, ...]:
        """The filters of the steps, in their order."""

    @property
    @abstractmethod
    def events_of_a_result(self) -> int:
        """How many events a result is found in."""

    @property
    def emitted(self) -> tuple[Emitted, ...]:
        """What a result takes from its events beside the key."""
        return tuple(self._emitted(name, source) for name, source in self.emit.items())

    @property
    def attributes(self) -> tuple[str, ...]:
        """What must be kept of an event, because results tell it."""
        return tuple(dict.fromkeys((*self.key, *(each.attribute for each in self.emitted))))

    def _emitted(self, name: str, source: str) -> Emitted:
        found = re.fullmatch(r"([0-9]+)\.(.+)", source)
        if found is None:
            raise self._error(
                f"emit: {name} is {source!r}: write the number of an event and an attribute, as in 1.price"
            )
        if not 1 <= int(found[1]) <= self.events_of_a_result:
            raise self._error(f"emit: {name} is {source!r}, but a result has the events 1 to {self.events_of_a_result}")
        return Emitted(name, int(found[1]) - 1, found[2])

    def _check_where(self, number: int, where: str) -> None:
        try:
            meaning = parse(where)
        except SluiceError as error:
            raise self._error(f"the filter of step {number}: {error}") from error
        if meaning.is_empty:
            raise self._error(f"the filter of step {number} is {where!r}, which nothing can match")

    def _error(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"pattern {self.name!r}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence(_Pattern):
    """One event for each step, each after the one before it, all within a time.

    For each event that matches the first step: take the next event after it that matches the second step, the next after that
    one which matches the third, and so on. If the last is found within the time after the first, they are a result. So a first
    event is in one result at most, while later ones may be in many.

    >>> pattern = Sequence(name="refund", key=("customer",), steps=("kind = 'bought'", "kind = 'returned'"), within="14d")
    >>> pattern.within_microseconds
    1209600000000
    """

    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.steps) < 2:
            raise self._error("a sequence has at least two steps: add one, or use a count for a single filter")
        _Pattern.__post_init__(self)

    @property
    def wheres(self) -> tuple[str, ...]:
        return self.steps

    @property
    def events_of_a_result(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence(_Pattern):
    """An event that is not followed by another within a time.

    Each event that matches `first` is a result, unless an event after it matches `missing` within the time. It is known once
    the time is over for certain: when the watermark has passed it.

    >>> Absence(name="unpaid", key=("order",), first="kind = 'ordered'", missing="kind = 'paid'", within="10m").wheres
    ("kind = 'ordered'", "kind = 'paid'")
    """

    first: str
    missing: str

    @property
    def wheres(self) -> tuple[str, ...]:
        return (self.first, self.missing)

    @property
    def events_of_a_result(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(_Pattern):
    """At least so many events within a time, told once for each time that the number is reached.

    At each moment, count the matching events that are not older than the time. A result is found whenever the count rises from
    below `at_least` to it; the next one only after it has fallen below again. Its events are those that were counted then.

    >>> Count(name="errors", key=("host",), where="level = 'error'", at_least=5, within="1m").at_least
    5
    """

    where: str
    at_least: int

    def __post_init__(self) -> None:
        if not 2 <= self.at_least <= MAX_PARTIAL:
            raise self._error(f"at_least is {self.at_least!r}: give a whole number from 2 to {MAX_PARTIAL:,}")
        _Pattern.__post_init__(self)

    @property
    def wheres(self) -> tuple[str, ...]:
        return (self.where,)

    @property
    def events_of_a_result(self) -> int:
        return self.at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(_Pattern):
    """An attribute that changes by a percentage or more within a time, told once for each time that it does.

    Only matching events whose attribute is a number above zero take part. One is *up* if its number is at least `percent` above
    the lowest of those before it within the time, and *down* likewise below the highest. A result is found at an event that is
    up while the one before was not; its events are the lowest (the latest such) and this one. Likewise for down.

    >>> Change(name="jump", key=("symbol",), attribute="price", percent=5, direction="up", within="1m").wheres
    ('price > 0',)
    """

    attribute: str
    percent: float
    direction: Direction = "either"
    where: str | None = None

    def __post_init__(self) -> None:
        if not self.attribute:
            raise self._error("attribute is empty: name the attribute that changes")
        if not 0 < self.percent < float("inf"):
            raise self._error(f"percent is {self.percent!r}: give a number above 0")
        if self.direction not in get_args(Direction):
            raise self._error(f"direction is {self.direction!r}: take up, down or either")
        if self.direction == "down" and self.percent > 100:
            raise self._error(f"percent is {self.percent}, but nothing falls by more than 100")
        _Pattern.__post_init__(self)

    @property
    def wheres(self) -> tuple[str, ...]:
        positive = f"{name_sql(self.attribute)} > 0"
        return (positive if self.where is None else f"({self.where}) AND {positive}",)

    @property
    def events_of_a_result(self) -> int:
        return 2


Pattern = Sequence | Absence | Count | Change
