"""The past and then what is live: right on a good run, and caught in each way to be wrong."""

from __future__ import annotations

from sluice.sim.spec import SEAM
from sluice.sim.trace.streamed import Logged, Past, Skipped, Trimmed, Wished
from sluice.sim.trace.trace import (
    Attached,
    BrokerDown,
    BrokerUp,
    Notified,
    Published,
    Replayed,
    Subscribed,
    Topology,
    Trace,
    TraceEvent,
    Unsubscribed,
)

#: Two streams with three publications each, by turns, and a subscriber at the first broker who wants all but the fifth.
STAGE: list[TraceEvent] = [
    Topology(0.0, ("a", "b"), (("a", "b"),)),
    Attached(0.0, "alice", "a"),
    *(Published(1.0, "bob", n, {"price": n}) for n in range(1, 7)),
    *(Logged(1.0 + n, "ab"[(n - 1) % 2], (n + 1) // 2, "bob", n) for n in range(1, 7)),
    Subscribed(10.0, "alice", "alice/1", "price != 5"),
]
WISH = Wished(10.0, "alice", "alice/1", 2)


def past(*numbers: int) -> list[TraceEvent]:
    return [Replayed(11.0, "alice", "alice/1", "bob", n) for n in numbers]


def live(*numbers: int) -> list[TraceEvent]:
    return [Notified(13.0, "alice", "bob", n, ("alice/1",)) for n in numbers]


def end(a: int, b: int) -> TraceEvent:
    return Past(12.0, "alice", "alice/1", {"a": a, "b": b})


def says(*events: TraceEvent, wish: Wished = WISH) -> list[str]:
    return [violation.says for violation in SEAM.check(Trace([*STAGE, wish, *events]))]


def test_the_end_of_the_past_then_the_rest() -> None:
    assert says(*past(2, 3, 4), end(2, 2), *live(6)) == []
    assert says(*past(3, 4), end(2, 2), *live(6)) == []
    assert says(*past(4, 6), end(3, 3)) == []
    assert says(Unsubscribed(11.0, "alice", "alice/1")) == []
    assert says(end(3, 3), wish=Wished(10.0, "alice", "alice/1", 0)) == []


def test_the_past_is_in_order_whole_and_comes_once() -> None:
    assert says(*past(2, 4), end(2, 2), *live(6)) == ["(4000000, 'a', 2) is left out of the past"]
    assert says(*past(4, 3), end(2, 2), *live(6))[0].startswith("it comes after")
    assert "it comes twice" in says(*past(3, 4, 4), end(2, 2), *live(6))
    assert says(*past(4), end(2, 2), *live(6)) == ["1 of 2 notifications came, and there is (4000000, 'a', 2)"]
    assert "the past was over" in says(end(2, 2), *past(4), *live(6))


def test_what_is_live_comes_behind_the_past() -> None:
    assert "b:3 comes before the past" in says(*past(3, 4), *live(6), end(2, 2))
    assert says(*past(3, 4), end(2, 2), *live(4, 6)) == ["b:2 comes twice"]
    assert says(*past(3, 4), end(2, 2), *live(6, 6)) == ["b:3 comes twice"]
    assert says(*past(3, 4), end(2, 2), *live(1, 6))[0] == "a:1 comes late"


def test_nothing_is_left_out() -> None:
    assert says(*past(1, 2), end(1, 1), *live(3, 6)) == ["b:2 is left out"]
    assert says(*past(3, 4), end(2, 2)) == ["b:3 is left out"]
    assert says(*past(1, 2), end(1, 1), *live(3, 6), Skipped(14.0, "alice", "alice/1", "b", 2, 2)) == [
        "b:2 is left out"
    ]
    assert says(*past(1, 2), end(1, 1), Skipped(12.5, "alice", "alice/1", "b", 2, 2), *live(3, 6)) == []
    assert says() == ["alice never hears what becomes of the past of alice/1"]
    assert says(Skipped(12.5, "alice", "alice/1", "", 0, 0), *live(6)) == []


def test_what_is_lost_between_brokers_is_no_matter_of_the_seam() -> None:
    down: list[TraceEvent] = [BrokerDown(12.5, "b"), BrokerUp(12.6, "b")]
    assert says(*past(1, 2), end(1, 1), *down, *live(3, 6)) == []
    assert says(*down, *past(1, 2), end(1, 1), *live(3, 6)) == ["b:2 is left out"]
    home: list[TraceEvent] = [BrokerDown(12.5, "a"), BrokerUp(12.6, "a")]
    assert says(*past(1, 2), end(1, 1), *home, *live(3, 6)) == ["b:2 is left out"], "what it missed can be read"


def test_a_stream_that_nobody_knew_begins_where_its_log_does() -> None:
    known = Past(12.0, "alice", "alice/1", {"a": 2})
    assert says(*past(1, 3), known, Trimmed(12.5, "b", 2), *live(4, 6)) == []
    assert says(*past(1, 3), known, *live(4, 6)) == ["b:1 is left out"]
    assert says(*past(1, 3), known) == [], "nothing of it has come"
