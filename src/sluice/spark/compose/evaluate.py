"""Patterns evaluated event by event: pure steps over the small state of one key.

Events `arrive` in any order and wait in the state until the watermark has passed them: from then on none can come before them.
Then they are stepped through in the order of their times, and of their places in the log where times are equal. So the results
depend on which events there are and not on how they came; one that comes twice counts once, and one that comes behind the
watermark is *late*: it is told, and takes no part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace as _with

from sluice.limits import MAX_PARTIAL, MAX_WAITING
from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence

#: What became of events: found as a pattern; behind the watermark; without a time; given up because there were too many.
Kind = Literal["found", "late", "untimed", "forgotten"]


class Event(msgspec.Struct, frozen=True, array_like=True):
    """An event as one pattern sees it; it matches at least one of its steps."""

    #: Microseconds since 1970; None if the event does not say a time.
    time: int | None
    stream: str
    offset: int
    #: The steps whose filters it matches, from 0.
    steps: tuple[int, ...]
    #: Those attributes that results tell, as JSON text.
    values: dict[str, str]
    #: What the attribute is whose change is looked for.
    number: float = 0.0

    @property
    def place(self) -> tuple[int, str, int]:
        """Where the event stands among all others."""
        return (self.moment, self.stream, self.offset)

    @property
    def moment(self) -> int:
        """The time of an event that has one."""
        assert self.time is not None, "an event without a time takes no part"
        return self.time


#: Some events that may become a result, in their order.
Partial = tuple[Event, ...]


class State(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered for one key of one pattern."""

    #: Events that may still be overtaken, in order.
    waiting: tuple[Event, ...] = ()
    #: What may still become a result, the oldest first.
    open: tuple[Partial, ...] = ()
    #: Of a change: whether the last event was up, and down.
    was_up: bool = False
    was_down: bool = False
    #: When the keeper of the state wants to be woken, as it has asked for; in its own unit.
    alarm: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is lost if the state is."""
        return not self.waiting and not self.open


@dataclass(frozen=True, slots=True)
class Outcome:
    """Something to tell about a pattern."""

    kind: Kind
    events: Partial
    started: int | None
    ended: int | None
    #: By how much the attribute has changed, with a sign; 0 for other patterns.
    percent: float = 0.0


Outcomes = list[Outcome]


# --- from arrival to order --------------------------------------------------------------------------------------------


def arrive(state: State, events: Iterable[Event], watermark: int) -> tuple[State, Outcomes]:
    """Events came while the watermark stood here."""
    told: Outcomes = []
    waiting = {event.place: event for event in state.waiting}
    for event in sorted(
        events, key=lambda event: (event.time is not None, event.time or 0, event.stream, event.offset)
    ):
        if event.time is None:
            told.append(_about("untimed", event))
        elif event.time < watermark:
            told.append(_about("late", event))
        else:
            waiting[event.place] = event
    ordered = [waiting[place] for place in sorted(waiting)]
    too_many = len(ordered) - MAX_WAITING
    if too_many > 0:
        told += (_about("forgotten", event) for event in ordered[:too_many])
        del ordered[:too_many]
    return _with(state, waiting=tuple(ordered)), told


def advance(pattern: Pattern, state: State, watermark: int) -> tuple[State, Outcomes]:
    """No event before the watermark can come any more: all that is certain now is found."""
    told: Outcomes = []
    count = 0
    for event in state.waiting:
        if event.moment >= watermark:
            break
        state, found = step(pattern, state, event)
        told += found
        count += 1
    state, found = expire(pattern, state, watermark)
    return _with(state, waiting=state.waiting[count:]), told + found


def wake(pattern: Pattern, state: State) -> int | None:
    """Until the watermark is later than this, `advance` would change nothing; None if it never would."""
    moments = [state.waiting[0].moment] if state.waiting else []
    if state.open:
        # What only needs to be thrown away is thrown away all at once.
        last = state.open[0] if isinstance(pattern, Absence) else state.open[-1]
        moments.append(last[0].moment + pattern.within_microseconds)
    return min(moments, default=None)


# --- one event --------------------------------------------------------------------------------------------------------


def step(pattern: Pattern, state: State, event: Event) -> tuple[State, Outcomes]:
    """The next event, in order."""
    state, told = expire(pattern, state, event.moment)
    match pattern:
        case Sequence():
            state, found = _step_sequence(pattern, state, event)
        case Absence():
            state, found = _step_absence(state, event)
        case Count():
            state, found = _step_count(pattern, state, event)
        case Change():
            state, found = _step_change(pattern, state, event)
        case _:
            assert_never(pattern)
    told += found
    too_many = len(state.open) - MAX_PARTIAL
    if too_many > 0:
        told += (_outcome("forgotten", partial) for partial in state.open[:too_many])
        state = _with(state, open=state.open[too_many:])
    return state, told


def expire(pattern: Pattern, state: State, now: int) -> tuple[State, Outcomes]:
    """Time has come to `now`: what is further back than the pattern looks is over, and an absence certain."""
    within = pattern.within_microseconds
    count = 0
    while count < len(state.open) and state.open[count][0].moment + within < now:
        count += 1
    if not count:
        return state, []
    over, state = state.open[:count], _with(state, open=state.open[count:])
    if not isinstance(pattern, Absence):
        return state, []
    return state, [Outcome("found", partial, partial[0].time, partial[0].moment + within) for partial in over]


def _step_sequence(pattern: Sequence, state: State, event: Event) -> tuple[State, Outcomes]:
    told: Outcomes = []
    still: list[Partial] = []
    for partial in state.open:
        if len(partial) in event.steps:
            partial = (*partial, event)
        if len(partial) == len(pattern.steps):
            told.append(_outcome("found", partial))
        else:
            still.append(partial)
    if 0 in event.steps:
        still.append((event,))
    return _with(state, open=tuple(still)), told


def _step_absence(state: State, event: Event) -> tuple[State, Outcomes]:
    still = () if 1 in event.steps else state.open
    return _with(state, open=(*still, (event,)) if 0 in event.steps else still), []


def _step_count(pattern: Count, state: State, event: Event) -> tuple[State, Outcomes]:
    # One more than needed is never kept: with as many as that before it, an event is no crossing, however many there are.
    is_crossing = len(state.open) == pattern.at_least - 1
    counted = (*state.open, (event,))[-pattern.at_least :]
    told = [_outcome("found", tuple(each for (each,) in counted))] if is_crossing else []
    return _with(state, open=counted), told


def _step_change(pattern: Change, state: State, event: Event) -> tuple[State, Outcomes]:
    told: Outcomes = []
    before = [each for (each,) in state.open]
    lowest = min(before, key=lambda each: each.number, default=event)
    highest = max(before, key=lambda each: each.number, default=event)
    is_up = pattern.direction != "down" and (event.number - lowest.number) * 100 >= pattern.percent * lowest.number
    is_down = pattern.direction != "up" and (highest.number - event.number) * 100 >= pattern.percent * highest.number
    if is_up and not state.was_up:
        told.append(_changed(lowest, event))
    if is_down and not state.was_down:
        told.append(_changed(highest, event))
    kept = _extremes([*before, event], pattern)
    return _with(state, open=tuple((each,) for each in kept), was_up=is_up, was_down=is_down), told


def _extremes(events: list[Event], pattern: Change) -> list[Event]:
    """Those events that are, or may become, the lowest or the highest: all others have a later one that is no less so."""
    kept: list[Event] = []
    low, high = float("inf"), 0.0
    for event in reversed(events):
        if (event.number < low and pattern.direction != "down") or (event.number > high and pattern.direction != "up"):
            kept.append(event)
        low, high = min(low, event.number), max(high, event.number)
    return kept[::-1]


def _changed(base: Event, event: Event) -> Outcome:
    percent = (event.number - base.number) / base.number * 100
    return Outcome("found", (base, event), base.time, event.time, percent)


def _outcome(kind: Kind, events: Partial) -> Outcome:
    return Outcome(kind, events, events[0].time, events[-1].time)


def _about(kind: Kind, event: Event) -> Outcome:
    return _outcome(kind, (event,))
