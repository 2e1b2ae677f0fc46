"""Trees of nodes: who is below whom, and what is no tree."""

from __future__ import annotations

from random import Random

import pytest

from sluice.errors import ConfigurationError
from sluice.sim.gryphon import Topology


def test_nodes_come_after_those_below_them() -> None:
    tree = Topology.of({"x": "phb", "y": "x", "a": "y", "b": "x"}, x=2)
    assert tree.upward() == ("a", "y", "b", "x", "phb")
    assert (tree.root, tree.phb, tree.leaves, tree.children("x")) == ("phb", "phb", ("a", "b"), ("y", "b"))
    assert tree.below("phb") == {"a", "b"}


def test_clients_connect_to_one_broker() -> None:
    with pytest.raises(ConfigurationError, match="give a one broker"):
        Topology.of({"a": "phb"}, a=2)
    with pytest.raises(ConfigurationError, match="give phb one broker"):
        Topology.of({"a": "phb"}, phb=2)
    with pytest.raises(ConfigurationError, match="one root"):
        Topology.of({"a": "phb", "b": "other"})


def test_trees_by_chance_have_redundant_nodes() -> None:
    trees = [Topology.drawn(Random(seed)) for seed in range(50)]
    sizes = {len(brokers) for tree in trees for brokers in tree.brokers.values()}
    assert sizes == {1, 2, 3}
    assert {len(tree.shbs) for tree in trees} >= {2, 3, 4}
