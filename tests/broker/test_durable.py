"""What a broker takes in: it says so, once; a durable one has it stored first, and nobody hears of it before."""

from __future__ import annotations

import pytest

from sluice.broker import BrokerConfig
from sluice.client.session.commands import PublishAccepted, PublishRefused, Unadvertise
from sluice.protocol.batch import Batch, Logged
from sluice.protocol.events import NotStored, Store, Stored
from sluice.protocol.messages import Accepted, Halted, Heard, Notify
from tests.protocol.drive import Network, advertise, line, publish, subscribe

DURABLE = BrokerConfig(durable=True)


def network_of(config: BrokerConfig) -> Network:
    """alice at b0 wants everything that bob publishes at b1."""
    network = line(config, 2)
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "true")
    network.run()
    network.news.clear()
    network.log.clear()
    return network


def stores(network: Network) -> list[tuple[list[int], int]]:
    """The numbers that brokers want to have stored, and after which; all of it is forgotten."""
    found = [effect for _, effect in network.asked if isinstance(effect, Store)]
    network.asked.clear()
    return [([*batch.numbers], after) for batch, after, _ in found]


def store(network: Network, offset: int = 1) -> None:
    """The disk of b1 has all that it was given."""
    for name, effect in list(network.asked):
        assert isinstance(effect, Store)
        offsets = range(offset, offset + len(effect.batch))
        offset += len(effect.batch)
        network.tell(name, Stored(effect.batch.placed(Logged(name, offsets, 0, effect.moment))))
    network.asked.clear()
    network.run()


def accepted(network: Network) -> list[int]:
    return [message.number for _, _, message in network.log if isinstance(message, Accepted)]


def again(network: Network, batch: Batch) -> None:
    """The link of bob repeats something."""
    network.waiting("bob", "b1").append(Notify(batch))
    network.run()


def test_what_is_taken_in_is_accepted_and_what_comes_again_does_not_count() -> None:
    network = network_of(BrokerConfig())
    batch = network.clients["bob"].batch([{"x": 1}, {"x": 2}])
    publish(network, "bob", {"x": 1}, {"x": 2})
    network.run()
    assert accepted(network) == [2]
    again(network, batch)
    again(network, batch.take([1]))
    assert accepted(network) == [2, 2, 2], "the publisher may not have heard it"
    assert network.deliveries() == [("alice/1", {"x": 1}), ("alice/1", {"x": 2})]


def test_what_is_refused_is_not_taken_in_and_the_rest_is() -> None:
    network = network_of(BrokerConfig(advertisements="simple"))
    advertise(network, "bob/1", "x > 1")
    network.run()
    network.news.clear()
    publish(network, "bob", {"x": 1}, {"x": 2}, {"x": 1}, {"x": 3})
    network.run()
    assert [(each.id.number) for _, each in network.news if isinstance(each, PublishRefused)] == [1, 3]
    assert accepted(network) == [4]
    assert network.deliveries() == [("alice/1", {"x": 2}), ("alice/1", {"x": 3})]


def test_nothing_goes_on_before_it_is_stored() -> None:
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    publish(network, "bob", {"x": 2}, {"x": 3})
    network.run()
    assert [(sender, to) for sender, to, _ in network.log] == [("bob", "b1"), ("bob", "b1")]
    store(network)
    assert [each.number for _, each in network.news if isinstance(each, PublishAccepted)] == [1, 3]
    notified = [message.batch.logged_at() for _, _, message in network.log if isinstance(message, Notify)][2:]
    assert notified == [("b1", [1], 0, 1), ("b1", [2, 3], 0, 2)], "it says where it stands in the log"
    assert len(network.deliveries()) == 3


def test_a_broker_on_the_way_stores_nothing() -> None:
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    network.run()
    assert [name for name, _ in network.asked] == ["b1"]
    store(network)
    assert network.asked == [] and len(network.deliveries()) == 1


def test_what_comes_again_is_stored_once() -> None:
    network = network_of(DURABLE)
    batch = network.clients["bob"].batch([{"x": 1}, {"x": 2}])
    publish(network, "bob", {"x": 1}, {"x": 2})
    network.run()
    again(network, batch)
    assert stores(network) == [([1, 2], 0)] and accepted(network) == [0], "nothing is settled yet"


def test_a_broker_that_restarts_knows_what_its_disk_holds() -> None:
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    publish(network, "bob", {"x": 2})
    network.run()
    (neighbours, bob) = network.crash("b1")
    assert (neighbours, bob) == ("b0", "bob")
    network.asked.clear()
    network.broker("b1", "b0", "bob", incarnation=2, accepted={"bob": 1})
    network.run()
    assert stores(network) == [([2], 1)], "the publisher has sent the rest again by itself"
    store(network, 2)
    assert network.take_news(PublishAccepted)[-1] == ("bob", PublishAccepted(1))


def test_what_was_stored_while_its_publisher_was_away_is_settled() -> None:
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    network.run()
    network.cut("b1", "bob")
    store(network)
    network.link("b1", "bob")
    network.run()
    assert stores(network) == [] and [each.number for _, each in network.news if isinstance(each, PublishAccepted)] == [
        1
    ]
    assert network.deliveries() == [("alice/1", {"x": 1})]


def test_what_could_not_be_stored_is_refused_with_all_that_follows_it() -> None:
    network = network_of(DURABLE)
    for x in (1, 2, 3):
        publish(network, "bob", {"x": x})
    network.run()
    first, *others = [effect.batch for _, effect in network.asked if isinstance(effect, Store)]
    network.asked.clear()
    network.tell("b1", Stored(first.placed(Logged("b1", [1], 0))))
    network.tell("b1", NotStored(others[0], 1, "the disk is full"))
    assert network.log[-1] == ("b1", "bob", Halted(2, "the disk is full"))
    publish(network, "bob", {"x": 0})
    network.deliver_one("bob", "b1")
    assert stores(network) == [], "nothing is taken before the publisher has heard of it"
    network.run()
    assert ("bob", "b1", Heard()) in network.log
    publish(network, "bob", {"x": 4})
    network.run()
    network.tell("b1", NotStored(others[1], 1, "the disk is full"))
    network.run()
    assert stores(network) == [([5], 1)]
    refused = [each for _, each in network.news if isinstance(each, PublishRefused)]
    assert [each.id.number for each in refused] == [2, 3, 4] and {each.reason for each in refused} == {
        "the disk is full"
    }
    assert network.deliveries() == [("alice/1", {"x": 1})]


@pytest.mark.parametrize("resent", [False, True])
def test_what_fails_after_its_publisher_came_back_is_refused(resent: bool) -> None:
    """Also what it has just sent again: the broker does not take it before the publisher has heard."""
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    network.run()
    ((_, asked),) = network.asked
    assert isinstance(asked, Store)
    network.asked.clear()
    network.cut("b1", "bob")
    network.link("b1", "bob")
    if resent:
        network.run()
    network.tell("b1", NotStored(asked.batch, 0, "the disk is full"))
    network.run()
    assert [each.id.number for _, each in network.news if isinstance(each, PublishRefused)] == [1]
    assert stores(network) == []


def test_a_publisher_that_did_not_hear_of_a_failure_sends_again_what_failed_and_what_followed() -> None:
    """What followed must not be stored before it: the failed one would pass for an old one then."""
    network = network_of(DURABLE)
    publish(network, "bob", {"x": 1})
    network.run()
    ((_, asked),) = network.asked
    assert isinstance(asked, Store)
    network.asked.clear()
    publish(network, "bob", {"x": 2})
    network.tell("b1", NotStored(asked.batch, 0, "the disk is full"))
    network.deliver_one("bob", "b1")
    network.cut("b1", "bob")
    network.link("b1", "bob")
    network.run()
    assert stores(network) == [([1], 0), ([2], 1)]
    assert not [each for _, each in network.news if isinstance(each, PublishRefused)]
    assert not any(each.number for _, each in network.take_news(PublishAccepted))


def with_a_refusal_unheard() -> Network:
    """bob's second publication follows one that is not advertised, and bob hears nothing."""
    network = network_of(BrokerConfig(durable=True, advertisements="simple"))
    advertise(network, "bob/1", "x > 1")
    network.run()
    network.news.clear()
    publish(network, "bob", {"x": 1})
    publish(network, "bob", {"x": 2})
    network.hold("b1", "bob")
    network.run()
    return network


def test_a_refusal_that_got_lost_is_said_again() -> None:
    network = with_a_refusal_unheard()
    store(network)
    network.cut("b1", "bob")
    network.release("b1", "bob")
    network.link("b1", "bob")
    network.run()
    assert [each.id.number for _, each in network.news if isinstance(each, PublishRefused)] == [1]
    store(network)
    network.run()
    assert network.take_news(PublishAccepted)[-1] == ("bob", PublishAccepted(2))


def test_what_was_refused_unheard_and_is_advertised_by_now_is_stored() -> None:
    network = with_a_refusal_unheard()
    assert stores(network) == [], "what follows something refused waits until that is heard"
    network.cut("b1", "bob")
    network.release("b1", "bob")
    advertise(network, "bob/2", "x = 1")
    network.link("b1", "bob")
    network.run()
    assert stores(network) == [([1], 0), ([2], 1)]
    assert not [each for _, each in network.news if isinstance(each, PublishRefused)]


def test_what_is_on_disk_counts_whatever_is_advertised_now() -> None:
    network = network_of(BrokerConfig(durable=True, advertisements="simple"))
    advertise(network, "bob/1", "x > 1")
    network.run()
    publish(network, "bob", {"x": 2})
    network.hold("b1", "bob")
    network.run()
    store(network)
    network.cut("b1", "bob")
    network.release("b1", "bob")
    network.do("bob", Unadvertise("bob/1"))
    network.link("b1", "bob")
    network.run()
    assert not [each for _, each in network.news if isinstance(each, PublishRefused)]
    assert network.take_news(PublishAccepted)[-1] == ("bob", PublishAccepted(1))
