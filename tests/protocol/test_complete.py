"""Acknowledgements wait for all that had to go onward; caches keep what was missed, once and within bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sluice.errors import ConfigurationError
from sluice.protocol.batch import NotificationId, Peer, Records
from sluice.protocol.complete import Cache, CacheConfig, Completion
from sluice.protocol.export import Export
from sluice.protocol.messages import Kind, Version
from tests.protocol.drive import entry


class Neighbours:
    """Exports to neighbours, all settled at first, and the completion that waits for them."""

    def __init__(self, *names: Peer) -> None:
        self.completion = Completion()
        self.exports: dict[Peer, Export] = {}
        for name in names:
            self.exports[name] = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
            self.ack(name)

    def tell(self, name: Peer) -> None:
        """Sends a neighbour one more change."""
        export = self.exports[name]
        export.change([entry(f"x = {export.version.sequence}")], [])

    def ack(self, name: Peer, sequence: int | None = None) -> None:
        export = self.exports[name]
        export.acknowledge(Version(1, export.version.sequence if sequence is None else sequence))

    def owe(self, peer: Peer, sequence: int) -> None:
        others = ((other, export) for other, export in self.exports.items() if other != peer)
        self.completion.owe(peer, Version(1, sequence), others)

    def settle(self) -> dict[Peer, int]:
        found = list(self.completion.settle(self.exports))
        assert len(dict(found)) == len(found)
        return {peer: version.sequence for peer, version in found}


def test_what_goes_nowhere_is_acknowledged_at_once() -> None:
    network = Neighbours("a", "b")
    network.owe("a", 3)
    assert network.completion.is_waiting
    assert network.settle() == {"a": 3}
    assert network.settle() == {} == network.completion._owed


def test_an_acknowledgement_waits_for_every_neighbour_but_the_one_it_is_for() -> None:
    network = Neighbours("a", "b", "c")
    for name in "abc":
        network.tell(name)
    network.owe("a", 1)
    assert network.settle() == {}
    network.ack("b")
    assert network.settle() == {}
    network.ack("c")
    assert network.settle() == {"a": 1}


def test_a_filter_that_rides_on_another_waits_for_the_other() -> None:
    """Nothing is sent for the second request, as the first covers it: it is complete when the first is."""
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.owe("y", 1)
    assert network.settle() == {}
    network.ack("b")
    assert network.settle() == {"x": 1, "y": 1}


def test_a_request_does_not_wait_for_what_came_after_it() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.tell("b")
    network.owe("y", 1)
    network.ack("b", 1)
    assert network.settle() == {"x": 1}
    network.ack("b", 2)
    assert network.settle() == {"y": 1}


def test_the_latest_of_several_is_enough_and_they_stay_in_order() -> None:
    network = Neighbours("b")
    network.owe("x", 1)
    network.owe("x", 2)
    assert network.settle() == {"x": 2}
    network.tell("b")
    network.owe("x", 3)
    network.ack("b")
    network.tell("b")
    network.owe("x", 4)
    assert network.settle() == {"x": 3}
    assert network.settle() == {}


def test_nobody_waits_for_a_neighbour_that_has_gone() -> None:
    network = Neighbours("b", "c")
    network.tell("b")
    network.tell("c")
    network.owe("x", 1)
    del network.exports["b"]
    network.completion.forget("b")
    assert network.settle() == {}
    network.ack("c")
    assert network.settle() == {"x": 1}


def test_a_peer_that_has_gone_is_owed_nothing() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.completion.forget("x")
    network.ack("b")
    assert not network.completion.is_waiting and network.settle() == {}


def test_what_waits_when_a_neighbour_comes_waits_for_it_too() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.exports["c"] = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
    network.owe("c", 7)
    network.completion.await_also("c", 0, ["x", "y"])
    network.ack("b")
    assert network.settle() == {"c": 7}, "the new one is not to wait for itself"
    network.ack("c")
    assert network.settle() == {"x": 1}


def test_a_neighbour_that_comes_back_is_waited_for_anew() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.completion.forget("b")
    network.exports["b"] = Export(Kind.SUBSCRIPTIONS, Version(1, 2))
    network.completion.await_also("b", 2, ["x"])
    network.ack("b", 1)
    assert network.settle() == {}
    network.ack("b", 2)
    assert network.settle() == {"x": 1}


def test_a_wait_for_who_has_gone_does_not_come_back_with_its_name() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.completion.forget("b")
    network.exports["b"] = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
    assert network.settle() == {"x": 1}


def test_an_acknowledgement_of_another_incarnation_settles_nothing() -> None:
    network = Neighbours("b")
    network.tell("b")
    network.owe("x", 1)
    network.exports["b"].acknowledge(Version(0, 9))
    network.exports["b"].acknowledge(Version(2, 9))
    assert network.settle() == {}


def test_damage_does_not_make_anybody_wait_for_ever() -> None:
    network = Neighbours("b", "c")
    network.tell("b")
    network.owe("x", 1)
    waits = network.completion._owed["x"][0][1]
    waits["b"], waits["ghost"] = 10**9, 5
    network.completion.clamp(network.exports)
    assert network.settle() == {}
    network.ack("b")
    assert network.settle() == {"x": 1}


# --- caches -----------------------------------------------------------------------------------------------------------


def note(number: int, **record: Any) -> Records:
    return Records.of("p", number, [record])


def missed(cache: Cache, peer: Peer, *texts: str, now: float = 0.0) -> list[int]:
    added = [entry(text) for text in texts]
    return [each.id.number for each in cache.missed(peer, added, lambda source: source != peer, now)]


def missed_by_client(cache: Cache, peer: Peer, **texts: str) -> list[tuple[int, tuple[str, ...]]]:
    added = [entry(text, f"{peer}/{name}") for name, text in texts.items()]
    return [(each.id.number, ids) for each, ids in cache.missed_by_client(peer, added, 0.0)]


def test_what_was_missed_comes_in_order() -> None:
    cache = Cache(CacheConfig())
    for number in (3, 1, 2):
        assert cache.keep(note(number, x=number), "b", 0.0)
    assert missed(cache, "a", "x < 3", "x = 1") == [1, 2]
    assert missed(cache, "a", "x < 3") == [], "none goes the same way twice"
    assert missed(cache, "c", "x < 3") == [1, 2], "but every way once"
    assert missed(cache, "b", "x < 3") == [], "and none back"


def test_the_subscriptions_of_a_client_count_one_by_one() -> None:
    cache = Cache(CacheConfig())
    for number in (3, 1, 2):
        cache.keep(note(number, x=number), "b", 0.0)
    assert missed_by_client(cache, "a", one="x < 3", two="x = 1") == [(1, ("a/one", "a/two")), (2, ("a/one",))]
    assert missed_by_client(cache, "a", one="x < 3") == []
    assert missed_by_client(cache, "a", three="x < 3") == [(1, ("a/three",)), (2, ("a/three",))]
    assert missed_by_client(cache, "b", one="x < 3") == [], "what a client has published itself it does not miss"


def test_what_has_reached_a_peer_was_not_missed() -> None:
    cache = Cache(CacheConfig())
    cache.keep(note(1, x=1), "b", 0.0)
    cache.reached(NotificationId("p", 1), ["a"])
    cache.reached(NotificationId("p", 2), ["a"])
    assert missed(cache, "a", "true") == [] and len(missed(cache, "c", "true")) == 1


def test_a_notification_that_was_here_is_known() -> None:
    cache = Cache(CacheConfig())
    assert cache.keep(note(1, x=1), "b", 0.0) and not cache.keep(note(1, x=1), "b", 0.0)
    assert cache.keep(Records.of("q", 1, [{}]), "b", 0.0)
    both = Records.of("p", 1, [{"x": 1}, {"x": 2}])
    assert cache.keep(both, "b", 0.0) == [1], "the other one is new"


def test_a_cache_keeps_so_many() -> None:
    cache = Cache(CacheConfig(notifications=2))
    for number in range(5):
        cache.keep(note(number, x=number), "b", 0.0)
    assert missed(cache, "a", "true") == [3, 4]


def test_a_cache_keeps_so_long() -> None:
    cache = Cache(CacheConfig(seconds=10.0))
    for number in range(3):
        cache.keep(note(number, x=number), "b", float(number))
    assert missed(cache, "a", "true", now=9.9) == [0, 1, 2]
    assert missed(cache, "c", "true", now=11.0) == [2]
    assert cache.keep(note(1, x=1), "b", 11.0), "it has been forgotten"


@pytest.mark.parametrize("damage", [math.inf, math.nan, 1e12])
def test_a_damaged_cache_keeps_nothing_for_ever(damage: float) -> None:
    cache = Cache(CacheConfig(seconds=10.0))
    cache.keep(note(1, x=1), "b", 0.0)
    cache.keep(note(2, x=1), "b", 0.0)
    cache._kept[NotificationId("p", 1)].expires = damage
    cache.clamp(5.0)
    assert missed(cache, "a", "true", now=15.0) == []


@pytest.mark.parametrize("options", [{"notifications": 0}, {"seconds": 0.0}, {"seconds": math.nan}])
def test_a_cache_of_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="keeps nothing"):
        CacheConfig(**options)
