"""A trace put in order: paths in the tree, what was down when, and who asked for what."""

from __future__ import annotations

from sluice.sim.spec.history import NEVER, SUBSCRIPTIONS, History, link
from sluice.sim.spec.matching import record_key
from sluice.sim.trace.trace import (
    Attached,
    BrokerDown,
    BrokerUp,
    Configured,
    LinkHealed,
    LinkLost,
    Quiet,
    Record,
    Subscribed,
    Topology,
    Trace,
    Unsubscribed,
)

STAGE = Topology(0.0, ("a", "b", "c", "d", "x"), (("b", "a"), ("b", "c"), ("c", "d")))


def test_a_path_is_the_brokers_and_links_between() -> None:
    history = History.of(Trace([STAGE]))
    path = history.path("a", "d")
    assert path is not None
    assert set(path) == {"a", "b", "c", "d", link("a", "b"), link("b", "c"), link("c", "d")}
    assert len(path) == 7
    assert set(history.path("d", "a") or ()) == set(path)
    assert history.path("b", "b") == ("b",)
    assert history.path("a", "x") is None
    assert history.path("a", "nowhere") is None
    assert history.path("nowhere", "a") is None


def test_without_a_topology_only_the_ends_count() -> None:
    history = History.of(Trace([Attached(0.0, "alice", "a")]))
    assert history.path("a", "b") == ("a", "b")
    assert history.path(history.broker_of("alice", 1), history.broker_of("bob", 1)) == ("a",)


def test_what_was_down_when() -> None:
    history = History.of(
        Trace(
            [
                STAGE,
                BrokerDown(1.0, "a"),
                BrokerDown(1.5, "a"),
                BrokerUp(2.0, "a"),
                LinkLost(3.0, "c", "b"),
                Quiet(4.0),
                LinkHealed(5.0, "b", "c"),
                BrokerUp(6.0, "a"),
                BrokerDown(7.0, "a"),
            ]
        )
    )
    assert history.downs == {"a": [(1, 3), (8, NEVER)], ("b", "c"): [(4, 6)]}
    assert history.is_clear(("a",), 3, 7)
    assert not history.is_clear(("a",), 2, 7)
    assert not history.is_clear(("a",), 3, 8)
    assert history.is_clear(("a",), 0, 0)
    assert not history.is_clear(("x", ("b", "c")), 5, 5)
    assert history.last_healed("a", 8) == 3
    assert history.last_healed("a", 3) is None
    assert history.last_fault == 8
    assert history.quiet_before(5) == -1
    assert history.quiet_before(6) == 5


def test_with_known_delays_links_come_up_at_the_beginning() -> None:
    history = History.of(Trace([Configured(0.0, delay_seconds=1.0), STAGE, LinkLost(2.0, "a", "b")]))
    assert history.downs[link("a", "b")] == [(-1, 1), (2, NEVER)]
    assert not history.is_clear((link("b", "c"),), 0, 1)
    assert history.is_clear((link("b", "c"),), 1, 2)


def test_a_client_may_move() -> None:
    history = History.of(Trace([Attached(0.0, "alice", "a"), Quiet(1.0), Attached(2.0, "alice", "b")]))
    assert history.broker_of("alice", 1) == "a"
    assert history.broker_of("alice", 3) == "b"
    assert not history.is_clear(("alice",), 1, 3)


def test_who_asked_for_what() -> None:
    history = History.of(
        Trace(
            [
                Subscribed(0.0, "alice", "alice/1", "price > 1"),
                Subscribed(1.0, "alice", "alice/1", "price > 1"),
                Subscribed(2.0, "alice", "alice/1", "price > 2"),
                Unsubscribed(3.0, "alice", "alice/1"),
                Unsubscribed(4.0, "alice", "alice/1"),
                Unsubscribed(4.0, "bob", "bob/1"),
            ]
        )
    )
    spans = [(wish.where, wish.start, wish.end) for wish in history.wishes[SUBSCRIPTIONS]["alice", "alice/1"]]
    assert spans == [("price > 1", 0, 2), ("price > 2", 2, 3)]
    held = [history.wish_at(SUBSCRIPTIONS, "alice", "alice/1", index) for index in range(5)]
    assert [wish and wish.where for wish in held] == [None, "price > 1", None, None, None]
    assert [wish.where for wish in history.active(SUBSCRIPTIONS, 2.5)] == ["price > 2"]


def test_records_that_differ_have_different_keys() -> None:
    records: list[Record] = [{"x": 1}, {"x": True}, {"x": 1.0}, {"x": "1"}, {"y": 1}, {"x": (1,)}, {"x": (True,)}, {}]
    assert len({record_key(record) for record in records}) == len(records)
    assert record_key({"x": 1}) == record_key({"x": 1})
