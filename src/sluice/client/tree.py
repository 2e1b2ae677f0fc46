"""The tree of a network's brokers as their accounts tell it, and what a change of its links would do to it. Pure.

Every change leaves one tree: what would cut it in two or close a cycle is an error that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.errors import ConfigurationError
from sluice.net.address import Address
from sluice.protocol.batch import Peer


@dataclass(frozen=True, slots=True)
class Replacement:
    """A link is to be replaced: a - b by c - d, which c dials; c is on the side of a, or a itself, and d on that of b."""

    a: Peer
    b: Peer
    c: Peer
    d: Peer

    def __str__(self) -> str:
        return f"{self.a} - {self.b} by {self.c} - {self.d}"


class Tree:
    """Brokers, where they listen, and who is linked to whom.

    >>> tree = Tree({"a": "h:1", "b": "h:2", "c": "h:3"}, [("a", "b"), ("b", "c")])
    >>> print(tree.replacement("c", "b", "a", "c"))
    b - c by a - c
    >>> tree.touched(tree.replacement("c", "b", "a", "c"))
    ['b', 'a', 'c']
    """

    def __init__(
        self,
        addresses: Mapping[Peer, str],
        links: Iterable[tuple[Peer, Peer]],
        missing: Iterable[tuple[Peer, Peer]] = (),
    ) -> None:
        self.addresses = dict(addresses)
        #: The links that a broker should have to another, and has not.
        self.missing = [*missing]
        self._neighbours: dict[Peer, list[Peer]] = {name: [] for name in self.addresses}
        for one, other in links:
            for here, there in ((one, other), (other, one)):
                if there not in self._neighbours.setdefault(here, []):
                    self._neighbours[here].append(there)

    @classmethod
    def of(cls, reports: Iterable[Mapping[str, Any]]) -> Tree:
        """The tree that the accounts of all brokers tell of."""
        reports = [report for report in reports if "error" not in report]
        for report in reports:
            if report["node"] != report["name"]:
                raise ConfigurationError(
                    f"{report['name']} is one of several brokers of the node {report['node']}, which has more than one link to "
                    "each of its neighbours: change the settings of these brokers instead"
                )
        links = [
            (report["name"], link["peer"]) for report in reports for link in report["links"] if link["role"] == "broker"
        ]
        missing = [(report["name"], link["peer"]) for report in reports for link in report["missing_links"]]
        return cls({report["name"]: _where(report, reports) for report in reports}, links, missing)

    def neighbours(self, name: Peer) -> list[Peer]:
        """Whom a broker has links to, by name."""
        self.check(name)
        return sorted(self._neighbours[name])

    def check(self, *names: Peer) -> None:
        """Raises an error if there is no such broker."""
        for name in names:
            if name not in self.addresses:
                raise ConfigurationError(f"no broker is called {name}: there are {', '.join(sorted(self.addresses))}")

    def check_link(self, a: Peer, b: Peer) -> None:
        """Raises an error if there is no link between two brokers."""
        self.check(a, b)
        if b not in self._neighbours[a]:
            raise ConfigurationError(f"{a} and {b} are not linked: {a} is linked to {', '.join(self.neighbours(a))}")

    def side(self, a: Peer, b: Peer) -> list[Peer]:
        """Who would still be with a if the link between a and b were not there."""
        found = [a]
        for name in found:
            found += (
                each
                for each in sorted(self._neighbours[name])
                if each not in found and {name, each} != {a, b} and each in self.addresses
            )
        return found

    def replacement(self, a: Peer, b: Peer, c: Peer, d: Peer) -> Replacement:
        """A link replaced by another, which c dials to d: which of them is on which side is found out."""
        self.check_link(a, b)
        self.check(c, d)
        if {a, b} == {c, d}:
            raise ConfigurationError(f"{a} - {b} is there already")
        side = self.side(a, b)
        if (c in side) == (d in side):
            kept, lost = (a, b) if c in side else (b, a)
            raise ConfigurationError(
                f"{c} and {d} are both on the side of {kept}: without {a} - {b} a link between them would close a cycle there "
                f"and leave {', '.join(self.side(lost, kept))} cut off; take one broker of each side"
            )
        return Replacement(a, b, c, d) if c in side else Replacement(b, a, c, d)

    def touched(self, change: Replacement) -> list[Peer]:
        """The brokers that a replacement touches, in the order of the chain: from a to c, from d to b."""
        without = {change.a, change.b}
        return [*self._way(change.a, change.c, without), *self._way(change.d, change.b, without)]

    def replaced(self, change: Replacement) -> Tree:
        """The tree after a replacement."""
        links = {(one, other) for one, others in self._neighbours.items() for other in others if one < other} - {
            (min(change.a, change.b), max(change.a, change.b))
        }
        return Tree(self.addresses, [*sorted(links), (change.c, change.d)])

    def leaving(self, name: Peer) -> list[Replacement]:
        """What makes a broker a leaf: its links to all neighbours but the first replaced by links of these to the first."""
        first, *others = self.neighbours(name) or [""]
        return [Replacement(other, name, other, first) for other in others]

    def _way(self, start: Peer, end: Peer, without: set[Peer]) -> list[Peer]:
        """The brokers on the way from one to another that does not take the link `without`."""
        before = {start: start}
        queue = [start]
        for name in queue:
            for each in sorted(self._neighbours.get(name, ())):
                if each not in before and {name, each} != without:
                    before[each] = name
                    queue.append(each)
        way = [end]
        while way[-1] != start:
            way.append(before[way[-1]])
        return way[::-1]


def _where(report: Mapping[str, Any], reports: Iterable[Mapping[str, Any]]) -> str:
    """Where others can dial a broker: where a neighbour does, else where it listens, else where a neighbour saw it come from.

    What leads to the machine that somebody is on leads elsewhere from another one, and is taken only if there is nothing else.
    """
    links = [link for other in reports for link in other["links"] if link["peer"] == report["name"] and link["address"]]
    own = Address.of(report["address"])
    candidates = [Address.of(link["address"]) for link in links if link["is_dialled"]]
    candidates += [] if own.is_anywhere else [own]
    candidates += [Address.of(link["address"]) for link in links]
    return str(min(candidates, key=lambda address: address.is_loopback, default=own))
