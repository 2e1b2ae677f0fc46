"""What watchers are told and what is replayed: right on a good run, and caught in each way to be wrong."""

from __future__ import annotations

from sluice.sim.spec import INTEREST, INTERESTS, REPLAY, TOLD, Check, check
from sluice.sim.trace.trace import (
    Attached,
    ClientDown,
    ClientUp,
    Configured,
    Corrupted,
    Interested,
    LinkHealed,
    LinkLost,
    Notified,
    Published,
    Quiet,
    Replayed,
    Subscribed,
    Topology,
    Trace,
    TraceEvent,
    Uninterested,
    Unsubscribed,
    Unwatched,
    Watched,
)

GOOD: list[TraceEvent] = [
    Topology(0.0, ("a", "b"), (("a", "b"),)),
    Attached(0.0, "alice", "a"),
    Attached(0.0, "bob", "b"),
    Watched(1.0, "bob", "bob/1", "price > 3"),
    Subscribed(2.0, "alice", "alice/1", "price BETWEEN 2 AND 5"),
    Subscribed(2.0, "alice", "alice/2", "price < 2"),
    Subscribed(2.0, "bob", "bob/2", "price > 4"),
    # The same filter in other words.
    Interested(3.0, "bob", "alice/1", "price >= 2 AND price <= 5"),
]


def says(check: Check, *events: TraceEvent) -> list[str]:
    return [violation.says for violation in check.check(Trace([*GOOD, *events]))]


def test_a_good_run_is_good() -> None:
    gone: list[TraceEvent] = [
        Quiet(4.0),
        Unsubscribed(5.0, "alice", "alice/1"),
        Uninterested(6.0, "bob", "alice/1"),
        Quiet(7.0),
    ]
    assert check(Trace([*GOOD, *gone]), INTERESTS) == []


# Telling


def test_nothing_is_told_twice() -> None:
    again = Interested(4.0, "bob", "alice/1", "price BETWEEN 2 AND 5")
    assert says(TOLD, again) == ["bob is told of alice/1 twice"]
    assert says(TOLD, Uninterested(3.5, "bob", "alice/1"), again) == []
    assert says(TOLD, ClientDown(3.5, "bob"), ClientUp(3.6, "bob"), again) == []


def test_nothing_is_gone_that_was_not_there() -> None:
    said = "bob is told that alice/2 is gone, of which it was not told"
    assert says(TOLD, Uninterested(4.0, "bob", "alice/2")) == [said]
    assert says(TOLD, ClientDown(3.5, "bob"), ClientUp(3.6, "bob"), Uninterested(4.0, "bob", "alice/1")) == [
        said.replace("alice/2", "alice/1")
    ]


def test_nothing_is_told_that_is_not_so() -> None:
    assert says(TOLD, Interested(4.0, "bob", "alice/9", "price > 3")) == ["nobody ever subscribed under the id alice/9"]
    assert says(TOLD, Interested(4.0, "bob", "alice/9", "true"), Subscribed(5.0, "alice", "alice/9", "true")) == [
        "nobody ever subscribed under the id alice/9"
    ]
    assert says(TOLD, Interested(4.0, "bob", "alice/2", "price > 9")) == [
        "alice/2 was never a subscription to this, but to price < 2"
    ]
    assert says(TOLD, Interested(4.0, "bob", "bob/2", "price > 4")) == ["bob is told of a subscription of its own"]


# At rest


def test_at_rest_a_watcher_knows_of_everybody() -> None:
    new = Subscribed(4.0, "alice", "alice/3", "price = 9")
    said = ["bob watches price > 3 and was not told of alice/3: price = 9"]
    assert says(INTEREST, new) == said
    assert says(INTEREST, new, Quiet(5.0), Interested(6.0, "bob", "alice/3", "price = 9")) == said
    assert says(INTEREST, new, Interested(4.5, "bob", "alice/3", "price = 9"), Quiet(5.0)) == []


def test_at_rest_a_watcher_knows_of_nobody_else() -> None:
    said = ["bob still believes in the subscription alice/1, which it does not watch or which is no more"]
    assert says(INTEREST, Unsubscribed(4.0, "alice", "alice/1")) == said
    assert says(INTEREST, ClientDown(4.0, "alice")) == said
    assert says(INTEREST, Unwatched(4.0, "bob", "bob/1")) == said
    assert says(INTEREST, Unwatched(4.0, "bob", "bob/1"), Uninterested(5.0, "bob", "alice/1")) == []
    assert len(says(INTEREST, Interested(4.0, "bob", "alice/2", "price < 2"))) == 1


def test_nobody_can_tell_over_a_lost_link() -> None:
    new = Subscribed(4.0, "alice", "alice/3", "price = 9")
    for a, b in (("a", "b"), ("a", "alice"), ("b", "bob")):
        assert says(INTEREST, LinkLost(3.5, a, b), new) == []
        assert len(says(INTEREST, LinkLost(3.5, a, b), new, LinkHealed(4.5, a, b))) == 1


def test_tampering_excuses_until_all_is_quiet() -> None:
    new = Subscribed(4.0, "alice", "alice/3", "price = 9")
    assert says(INTEREST, new, Corrupted(5.0, "a", "x")) == []
    assert len(says(INTEREST, new, Corrupted(5.0, "a", "x"), Quiet(6.0))) == 2  # at the Quiet and at the end


# Replays

PAST = Published(1.5, "bob", 1, {"price": 5})


def replay(*events: TraceEvent, promised: Configured | None = None) -> list[str]:
    trace = Trace([promised or Configured(0.0, delay_seconds=0.5), *GOOD[:3], PAST, *GOOD[4:6], *events])
    return [violation.says for violation in REPLAY.check(trace)]


def test_a_replay_is_for_the_subscription_of_the_client() -> None:
    assert replay(Replayed(9.0, "alice", "alice/1", "bob", 1)) == []
    assert replay(Replayed(9.0, "bob", "alice/1", "bob", 1)) == ["bob does not hold the subscription alice/1"]
    assert replay(Unsubscribed(8.0, "alice", "alice/1"), Replayed(9.0, "alice", "alice/1", "bob", 1)) == [
        "alice does not hold the subscription alice/1"
    ]


def test_a_replay_matches_its_subscription() -> None:
    assert replay(Replayed(9.0, "alice", "alice/2", "bob", 1)) == ["the subscription does not match: price < 2"]


def test_a_replay_is_news_to_nobody() -> None:
    news = Notified(10.0, "alice", "bob", 1, ("alice/1",))
    assert replay(Replayed(9.0, "alice", "alice/1", "bob", 1), news) == [
        "bob#1 was replayed to one subscription, and alice gets it as news"
    ]
    assert replay(news) == []
    # Two brokers and two clients are three links apart at most: so long it may be on its way.
    assert replay(Replayed(3.0, "alice", "alice/1", "bob", 1), Notified(3.4, "alice", "bob", 1, ("alice/1",))) == []


def test_what_comes_before_the_replay_is_none_of_it() -> None:
    assert replay(Notified(8.0, "alice", "bob", 1, ("alice/1",)), Replayed(9.0, "alice", "alice/1", "bob", 1)) == []


def test_what_was_cached_may_be_news_for_longer() -> None:
    again: list[TraceEvent] = [
        Replayed(3.0, "alice", "alice/1", "bob", 1),
        Notified(8.0, "alice", "bob", 1, ("alice/1",)),
    ]
    for seconds, count in ((4.0, 1), (5.0, 0), (None, 0)):
        promised = Configured(0.0, cache_notifications=9, cache_seconds=seconds, delay_seconds=0.5)
        assert len(replay(*again, promised=promised)) == count
    assert replay(*again, promised=Configured(0.0)) == []
