"""The specification of streams: it is silent about what is right, and each of its checks notices what it is for."""

from __future__ import annotations

import pytest

from sluice.sim.spec import ACCEPTED, CAUGHT_UP, LOGGED, READ, ROOM, SETTLED, STORED_FIRST, STREAMS, Check, check
from sluice.sim.trace.streamed import Accepted, DiskFree, DiskFull, Held, Logged, Missed, Noted, Opened, Read, Trimmed
from sluice.sim.trace.trace import Attached, ClientDown, ClientUp, Notified, Published, Refused, Trace, TraceEvent

START: list[TraceEvent] = [
    Attached(0.0, "bob", "b"),
    Attached(0.0, "alice", "b"),
    Opened(0.5, "alice", "x > 1", {}),
    Published(1.0, "bob", 1, {"x": 1}),
    Published(1.0, "bob", 2, {"x": 2}),
    Logged(2.0, "b", 1, "bob", 1),
    Logged(2.0, "b", 2, "bob", 2),
]
ACCEPTS = Accepted(3.0, "bob", 2)
READS = Read(4.0, "alice", "b", 2, "bob", 2)
GOOD: list[TraceEvent] = [*START, ACCEPTS, READS, Noted(5.0, "alice", "b", 2)]
LATER: list[TraceEvent] = [Published(6.0, "bob", 3, {"x": 3}), Logged(7.0, "b", 3, "bob", 3)]


def says(which: Check, *events: TraceEvent) -> list[str]:
    return [violation.says for violation in check(Trace(events), [which])]


def test_what_is_right_is_right() -> None:
    assert check(Trace(GOOD), STREAMS) == []
    again: list[TraceEvent] = [
        ClientDown(8.0, "alice"),
        ClientUp(9.0, "alice"),
        Opened(10.0, "alice", "x > 1", {"b": 2}),
    ]
    later = [*GOOD, *LATER, Accepted(7.5, "bob", 3), *again, Read(11.0, "alice", "b", 3, "bob", 3)]
    assert check(Trace(later), STREAMS) == []


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Logged(8.0, "b", 3, "bob", 3), "the next offset of b is 4"),
        (Logged(8.0, "b", 5, "bob", 4), "the next offset of b is 4"),
        (Logged(8.0, "c", 1, "bob", 3), "it is logged already"),
        (Logged(8.0, "b", 4, "eve", 1), "nobody has published it"),
        (Logged(8.0, "b", 4, "bob", 4), "nobody has published it"),
    ],
)
def test_a_log_has_no_holes_and_holds_everything_once(event: Logged, problem: str) -> None:
    (told,) = says(LOGGED, *GOOD, *LATER, event)
    assert told.endswith(problem)


def test_a_log_is_in_the_order_of_its_publishers() -> None:
    published: list[TraceEvent] = [Published(6.0, "bob", number, {}) for number in (3, 4)]
    found = says(LOGGED, *GOOD, *published, Logged(7.0, "b", 3, "bob", 4), Logged(7.0, "b", 4, "bob", 3))
    assert found == ["bob#3: bob has published it before"]


@pytest.mark.parametrize("at", [6.5, 9.0])
def test_what_is_refused_is_not_logged(at: float) -> None:
    events = sorted([*GOOD, *LATER, Refused(at, "bob", 3)], key=lambda event: event.at)
    assert says(LOGGED, *events) == ["bob#3 was refused, and is logged"]


def test_what_is_accepted_is_logged_unless_it_was_refused() -> None:
    published = Published(6.0, "bob", 3, {"x": 3})
    assert says(ACCEPTED, *GOOD, published, Accepted(7.0, "bob", 3)) == ["bob#3 is not in any log"]
    assert says(ACCEPTED, *GOOD, published, Refused(6.5, "bob", 3), Accepted(7.0, "bob", 4)) == []
    gone: list[TraceEvent] = [ClientDown(6.5, "bob"), ClientUp(6.6, "bob")]
    assert says(ACCEPTED, *GOOD, published, *gone, Accepted(7.0, "bob", 9)) == [], "it never heard of it"


def test_publishers_that_are_there_hear_what_became_of_everything() -> None:
    assert says(SETTLED, *GOOD, *LATER) == ["bob never hears what became of bob#3"]
    assert (
        says(SETTLED, *GOOD, *LATER, Accepted(8.0, "bob", 3))
        == []
        == says(SETTLED, *GOOD, *LATER, Refused(8.0, "bob", 3))
    )
    assert says(SETTLED, *GOOD, *LATER, ClientDown(8.0, "bob")) == []


def test_nobody_is_notified_of_what_is_not_stored() -> None:
    notified = Notified(6.5, "alice", "bob", 3, ("alice/1",))
    assert says(STORED_FIRST, *GOOD, LATER[0], notified, LATER[1]) == ["bob#3 is not on disk"]
    assert says(STORED_FIRST, *GOOD, *LATER, Notified(8.0, "alice", "bob", 3, ("alice/1",))) == []


def test_nothing_is_refused_while_there_is_room() -> None:
    published, refused = Published(6.0, "bob", 3, {}), Refused(7.0, "bob", 3)
    assert says(ROOM, *GOOD, published, refused) == ["bob#3 was refused, and there was room"]
    full, free = DiskFull(5.5, "b"), DiskFree(6.5, "b")
    assert says(ROOM, *GOOD, full, published, free, refused) == [] == says(ROOM, *GOOD, full, published, refused)
    behind: list[TraceEvent] = [Published(6.8, "bob", 4, {}), refused, Refused(7.0, "bob", 4)]
    assert says(ROOM, *GOOD, full, published, free, *behind) == [], "it was on its way behind the other"
    assert says(ROOM, *GOOD, DiskFull(5.5, "c"), published, refused) == ["bob#3 was refused, and there was room"]
    assert says(ROOM, *GOOD, full, DiskFree(5.6, "b"), published, refused) == ["bob#3 was refused, and there was room"]


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Read(8.0, "alice", "b", 3, "bob", 2), "b:3 is something else"),
        (Read(8.0, "alice", "b", 9, "bob", 3), "b:9 is something else"),
        (Read(8.0, "alice", "b", 2, "bob", 2), "alice is at b:2 already"),
        (Missed(8.0, "alice", "b", 3, 3), "not all of b:3 to 3 is gone"),
        (Noted(8.0, "alice", "b", 3), "alice has not read b:3"),
        (Noted(8.0, "alice", "b", 1), "alice goes back"),
        (Opened(8.0, "alice", "x > 1", {"b": 3}), "alice has not read b:3"),
        (Opened(8.0, "alice", "x > 1", {"b": 1}), "alice has b:1 for the 2 that was noted"),
        (Opened(8.0, "alice", "x > 1", {}), "alice has b:0 for the 2 that was noted"),
    ],
)
def test_a_reader_leaves_nothing_out_and_goes_back_to_nothing(event: TraceEvent, problem: str) -> None:
    assert says(READ, *GOOD, *LATER, event) == [problem]


def test_a_reader_gets_what_it_asked_for_in_order() -> None:
    assert says(READ, *START, Read(4.0, "alice", "b", 1, "bob", 1)) == ["it does not match x > 1"]
    assert says(READ, *START, *LATER, Read(8.0, "alice", "b", 3, "bob", 3)) == ["alice has not read b:2"]


def test_what_is_gone_need_not_be_read() -> None:
    gone: list[TraceEvent] = [Trimmed(7.5, "b", 3), Missed(8.0, "alice", "b", 1, 2)]
    events = [*START, *LATER, *gone, Read(8.0, "alice", "b", 3, "bob", 3), Noted(9.0, "alice", "b", 3)]
    assert says(READ, *events) == [] == says(CAUGHT_UP, *events)
    assert says(READ, *START, *LATER, gone[0], Missed(8.0, "alice", "b", 1, 3)) == ["not all of b:1 to 3 is gone"]


def test_what_is_held_is_not_trimmed() -> None:
    held = Held(0.6, "alice", "b")
    opened, later = START[:3], START[3:]
    unread = "alice holds b and has not read b:2"
    assert says(READ, *opened, held, *later, Trimmed(3.0, "b", 2)) == [], "alice does not want the first one"
    assert says(READ, *opened, held, *later, Trimmed(3.0, "b", 3)) == [unread]
    assert says(READ, *opened, held, *later, READS, Trimmed(5.0, "b", 3)) == []
    assert says(READ, *START, Trimmed(2.5, "b", 3), Held(2.7, "alice", "b"), Trimmed(3.0, "b", 3)) == [], (
        "it was before"
    )
    assert says(READ, *opened, Held(0.6, "alice", "c"), *later, Trimmed(3.0, "b", 3)) == [], "it holds another"


def test_a_reader_gets_all_there_is_in_the_end() -> None:
    assert says(CAUGHT_UP, *GOOD, *LATER) == ["alice never reads b:3"]
    assert says(CAUGHT_UP, *GOOD, *LATER, ClientDown(9.0, "alice")) == [], "it is not there"
    back: list[TraceEvent] = [ClientDown(7.2, "alice"), ClientUp(7.4, "alice"), Opened(7.5, "alice", "x > 1", {"b": 2})]
    assert says(CAUGHT_UP, *GOOD, *LATER, *back) == ["alice never reads b:3"]
