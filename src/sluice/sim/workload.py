"""What people in a simulated network do: ask, change their minds, publish, over trees of every shape.

Everything is drawn from the small domain of `sluice.sim.domain` by a source of chance that the caller hands in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from sluice.sim.domain import POINTS, records_of
from sluice.sim.plan import Action, Advertise, Cancel, Planned, Publish, Subscribe, Watch


def tree(random: Random, brokers: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Links that make a tree: a path, a star, a binary tree or one grown by chance."""
    shape = random.choice(("path", "star", "binary", "any", "any", "any"))
    parents: Callable[[int], int] = {
        "path": lambda i: i - 1,
        "star": lambda i: 0,
        "binary": lambda i: (i - 1) // 2,
        "any": lambda i: random.randrange(i),
    }[shape]
    return tuple((brokers[parents(i)], brokers[i]) for i in range(1, len(brokers)))


def redundant(
    random: Random, nodes: Sequence[str], links: Sequence[tuple[str, str]], most: int
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Up to so many brokers for each node of a tree, linked to all of the neighbouring nodes and of their own."""
    brokers = {node: [f"{node}.{i}" for i in range(random.randint(1, most))] for node in nodes}
    joined = [(a, b) for above, below in links for a in brokers[above] for b in brokers[below]]
    joined += [(a, b) for each in brokers.values() for place, a in enumerate(each) for b in each[place + 1 :]]
    return {name: node for node, each in brokers.items() for name in each}, tuple(joined)


def diameter(links: Sequence[tuple[str, str]]) -> int:
    """How many links the longest path has."""
    if not links:
        return 0
    neighbours: dict[str, list[str]] = {}
    for a, b in links:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)

    def farthest(start: str) -> tuple[str, int]:
        seen = {start: 0}
        for node in (queue := [start]):
            for other in neighbours[node]:
                if other not in seen:
                    seen[other] = seen[node] + 1
                    queue.append(other)
        return queue[-1], seen[queue[-1]]

    return farthest(farthest(links[0][0])[0])[1]


@dataclass(slots=True)
class Churn:
    """Clients that come up with wishes, change their minds and publish; gives one action after the other."""

    random: Random
    clients: Sequence[str]
    texts: Sequence[str]
    advertises: bool = False
    watches: bool = False
    #: How likely a subscription is to ask for the past.
    past: float = 0.0
    #: How likely a subscription is to be reliable.
    reliable: float = 0.0
    #: How likely a reliable subscription is to want order, too.
    merged: float = 0.0
    #: How likely another subscription is to want order, and a publication to be in order for all.
    ordered: float = 0.0
    marked: float = 0.0
    #: How likely an action is a publication.
    publishing: float = 0.5
    #: How many filters of a kind a client holds at most.
    limit: int = 5
    _refs: int = 0
    _held: dict[str, dict[type, dict[int, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.clients:
            self._held[name] = {Subscribe: {}, Advertise: {}, Watch: {}}

    def start(self) -> list[Action]:
        """What is there before the rest begins: advertisements, watches, some subscriptions."""
        actions: list[Action] = []
        for name in self.clients:
            if self.advertises and self.random.random() < 0.7:
                actions.append(self._ask(name, Advertise))
            if self.watches and self.random.random() < 0.5:
                actions.append(self._ask(name, Watch))
            if self.random.random() < 0.5:
                actions.append(self._ask(name, Subscribe))
        return actions

    def next(self, name: str | None = None) -> Action:
        """The next thing that one of the clients does."""
        if name is None:
            name = self.random.choice(self.clients)
        if self.random.random() < self.publishing:
            return self.publish(name)
        kinds: list[type] = [Subscribe, Subscribe]
        if self.advertises:
            kinds.append(Advertise)
        if self.watches:
            kinds.append(Watch)
        kind = self.random.choice(kinds)
        held = self._held[name][kind]
        if held and (len(held) >= self.limit or self.random.random() < 0.45):
            ref = self.random.choice(list(held))
            del held[ref]
            return Cancel(name, ref)
        return self._ask(name, kind)

    def publish(self, name: str) -> Publish:
        """A publication, mostly inside of what the client advertises."""
        advertised = list(self._held[name][Advertise].values())
        if advertised and self.random.random() < 0.85:
            candidates = records_of(self.random.choice(advertised)) or POINTS
        else:
            candidates = POINTS
        record = self.random.choice(candidates)
        return Publish(name, record, ordered=bool(self.marked) and self.random.random() < self.marked)

    def gone(self, name: str) -> None:
        """A client has vanished with all it asked for."""
        for held in self._held[name].values():
            held.clear()

    def _ask(self, name: str, kind: type) -> Action:
        self._refs += 1
        text = self.random.choice(self.texts)
        self._held[name][kind][self._refs] = text
        if kind is Advertise:
            return Advertise(name, self._refs, text)
        if kind is Watch:
            return Watch(name, self._refs, text)
        if self.reliable and self.random.random() < self.reliable:
            merged = bool(self.merged) and self.random.random() < self.merged
            return Subscribe(name, self._refs, text, reliable=True, ordered=merged)
        if self.ordered and self.random.random() < self.ordered:
            return Subscribe(name, self._refs, text, ordered=True)
        last = self.random.choice((1, 3, 100)) if self.random.random() < self.past else None
        return Subscribe(name, self._refs, text, last)


def spread(random: Random, actions: Sequence[Action], start: float, pace: float) -> list[Planned]:
    """Actions one after the other, the time between two of them `pace` on average."""
    planned: list[Planned] = []
    for action in actions:
        start += random.expovariate(1 / pace)
        planned.append((start, action))
    return planned
