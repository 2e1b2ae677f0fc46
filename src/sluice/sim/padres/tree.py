"""A tree of brokers: who is next to whom, what lies behind a link, and where the middle is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from random import Random

from sluice.errors import ConfigurationError


@dataclass(frozen=True)
class Tree:
    """Brokers and the links between them; refused if they are no tree.

    >>> tree = Tree.line("B1", "B0", "B2")
    >>> tree.neighbours["B0"], tree.behind("B1", "B0"), tree.distance("B1", "B2"), tree.median
    (('B1', 'B2'), ('B0', 'B2'), 2, 'B0')
    """

    links: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        first = self.links[0][0] if self.links else ""
        if len(self.links) != len(self.brokers) - 1 or len(self._distances[first]) != len(self.brokers):
            raise ConfigurationError(
                f"{self.links} is no tree: join all brokers, by one link fewer than there are brokers"
            )

    @classmethod
    def line(cls, *brokers: str) -> Tree:
        """Brokers in a row."""
        return cls(tuple(pairwise(brokers)))

    @classmethod
    def drawn(cls, random: Random, size: int) -> Tree:
        """A tree of so many brokers, each hung below one of those before it."""
        return cls(tuple((f"B{random.randrange(number)}", f"B{number}") for number in range(1, size)))

    @classmethod
    def data_centres(cls, cores: int, edges: int = 5) -> Tree:
        """The topology of section V: core brokers in a chain, and edge brokers at each of them."""
        chain = ((f"C{core}", f"C{core + 1}") for core in range(cores - 1))
        return cls((*chain, *((f"C{core}", f"E{core}.{edge}") for core in range(cores) for edge in range(edges))))

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """All brokers."""
        return tuple(dict.fromkeys(broker for link in self.links for broker in link))

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """The brokers at the other ends of each broker's links."""
        found: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for one, other in self.links:
            found[one].append(other)
            found[other].append(one)
        return {broker: tuple(others) for broker, others in found.items()}

    @cached_property
    def _distances(self) -> dict[str, dict[str, int]]:
        return {broker: dict(self._walk(broker)) for broker in self.brokers}

    def _walk(self, start: str, but: str | None = None) -> Iterator[tuple[str, int]]:
        """All brokers that can be reached, with their distances, without setting foot on one of them."""
        seen, found = {start, but}, [(start, 0)]
        for broker, far in found:
            yield broker, far
            for other in self.neighbours[broker]:
                if other not in seen:
                    seen.add(other)
                    found.append((other, far + 1))

    def behind(self, broker: str, neighbour: str) -> tuple[str, ...]:
        """The brokers on the far side of a link."""
        return tuple(other for other, _ in self._walk(neighbour, but=broker))

    def distance(self, one: str, other: str) -> int:
        """The number of links between two brokers."""
        return self._distances[one][other]

    @cached_property
    def median(self) -> str:
        """The broker with the shortest ways to all others."""
        return min(self.brokers, key=lambda broker: (sum(self._distances[broker].values()), broker))

    def without(self, brokers: frozenset[str], links: frozenset[frozenset[str]]) -> dict[str, frozenset[str]]:
        """For each broker that is left, those that it can still reach when some brokers and links are gone."""
        kept = [link for link in self.links if frozenset(link) not in links and not brokers & set(link)]
        island = {broker: frozenset({broker}) for broker in self.brokers if broker not in brokers}
        for one, other in kept:
            both = island[one] | island[other]
            island |= dict.fromkeys(both, both)
        return island
