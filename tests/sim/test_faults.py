"""Faults do what they say: messages are lost, doubled and changed, tables become something else, and it is all written down."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.model.parse import parse
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Kind, Message
from sluice.sim.fresh import tables_of
from sluice.sim.trace import trace as said
from sluice.sim.world import faults
from sluice.sim.world.world import World

LEASE = LeaseConfig(renew_seconds=5, lease_seconds=20, max_delay_seconds=1, diameter=3)


def network(seed: int = 0, lease: LeaseConfig | None = None) -> World:
    world = World(seed, BrokerConfig(routing="simple", advertisements="simple", lease=lease), max_delay_seconds=1.0)
    world.add_broker("a")
    world.add_broker("b")
    world.add_link("a", "b")
    for name, at in (("x", "a"), ("y", "b")):
        world.add_client(name, at)
        for number, text in enumerate(("price > 1", "symbol = 'A'", "price < 4")):
            world.command(name, client.Subscribe(f"{name}/s{number}", parse(text)))
            world.command(name, client.Advertise(f"{name}/a{number}", parse(text)))
            world.command(name, client.Watch(f"{name}/w{number}", parse(text)))
    world.run(30.0)
    return world


def memory(broker: Broker) -> object:
    """Everything that damage may change."""
    found: list[object] = [
        tables_of(broker),
        id(broker.forwarding._index),
        repr([ways._peers for ways in broker.ways.values()]),
    ]
    for table in broker.tables.values():
        found.append({peer: (one.version, one.asked, one.renewed) for peer, one in table.replicas.items()})
        found.append({peer: (one.version, one.acked) for peer, one in table.exports.items()})
        found.append({peer: id(one._reducer) for peer, one in table._outlets.items()})
    found.append(repr([list(one._owed.items()) for one in broker.completion.values()]))
    return found


@pytest.mark.parametrize("damaging", faults._DAMAGES, ids=lambda damaging: damaging.__name__)
def test_each_damage_changes_something(damaging: faults.Damaging) -> None:
    assert damaging.__doc__
    changed = 0
    for seed in range(20):
        core = network(lease=LEASE).brokers["a"].core
        assert core is not None
        if damaging is faults._wrong_waits:
            core.completion[Kind.SUBSCRIPTIONS].owe("x", core.tables[Kind.SUBSCRIPTIONS].exports["b"].version, ())
        before = memory(core)
        damaging(Random(seed), core, Kind.SUBSCRIPTIONS if seed % 2 else Kind.INTEREST, 30.0)
        changed += memory(core) != before
    assert changed


def test_damage_is_written_down_and_heals() -> None:
    world = network(lease=LEASE)
    core = world.brokers["a"].core
    assert core is not None
    right = tables_of(core)
    for seed in range(5):
        faults.damage(world, "a", seed)
    assert tables_of(core) != right
    assert sum(isinstance(event, said.Corrupted) for event in world.trace) == 5
    world.run(world.now + LEASE.bound_seconds)
    assert tables_of(core) == right


def test_a_broker_that_is_down_cannot_be_damaged() -> None:
    world = network()
    world.stop_broker("a")
    faults.damage(world, "a", 1)
    assert not any(isinstance(event, said.Corrupted) for event in world.trace)


def test_garbage_arrives_and_is_written_down() -> None:
    world = network(lease=LEASE)
    core = world.brokers["b"].core
    assert core is not None
    right = tables_of(core)
    wrong = 0
    for seed in range(40):
        faults.garbage(world, "a", "b", seed)
        world.run(world.now + 2)
        wrong += tables_of(core) != right
    assert wrong
    assert {event.what for event in world.trace if isinstance(event, said.Tampered)} == {"made up"}


def test_garbage_needs_a_link() -> None:
    world = network()
    world.lose_link("a", "b")
    before = world.moving
    faults.garbage(world, "a", "b", 1)
    faults.garbage(world, "a", "nobody", 1)
    assert world.moving == before


def test_messages_are_lost_doubled_and_changed_as_often_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    world = network()
    carried: list[Message] = []
    monkeypatch.setattr(World, "carry", lambda self, way, message, job: carried.append(message))
    faults.disturb(world, loss=0.2, twice=0.1, changed=0.3)
    assert world.noise is not None
    core = world.brokers["a"].core
    assert core is not None
    message = core.tables[Kind.SUBSCRIPTIONS].exports["b"].snapshot()
    for _ in range(1000):
        world.send(world.brokers["a"], "b", message)
    found = Counter(event.what for event in world.trace if isinstance(event, said.Tampered))
    assert found["lost"] == pytest.approx(200, abs=60)
    assert found["doubled"] == pytest.approx(100, abs=50)
    assert found["altered"] == pytest.approx(300, abs=70)
    assert len(carried) == 1000 - found["lost"] + found["doubled"]
    assert sum(one != message for one in carried) == pytest.approx(found["altered"], abs=40)
    faults.disturb(world, loss=0, twice=0, changed=0)
    assert world.noise is None


def test_the_same_seed_does_the_same_damage() -> None:
    def after(seed: int) -> str:
        world = network(lease=LEASE)
        faults.damage(world, "a", seed)
        faults.garbage(world, "a", "b", seed)
        world.run(world.now + 50)
        return world.trace.hash()

    assert after(3) == after(3)
    assert len({after(seed) for seed in range(6)}) > 1
