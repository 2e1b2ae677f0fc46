"""A tree of nodes, each with one or more interchangeable brokers; every broker is linked to all brokers of the next node (2.1).

The publisher's broker (PHB) is alone in the root, and each leaf holds one subscriber's broker (SHB): a client connects to one
broker. A stream of another publisher is another tree, and another instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from sluice.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Topology:
    """Which node is below which, and which brokers are in each.

    >>> tree = Topology.of({"inner": "phb", "a": "inner", "b": "inner"}, inner=2)
    >>> tree.brokers["inner"], tree.shbs, tree.below("inner") == {"a", "b"}
    (('inner.1', 'inner.2'), ('a', 'b'), True)
    """

    #: The node above each node but the root.
    parents: Mapping[str, str]
    brokers: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        tops = [node for node in self.brokers if node not in self.parents]
        if len(tops) != 1 or len(self.brokers) < 2:
            raise ConfigurationError(f"a tree has one root with something below it, not {tops}: mend `parents`")
        for node in (*tops, *self.leaves):
            if len(self.brokers[node]) != 1:
                raise ConfigurationError(
                    f"clients connect to one broker: give {node} one broker, it is the root or a leaf"
                )

    @classmethod
    def of(cls, parents: Mapping[str, str], **redundancy: int) -> Topology:
        """A tree where a node has one broker of its own name, or as many as `redundancy` says, named `node.1` and so on."""
        nodes = dict.fromkeys([*parents.values(), *parents])
        return cls(
            parents,
            {
                node: tuple(f"{node}.{one}" for one in range(1, redundancy[node] + 1))
                if node in redundancy
                else (node,)
                for node in nodes
            },
        )

    @classmethod
    def drawn(cls, random: Random) -> Topology:
        """A tree of two or three levels below the root, with one to three leaves under each inner node."""
        parents: dict[str, str] = {}
        redundancy = {}

        def inner(name: str, parent: str) -> str:
            parents[name] = parent
            redundancy[name] = random.choice((1, 2, 2, 3))
            return name

        def leaves(parent: str, least: int) -> None:
            for _ in range(random.randint(least, 2)):
                parents[f"s{len(parents)}"] = parent

        top = inner("x", "phb")
        if random.random() < 0.6:
            leaves(inner("y", top), 1)
            leaves(inner("z", top) if random.random() < 0.5 else top, 1)
        else:
            leaves(top, 2)
        return cls.of(parents, **redundancy)

    @property
    def root(self) -> str:
        """The node of the PHB."""
        return next(node for node in self.brokers if node not in self.parents)

    @property
    def phb(self) -> str:
        """The publisher's broker."""
        return self.brokers[self.root][0]

    @property
    def leaves(self) -> tuple[str, ...]:
        """The nodes without children."""
        above = set(self.parents.values())
        return tuple(node for node in self.brokers if node not in above)

    @property
    def shbs(self) -> tuple[str, ...]:
        """The subscribers' brokers."""
        return tuple(self.brokers[leaf][0] for leaf in self.leaves)

    def children(self, node: str) -> tuple[str, ...]:
        """The nodes right below a node: its outgoing edges."""
        return tuple(child for child, parent in self.parents.items() if parent == node)

    def below(self, node: str) -> frozenset[str]:
        """The SHBs in a node or below it."""
        children = self.children(node)
        if not children:
            return frozenset(self.brokers[node])
        return frozenset(shb for child in children for shb in self.below(child))

    def upward(self) -> tuple[str, ...]:
        """All nodes, each after those below it."""

        def walk(node: str) -> tuple[str, ...]:
            return (*(below for child in self.children(node) for below in walk(child)), node)

        return walk(self.root)
