"""The specification of order: it is silent about what is right, and each of its checks notices what it is for."""

from __future__ import annotations

import pytest

from sluice.sim.spec import ORDER, PAIRWISE, PER_PUBLISHER, WITHHELD, Check, check
from sluice.sim.trace.ordered import Marked, Ordered, Withheld
from sluice.sim.trace.trace import LinkLost, Notified, Published, Quiet, Subscribed, Trace, TraceEvent

START: list[TraceEvent] = [
    Subscribed(0.0, "ann", "ann/1", "true"),
    Subscribed(0.0, "bob", "bob/1", "true"),
    Published(1.0, "x", 1, {"n": 1}),
    Published(1.0, "y", 1, {"n": 2}),
]
SAME: list[TraceEvent] = [
    Notified(2.0, "ann", "x", 1, ("ann/1",)),
    Notified(2.0, "ann", "y", 1, ("ann/1",)),
    Notified(2.5, "bob", "x", 1, ("bob/1",)),
    Notified(2.5, "bob", "y", 1, ("bob/1",)),
]
OTHER: list[TraceEvent] = [*SAME[:2], SAME[3], SAME[2]]
ASKED: list[TraceEvent] = [Ordered(0.5, "ann", "ann/1"), Ordered(0.5, "bob", "bob/1")]
MARKS: list[TraceEvent] = [Marked(1.0, "x", 1), Marked(1.0, "y", 1)]


def says(which: Check, *events: TraceEvent) -> list[str]:
    return [violation.says for violation in check(Trace(events), [which])]


def test_the_same_order_is_right() -> None:
    for wishes in ([], ASKED, MARKS, [*ASKED, *MARKS]):
        assert check(Trace([*START, *wishes, *SAME]), ORDER) == []


@pytest.mark.parametrize("wishes", [ASKED, MARKS, [ASKED[0], *MARKS]])
def test_another_order_is_noticed_where_it_counts(wishes: list[TraceEvent]) -> None:
    expected = "ann/1 gets x#1 before y#1, and bob/1 gets y#1 before x#1"
    assert says(PAIRWISE, *START, *wishes, *OTHER) == [expected]


@pytest.mark.parametrize("wishes", [[], ASKED[:1], MARKS[:1]])
def test_where_it_does_not_count_any_order_is_right(wishes: list[TraceEvent]) -> None:
    assert says(PAIRWISE, *START, *wishes, *OTHER) == []


def test_two_subscriptions_of_one_client_are_a_pair() -> None:
    second = Subscribed(0.0, "ann", "ann/2", "true")
    wishes = [Ordered(0.5, "ann", "ann/1"), Ordered(0.5, "ann", "ann/2")]
    events = [
        Notified(2.0, "ann", name, 1, (id,))
        for id, name in zip(("ann/1", "ann/1", "ann/2", "ann/2"), "xyyx", strict=True)
    ]
    assert len(says(PAIRWISE, *START, second, *wishes, *events)) == 1


def test_publications_of_one_publisher_are_in_order_for_everybody() -> None:
    second = Published(1.5, "x", 2, {"n": 3})
    late = [Notified(2.0, "ann", "x", number, ("ann/1",)) for number in (2, 1)]
    assert says(PER_PUBLISHER, *START, second, *late) == ["ann/1 gets x#1 after x#2"]
    assert says(PER_PUBLISHER, *START, second, *reversed(late)) == []


def test_only_after_a_failure_something_comes_too_late() -> None:
    late = Withheld(3.0, "ann", "x", 1, ("ann/1",))
    assert says(WITHHELD, *START, late) == ["x#1 comes too late for ann/1, and nothing has failed"]
    assert says(WITHHELD, *START, LinkLost(2.0, "a", "b"), late) == []
    at_rest = [LinkLost(0.1, "a", "b"), Quiet(0.5), *START[2:], late]
    assert says(WITHHELD, *START[:2], *at_rest) == ["x#1 was published at rest, and comes too late for ann/1"]
