"""The network that people use in tests of their own: what it does, what it refuses, and that its check can fail."""

from __future__ import annotations

import pytest

from sluice.errors import SluiceError
from sluice.protocol.complete import CacheConfig
from sluice.protocol.lease import LeaseConfig
from sluice.sim import Network, SpecificationError
from sluice.sim.mutants import MUTANTS
from sluice.sim.trace.trace import Configured, Quiet, Topology


def small(**more: object) -> Network:
    """Three brokers in a row."""
    net = Network(seed=1, **more)  # type: ignore[arg-type]
    for name in "abc":
        net.broker(name)
    net.link("a", "b")
    net.link("b", "c")
    return net


def test_what_is_asked_for_is_received_and_nothing_else() -> None:
    net = small(routing="merging")
    alice, bob = net.client("alice", at="a"), net.client("bob", at="c")
    wanted = alice.subscribe("price > 120")
    assert not alice.is_complete(wanted)
    net.run()
    assert alice.is_complete(wanted)
    for price in (121.5, 90, 130):
        bob.publish({"price": price})
    net.run()
    assert alice.received == [{"price": 121.5}, {"price": 130}] and bob.received == []
    alice.unsubscribe(wanted)
    net.run()
    bob.publish({"price": 140})
    net.run()
    assert len(alice.received) == 2
    net.check()


def test_faults_and_healing() -> None:
    net = small()
    alice, bob = net.client("alice", at="a"), net.client("bob", at="c")
    alice.subscribe("true")
    net.run()
    net.cut("c", "b")
    net.run()
    bob.publish({"n": 1})
    net.run()
    net.heal("b", "c")
    net.run()
    bob.publish({"n": 2})
    net.run()
    assert alice.received == [{"n": 2}]
    net.check()


def test_brokers_and_clients_crash_and_come_back() -> None:
    net = Network()
    middle = net.broker("m")
    alice, bob = net.client("alice", at="m"), net.client("bob", at="m")
    alice.subscribe("true")
    net.run()
    middle.crash()
    net.run()
    assert repr(middle) == "<broker m, down>"
    with pytest.raises(SluiceError, match="is down"):
        _ = middle.core
    bob.publish({"n": 1})
    assert bob.refused
    middle.restart()
    net.run()
    bob.publish({"n": 2})
    net.run()
    assert alice.received == [{"n": 2}]
    alice.crash()
    with pytest.raises(SluiceError, match="restart"):
        alice.subscribe("true")
    with pytest.raises(SluiceError, match="restart"):
        alice.publish({"n": 3})
    net.run()
    alice.restart()
    net.run()
    bob.publish({"n": 3})
    net.run()
    assert alice.received == [{"n": 2}]
    assert repr(alice) == "<client alice at m, up>"
    net.check()


def test_advertisements_interest_and_the_past() -> None:
    net = small(advertisements="covering")
    seller, buyer = net.client("seller", at="a"), net.client("buyer", at="c")
    seller.keep_past()
    offer, watch = seller.advertise("price > 10"), seller.watch("price > 10")
    net.run()
    seller.publish({"price": 5})
    for price in (11, 12, 13):
        seller.publish({"price": price})
    net.run()
    assert len(seller.refused) == 1
    wish = buyer.subscribe("price > 11", last=1)
    net.run()
    assert seller.interests == {wish: "price > 11"}
    assert buyer.replayed == [{"price": 13}] and buyer.received == []
    seller.unwatch(watch)
    seller.unadvertise(offer)
    net.run()
    assert seller.interests == {}
    net.check()


def test_time_and_leases_and_caches() -> None:
    lease = LeaseConfig(renew_seconds=1, lease_seconds=4, max_delay_seconds=0.01, diameter=4)
    net = small(lease=lease, cache=CacheConfig(seconds=5))
    alice = net.client("alice", at="a")
    alice.subscribe("true")
    net.run()
    assert net.now == pytest.approx(lease.bound_seconds)
    net.run(10)
    alice.publish({"n": 1})
    net.run(1)
    assert alice.received == [{"n": 1}]
    net.check()


def test_the_trace_begins_with_the_whole_stage_however_it_was_built() -> None:
    net = Network()
    net.broker("a")
    net.client("alice", at="a").subscribe("true")
    net.run()
    assert net.trace.events[1] == Topology(0.0, ("a",), ())
    net.broker("b")
    net.link("a", "b")
    net.run()
    events = net.trace.events
    assert isinstance(events[0], Configured) and events[1] == Topology(0.0, ("a", "b"), (("a", "b"),))
    assert [type(event) for event in events].count(Topology) == 1
    assert isinstance(events[-1], Quiet)


def test_a_promise_that_is_broken_is_told_with_its_story() -> None:
    mutant = next(one for one in MUTANTS if one.name == "told-twice")
    net = small()
    alice, bob = net.client("alice", at="a"), net.client("bob", at="c")
    with mutant.apply():
        alice.subscribe("true")
        net.run()
        bob.publish({"n": 1})
        net.run()
    net.check("wanted", "live")
    with pytest.raises(SpecificationError, match="no-duplicate") as caught:
        net.check()
    assert "bob publishes bob#1 {'n': 1}" in str(caught.value)
    assert caught.value.violations[0].check == "no-duplicate"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda net: net.link("a", "c"), "a tree"),
        (lambda net: net.link("a", "nobody"), "no broker 'nobody'"),
        (lambda net: net.client("alice", at="nowhere"), "no broker 'nowhere'"),
        (lambda net: net.broker("a"), "already"),
        (lambda net: net.cut("a", "c"), "no link"),
        (lambda net: net.check("nonsense"), "no check 'nonsense'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: object, says: str) -> None:
    with pytest.raises(SluiceError, match=says):
        wrong(small())  # type: ignore[operator]


def test_one_seed_one_run() -> None:
    def run(seed: int) -> str:
        net = Network(seed=seed)
        net.broker("a")
        net.client("alice", at="a").subscribe("true")
        net.run()
        return net.trace.hash()

    assert run(1) == run(1) != run(2)
