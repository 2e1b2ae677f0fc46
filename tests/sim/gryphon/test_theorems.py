"""Where the paper's text fails: each run is lost with the literal text, and kept by the one repair that it names."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from sluice.sim.gryphon import REPAIRED, Constraints, Generic, Guard, Raises, Topology
from sluice.sim.gryphon.change import Change
from sluice.sim.gryphon.constraint import NobodyUnknown, holds
from tests.sim.gryphon.stories import WANTED, checks_of, last_covering_root_goes, started

CHILDREN_ONLY = Constraints(every_root=False)
RESTORED_ONLY = Constraints(every_addition=False)
RAISES_SILENCES = Constraints(raises=Raises.EVERYTHING)


def test_theorem_2_needs_every_root_that_may_take_over() -> None:
    """Type III asks for the roots above the direct children of the removed one, but what it covered may be no child here."""
    network = last_covering_root_goes(CHILDREN_ONLY)
    assert checks_of(network) == {"theorem 2", "invariant 1", "silence", "passed over"}
    assert network.deliveries["narrow"].delivered == [1]

    network = last_covering_root_goes(REPAIRED)
    assert network.broken == []
    assert network.deliveries["narrow"].delivered == [1, 2]


def addition_comes_late(guard: Guard) -> Generic:
    """The subscription of `wide` arrives after its unsubscription."""
    network = Generic(Topology.of({"x": "phb", "a": "x"}), Random(0), guard)
    network.subscribe("a", "wide", "price >= 0")
    network.deliver("a", "x")
    late = network.in_flight.pop(("x", "phb"))
    network.unsubscribe("a", "wide")
    network.settle()
    network.in_flight["x", "phb"] = late
    network.settle()
    return network


def test_theorem_3_needs_type_4_for_every_addition() -> None:
    """A subscription and its unsubscription enter in one place, but not in one order everywhere."""
    network = addition_comes_late(RESTORED_ONLY)
    assert checks_of(network) == {"theorem 3"}
    assert [str(one) for one in network.routers["phb"].conjunctions("x")] == ["price >= 0"]

    network = addition_comes_late(REPAIRED)
    assert network.broken == []
    assert network.routers["phb"].conjunctions("x") == ()


def late_addition_swallows(guard: Guard) -> Generic:
    """The late `wide` replaces `narrow`, and goes again with the word of a broker that has never seen it there."""
    network = Generic(Topology.of({"x": "phb", "a": "x"}, x=3), Random(0), guard)
    started(network, "a", "narrow", "price = 3")
    network.subscribe("a", "wide", "price >= 0")
    network.deliver("a", "x.1")
    network.lose("a", "x.2")
    network.lose("a", "x.3")
    late = network.in_flight.pop(("x.1", "phb"))
    network.unsubscribe("a", "wide")
    for broker in ("x.1", "x.2", "x.3"):
        network.deliver("a", broker)
    network.lose("x.1", "phb")
    network.deliver("x.2", "phb")
    network.in_flight["x.1", "phb"] = late
    network.deliver("x.1", "phb")
    network.deliver("x.3", "phb")
    network.publish(WANTED)
    network.settle()
    return network


def test_theorem_2_needs_theorem_3() -> None:
    """The paper says that types I to III keep the invariant; a conjunction of nobody breaks it when it goes."""
    network = late_addition_swallows(RESTORED_ONLY)
    assert checks_of(network) == {"theorem 3", "theorem 2", "invariant 1", "silence", "passed over"}
    assert network.deliveries["narrow"].delivered == [1]

    network = late_addition_swallows(REPAIRED)
    assert network.broken == []
    assert network.deliveries["narrow"].delivered == [1, 2]


def silence_passes_by(guard: Guard) -> Generic:
    """A broker filters because `wide` is gone; one below has not heard of that, and adds `narrow` to the silence."""
    network = Generic(Topology.of({"x": "phb", "y": "x", "a": "y", "b": "y"}, y=2), Random(0), guard)
    network.subscribe("b", "wide", "price >= 0")
    network.settle()
    network.subscribe("a", "narrow", "price = 3")
    network.deliver("a", "y.1")
    network.lose("a", "y.2")
    network.lose("y.1", "x")
    network.unsubscribe("b", "wide")
    network.lose("b", "y.1")
    network.deliver("b", "y.2")
    network.deliver("y.2", "x")
    network.lose("x", "phb")
    network.crash("y.2")
    network.publish(WANTED)
    network.settle()
    return network


@pytest.mark.parametrize("guard", [REPAIRED, Constraints(raises=Raises.NOTHING)])
def test_the_stamp_of_a_silence_is_never_raised(guard: Guard) -> None:
    """Section 3.3 lets a broker add what S(m) covers, but a silence speaks for a broker that had S̄ before its eyes."""
    network = silence_passes_by(RAISES_SILENCES)
    assert checks_of(network) == {"silence", "passed over"}
    assert network.deliveries["narrow"].start == 1
    network.judge()
    assert "history" in checks_of(network)

    network = silence_passes_by(guard)
    network.judge()
    assert network.broken == []
    assert network.deliveries["narrow"].start is None


def test_type_2_speaks_of_the_shbs_below_its_first_sender() -> None:
    """It travels on with the change; read for a whole edge further up, no second branch could have a subscription."""
    network = Generic(Topology.of({"x": "phb", "a": "x", "b": "x"}), Random(0))
    network.subscribe("a", "near", "price = 1")
    network.subscribe("b", "far", "price = 2")
    network.drain()
    network.unsubscribe("b", "far")
    network.deliver("b", "x")
    (change,) = network.in_flight["x", "phb"]
    assert isinstance(change, Change)
    known = network.routers["phb"].known("x", network.oracle)
    first, second = (one for one in change.constraints if isinstance(one, NobodyUnknown))
    assert (first.shbs, second.shbs) == (frozenset("b"), frozenset("ab"))
    assert holds(first, known, known) and holds(second, known, known)
    assert not holds(replace(first, shbs=second.shbs), known, known)
    network.settle()
    assert [str(one) for one in network.routers["phb"].conjunctions("x")] == ["price = 1"]
