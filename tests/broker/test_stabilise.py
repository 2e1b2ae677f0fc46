"""Leases: what is renewed stays, what is not goes, and from any damage a small network is right again within the bound."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from sluice import parse
from sluice.broker import Broker, BrokerConfig
from sluice.client.session.commands import Advertise, Inquire, Subscribe, Told, Unsubscribe, Watch
from sluice.protocol.batch import Peer, Records
from sluice.protocol.complete import CacheConfig
from sluice.protocol.events import Answered, Ask, LinkDown, LinkUp, Received, Send, Tick
from sluice.protocol.export import Replica
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Ack,
    Change,
    Digest,
    Kind,
    Lost,
    Message,
    Replay,
    Reply,
    Request,
    Role,
    Snapshot,
    Version,
)
from sluice.protocol.questions import Describe, Done, ReplayEvent, Replaying
from tests.protocol.drive import Network, entry, line, publish, sends
from tests.protocol.route.some import Some

LEASE = LeaseConfig(renew_seconds=10, lease_seconds=25, max_delay_seconds=1, diameter=4)
SUBSCRIPTIONS = Kind.SUBSCRIPTIONS


def network_of(**options: str) -> Network:
    """Three brokers in a line, a subscriber at one end, a publisher that watches at the other, and a second pair."""
    network = line(BrokerConfig(lease=LEASE, cache=CacheConfig(seconds=2.0), **options), 3)  # type: ignore[arg-type]
    for name, home in (("alice", "b0"), ("bob", "b2"), ("carol", "b2"), ("dave", "b1")):
        network.client(name, home)
    network.do("bob", Advertise("bob/1", parse("x > 0")))
    network.do("bob", Watch("bob/2", parse("x > 0")))
    network.do("alice", Subscribe("alice/1", parse("x > 1"), Replay(last=1)))
    network.do("alice", Subscribe("alice/2", parse("x > 2")))
    network.do("dave", Subscribe("dave/1", parse("x = 7")))
    network.do("carol", Subscribe("carol/1", parse("y = 1")))
    network.run()
    network.pass_time(11.0)
    network.news.clear()
    return network


def assert_well(network: Network) -> None:
    """The tables are what they should be, and notifications, replays and questions arrive."""
    network.assert_consistent()
    network.news.clear()
    publish(network, "bob", {"x": 2})
    publish(network, "bob", {"x": 7, "y": 1})
    network.run()
    found = [(id, record["x"]) for id, record in network.deliveries()]
    assert sorted(found) == [("alice/1", 2), ("alice/1", 7), ("alice/2", 7), ("carol/1", 7), ("dave/1", 7)]
    network.take_news(Told)
    replay = Inquire(network.clients["bob"].new_id(), "alice/1", ReplayEvent())
    network.do("bob", replay)
    network.run()
    assert network.take_news(Told) == [("bob", Told(replay.id, Replaying(None, is_over=True)))], (
        "no history has answered in time"
    )
    asks = Inquire(network.clients["alice"].new_id(), "b2", Describe())
    network.do("alice", asks)
    network.run()
    assert network.asked == [("b2", Ask(Request(asks.id, "b2", Describe())))]
    network.asked.clear()
    network.tell("b2", Answered(Reply(asks.id, Done())))
    network.run()
    assert network.take_news(Told) == [("alice", Told(asks.id, Done()))]


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_broker_asks_to_be_woken_at_every_renewal() -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    assert broker.deadline <= 0.0
    assert broker.step(Tick(), 0.0) == [] and broker.deadline == 10.0
    broker.step(LinkUp("a", Role.BROKER), 3.0)
    assert broker.step(Tick(), 9.0) == [] and broker.deadline == 10.0
    digests = [message for _, message in sends(broker, Tick(), now=10.0)]
    assert [each.kind for each in digests if isinstance(each, Digest)] == [kind for kind in Kind if kind != 1]
    assert len(digests) == 4 and broker.deadline == 20.0


def test_a_replica_expires_to_the_second() -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    broker.step(LinkUp("c", Role.BROKER), 0.0)
    broker.step(Received("a", Snapshot(SUBSCRIPTIONS, Version(1, 1), (entry("x > 1"),))), 2.0)
    for now in (2.0, 12.0, 22.0, 25.0, 26.9):
        broker.step(Tick(), now)
        assert list(broker.tables[SUBSCRIPTIONS].replicas["a"].entries) == [entry("x > 1")]
    assert broker.deadline == 27.0
    said = sends(broker, Tick(), now=27.0)
    assert [(peer, message.removed) for peer, message in said if isinstance(message, Change)] == [
        ("c", (entry("x > 1"),))
    ]
    digest = Digest(SUBSCRIPTIONS, Version(1, 1), 1)
    assert sends(broker, Received("a", digest), now=28.0) == [Send("a", Lost(SUBSCRIPTIONS))]


@pytest.mark.parametrize("start", [0.7, 0.1, 1 / 3, 1e9 + 0.7])
@pytest.mark.parametrize("seconds", [180.0, 25.3])
def test_a_tick_at_the_deadline_has_an_effect(start: float, seconds: float) -> None:
    """Else whoever drives the broker in virtual time would wake it for ever; sums of floats are not exact."""
    broker = Broker("b", BrokerConfig(lease=LeaseConfig(renew_seconds=7, lease_seconds=seconds, diameter=4)))
    broker.step(LinkUp("a", Role.BROKER), start)
    for _ in range(60):
        now = max(broker.deadline, start)
        broker.step(Tick(), now)
        assert broker.deadline > now


@pytest.mark.parametrize("message", ["snapshot", "change", "digest"])
def test_everything_that_fits_renews(message: str) -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    for kind in (SUBSCRIPTIONS, Kind.WATCHES, Kind.INTEREST):
        broker.step(Received("a", Snapshot(kind, Version(1, 1), ())), 0.0)
    replica = broker.tables[SUBSCRIPTIONS].replicas["a"]
    messages: dict[str, Message] = {
        "snapshot": Snapshot(SUBSCRIPTIONS, Version(1, 2), ()),
        "change": Change(SUBSCRIPTIONS, Version(1, 1), Version(1, 2), (entry("x > 1"),), ()),
        "digest": Digest(SUBSCRIPTIONS, Version(1, 1), 0),
    }
    broker.step(Received("a", messages[message]), 9.0)
    assert replica.renewed == 9.0
    broker.step(Received("a", Change(SUBSCRIPTIONS, Version(9, 9), Version(9, 10), (), (entry("x > 1"),))), 12.0)
    broker.step(Received("a", Digest(SUBSCRIPTIONS, Version(9, 9), 0)), 12.0)
    assert replica.renewed == 9.0, "what does not fit renews nothing"


def test_a_quiet_network_changes_nothing_for_ever() -> None:
    network = network_of(advertisements="covering")
    network.log.clear()
    network.news.clear()
    network.pass_time(200.0)
    assert {type(message) for _, _, message in network.log} <= {Digest, Ack} and network.log
    assert network.news == []
    assert_well(network)


def test_who_falls_silent_is_given_up_and_welcome_back() -> None:
    network = network_of()
    network.hold("b0", "b1")
    network.pass_time(24.0 - LEASE.renew_seconds)
    assert network.told("b1", "b2") == ["x > 1"]
    network.pass_time(12.0)
    assert network.told("b1", "b2") == ["x = 7"]
    publish(network, "bob", {"x": 2})
    network.run()
    assert network.deliveries() == []
    network.release("b0", "b1")
    network.run()
    network.pass_time(LEASE.bound_seconds)
    assert_well(network)


def test_a_lost_acknowledgement_comes_again_with_the_next_digest() -> None:
    network = network_of()
    network.hold("b1", "b0")
    network.do("alice", Subscribe("alice/9", parse("z = 1")))
    network.run()
    network.waiting("b1", "b0").clear()
    network.release("b1", "b0")
    network.run()
    assert network.completed() == []
    network.pass_time(LEASE.renew_seconds + 1)
    assert network.completed() == ["alice/9"]


def test_a_lost_snapshot_is_asked_for_again() -> None:
    network = network_of()
    del network.brokers["b1"].tables[SUBSCRIPTIONS].replicas["b0"].entries[entry("x > 1")]
    network.hold("b0", "b1")
    network.pass_time(LEASE.renew_seconds)
    network.release("b0", "b1")
    while not any(isinstance(message, Lost) for message in network.waiting("b1", "b0")):
        network.deliver_one("b0", "b1")
    network.waiting("b1", "b0").clear()
    network.run()
    assert network.brokers["b1"].tables[SUBSCRIPTIONS].replicas["b0"].asked
    network.pass_time(LEASE.renew_seconds + 1)
    assert_well(network)


def test_one_question_is_enough_until_the_next_digest() -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    change = Change(SUBSCRIPTIONS, Version(1, 4), Version(1, 5), (entry("x > 1"),), ())
    digest = Digest(SUBSCRIPTIONS, Version(1, 5), 1)
    answers = [[message for _, message in sends(broker, Received("a", each))] for each in (change, change, digest)]
    assert answers == [[Lost(SUBSCRIPTIONS)], [], [Lost(SUBSCRIPTIONS)]]


# --- damage -----------------------------------------------------------------------------------------------------------

Damage = Callable[[Network], object]


def _replica(network: Network, kind: Kind = SUBSCRIPTIONS, at: Peer = "b1", of: Peer = "b0") -> Replica:
    return network.brokers[at].tables[kind].replicas[of]


def _lose(network: Network) -> None:
    for kind in (SUBSCRIPTIONS, Kind.INTEREST):
        _replica(network, kind).entries.clear()


def _invent(network: Network) -> None:
    for kind in Kind:
        for replica in network.brokers["b1"].tables[kind].replicas.values():
            replica.entries[entry("z > 9", "ghost/1")] = None


def _versions(network: Network) -> None:
    for number, replica in enumerate(network.brokers["b1"].tables[SUBSCRIPTIONS].replicas.values()):
        replica.version = Version(1, number) if number else None


def _timers(renewed: float) -> Damage:
    def damage(network: Network) -> None:
        _lose(network)
        for table in network.brokers["b1"].tables.values():
            for replica in table.replicas.values():
                replica.renewed = renewed
        network.hold("b0", "b1")
        network.pass_time(1.0)
        network.release("b0", "b1")

    return damage


def _sent(network: Network) -> None:
    for name in ("b0", "b1"):
        for table in network.brokers[name].tables.values():
            for export in table.exports.values():
                export.sent.clear()
                export.sent[entry("z > 9")] = None


def _sent_versions(network: Network) -> None:
    for number, export in enumerate(network.brokers["b1"].tables[SUBSCRIPTIONS].exports.values()):
        export.version = Version(1 + number, 1)


def _acked(network: Network) -> None:
    for export in network.brokers["b0"].tables[SUBSCRIPTIONS].exports.values():
        export.acked = 10**9


def _forwarding(network: Network) -> None:
    for broker in network.brokers.values():
        list(broker.forwarding.find([Records.of("bob", 1, [{"x": 1}])]))
        index = broker.forwarding._index
        assert index is not None
        for key in list(index):
            index.remove(key)


def _ways(network: Network) -> None:
    for name, broker in network.brokers.items():
        asked = {"alice/1": "b1" if name != "b1" else "b2", "ghost/1": "nobody"}
        asked.pop("alice/1" if name == "b2" else "ghost/1")
        wrong = {Kind.INTEREST: asked, Kind.BROKERS: {"b0": "nobody", "b2": "b1", "ghost": "b0"}}
        for kind, ways in wrong.items():
            broker.ways[kind].clear()
            for id, peer in ways.items():
                broker.ways[kind].add(id, peer)


def _derived(network: Network) -> None:
    for broker in network.brokers.values():
        for table in broker.tables.values():
            for outlet in table._outlets.values():
                outlet._reducer = outlet._make()
                if outlet._relevance is not None:
                    outlet._relevance = type(outlet._relevance)()
    # The next change does not fit what is derived.
    network.do("alice", Unsubscribe("alice/2"))
    network.run()
    network.do("alice", Subscribe("alice/2", parse("x > 2")))
    network.run()


def _ghost(network: Network) -> None:
    for table in network.brokers["b1"].tables.values():
        ghost = table.replicas["ghost"] = Replica(math.inf)
        ghost.entries[entry("x > 0", "ghost/1")] = None
    network.brokers["b1"].forwarding.reset()
    publish(network, "bob", {"x": 5})
    network.run()


def _forgotten(network: Network) -> None:
    for kind in (SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.INTEREST):
        network.brokers["b1"].tables[kind].replicas.pop("b0", None)
        network.brokers["b2"].tables[kind].replicas.pop("bob", None)
    publish(network, "bob", {"x": 5})
    network.run()


def _renewals(network: Network) -> None:
    for broker in network.brokers.values():
        broker._renewal = 1e12


def _owed(network: Network) -> None:
    for broker in network.brokers.values():
        broker.completion[SUBSCRIPTIONS].owe("ghost", Version(1, 5), ())
        broker.completion[SUBSCRIPTIONS]._owed["alice"] = broker.completion[SUBSCRIPTIONS]._owed.pop("ghost")
        broker.completion[SUBSCRIPTIONS]._owed["alice"][0][1].update({"b1": 10**9, "nobody": 3})
        if "alice" not in broker.roles:
            del broker.completion[SUBSCRIPTIONS]._owed["alice"]


DAMAGES: dict[str, Damage] = {
    "entries lost": _lose,
    "entries invented": _invent,
    "versions": _versions,
    "renewed in the future": _timers(1e12),
    "renewed never": _timers(-math.inf),
    "renewed nowhere": _timers(math.nan),
    "sent": _sent,
    "versions of what was sent": _sent_versions,
    "acknowledgements": _acked,
    "forwarding": _forwarding,
    "ways": _ways,
    "derived": _derived,
    "a ghost": _ghost,
    "a peer forgotten": _forgotten,
    "renewals": _renewals,
    "acknowledgements owed": _owed,
}


@pytest.mark.parametrize("advertisements", [None, "covering"], ids=str)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_heals_within_the_bound(damage: str, advertisements: str | None) -> None:
    network = network_of() if advertisements is None else network_of(advertisements=advertisements)
    DAMAGES[damage](network)
    network.pass_time(LEASE.bound_seconds)
    assert_well(network)
    network.news.clear()
    network.do("alice", Subscribe("alice/9", parse("y = 9")))
    network.run()
    network.pass_time(LEASE.renew_seconds + 1)
    assert "alice/9" in network.completed(), "the next request is not held up either"


def test_what_a_client_cannot_have_told_goes_with_the_next_renewal() -> None:
    """It would otherwise run out with its lease, and the news would come too late."""
    network = network_of()
    table = network.brokers["b0"].tables[Kind.INTEREST]
    table.replicas["alice"] = Replica(network.now)
    table.replicas["alice"].entries[entry("x > 0", "ghost/1")] = None
    network.pass_time(LEASE.renew_seconds + 1)
    assert "alice" not in table.replicas
    assert_well(network)


@pytest.mark.parametrize("routing", ["simple", "identity", "covering", "merging", "imperfect"])
def test_many_random_damages_heal(routing: str) -> None:
    source = random.Random(routing)
    some = Some(source)
    network = network_of(routing=routing, advertisements="merging")
    for _ in range(4):
        for _ in range(6):
            broker = network.brokers[source.choice(list(network.brokers))]
            table = broker.tables[source.choice(list(Kind))]
            peer = source.choice(list(broker.roles))
            sets = [each for each in (table.replicas.get(peer), table.exports.get(peer)) if each is not None]
            for held in sets:
                entries = held.entries if isinstance(held, Replica) else held.sent
                if entries and source.random() < 0.5:
                    del entries[source.choice(list(entries))]
                if source.random() < 0.5:
                    entries[some.entry()] = None
                if source.random() < 0.2:
                    held.version = Version(source.randrange(3), source.randrange(9))
            if source.random() < 0.5:
                id = f"dave/some-{network.now}"
                network.do("dave", Subscribe(id, some.filter()))
                network.run()
                network.do("dave", Unsubscribe(id))
                network.run()
        network.do("dave", Unsubscribe("dave/1"))
        network.do("dave", Subscribe("dave/1", parse("x = 7")))
        network.run()
        network.pass_time(LEASE.bound_seconds)
        assert_well(network)


@pytest.mark.parametrize("damage", [1e12, math.inf, math.nan, -math.inf])
def test_a_silent_peer_with_a_damaged_lease_is_given_up_at_the_next_tick(damage: float) -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    broker.step(Received("a", Snapshot(SUBSCRIPTIONS, Version(1, 1), (entry("x > 1"),))), 0.0)
    broker.tables[SUBSCRIPTIONS].replicas["a"].renewed = damage
    broker.step(Tick(), 1.0)
    assert not broker.tables[SUBSCRIPTIONS].replicas["a"].entries


def test_a_damaged_cache_is_put_right_at_a_renewal() -> None:
    network = network_of()
    cache = network.brokers["b2"].cache
    assert cache is not None
    publish(network, "bob", {"z": 1})
    network.run()
    for kept in cache._kept.values():
        kept.expires = math.inf
    network.pass_time(LEASE.renew_seconds + 3.0)
    network.news.clear()
    network.do("carol", Subscribe("carol/9", parse("z = 1")))
    network.run()
    assert network.deliveries() == []


def test_with_leases_a_contradiction_is_put_right_at_once() -> None:
    broker = Broker("b", BrokerConfig(lease=LEASE))
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    broker.step(LinkUp("c", Role.BROKER), 0.0)
    table = broker.tables[SUBSCRIPTIONS]
    broker.step(Received("a", Snapshot(SUBSCRIPTIONS, Version(1, 1), (entry("x > 1"), entry("y > 1")))), 0.0)
    table._outlets["c"]._reducer = table._outlets["c"]._make()
    broker.step(Received("a", Change(SUBSCRIPTIONS, Version(1, 1), Version(1, 2), (), (entry("x > 1"),))), 0.0)
    assert list(table.exports["c"].sent) == [entry("y > 1")]


def test_without_leases_a_contradiction_is_an_error() -> None:
    broker = Broker("b", BrokerConfig())
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    broker.step(LinkUp("c", Role.BROKER), 0.0)
    broker.tables[SUBSCRIPTIONS].replicas["a"].entries[entry("x > 1")] = None
    with pytest.raises(KeyError):
        broker.step(LinkDown("a"), 0.0)
