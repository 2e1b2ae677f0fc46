"""When something is complete in a small network, and what caches bring to a subscriber that asked a moment too late."""

from __future__ import annotations

import pytest

from sluice.broker import BrokerConfig
from sluice.client.session.commands import Delivered
from sluice.protocol.complete import CacheConfig
from sluice.protocol.messages import Ack, Kind, Notify
from tests.protocol.drive import Network, line, publish, star, subscribe


@pytest.mark.parametrize("routing", ["identity", "covering", "merging", "imperfect"])
def test_a_filter_that_rides_on_another_waits_for_the_other(routing: str) -> None:
    """The first subscription is on its way when the second comes, which need not be sent: both are complete together."""
    network = line(BrokerConfig(routing=routing), 3)
    network.client("alice", "b0")
    network.client("carol", "b0")
    network.run()
    network.news.clear()
    network.hold("b1", "b2")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    subscribe(network, "carol/1", "x > 1" if routing == "identity" else "x > 2")
    network.run()
    assert len([to for _, to, _ in network.changes() if to == "b1"]) == 1
    assert network.completed() == []
    network.release("b1", "b2")
    network.run()
    assert network.completed() == ["alice/1", "carol/1"]


def test_what_was_covered_before_is_complete_at_once() -> None:
    network = line(BrokerConfig(), 2)
    network.client("alice", "b0")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    network.news.clear()
    network.hold("b0", "b1")
    subscribe(network, "alice/2", "x > 2")
    network.run()
    assert network.completed() == ["alice/2"]


def test_nothing_is_complete_before_the_farthest_broker_knows() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.run()
    network.hold("a2", "hub")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    assert network.completed() == [] and network.told("hub", "a2") == ["x > 1"]
    network.release("a2", "hub")
    network.run()
    assert network.completed() == ["alice/1"]


def test_a_neighbour_that_goes_is_not_waited_for() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.run()
    network.hold("hub", "a2")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    assert network.completed() == []
    network.cut("hub", "a2")
    network.run()
    assert network.completed() == ["alice/1"]


def test_a_client_that_goes_is_owed_nothing() -> None:
    """The driver would not let an acknowledgement go to somebody without a link."""
    network = line(BrokerConfig(), 2)
    network.client("alice", "b0")
    network.client("carol", "b0")
    network.run()
    network.hold("b1", "b0")
    subscribe(network, "alice/1", "x > 1")
    subscribe(network, "carol/1", "x > 1")
    network.run()
    network.crash("alice")
    network.release("b1", "b0")
    network.run()
    assert network.completed() == ["carol/1"]


def test_a_neighbour_that_comes_meanwhile_is_waited_for() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.run()
    network.cut("hub", "a2")
    network.hold("hub", "a1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    network.hold("hub", "a2")
    network.link("hub", "a2")
    network.release("hub", "a1")
    network.run()
    assert network.completed() == []
    network.release("hub", "a2")
    network.run()
    assert network.completed() == ["alice/1"]


def test_an_old_acknowledgement_does_not_count_on_a_new_link() -> None:
    network = line(BrokerConfig(), 2)
    network.client("alice", "b0")
    network.hold("b0", "b1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    old = network.brokers["b0"].tables[Kind.SUBSCRIPTIONS].exports["b1"].version
    network.link("b0", "b1")
    network.run()
    network.waiting("b1", "b0").append(Ack(Kind.SUBSCRIPTIONS, old))
    network.run()
    assert network.completed() == []
    network.release("b0", "b1")
    network.run()
    assert network.completed() == ["alice/1"]


# --- caches -----------------------------------------------------------------------------------------------------------


def published_meanwhile(config: BrokerConfig) -> Network:
    """A publication passes while a subscription is on its way."""
    network = line(config, 3)
    network.client("alice", "b0")
    network.client("bob", "b2")
    network.run()
    network.hold("b0", "b1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    for x in (0, 2, 3):
        publish(network, "bob", {"x": x})
    network.run()
    return network


def test_without_a_cache_what_is_published_before_is_missed() -> None:
    network = published_meanwhile(BrokerConfig())
    network.release("b0", "b1")
    network.run()
    assert network.deliveries() == []


def test_with_a_cache_what_is_published_meanwhile_comes_once_and_in_order() -> None:
    network = published_meanwhile(BrokerConfig(cache=CacheConfig()))
    network.release("b0", "b1")
    network.run()
    delivered = [each for _, each in network.news if isinstance(each, Delivered)]
    found = [each.notification.record["x"] for one in delivered for each in one.deliveries]
    assert found == [2, 3]
    network.news.clear()
    subscribe(network, "alice/2", "x > 2")
    network.client("carol", "b1")
    subscribe(network, "carol/1", "x < 3")
    network.run()
    assert [id for id, _ in network.deliveries()] == ["carol/1", "carol/1"]
    assert not any(isinstance(message, Notify) and to == "bob" for _, to, message in network.log)


def test_a_cache_is_bounded_by_number_and_by_time() -> None:
    network = published_meanwhile(BrokerConfig(cache=CacheConfig(notifications=1)))
    network.release("b0", "b1")
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 3})]
    network = published_meanwhile(BrokerConfig(cache=CacheConfig(seconds=5.0)))
    network.now = 5.0
    network.release("b0", "b1")
    network.run()
    assert network.deliveries() == []


def test_a_cache_drops_what_comes_twice() -> None:
    network = line(BrokerConfig(cache=CacheConfig()), 2)
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    network.news.clear()
    network.hold("b1", "b0")
    publish(network, "bob", {"x": 2})
    network.run()
    network.waiting("b1", "b0").extend(list(network.waiting("b1", "b0")))
    network.release("b1", "b0")
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 2})]


def test_a_second_life_is_not_taken_for_the_first() -> None:
    network = line(BrokerConfig(cache=CacheConfig()), 1)
    network.client("alice", "b0")
    subscribe(network, "alice/1", "true")
    for life in (1, 2):
        network.client("bob", "b0", incarnation=life)
        network.run()
        publish(network, "bob", {"life": life})
        network.run()
        network.crash("bob")
    assert [record["life"] for _, record in network.deliveries()] == [1, 2]
