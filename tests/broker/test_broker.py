"""Small networks of brokers: what arrives where and what is told to whom."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice import parse
from sluice.broker import Broker, BrokerConfig
from sluice.client.session.commands import (
    Advertise,
    Completed,
    Delivered,
    InterestChanged,
    Publish,
    PublishRefused,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watch,
)
from sluice.errors import ConfigurationError
from sluice.match import filterset
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Notification, NotificationId, Peer, Records
from sluice.protocol.events import LinkDown, LinkUp, Received, Tick
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Change,
    Deliver,
    Delivery,
    EntryId,
    Halted,
    Heard,
    Kind,
    Message,
    Notify,
    Refused,
    Reply,
    Request,
    Role,
    Snapshot,
    Version,
)
from sluice.protocol.questions import Describe, Done, ReplayEvent
from sluice.protocol.route import ALGORITHMS, Ratio, RoutingOptions
from tests.protocol.drive import Network, advertise, entry, line, publish, sends, star, subscribe
from tests.protocol.route.some import Some

ADVERTISEMENTS = (None, "simple", "covering", "merging")


class Crowd:
    """Clients of a network that do whatever comes to their minds, and what should come of it."""

    def __init__(self, network: Network, source: random.Random) -> None:
        self.network = network
        self.some = Some(source)
        self.homes: dict[Peer, Peer] = {}
        self.subscribed: dict[EntryId, Subscription] = {}
        self.advertised: dict[EntryId, Subscription] = {}
        self._lives: dict[Peer, int] = {}

    def come(self, name: Peer, home: Peer) -> None:
        self.homes[name] = home
        self._lives[name] = self._lives.get(name, 0) + 1
        self.network.client(name, home, incarnation=self._lives[name])

    def go(self, name: Peer) -> None:
        """A client vanishes."""
        del self.homes[name]
        self.network.crash(name)
        for held in (self.subscribed, self.advertised):
            for id in [id for id in held if id.startswith(name + "/")]:
                del held[id]

    def act(self) -> None:
        pick = self.some.random.choice
        name = pick(list(self.homes))
        session = self.network.clients[name]
        mine = [id for id in self.subscribed if id.startswith(name + "/")]
        promised = [id for id in self.advertised if id.startswith(name + "/")]
        match self.some.random.randrange(8):
            case 0 | 1 | 2:
                id, where = session.new_id(), self.some.filter()
                self.subscribed[id] = where
                self.network.do(name, Subscribe(id, where))
            case 3 | 4 if mine:
                id = pick(mine)
                del self.subscribed[id]
                self.network.do(name, Unsubscribe(id))
            case 5 | 6:
                id, where = session.new_id(), self.some.filter()
                self.advertised[id] = where
                self.network.do(name, Advertise(id, where))
            case 7 if promised:
                id = pick(promised)
                del self.advertised[id]
                self.network.do(name, Unadvertise(id))
            case _:
                home = pick(list(self.homes.values()))
                self.go(name)
                self.come(name, home)

    def check_publication(self, name: Peer, record: dict[str, Any]) -> None:
        """What is published arrives where it should, once; or is refused."""
        self.network.news.clear()
        publish(self.network, name, record)
        self.network.run()
        refused = [each for _, each in self.network.news if isinstance(each, PublishRefused)]
        ways = [where for id, where in self.advertised.items() if id.startswith(name + "/")]
        if self.network.config.advertisements and not any(way.matches(record) for way in ways):
            assert len(refused) == 1 and self.network.deliveries() == []
            return
        assert not refused
        found = [id for id, _ in self.network.deliveries()]
        assert found == sorted(id for id, where in self.subscribed.items() if where.matches(record))


def play(routing: str, advertisements: str | None, seed: int) -> None:
    source = random.Random(seed)
    network = Network(BrokerConfig(routing=routing, advertisements=advertisements))
    brokers = source.randint(1, 6)
    for i in range(brokers):
        network.broker(f"b{i}", *([f"b{source.randrange(i)}"] if i else []))
    crowd = Crowd(network, source)
    for i in range(4):
        crowd.come(f"c{i}", f"b{source.randrange(brokers)}")
    for _ in range(3):
        for _ in range(8):
            crowd.act()
            if source.random() < 0.4:
                network.run()
        if brokers > 1 and source.random() < 0.5:
            links = [(a, b) for a, b in network._links if a < b and {a, b} <= network.brokers.keys()]
            a, b = source.choice(links)
            network.cut(a, b)
            if source.random() < 0.5:
                network.run()
            network.link(a, b)
        network.run()
        network.assert_consistent()
    complete = {each.id for _, each in network.news if isinstance(each, Completed)}
    assert crowd.subscribed.keys() | crowd.advertised.keys() <= complete
    for record in crowd.some.records([*crowd.subscribed.values(), *crowd.advertised.values()][:5]):
        crowd.check_publication(source.choice(list(crowd.homes)), record)
    for name in list(crowd.homes):
        crowd.go(name)
    network.run()
    network.assert_consistent()
    if routing != "flooding":
        for broker in network.brokers.values():
            assert not any(export.sent for export in _exports(broker) if export.kind != Kind.BROKERS)


def _exports(broker: Broker) -> list[Any]:
    return [export for table in broker.tables.values() for export in table.exports.values()]


@pytest.mark.parametrize("advertisements", ADVERTISEMENTS, ids=str)
@pytest.mark.parametrize("routing", ALGORITHMS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_every_algorithm_delivers_what_matches(routing: str, advertisements: str | None, seed: int) -> None:
    play(routing, advertisements, seed)


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_every_algorithm_delivers_what_matches_with_an_index(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", 0)
        play("merging", "covering", seed)


# --- who is told what -------------------------------------------------------------------------------------------------


def test_a_change_costs_one_message_for_each_link_with_simple_routing() -> None:
    network = line(BrokerConfig(routing="simple"), 5)
    network.client("alice", "b2")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    assert len(list(network.changes())) == 4
    network.do("alice", Unsubscribe("alice/1"))
    network.run()
    assert len(list(network.changes())) == 8


def test_with_advertisements_a_change_costs_the_way_to_the_producer() -> None:
    network = line(BrokerConfig(routing="simple", advertisements="simple"), 5)
    network.client("alice", "b1")
    network.client("bob", "b4")
    advertise(network, "bob/1", "x > 5")
    network.run()
    subscribe(network, "alice/1", "x > 1")
    subscribe(network, "alice/2", "x < 1")
    network.run()
    assert [(sender, receiver) for sender, receiver, _ in network.changes()] == [
        ("b1", "b2"),
        ("b2", "b3"),
        ("b3", "b4"),
    ]
    network.do("bob", Unadvertise("bob/1"))
    network.run()
    assert network.told("b1", "b2") == [] and len(list(network.changes())) == 6


def test_a_subscription_waits_for_an_advertisement_to_come() -> None:
    network = line(BrokerConfig(advertisements="covering"), 3)
    network.client("alice", "b0")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    assert network.completed() == ["alice/1"] and network.told("b0", "b1") == []
    network.client("bob", "b2")
    advertise(network, "bob/1", "x = 5")
    network.run()
    assert network.completed(Kind.ADVERTISEMENTS) == ["bob/1"] and network.told("b1", "b2") == ["x > 1"]
    publish(network, "bob", {"x": 5})
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 5})]


def test_an_advertisement_is_complete_when_the_subscriptions_have_come() -> None:
    """The subscriptions that answer an advertisement are on the link before its acknowledgement."""
    network = line(BrokerConfig(advertisements="covering"), 2)
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    network.news.clear()
    network.hold("b0", "b1")
    advertise(network, "bob/1", "x = 5")
    network.run()
    assert network.completed(Kind.ADVERTISEMENTS) == []
    kinds = [type(message) for message in network.waiting("b0", "b1")]
    assert kinds.index(Change) < kinds.index(Ack)
    network.release("b0", "b1")
    network.run()
    assert network.completed(Kind.ADVERTISEMENTS) == ["bob/1"]


def test_without_advertisements_none_are_told_and_all_may_publish() -> None:
    network = line(BrokerConfig(), 2)
    network.client("bob", "b0")
    advertise(network, "bob/1", "x = 5")
    network.run()
    assert network.completed(Kind.ADVERTISEMENTS) == ["bob/1"]
    assert not any(
        getattr(message, "kind", None) == Kind.ADVERTISEMENTS for _, to, message in network.log if to == "b1"
    )
    network.client("alice", "b1")
    subscribe(network, "alice/1", "true")
    network.run()
    publish(network, "bob", {"x": 6})
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 6})]


def test_uncovered_filters_travel_with_what_uncovers_them() -> None:
    network = star(BrokerConfig(routing="covering"), 3)
    network.client("alice", "a0")
    network.client("carol", "a0")
    subscribe(network, "alice/1", "x > 1")
    for number, text in enumerate(("x > 2", "x BETWEEN 5 AND 6", "x = 3 AND y = 1")):
        subscribe(network, f"carol/{number}", text)
    network.run()
    before = len(list(network.changes()))
    network.do("alice", Unsubscribe("alice/1"))
    network.run()
    changes = list(network.changes())[before:]
    assert [(sender, to) for sender, to, _ in changes] == [("a0", "hub"), ("hub", "a1"), ("hub", "a2")]
    assert {(change.added, change.removed) for _, _, change in changes} == {((entry("x > 2"),), (entry("x > 1"),))}


@pytest.mark.parametrize("routing", ALGORITHMS)
def test_the_entries_of_clients_are_exact(routing: str) -> None:
    network = line(BrokerConfig(routing=routing), 2)
    network.client("alice", "b0")
    for number, text in enumerate(("x > 1", "x > 2", "x > 2")):
        subscribe(network, f"alice/{number}", text)
    network.run()
    network.client("bob", "b1")
    publish(network, "bob", {"x": 2})
    publish(network, "bob", {"x": 3})
    network.run()
    assert [id for id, _ in network.deliveries()] == ["alice/0", "alice/0", "alice/1", "alice/2"]
    held = network.brokers["b0"].tables[Kind.SUBSCRIPTIONS].replicas["alice"].entries
    assert list(held) == [entry("x > 1", "alice/0"), entry("x > 2", "alice/1"), entry("x > 2", "alice/2")]


@pytest.mark.parametrize("routing", ALGORITHMS)
def test_a_twin_goes_on_when_the_other_is_taken_back(routing: str) -> None:
    network = line(BrokerConfig(routing=routing), 2)
    network.client("alice", "b0")
    network.client("carol", "b0")
    network.client("bob", "b1")
    for id in ("alice/1", "alice/2", "carol/1"):
        subscribe(network, id, "x > 1")
    network.run()
    network.do("alice", Unsubscribe("alice/1"))
    network.do("carol", Unsubscribe("carol/1"))
    network.do("carol", Unsubscribe("carol/1"))
    network.run()
    network.news.clear()
    publish(network, "bob", {"x": 2})
    network.run()
    assert network.deliveries() == [("alice/2", {"x": 2})]


def test_to_subscribe_twice_is_to_subscribe_once() -> None:
    network = line(BrokerConfig(routing="simple"), 2)
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "x > 1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    assert network.completed() == ["alice/1"] and len(list(network.changes())) == 1
    publish(network, "bob", {"x": 2})
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 2})]
    network.do("alice", Unsubscribe("alice/1"))
    network.run()
    assert network.told("b0", "b1") == []


def test_a_notification_travels_only_where_it_is_wanted() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.client("bob", "a1")
    subscribe(network, "alice/1", "x > 1")
    subscribe(network, "alice/2", "x > 2")
    network.run()
    network.log.clear()
    publish(network, "bob", {"x": 5})
    publish(network, "bob", {"x": 0})
    network.run()
    assert [(sender, to) for sender, to, message in network.log if not isinstance(message, Accepted)] == [
        ("bob", "a1"),
        ("bob", "a1"),
        ("a1", "hub"),
        ("hub", "a0"),
        ("a0", "alice"),
    ]


def test_a_batch_stays_a_batch() -> None:
    network = line(BrokerConfig(), 2)
    network.client("alice", "b1")
    subscribe(network, "alice/1", "x > 1")
    subscribe(network, "alice/2", "x > 2")
    network.run()
    network.client("bob", "b0")
    network.run()
    network.log.clear()
    batch = network.clients["bob"].batch({"x": number} for number in range(4))
    network.do("bob", Publish(batch))
    network.run()
    assert network.log == [
        ("bob", "b0", Notify(batch)),
        ("b0", "bob", Accepted(4)),
        ("b0", "b1", Notify(batch.take([2, 3]))),
        ("b1", "alice", Deliver(batch.take([2, 3]), (("alice/1",), ("alice/1", "alice/2")), [0, 1])),
    ]
    deliveries = network.take_news(Delivered)
    assert [each for _, one in deliveries for each in one.deliveries] == [
        Delivery(Notification(NotificationId("bob", 3), {"x": 2}), ("alice/1",)),
        Delivery(Notification(NotificationId("bob", 4), {"x": 3}), ("alice/1", "alice/2")),
    ]
    publish(network, "bob", {"x": 8}, {"x": 9})
    network.run()
    assert [one.which for _, one in network.take_news(Delivered)] == [()], "one combination needs no list"


@pytest.mark.parametrize(("limit", "texts"), [(1.0, 2), (3.0, 1)])
def test_the_policy_of_the_configuration_is_used(limit: float, texts: int) -> None:
    network = line(BrokerConfig(routing="imperfect", options=RoutingOptions(Ratio(limit))), 2)
    network.client("alice", "b0")
    subscribe(network, "alice/1", "x BETWEEN 0 AND 10")
    subscribe(network, "alice/2", "x BETWEEN 20 AND 30")
    network.run()
    (told,) = network.told("b0", "b1")
    assert told.count("BETWEEN") == texts


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_was_not_advertised_is_refused() -> None:
    network = line(BrokerConfig(advertisements="covering"), 2)
    network.client("alice", "b1")
    network.client("bob", "b0")
    network.client("eve", "b0")
    subscribe(network, "alice/1", "true")
    advertise(network, "bob/1", "x > 5")
    network.run()
    network.news.clear()
    publish(network, "bob", {"x": 5})
    publish(network, "eve", {"x": 6})
    publish(network, "bob", {"x": 6})
    network.run()
    refused = [(name, each) for name, each in network.news if isinstance(each, PublishRefused)]
    assert [(name, each.id) for name, each in refused] == [
        ("bob", NotificationId("bob", 1)),
        ("eve", NotificationId("eve", 1)),
    ]
    assert "none of the 1 advertisements of 'bob'" in refused[0][1].reason
    assert "advertise it first" in refused[1][1].reason
    assert network.deliveries() == [("alice/1", {"x": 6})]
    network.do("bob", Unadvertise("bob/1"))
    publish(network, "bob", {"x": 6})
    network.run()
    assert len(network.take_news(PublishRefused)) == 1


def test_nobody_publishes_under_another_name() -> None:
    network = line(BrokerConfig(), 1)
    network.client("eve", "b0")
    subscribe(network, "eve/1", "true")
    network.run()
    network.waiting("eve", "b0").append(Notify(Records.of("bob", 1, [{"x": 1}])))
    network.run()
    assert [each.reason for _, each in network.take_news(PublishRefused)] == [
        "it says it is from 'bob': publish under your own name"
    ]


def test_an_unknown_algorithm_is_refused() -> None:
    for config in (BrokerConfig(routing="gossip"), BrokerConfig(advertisements="gossip")):
        with pytest.raises(ConfigurationError, match="gossip"):
            Broker("b", config)


def test_messages_from_strangers_and_for_others_are_ignored() -> None:
    broker = Broker("b", BrokerConfig())
    snapshot = Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), (entry("x > 1", "eve/1"),))
    assert broker.step(Received("eve", snapshot), 0.0) == []
    assert broker.step(LinkDown("eve"), 0.0) == [] and broker.step(Tick(), 0.0) == []
    broker.step(LinkUp("eve", Role.CLIENT), 0.0)
    strange: list[Message] = [
        Snapshot(Kind.INTEREST, Version(1, 0), (entry("x > 1", "bob/1"),)),
        Deliver(Records.of("bob", 1, [{}]), ((),)),
        Refused((1,), ""),
        Accepted(7),
        Halted(1, ""),
        Heard(),
        Ack(Kind.SUBSCRIPTIONS, Version(1, 5)),
        Request("bob/2", "nobody/1", ReplayEvent()),
        Notify(Records.of("eve", 1, [])),
        Request("bob/1", "b", Describe()),
        Reply("bob/1", Done()),
        Snapshot(Kind.BROKERS, Version(1, 0), (entry("true", "b9"),)),
    ]
    for message in strange:
        assert broker.step(Received("eve", message), 0.0) == []
    assert "eve" not in broker.tables[Kind.INTEREST].replicas and "eve" not in broker.tables[Kind.BROKERS].replicas
    assert broker.deadline == math.inf


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_client_that_vanishes_is_cleaned_up_everywhere() -> None:
    network = line(BrokerConfig(advertisements="simple"), 3)
    network.client("alice", "b0")
    network.client("bob", "b2")
    network.do("bob", Watch("bob/9", parse("true")))
    advertise(network, "bob/1", "true")
    subscribe(network, "alice/1", "x > 1")
    advertise(network, "alice/2", "y > 1")
    network.do("alice", Watch("alice/3", parse("true")))
    network.run()
    network.news.clear()
    network.crash("alice")
    network.run()
    assert network.take_news(InterestChanged) == [("bob", InterestChanged((), (entry("x > 1", "alice/1"),)))]
    for name, neighbour in (("b0", "b1"), ("b1", "b2")):
        for kind in set(Kind) - {Kind.BROKERS}:
            assert network.told(name, neighbour, kind) == []
    assert "alice" not in network.brokers["b0"].roles
    network.assert_consistent()


def test_nothing_is_sent_over_a_link_that_is_down() -> None:
    """The driver checks it at every step; here is a peer that steers what it is told."""
    network = line(BrokerConfig(advertisements="simple"), 2)
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "true")
    subscribe(network, "bob/1", "true")
    for name in ("alice", "bob"):
        advertise(network, f"{name}/2", "x > 1")
        network.do(name, Watch(f"{name}/3", parse("true")))
    network.run()
    assert network.brokers["b0"].step(LinkDown("alice"), 0.0)
    assert {peer for peer, _ in sends(network.brokers["b0"], LinkUp("b1", Role.BROKER))} == {"b1"}
    assert {peer for peer, _ in sends(network.brokers["b1"], LinkDown("b0"))} == {"bob"}


def test_a_link_that_comes_up_again_starts_afresh() -> None:
    broker = Broker("b", BrokerConfig())
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    broker.step(LinkUp("c", Role.BROKER), 0.0)
    broker.step(Received("a", Snapshot(Kind.SUBSCRIPTIONS, Version(1, 1), (entry("x > 1"),))), 0.0)
    first = broker.tables[Kind.SUBSCRIPTIONS].exports["a"].version
    effects = sends(broker, LinkUp("a", Role.BROKER))
    assert not broker.tables[Kind.SUBSCRIPTIONS].replicas["a"].entries
    to_a = [message for peer, message in effects if peer == "a"]
    assert all(isinstance(message, Snapshot) for message in to_a) and len(to_a) == 4
    assert broker.tables[Kind.SUBSCRIPTIONS].exports["a"].version > first
    gone = [message for peer, message in effects if peer == "c"]
    assert [(message.added, message.removed) for message in gone if isinstance(message, Change)] == [
        ((), (entry("x > 1"),))
    ]


def test_a_broker_that_restarts_learns_all_again() -> None:
    network = star(BrokerConfig(advertisements="covering"), 2)
    network.client("alice", "a0")
    network.client("bob", "a1")
    subscribe(network, "alice/1", "x > 1")
    advertise(network, "bob/1", "x > 1")
    network.run()
    neighbours = network.crash("hub")
    network.run()
    assert "hub" not in network.brokers["a0"].roles
    network.broker("hub", *neighbours, incarnation=2)
    network.run()
    network.assert_consistent()
    network.news.clear()
    publish(network, "bob", {"x": 2})
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 2})]


def test_two_networks_become_one_and_two_again() -> None:
    network = line(BrokerConfig(), 2)
    network.cut("b0", "b1")
    network.client("alice", "b0")
    network.client("bob", "b1")
    subscribe(network, "alice/1", "x > 1")
    network.run()
    for linked in (False, True, False):
        if linked:
            network.link("b0", "b1")
        elif "b1" in network.brokers["b0"].roles:
            network.cut("b0", "b1")
        network.run()
        network.news.clear()
        publish(network, "bob", {"x": 2})
        network.run()
        assert network.deliveries() == ([("alice/1", {"x": 2})] if linked else [])


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_or_repeated_change_is_made_good(lost: int) -> None:
    network = line(BrokerConfig(routing="simple"), 2)
    network.client("alice", "b0")
    network.run()
    network.hold("b0", "b1")
    for number in range(3):
        subscribe(network, f"alice/{number}", f"x = {number}")
    network.run()
    way = network.waiting("b0", "b1")
    way.append(way[lost])
    del way[lost]
    way.append(way[0])
    network.release("b0", "b1")
    network.run()
    network.assert_consistent()
    assert sorted(network.completed()) == ["alice/0", "alice/1", "alice/2"]
