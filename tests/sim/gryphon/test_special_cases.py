"""The two special cases of section 6: what a single path and equal vectors can do, and what they cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from sluice.sim.gryphon import (
    EQUAL_VECTORS,
    REPAIRED,
    SINGLE_PATH,
    Constraints,
    Generic,
    Guard,
    Raises,
    Topology,
    Vectors,
    constrained,
)
from sluice.sim.gryphon.constrained import ConstrainedRouter
from sluice.sim.gryphon.run import calm
from tests.sim.gryphon.stories import WANTED, broker_between_restarts, checks_of, last_covering_root_goes

TREE = {"x": "phb", "y": "x", "a": "y", "b": "y", "c": "x"}
REDUNDANT = Topology.of(TREE, x=2, y=2)


def spied(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[bool]:
    """Every answer that a function gives from now on."""
    answers: list[bool] = []
    original = getattr(owner, name)

    def spy(*arguments: object) -> bool:
        answers.append(original(*arguments))
        return answers[-1]

    monkeypatch.setattr(owner, name, spy)
    return answers


def test_on_a_single_path_all_constraints_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 6.1: where everything is told and nothing is lost, no change is ever refused."""
    answers = spied(monkeypatch, constrained, "holds")
    for seed in range(15):
        assert calm(seed, Constraints(raises=Raises.NOTHING), Topology.of(TREE)).broken == []
    assert len(answers) > 100
    assert all(answers)
    # What is kept back is unknown under its name, though its conjunction is there: then they would refuse too much.
    for seed in range(15):
        calm(seed, replace(SINGLE_PATH, kinds=REPAIRED.kinds), Topology.of(TREE))
    assert not all(answers)


def test_a_single_path_needs_neither_constraints_nor_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 6.1: covered subscriptions are kept back, and still every broker is sufficient and nobody asks again."""
    answers = spied(monkeypatch, ConstrainedRouter, "is_sufficient")
    delivered = 0
    for seed in range(25):
        network = calm(seed, SINGLE_PATH, Topology.of(TREE))
        assert network.broken == []
        assert all(one.cursor == network.stream.head for one in network.subscribers.values())
        delivered += sum(len(one.delivered) for one in network.deliveries.values())
    assert delivered > 100
    assert all(answers)


def test_a_single_path_tells_what_covering_tells() -> None:
    """A change goes on as long as it changes the roots, and brings along what was kept back."""
    network = Generic(Topology.of(TREE), Random(0), SINGLE_PATH)

    def told() -> int:
        before = network.sent.get("Change", 0)
        network.settle()
        return network.sent.get("Change", 0) - before

    network.subscribe("a", "wide", "price >= 2")
    assert (network.sent["Change"], told()) == (1, 2)  # a to y, y to x, x to phb
    network.subscribe("b", "narrow", "price = 3")
    assert (network.sent["Change"], told()) == (4, 0)  # b to y
    network.subscribe("a", "same", "price >= 2")
    assert (network.sent["Change"], told()) == (4, 0)
    network.subscribe("c", "all", "price >= 0")
    assert (network.sent["Change"], told()) == (5, 1)  # c to x, x to phb
    network.unsubscribe("a", "same")
    network.unsubscribe("a", "wide")
    assert (network.sent["Change"], told()) == (7, 1)  # a to y, y to x: `all` covers the rest
    network.publish(WANTED)
    network.settle()
    assert network.deliveries["narrow"].delivered == network.deliveries["all"].delivered == [1]
    assert network.broken == []


def covered_by_what_is_gone(guard: Guard) -> Generic:
    """`old` is in S(m) and gone at `x`, which filters; `new`, which `old` covers, is on its way up."""
    network = Generic(Topology.of({"x": "phb", "a": "x"}), Random(0), guard, keeps_order=True)
    network.subscribe("a", "old", "price >= 2")
    network.settle()
    network.publish(WANTED)
    network.unsubscribe("a", "old")
    network.deliver("a", "x")
    network.subscribe("a", "new", "price = 3")
    network.deliver("phb", "x")
    network.settle()
    network.judge()
    return network


def test_on_a_single_path_only_what_was_kept_back_may_be_added() -> None:
    """Section 3.3 asks for no more than covering, and so it loses with one path and no fault at all."""
    network = covered_by_what_is_gone(replace(SINGLE_PATH, raises=Raises.EVERYTHING))
    assert (network.deliveries["new"].start, network.deliveries["new"].delivered) == (1, [])
    assert checks_of(network) == {"passed over", "history"}
    network = covered_by_what_is_gone(SINGLE_PATH)
    assert network.deliveries["new"].start is None
    assert network.broken == []


def test_a_single_path_does_not_survive_redundancy() -> None:
    """Two brokers in a node and no fault at all: changes overtake each other on different paths."""
    assert any("invariant 1" in checks_of(calm(seed, SINGLE_PATH, REDUNDANT)) for seed in range(20))
    assert not any(calm(seed, Constraints(raises=Raises.NOTHING), REDUNDANT).broken for seed in range(20))


@pytest.mark.parametrize("story", [last_covering_root_goes, broker_between_restarts])
def test_a_single_path_survives_neither_loss_nor_restart(story: Callable[[Guard], Generic]) -> None:
    network = story(SINGLE_PATH)
    assert {"invariant 1", "passed over"} <= checks_of(network)
    assert network.deliveries["narrow"].delivered == [1]
    network = story(REPAIRED)
    assert network.broken == []
    assert network.deliveries["narrow"].delivered == [1, 2]


def test_a_clock_steps_for_an_exchange_that_changes_no_conjunction() -> None:
    """In one batch a subscription goes and an equal one comes: nothing else is told, but the new one begins with the step."""
    network = Generic(Topology.of({"x": "phb", "a": "x"}), Random(0), EQUAL_VECTORS)
    network.subscribe("a", "old", "price = 3")
    network.drain()
    network.unsubscribe("a", "old")
    network.subscribe("a", "new", "price = 3")
    assert [network.deliveries[id].asked.begin for id in ("old", "new")] == [1, 2]
    network.drain()
    network.publish(WANTED)
    network.drain()
    assert network.deliveries["new"].delivered == [1]
    assert network.broken == []


def parent_restarts_while_dead(guard: Guard) -> Generic:
    """`b` is dead when the broker above it restarts, and `a` asks for something new."""
    network = Generic(Topology.of({"x": "phb", "a": "x", "b": "x"}), Random(0), guard)
    network.subscribe("a", "old", "price = 1")
    network.subscribe("b", "far", "price = 2")
    network.drain()
    network.crash("b")
    network.crash("x")
    network.restart("x")
    network.subscribe("a", "new", "price = 3")
    network.drain("b")
    network.publish(WANTED)
    network.drain("b")
    return network


def test_equal_vectors_freeze_while_an_shb_is_dead_and_its_parent_restarted() -> None:
    """The parent's vector has lost the dead one's time: it can never again be equal to the vector above, nor beyond it."""
    network = parent_restarts_while_dead(EQUAL_VECTORS)
    new = network.deliveries["new"]
    starts = [new.start]
    for _ in range(3):
        network.publish(WANTED)
    network.drain("b")
    starts.append(new.start)
    assert starts == [None, None]
    network.drain()
    number = network.publish(WANTED)
    network.drain()
    assert (new.start, new.delivered) == (number, [number])
    assert network.broken == []

    for guard in (REPAIRED, Vectors(merges=True)):
        network = parent_restarts_while_dead(guard)
        assert network.broken == []
        assert (network.deliveries["new"].start, network.deliveries["new"].delivered) == (1, [1])


@pytest.mark.parametrize("guard", [REPAIRED, EQUAL_VECTORS], ids=["constraints", "vectors"])
def test_both_wait_for_a_dead_shb_whose_unsubscription_was_lost(guard: Guard) -> None:
    """x.1 keeps `narrow` back for the sake of `wide`, which is gone everywhere else, and nobody is left to say so."""
    network = Generic(Topology.of({"x": "phb", "a": "x", "b": "x"}, x=2), Random(0), guard)
    network.subscribe("b", "wide", "price >= 2")
    network.drain()
    network.unsubscribe("b", "wide")
    network.flush("b")
    network.lose("b", "x.1")
    network.settle()
    network.crash("b")
    network.crash("x.2")
    network.subscribe("a", "narrow", "price = 3")
    network.drain("b", "x.2")
    network.publish(WANTED)
    network.drain("b", "x.2")
    narrow = network.deliveries["narrow"]
    starts = [narrow.start]
    network.drain("x.2")
    network.publish(WANTED)
    network.drain("x.2")
    starts.append(narrow.start)
    assert starts == [None, 2]
    assert network.broken == []


def snapshots_are_merged(guard: Guard) -> Generic:
    """w.1 takes b's time from a snapshot, but keeps what b had unsubscribed: the vector of w.2, and another table."""
    network = Generic(Topology.of({"w": "phb", "x": "w", "a": "x", "b": "x"}, w=2), Random(0), guard)
    network.subscribe("a", "old", "price = 1")
    network.subscribe("b", "wide", "price >= 2")
    network.drain()
    network.unsubscribe("b", "wide")
    network.flush("b")
    network.deliver("b", "x")
    network.lose("x", "w.1")
    network.settle()
    network.crash("a")
    network.crash("x")
    network.restart("x")
    network.restate("b")
    network.deliver("b", "x")
    network.in_flight.clear()
    network.restate("x")
    network.deliver("x", "w.1")
    network.in_flight.clear()
    network.restart("a")
    network.restate("a")
    network.deliver("a", "x")
    network.in_flight.clear()
    network.subscribe("a", "narrow", "price = 3")
    network.flush("a")
    network.deliver("a", "x")
    network.deliver("x", "w.1")
    network.deliver("w.1", "phb")
    network.settle()
    network.publish(WANTED)
    network.settle()
    network.judge()
    return network


def test_merged_snapshots_lose_a_message() -> None:
    """Equal vectors no longer mean that a conjunction which one broker withholds is covered at the other."""
    network = snapshots_are_merged(Vectors(merges=True))
    assert checks_of(network) == {"theorem 3", "theorem 2", "invariant 1", "silence", "passed over", "history"}
    assert (network.deliveries["narrow"].start, network.deliveries["narrow"].delivered) == (1, [])

    network = snapshots_are_merged(EQUAL_VECTORS)
    assert network.broken == []
    assert (network.deliveries["narrow"].start, network.deliveries["narrow"].delivered) == (1, [1])
