"""Patterns straight from their definitions: whole histories searched by brute force, with nothing kept and nothing clever."""

from __future__ import annotations

from collections.abc import Sequence as Events
from typing import assert_never

from sluice.spark.compose.evaluate import Event
from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence

#: The events of a result, when it ended, and by how much something has changed.
Result = tuple[tuple[tuple[str, int], ...], int, float]


def search(pattern: Pattern, history: Events[Event], watermark: int) -> list[Result]:
    """All results in the events of one key that are certain when nothing before the watermark can come any more."""
    once = {(event.moment, event.stream, event.offset): event for event in history if event.moment < watermark}
    events = [once[place] for place in sorted(once)]
    within = pattern.within_microseconds
    match pattern:
        case Sequence():
            found = _sequences(len(pattern.steps), within, events)
        case Absence():
            found = [one for one in _absences(within, events) if one[1] < watermark]
        case Count():
            found = _counts(pattern.at_least, within, events)
        case Change():
            found = _changes(pattern, within, events)
        case _:
            assert_never(pattern)
    return sorted(found)


def _result(events: Events[Event], ended: int, percent: float = 0.0) -> Result:
    return tuple((event.stream, event.offset) for event in events), ended, percent


def _sequences(steps: int, within: int, events: Events[Event]) -> list[Result]:
    found = []
    for start, first in enumerate(events):
        if 0 not in first.steps:
            continue
        chain, at = [first], start
        for number in range(1, steps):
            following = [i for i in range(at + 1, len(events)) if number in events[i].steps]
            if not following:
                break
            at = following[0]
            chain.append(events[at])
        if len(chain) == steps and chain[-1].moment - first.moment <= within:
            found.append(_result(chain, chain[-1].moment))
    return found


def _absences(within: int, events: Events[Event]) -> list[Result]:
    return [
        _result([first], first.moment + within)
        for at, first in enumerate(events)
        if 0 in first.steps
        and not any(1 in later.steps and later.moment - first.moment <= within for later in events[at + 1 :])
    ]


def _counts(at_least: int, within: int, events: Events[Event]) -> list[Result]:
    """Walks through all moments at which the count may change, and sees it rise and fall."""
    matching = [event for event in events if 0 in event.steps]
    found = []
    is_reached = False
    for at, event in enumerate(matching):
        # The count has its lowest value since the event before when this one comes, and old ones have gone.
        before = [each for each in matching[:at] if event.moment - each.moment <= within]
        if len(before) < at_least:
            is_reached = False
        if len(before) + 1 >= at_least and not is_reached:
            found.append(_result([*before, event][-at_least:], event.moment))
            is_reached = True
    return found


def _changes(pattern: Change, within: int, events: Events[Event]) -> list[Result]:
    matching = [event for event in events if 0 in event.steps]
    found = []
    for sign, direction in ((1, "up"), (-1, "down")):
        if pattern.direction not in (direction, "either"):
            continue
        was = False
        for at, event in enumerate(matching):
            before = [each for each in matching[:at] if event.moment - each.moment <= within]
            changed = [
                each for each in before if sign * (event.number - each.number) * 100 >= pattern.percent * each.number
            ]
            if changed and not was:
                extreme = min(each.number * sign for each in before)
                base = [each for each in before if each.number * sign == extreme][-1]
                found.append(_result([base, event], event.moment, (event.number - base.number) / base.number * 100))
            was = bool(changed)
    return found
