"""The machine finds what brute force finds, however the events come, as long as they come within the bound."""

from __future__ import annotations

from collections.abc import Sequence as Items

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.limits import MAX_PARTIAL
from sluice.spark.compose import evaluate
from sluice.spark.compose.evaluate import Event, Outcome, State, advance, arrive, wake
from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence
from tests.spark.compose.brute import Result, search

SECOND = 1_000_000
PATTERNS: tuple[Pattern, ...] = (
    Sequence(name="pair", steps=("a = 0", "a = 1"), within="5s"),
    Sequence(name="triple", steps=("a = 0", "a = 1", "a = 2"), within="8s"),
    Absence(name="absence", first="a = 0", missing="a = 1", within="4s"),
    Count(name="two", where="a = 0", at_least=2, within="2s"),
    Count(name="four", where="a = 0", at_least=4, within="6s"),
    Change(name="up", attribute="n", percent=50, direction="up", within="5s"),
    Change(name="down", attribute="n", percent=30, direction="down", within="5s"),
    Change(name="either", attribute="n", percent=20, within="3s"),
)
#: Each pattern has its own examples, so that fewer do.
EXAMPLES = settings().max_examples // 3
#: Later than anything that happens here.
END = 1_000 * SECOND


@st.composite
def histories(draw: st.DrawFn, pattern: Pattern) -> list[Event]:
    """Events of one key that each match a step; times are often equal or exactly a pattern's time apart."""
    times = draw(st.lists(st.integers(0, 30), min_size=1, max_size=25))
    return [
        Event(
            time=SECOND * time + draw(st.sampled_from((0, 0, 0, 1, 999))),
            stream=(stream := draw(st.sampled_from(("b1", "b2")))),
            offset=100 - offset if stream == "b1" else offset,  # the order of offsets alone means nothing
            steps=tuple(sorted(draw(st.sets(st.integers(0, len(pattern.wheres) - 1), min_size=1)))),
            values={},
            number=float(draw(st.integers(1, 12))),
        )
        for offset, time in enumerate(times, 1)
    ]


def results(outcomes: Items[Outcome]) -> list[Result]:
    assert {outcome.kind for outcome in outcomes} <= {"found"}
    return sorted(
        (tuple((event.stream, event.offset) for event in one.events), one.ended or 0, one.percent) for one in outcomes
    )


def stored(state: State) -> State:
    """The state as it comes back from where it is kept."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)


def run(pattern: Pattern, batches: Items[Items[Event]], late_by: int) -> tuple[list[Outcome], State]:
    """Batches come as to a stream: the watermark trails the latest time of the batches before."""
    state, told, watermark = State(), [], 0
    for batch in batches:
        state, outcomes = arrive(state, batch, watermark)
        told += outcomes
        state, outcomes = advance(pattern, state, watermark)
        told += outcomes
        state = stored(state)
        watermark = max(watermark, max((event.moment for event in batch), default=0) - late_by)
    state, outcomes = advance(pattern, state, END)
    return told + outcomes, state


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_in_order(pattern: Pattern, data: st.DataObject) -> None:
    history = data.draw(histories(pattern))
    ordered = sorted(history, key=lambda event: event.place)
    told, state = run(pattern, [[event] for event in ordered], late_by=0)
    assert results(told) == search(pattern, history, END)
    assert state.is_empty, "a key that is quiet costs nothing"


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_out_of_order_within_the_bound(pattern: Pattern, data: st.DataObject) -> None:
    """Each event is held up by less than the bound, and some come again: the results are the same."""
    history = data.draw(histories(pattern))
    late_by = data.draw(st.integers(0, 10)) * SECOND
    held_up = {event.place: event.moment + data.draw(st.integers(0, late_by)) for event in history}
    arrivals = sorted(history, key=lambda event: (held_up[event.place], event.place))
    batches: list[list[Event]] = []
    while arrivals:
        size = data.draw(st.integers(1, 6))
        batch, arrivals = arrivals[:size], arrivals[size:]
        again = [event for event in batch if data.draw(st.booleans())]
        batches.append(data.draw(st.permutations(batch + again)))
    told, state = run(pattern, batches, late_by)
    assert results(told) == search(pattern, history, END)
    assert state.is_empty


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_what_is_late_is_told_and_takes_no_part(pattern: Pattern, data: st.DataObject) -> None:
    history = data.draw(histories(pattern))
    batches = [[event] for event in data.draw(st.permutations(history))]
    told, _ = run(pattern, batches, late_by=2 * SECOND)
    late = {one.events[0].place for one in told if one.kind == "late"}
    in_time = [event for event in history if event.place not in late]
    assert results([one for one in told if one.kind != "late"]) == search(pattern, in_time, END)
    latest = 0
    for (event,) in batches:
        assert (event.place in late) == (event.moment < latest - 2 * SECOND)
        latest = max(latest, event.moment)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_found_as_soon_as_certain_and_woken_in_time(pattern: Pattern, data: st.DataObject) -> None:
    """At every watermark all that is certain has been told, though nobody looks before the alarm."""
    history = data.draw(histories(pattern))
    state, _ = arrive(State(), history, 0)
    told: list[Outcome] = []
    alarm = wake(pattern, state)
    for watermark in range(0, 45 * SECOND, 3 * SECOND // 2):
        if alarm is not None and alarm < watermark:
            state, outcomes = advance(pattern, state, watermark)
            told += outcomes
            alarm = wake(pattern, state)
            assert alarm is None or alarm >= watermark, "woken for nothing"
        assert results(told) == search(pattern, history, watermark)
    assert alarm is None and state.is_empty


def event(time: int, offset: int, *steps: int, number: float = 1.0) -> Event:
    return Event(time=time * SECOND, stream="b1", offset=offset, steps=steps, values={}, number=number)


def test_a_count_is_told_once_for_each_crossing() -> None:
    pattern = Count(name="c", where="a = 1", at_least=3, within="10s")
    told, _ = run(pattern, [[event(time, time + 1, 0)] for time in (0, 1, 2, 3, 4, 11, 30, 31, 32)], late_by=0)
    assert [(one.started, one.ended) for one in told] == [(0, 2 * SECOND), (30 * SECOND, 32 * SECOND)]


def test_a_change_is_told_once_for_each_crossing() -> None:
    pattern = Change(name="c", attribute="n", percent=10, direction="up", within="10s")
    numbers = (100.0, 109.0, 110.0, 115.0, 105.0, 112.0)
    told, _ = run(pattern, [[event(time, time + 1, 0, number=n)] for time, n in enumerate(numbers)], late_by=0)
    assert [(one.events[0].number, one.events[1].number) for one in told] == [(100.0, 110.0), (100.0, 112.0)]


def test_each_absence_is_told_at_its_own_time() -> None:
    pattern = Absence(name="a", first="a = 0", missing="a = 1", within="10s")
    state, _ = arrive(State(), [event(time, time, 0) for time in (1, 5)], 0)
    state, told = advance(pattern, state, 6 * SECOND)
    assert not told and wake(pattern, state) == 11 * SECOND
    state, told = advance(pattern, state, 12 * SECOND)
    assert [one.ended for one in told] == [11 * SECOND] and wake(pattern, state) == 15 * SECOND


def test_an_event_without_a_time_is_told() -> None:
    state, told = arrive(State(), [Event(time=None, stream="b1", offset=1, steps=(0,), values={})], 0)
    assert [one.kind for one in told] == ["untimed"] and state.is_empty


def test_too_many_beginnings_are_given_up_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PARTIAL > 3
    monkeypatch.setattr(evaluate, "MAX_PARTIAL", 3)
    pattern = Absence(name="a", first="a = 0", missing="a = 1", within="100s")
    told, _ = run(pattern, [[event(time, time + 1, 0)] for time in range(5)], late_by=0)
    assert [(one.kind, one.events[0].offset) for one in told] == [
        *(("forgotten", 1), ("forgotten", 2)),
        *(("found", 3), ("found", 4), ("found", 5)),
    ]


def test_too_many_that_wait_are_given_up_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MAX_WAITING", 2)
    state, told = arrive(State(), [event(time, time + 1, 0) for time in range(4)], 0)
    assert [one.kind for one in told] == ["forgotten"] * 2
    assert [each.offset for each in state.waiting] == [3, 4]
