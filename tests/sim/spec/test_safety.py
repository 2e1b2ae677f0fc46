"""Each safety check holds on a good run and fails on each way to break it."""

from __future__ import annotations

from dataclasses import replace

from sluice.sim.spec import (
    AXIOMS,
    CHECKS,
    EVENTUALLY_SAFE,
    NO_DUPLICATE,
    PUBLISHED,
    REFUSED,
    REFUSING,
    SAFETY,
    WANTED,
    Check,
    check,
)
from sluice.sim.trace.trace import (
    Advertised,
    Attached,
    BrokerDown,
    BrokerUp,
    ClientDown,
    ClientUp,
    Configured,
    Corrupted,
    LinkHealed,
    LinkLost,
    Notified,
    Published,
    Quiet,
    Refused,
    Replayed,
    Subscribed,
    Topology,
    Trace,
    TraceEvent,
    Unadvertised,
    Unsubscribed,
)

STAGE: list[TraceEvent] = [
    Topology(0.0, ("a", "b"), (("a", "b"),)),
    Attached(0.0, "alice", "a"),
    Attached(0.0, "bob", "b"),
]
GOOD: list[TraceEvent] = [
    *STAGE,
    Subscribed(1.0, "alice", "alice/1", "price > 3"),
    Subscribed(1.0, "alice", "alice/2", "price > 4"),
    Published(2.0, "bob", 1, {"price": 5}),
    Notified(3.0, "alice", "bob", 1, ("alice/1", "alice/2")),
    Published(4.0, "bob", 2, {"price": 4}),
    Unsubscribed(4.5, "alice", "alice/2"),
    Notified(5.0, "alice", "bob", 2, ("alice/1",)),
    Published(6.0, "bob", 3, {"price": 1}),
]


def says(check: Check, *events: TraceEvent) -> list[str]:
    return [violation.says for violation in check.check(Trace(events))]


def test_a_good_run_is_good() -> None:
    assert check(Trace(GOOD), SAFETY) == []


def test_the_axioms_have_numbers_and_every_check_a_name() -> None:
    assert {number: axiom.name for number, axiom in AXIOMS.items()} == {
        2: "no-duplicate",
        3: "published",
        4: "wanted",
        5: "acknowledged",
        6: "complete",
    }
    assert all(CHECKS[name].name == name for name in CHECKS)


# Axiom (2)


def test_nobody_is_notified_twice() -> None:
    again = Notified(7.0, "alice", "bob", 1, ("alice/1",))
    [violation] = check(Trace([*GOOD, again]), SAFETY)
    assert violation.check == "no-duplicate"
    assert violation.at == 7.0
    assert violation.events == (GOOD[5], GOOD[6], again)


def test_a_client_that_lost_its_memory_may_be_notified_again() -> None:
    back: list[TraceEvent] = [
        ClientDown(7.0, "alice"),
        ClientUp(8.0, "alice"),
        Subscribed(8.0, "alice", "alice/1", "price > 3"),
        Notified(9.0, "alice", "bob", 1, ("alice/1",)),
    ]
    assert says(NO_DUPLICATE, *GOOD, *back) == []
    assert len(says(NO_DUPLICATE, *GOOD, *back, Notified(10.0, "alice", "bob", 1, ("alice/1",)))) == 1


# Axiom (3)


def test_nothing_comes_that_was_not_published_before() -> None:
    early = Notified(1.5, "alice", "bob", 1, ("alice/1",))
    assert says(PUBLISHED, *GOOD[:5], early, *GOOD[5:]) == ["this was not published before"]
    assert says(PUBLISHED, *GOOD, Notified(9.0, "alice", "bob", 9, ("alice/1",))) == ["this was not published before"]
    assert says(PUBLISHED, *GOOD, Replayed(9.0, "alice", "alice/1", "bob", 9)) == ["this was not published before"]


def test_a_notification_is_published_once() -> None:
    assert "two notifications" in says(PUBLISHED, *GOOD, Published(9.0, "bob", 3, {"price": 7}))[0]


# Axiom (4)


def test_what_comes_matches() -> None:
    assert says(WANTED, *GOOD, Notified(9.0, "alice", "bob", 3, ("alice/1",))) == [
        "the subscription alice/1 of alice does not match: price > 3"
    ]


def test_what_comes_is_for_an_active_subscription() -> None:
    said = ["alice does not hold the subscription alice/2"]
    published = Published(9.0, "bob", 4, {"price": 9})
    assert says(WANTED, *GOOD, published, Notified(9.5, "alice", "bob", 4, ("alice/1", "alice/2"))) == said
    assert says(WANTED, *GOOD[:4], *GOOD[5:7]) == said
    assert says(WANTED, *GOOD, published, Notified(9.5, "bob", "bob", 4, ("alice/1",))) == [
        "bob does not hold the subscription alice/1"
    ]
    assert says(WANTED, *GOOD, published, Notified(9.5, "bob", "bob", 4, ())) == ["bob is notified for no subscription"]
    assert says(WANTED, *GOOD, published, Notified(9.5, "alice", "bob", 4, ("alice/1", "alice/1"))) == [
        "a subscription is named twice"
    ]


def test_the_subscriptions_of_a_client_end_with_it() -> None:
    published = Published(9.0, "bob", 4, {"price": 9})
    late = Notified(9.5, "alice", "bob", 4, ("alice/1",))
    assert says(WANTED, *GOOD, published, late) == []
    assert says(WANTED, *GOOD, published, ClientDown(9.2, "alice"), late) == [
        "alice does not hold the subscription alice/1"
    ]


def test_an_id_may_be_used_again() -> None:
    events: list[TraceEvent] = [
        *GOOD,
        Unsubscribed(7.0, "alice", "alice/1"),
        Subscribed(8.0, "alice", "alice/1", "price < 2"),
        Published(9.0, "bob", 4, {"price": 1}),
        Notified(9.5, "alice", "bob", 4, ("alice/1",)),
    ]
    assert says(WANTED, *events) == []
    assert (
        len(
            says(
                WANTED, *events, Published(9.6, "bob", 5, {"price": 9}), Notified(9.7, "alice", "bob", 5, ("alice/1",))
            )
        )
        == 1
    )


def test_types_count_when_records_are_compared() -> None:
    events: list[TraceEvent] = [
        *STAGE,
        Subscribed(1.0, "alice", "alice/1", "flag"),
        Published(2.0, "bob", 1, {"flag": True}),
        Notified(3.0, "alice", "bob", 1, ("alice/1",)),
        Published(4.0, "bob", 2, {"flag": 1}),
    ]
    assert says(WANTED, *events) == []
    assert len(says(WANTED, *events, Notified(5.0, "alice", "bob", 2, ("alice/1",)))) == 1


# Def. 2.4

ADVERTISED: list[TraceEvent] = [
    Configured(0.0, advertisements=True),
    *STAGE,
    Advertised(0.5, "bob", "bob/1", "price > 4"),
    *GOOD[3:7],
    Published(4.0, "bob", 2, {"price": 4}),
    Refused(4.5, "bob", 2),
]


def test_a_good_run_with_advertisements_is_good() -> None:
    assert check(Trace(ADVERTISED), SAFETY) == []


def test_what_was_refused_reaches_nobody() -> None:
    got = Notified(5.0, "alice", "bob", 2, ("alice/1",))
    assert says(REFUSED, *ADVERTISED, got) == ["bob#2 was refused, and alice got it"]
    assert says(REFUSED, *ADVERTISED, Refused(5.0, "bob", 3), Notified(6.0, "alice", "bob", 3, ("alice/1",))) == [
        "this was refused"
    ]


def test_what_lies_outside_of_the_advertisements_reaches_nobody() -> None:
    got = Notified(5.0, "alice", "bob", 2, ("alice/1",))
    assert says(REFUSED, *ADVERTISED[:-1], got) == ["bob#2 lies outside of what bob advertises, and alice got it"]
    withdrawn = [*ADVERTISED, Unadvertised(6.0, "bob", "bob/1"), Published(7.0, "bob", 3, {"price": 9})]
    assert len(says(REFUSED, *withdrawn, Notified(8.0, "alice", "bob", 3, ("alice/1",)))) == 1


def test_without_advertisements_everybody_may_publish() -> None:
    off = [Configured(0.0), *ADVERTISED[1:-1], Notified(5.0, "alice", "bob", 2, ("alice/1",))]
    assert check(Trace(off), (REFUSED, REFUSING)) == []


def test_somebody_who_advertises_puts_advertisements_in_use() -> None:
    assert len(says(REFUSING, *ADVERTISED[1:-1])) == 1


def test_what_lies_outside_is_refused() -> None:
    assert says(REFUSING, *ADVERTISED[:-1]) == ["bob#2 lies outside of what bob advertises, and nobody refused it"]


def test_a_refusal_that_cannot_arrive_is_not_owed() -> None:
    for fault in (LinkLost(4.2, "bob", "b"), BrokerDown(4.2, "b"), ClientDown(4.2, "bob")):
        assert says(REFUSING, *ADVERTISED[:-1], fault) == []
    away = [*ADVERTISED[:-2], LinkLost(3.5, "b", "bob"), ADVERTISED[-2], LinkHealed(4.2, "b", "bob")]
    assert says(REFUSING, *away) == []
    assert len(says(REFUSING, *ADVERTISED[:-1], BrokerDown(4.2, "a"))) == 1


def test_with_known_delays_a_refusal_has_its_time() -> None:
    late = [Configured(0.0, advertisements=True, delay_seconds=0.1), *ADVERTISED[1:-1]]
    for since, until, count in ((4.25, 4.26, 0), (4.35, 4.36, 1), (3.72, 3.73, 0), (3.65, 3.66, 1)):
        faults: list[TraceEvent] = [LinkLost(since, "b", "bob"), LinkHealed(until, "b", "bob")]
        events = sorted([*late, *faults], key=lambda event: event.at)
        assert len(says(REFUSING, *events)) == count


def test_histories_may_keep_what_was_refused() -> None:
    assert says(REFUSED, *ADVERTISED, Replayed(5.0, "alice", "alice/1", "bob", 2)) == []
    assert says(WANTED, *ADVERTISED, Replayed(5.0, "alice", "alice/1", "bob", 2)) == []


def test_what_lies_inside_is_not_refused() -> None:
    refusal = Refused(3.5, "bob", 1)
    assert says(REFUSING, *ADVERTISED, refusal) == ["bob#1 was refused, although bob/1 advertises it: price > 4"]
    lost = [*ADVERTISED[:7], LinkLost(1.5, "bob", "b"), LinkHealed(1.6, "bob", "b"), *ADVERTISED[7:], refusal]
    assert says(REFUSING, *lost) == []


# Def. 2.3


def test_after_the_last_fault_all_is_safe_again() -> None:
    def run(*events: TraceEvent, recovery: float | None = 10.0) -> list[str]:
        broken = Notified(9.0, "alice", "bob", 3, ("alice/1",))
        begin = [Configured(0.0, recovery_seconds=recovery), *GOOD, Corrupted(8.0, "a", "entries"), broken]
        return says(EVENTUALLY_SAFE, *begin, *events)

    assert run() == []
    twice = Notified(17.0, "alice", "bob", 1, ("alice/1",))
    assert run(twice) == []
    assert run(Notified(19.0, "alice", "ghost", 1, ("alice/1",))) == [
        "this was not published before (published), although the last fault was long ago"
    ]
    # Of two equal deliveries the first one is excused, and with it the second.
    assert run(Notified(19.0, "alice", "bob", 1, ("alice/1",))) == []
    late = [Notified(19.0, "alice", "bob", 1, ("alice/1",)), Notified(20.0, "alice", "bob", 1, ("alice/1",))]
    assert len(run(*late)) == 1
    assert run(*late, BrokerUp(21.0, "a")) == []
    # What happened before the faults ended is forgiven, each of it.
    early: list[TraceEvent] = [
        Published(17.0, "bob", 3, {"price": 7}),
        Notified(17.5, "alice", "bob", 2, ("alice/2",)),
        Notified(17.5, "alice", "ghost", 1, ("alice/1",)),
        Refused(17.5, "bob", 2),
    ]
    assert run(*early) == []
    assert len(run(*(replace(event, at=event.at + 1) for event in early))) > len(run(*early))


def test_a_quiet_ends_the_faults_where_no_time_is_known() -> None:
    ghost = Notified(9.0, "alice", "ghost", 1, ("alice/1",))
    faulty: list[TraceEvent] = [*GOOD, Corrupted(8.0, "a", "entries")]
    assert says(EVENTUALLY_SAFE, *faulty, ghost) == []
    assert len(says(EVENTUALLY_SAFE, *faulty, Quiet(8.5), ghost)) == 1
    assert len(says(EVENTUALLY_SAFE, *GOOD, ghost)) == 1
