"""One link of a tree replaced by another: the ends, the chain between them, and the tree that comes of it."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.errors import ConfigurationError
from sluice.sim.padres.tree import Tree


@dataclass(frozen=True, slots=True)
class Substitution:
    """The link from A to B is replaced by one from C to D; `head` is A..C, `tail` is D..B.

    The paper counts C and D apart from its head path and tail path; here they belong to head and tail.

    >>> Substitution.of(Tree.line("A", "B", "D"), ("B", "A"), ("D", "A"))
    Substitution(head=('B', 'D'), tail=('A',))
    """

    head: tuple[str, ...]
    tail: tuple[str, ...]

    @classmethod
    def of(cls, tree: Tree, old: tuple[str, str], new: tuple[str, str]) -> Substitution:
        """Replaces the link `old`, from A to B, by the link `new`, from C on A's side to D on B's side."""
        (a, b), (c, d) = old, new
        head, tail = _path(tree, a, c), _path(tree, d, b)
        if b not in tree.neighbours[a] or b in head or a in tail or old == new:
            raise ConfigurationError(
                f"{c}–{d} does not replace {a}–{b}: name one end on either side of a link that exists"
            )
        return cls(head, tail)

    @property
    def old(self) -> tuple[str, str]:
        """The link that goes: A, B."""
        return self.head[0], self.tail[-1]

    @property
    def new(self) -> tuple[str, str]:
        """The link that comes: C, D."""
        return self.head[-1], self.tail[0]

    @property
    def chain(self) -> tuple[str, ...]:
        """The paper's reconfiguration path: A..C, D..B."""
        return self.head + self.tail

    @property
    def line(self) -> tuple[str, ...]:
        """The same dispatchers as they were joined before: C..A, B..D."""
        return self.head[::-1] + self.tail[::-1]

    def applied_to(self, tree: Tree) -> Tree:
        """The tree afterwards."""
        return Tree((*(link for link in tree.links if frozenset(link) != frozenset(self.old)), self.new))


def before(row: tuple[str, ...], one: str) -> str | None:
    """Whoever comes before one in a row."""
    place = row.index(one)
    return row[place - 1] if place else None


def after(row: tuple[str, ...], one: str) -> str | None:
    """Whoever comes after one in a row."""
    place = row.index(one) + 1
    return row[place] if place < len(row) else None


def _path(tree: Tree, start: str, end: str) -> tuple[str, ...]:
    found = [start]
    while found[-1] != end:
        found.append(min(tree.neighbours[found[-1]], key=lambda other: tree.distance(other, end)))
    return tuple(found)
