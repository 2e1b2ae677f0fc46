"""What is owed must arrive, what was in the way of it excuses, and everything else does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.sim.spec import ACKNOWLEDGED, CACHED, COMPLETE, LIVE, LIVENESS, Check, check
from sluice.sim.trace.trace import (
    Advertised,
    Attached,
    BrokerDown,
    BrokerUp,
    ClientDown,
    ClientUp,
    Completed,
    Configured,
    Corrupted,
    LinkHealed,
    LinkLost,
    Notified,
    Published,
    Quiet,
    Refused,
    Subscribed,
    Tampered,
    Topology,
    Trace,
    TraceEvent,
    Unadvertised,
    Unsubscribed,
)

#: alice - a - b - c - bob, and d beside b.
STAGE: list[TraceEvent] = [
    Topology(0.0, ("a", "b", "c", "d"), (("a", "b"), ("b", "c"), ("b", "d"))),
    Attached(0.0, "alice", "a"),
    Attached(0.0, "bob", "c"),
    Attached(0.0, "dora", "d"),
]
ASKS = Subscribed(10.0, "alice", "alice/1", "price > 3")
TOLD = Completed(12.0, "alice", "subscriptions", "alice/1")
PUBLISHES = Published(20.0, "bob", 1, {"price": 5})
GETS = Notified(22.0, "alice", "bob", 1, ("alice/1",))
END = Published(90.0, "dora", 9, {"price": 0})
GOOD: list[TraceEvent] = [*STAGE, ASKS, TOLD, PUBLISHES, GETS, END]
LOST: list[TraceEvent] = [event for event in GOOD if event is not GETS]

Story = list[TraceEvent]


def at_times(events: Story) -> Trace:
    """A trace in the order of time."""
    return Trace(sorted(events, key=lambda event: event.at))


def says(check: Check, events: Story) -> list[str]:
    return [violation.says for violation in check.check(at_times(events))]


MISSING = ["alice never gets bob#1, which its subscription alice/1 matches: price > 3"]


def test_a_good_run_is_good() -> None:
    assert check(at_times(GOOD), LIVENESS) == []


# Axiom (5)


def test_everything_that_is_asked_for_is_acknowledged() -> None:
    waiting = [event for event in GOOD if event is not TOLD]
    assert says(ACKNOWLEDGED, waiting) == ["alice was never told that alice/1 of its subscriptions is complete"]
    assert says(ACKNOWLEDGED, [*waiting, Unsubscribed(30.0, "alice", "alice/1")]) == []
    assert says(ACKNOWLEDGED, [*waiting, ClientDown(30.0, "alice")]) == []


def test_an_acknowledgement_that_cannot_arrive_is_not_owed() -> None:
    waiting = [event for event in GOOD if event is not TOLD]
    for down, up in (
        (BrokerDown(11.0, "a"), BrokerUp(40.0, "a")),
        (LinkLost(11.0, "alice", "a"), LinkHealed(40.0, "alice", "a")),
    ):
        assert says(ACKNOWLEDGED, [*waiting, down]) == []
        assert len(says(ACKNOWLEDGED, [*waiting, down, up])) == 1
    assert len(says(ACKNOWLEDGED, [*waiting, BrokerDown(11.0, "b")])) == 1


def test_advertisements_are_acknowledged_where_they_are_used() -> None:
    offered = [*GOOD, Advertised(15.0, "bob", "bob/1", "true")]
    assert says(ACKNOWLEDGED, offered) == ["bob was never told that bob/1 of its advertisements is complete"]
    assert says(ACKNOWLEDGED, [*offered, Completed(16.0, "bob", "ADVERTISEMENTS", "bob/1")]) == []
    assert says(ACKNOWLEDGED, [Configured(0.0), *offered]) == []


def test_nothing_is_acknowledged_that_nobody_asks_for() -> None:
    said = ["this is complete, and nobody asks for it"]
    assert says(ACKNOWLEDGED, [*GOOD, Completed(30.0, "alice", "subscriptions", "alice/7")]) == said
    late: Story = [Unsubscribed(25.0, "alice", "alice/1"), Completed(30.0, "alice", "subscriptions", "alice/1")]
    assert says(ACKNOWLEDGED, [*GOOD, *late]) == said


# Axiom (6)


def test_after_the_acknowledgement_everything_comes() -> None:
    [violation] = COMPLETE.check(at_times(LOST))
    assert violation.says == MISSING[0]
    assert violation.at == 20.0
    assert violation.events == (ASKS, TOLD, PUBLISHES)
    assert says(COMPLETE, [event for event in LOST if event is not TOLD]) == []


def test_own_notifications_come_too() -> None:
    events = [*GOOD, Published(40.0, "alice", 1, {"price": 5})]
    assert len(says(COMPLETE, events)) == 1
    assert says(COMPLETE, [*events, Notified(41.0, "alice", "alice", 1, ("alice/1",))]) == []


def test_a_notification_comes_for_every_subscription() -> None:
    second: Story = [
        Subscribed(10.0, "alice", "alice/2", "price > 4"),
        Completed(12.0, "alice", "subscriptions", "alice/2"),
    ]
    assert says(COMPLETE, [*GOOD, *second]) == [
        "alice is notified of bob#1, but not for its subscription alice/2: price > 4"
    ]
    assert says(COMPLETE, [*LOST, *second, Notified(22.0, "alice", "bob", 1, ("alice/1", "alice/2"))]) == []


def test_what_does_not_match_is_not_owed() -> None:
    assert says(COMPLETE, [*GOOD, Published(30.0, "bob", 2, {"price": 3}), Published(31.0, "bob", 3, {})]) == []


def test_what_was_taken_back_is_not_owed() -> None:
    assert says(COMPLETE, [*LOST, Unsubscribed(21.0, "alice", "alice/1")]) == []
    assert says(COMPLETE, [*LOST, ClientDown(21.0, "alice")]) == []


ON_THE_WAY: list[Story] = [
    [BrokerDown(0, "a"), BrokerUp(0, "a")],
    [BrokerDown(0, "b"), BrokerUp(0, "b")],
    [BrokerDown(0, "c"), BrokerUp(0, "c")],
    [LinkLost(0, "a", "b"), LinkHealed(0, "a", "b")],
    [LinkLost(0, "c", "b"), LinkHealed(0, "b", "c")],
    [LinkLost(0, "a", "alice"), LinkHealed(0, "a", "alice")],
]
OF_THE_PUBLISHER: list[Story] = [
    [LinkLost(0, "c", "bob"), LinkHealed(0, "c", "bob")],
    [ClientDown(0, "bob"), ClientUp(0, "bob")],
]
ELSEWHERE: list[Story] = [
    [BrokerDown(0, "d"), BrokerUp(0, "d")],
    [LinkLost(0, "d", "b"), LinkHealed(0, "b", "d")],
    [ClientDown(0, "dora"), ClientUp(0, "dora")],
]


def during(pair: Story, since: float, until: float) -> Story:
    """A fault and its repair at two moments."""
    fault, repair = pair
    return [replace(fault, at=since), replace(repair, at=until)]


@pytest.mark.parametrize("pair", [*ON_THE_WAY, *OF_THE_PUBLISHER], ids=lambda pair: str(pair[0]))
def test_what_fails_on_the_way_excuses(pair: Story) -> None:
    assert says(COMPLETE, [*LOST, *during(pair, 19.0, 25.0)]) == []
    assert says(COMPLETE, [*LOST, during(pair, 21.0, 25.0)[0]]) == []


@pytest.mark.parametrize("pair", ON_THE_WAY, ids=lambda pair: str(pair[0]))
def test_what_failed_on_the_way_before_excuses(pair: Story) -> None:
    assert says(COMPLETE, [*LOST, *during(pair, 11.0, 15.0)]) == []
    assert says(COMPLETE, [*LOST, *during(pair, 13.0, 15.0)]) == []


@pytest.mark.parametrize("pair", OF_THE_PUBLISHER, ids=lambda pair: str(pair[0]))
def test_what_failed_at_the_publisher_before_does_not_excuse(pair: Story) -> None:
    assert says(COMPLETE, [*LOST, *during(pair, 13.0, 15.0)]) == MISSING


@pytest.mark.parametrize("pair", ELSEWHERE, ids=lambda pair: str(pair[0]))
def test_what_fails_elsewhere_does_not_excuse(pair: Story) -> None:
    assert says(COMPLETE, [*LOST, *during(pair, 19.0, 25.0)]) == MISSING


@pytest.mark.parametrize("pair", [*ON_THE_WAY, *ELSEWHERE[:2]], ids=lambda pair: str(pair[0]))
def test_what_fails_on_the_way_over_a_root_excuses(pair: Story) -> None:
    rooted = [Configured(0.0, root="d"), *LOST]
    assert says(COMPLETE, rooted) == MISSING
    assert says(COMPLETE, [*rooted, *during(pair, 19.0, 25.0)]) == []


@pytest.mark.parametrize("event", [Corrupted(15.0, "d", "x"), Tampered(15.0, "d", "b", "lost")])
def test_what_is_tampered_with_anywhere_excuses_until_all_is_quiet(event: TraceEvent) -> None:
    assert says(COMPLETE, [*LOST, event]) == []
    assert says(LIVE, [*LOST, event, Quiet(16.0)]) == MISSING


# With known delays: settling takes (2 + 3) x 0.5 = 2.5 seconds, arriving as long.

DELAY = Configured(0.0, delay_seconds=0.5)


@pytest.mark.parametrize("pair", [*ON_THE_WAY, *OF_THE_PUBLISHER], ids=lambda pair: str(pair[0]))
def test_with_known_delays_only_what_fails_in_time_excuses(pair: Story) -> None:
    assert says(COMPLETE, [DELAY, *LOST]) == MISSING
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 22.4, 25.0)]) == []
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 22.6, 25.0)]) == MISSING


@pytest.mark.parametrize("pair", ON_THE_WAY[:-1], ids=lambda pair: str(pair[0]))
def test_with_known_delays_a_path_settles(pair: Story) -> None:
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 5.0, 7.6)]) == []
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 5.0, 7.4)]) == MISSING


def test_with_known_delays_a_network_settles_at_its_beginning() -> None:
    early = Subscribed(2.0, "alice", "alice/1", "price > 3")
    events: Story = [DELAY, *STAGE, early, TOLD, PUBLISHES, END]
    assert says(COMPLETE, events) == []
    assert says(COMPLETE, [*events, Quiet(1.0)]) == MISSING


def test_with_known_delays_a_client_that_asks_again_is_promised_again() -> None:
    offline: Story = [LinkLost(13.0, "alice", "a"), LinkHealed(14.0, "alice", "a")]
    again = Completed(16.0, "alice", "subscriptions", "alice/1")
    assert says(COMPLETE, [DELAY, *LOST, *offline]) == []
    assert says(COMPLETE, [DELAY, *LOST, *offline, again]) == MISSING
    # An answer that comes so soon may have been under way when the link was lost.
    soon = Completed(14.5, "alice", "subscriptions", "alice/1")
    assert says(COMPLETE, [DELAY, *LOST, *offline, soon]) == []


@pytest.mark.parametrize("pair", OF_THE_PUBLISHER, ids=lambda pair: str(pair[0]))
def test_with_known_delays_a_publisher_needs_time_to_know_its_link(pair: Story) -> None:
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 15.0, 18.6)]) == []
    assert says(COMPLETE, [DELAY, *LOST, *during(pair, 15.0, 18.4)]) == MISSING


def test_with_known_delays_a_link_that_healed_before_the_request_does_not_count() -> None:
    early: Story = [LinkLost(4.0, "alice", "a"), LinkHealed(5.0, "alice", "a")]
    settled: Story = [LinkLost(6.0, "b", "c"), LinkHealed(7.0, "b", "c")]
    assert says(COMPLETE, [DELAY, *LOST, *early, *settled]) == MISSING


def test_with_known_delays_tampering_afterwards_does_not_excuse() -> None:
    assert says(COMPLETE, [DELAY, *LOST, Corrupted(22.4, "d", "x")]) == []
    assert says(COMPLETE, [DELAY, *LOST, Corrupted(22.6, "d", "x")]) == MISSING


def test_with_known_delays_what_is_taken_back_later_was_owed() -> None:
    assert says(COMPLETE, [DELAY, *LOST, Unsubscribed(22.4, "alice", "alice/1")]) == []
    assert says(COMPLETE, [DELAY, *LOST, Unsubscribed(22.6, "alice", "alice/1")]) == MISSING


# Def. 2.4

OFFERS: Story = [
    Advertised(10.5, "bob", "bob/1", "price < 9"),
    Completed(13.0, "bob", "advertisements", "bob/1"),
]


def test_with_advertisements_both_sides_must_be_complete() -> None:
    assert says(COMPLETE, [*LOST, *OFFERS]) == MISSING
    assert says(COMPLETE, [*LOST, OFFERS[0]]) == []
    assert says(COMPLETE, [*LOST, OFFERS[0], Completed(20.5, "bob", "advertisements", "bob/1")]) == []


def test_with_advertisements_only_what_is_advertised_is_owed() -> None:
    other = Advertised(10.5, "bob", "bob/1", "price > 9")
    assert says(COMPLETE, [*LOST, other, OFFERS[1]]) == []
    assert says(COMPLETE, [*LOST, *OFFERS, Unadvertised(20.5, "bob", "bob/1")]) == []
    assert says(COMPLETE, [*LOST, *OFFERS, Refused(20.5, "bob", 1)]) == []


def test_with_advertisements_the_path_counts_from_the_earlier_request() -> None:
    later: Story = [
        Advertised(15.0, "bob", "bob/1", "price < 9"),
        Completed(16.0, "bob", "advertisements", "bob/1"),
    ]
    promise = Configured(0.0, advertisements=True, delay_seconds=0.5)
    assert says(COMPLETE, [promise, *LOST, *later]) == MISSING
    assert says(COMPLETE, [promise, *LOST, *later, LinkLost(11.0, "a", "b"), LinkHealed(11.1, "a", "b")]) == []
    # There and back again: (2 x 2 + 3) x 0.5 = 3.5 seconds before the request at 10.
    assert says(COMPLETE, [promise, *LOST, *later, LinkLost(6.0, "a", "b"), LinkHealed(6.6, "a", "b")]) == []
    assert says(COMPLETE, [promise, *LOST, *later, LinkLost(6.0, "a", "b"), LinkHealed(6.4, "a", "b")]) == MISSING


# (2.11) and (2.18)


def test_after_a_quiet_everything_comes() -> None:
    faults: Story = [LinkLost(11.0, "a", "b"), LinkHealed(15.0, "a", "b"), Corrupted(16.0, "b", "x")]
    assert says(LIVE, LOST) == []
    [violation] = LIVE.check(at_times([*LOST, *faults, Quiet(18.0)]))
    assert violation.says == MISSING[0]
    assert violation.events == (ASKS, PUBLISHES)
    assert says(LIVE, [*GOOD, *faults, Quiet(18.0)]) == []
    # Neither what is published before, nor what is asked for after it.
    assert says(LIVE, [*LOST, *faults, Quiet(21.0)]) == []
    assert says(LIVE, [*LOST, *faults, Quiet(9.0)]) == []


def test_after_a_quiet_a_new_fault_excuses() -> None:
    assert says(LIVE, [*LOST, Quiet(18.0), LinkLost(19.0, "a", "b"), LinkHealed(19.5, "a", "b")]) == []
    assert says(LIVE, [*LOST, Quiet(18.0), LinkLost(19.0, "d", "b")]) == MISSING
    assert says(LIVE, [*LOST, Quiet(18.0), Corrupted(19.0, "d", "x")]) == []


def test_after_a_quiet_only_what_is_advertised_is_owed() -> None:
    assert says(LIVE, [*LOST, OFFERS[0], Quiet(18.0)]) == MISSING
    assert says(LIVE, [*LOST, Quiet(18.0), Advertised(19.0, "bob", "bob/1", "true")]) == []
    assert says(LIVE, [*LOST, Advertised(10.0, "dora", "dora/1", "true"), Quiet(18.0)]) == []


# Caches

CACHE = Configured(0.0, cache_notifications=3, cache_seconds=5.0)
MEANWHILE = Published(11.0, "bob", 1, {"price": 5})
CACHED_LOSS: Story = [*STAGE, ASKS, TOLD, MEANWHILE, END]


def test_with_caches_everything_comes_from_the_request_on() -> None:
    assert says(CACHED, CACHED_LOSS) == []
    assert says(CACHED, [CACHE, *CACHED_LOSS]) == MISSING
    assert says(CACHED, [CACHE, *CACHED_LOSS, Notified(13.0, "alice", "bob", 1, ("alice/1",))]) == []
    assert says(CACHED, [CACHE, *STAGE, ASKS, TOLD, Published(9.0, "bob", 1, {"price": 5}), END]) == []


def test_after_the_acknowledgement_caches_have_no_say() -> None:
    assert says(CACHED, [CACHE, *LOST]) == []


def test_with_caches_it_is_enough_if_it_comes_once() -> None:
    first = Subscribed(9.0, "alice", "alice/0", "true")
    assert says(CACHED, [CACHE, *CACHED_LOSS, first, Notified(11.5, "alice", "bob", 1, ("alice/0",))]) == []


def test_a_cache_is_no_larger_than_it_is() -> None:
    more: Story = [Published(11.5, "bob", number, {"price": 0}) for number in (2, 3, 4)]
    assert says(CACHED, [CACHE, *CACHED_LOSS, *more[:2]]) == MISSING
    assert says(CACHED, [CACHE, *CACHED_LOSS, *more]) == []
    # Where delays are not known, what was published before may come later and take the room.
    before: Story = [Published(1.0, "bob", number, {"price": 0}) for number in (5, 6, 7)]
    assert says(CACHED, [CACHE, *CACHED_LOSS, *before]) == []
    known = Configured(0.0, cache_notifications=3, cache_seconds=5.0, delay_seconds=0.5)
    assert says(CACHED, [known, *CACHED_LOSS, *before]) == MISSING
    # Four brokers and two clients are five links apart at most: 3 seconds are enough.
    assert says(CACHED, [known, *CACHED_LOSS, *(replace(event, at=8.5) for event in before)]) == []


def test_a_cache_keeps_nothing_for_ever() -> None:
    late = Completed(17.0, "alice", "subscriptions", "alice/1")
    events: Story = [*STAGE, ASKS, late, MEANWHILE, END]
    assert says(CACHED, [CACHE, *events]) == []
    assert says(CACHED, [Configured(0.0, cache_notifications=3), *events]) == MISSING
