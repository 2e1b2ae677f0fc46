"""What happens in a run, before any protocol has a say: the tree, who wants what when, what is published, the link replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from sluice.errors import ConfigurationError
from sluice.sim.cugola.pattern import Pattern, Patterns, Reducer
from sluice.sim.cugola.substitution import Substitution
from sluice.sim.padres.plan import Delays
from sluice.sim.padres.tree import Tree

#: For each hop of a dispatcher, a client or a neighbour, what is wanted there; hops that want nothing are left out.
Table = Mapping[str, Patterns]


@dataclass(frozen=True, slots=True)
class Client:
    """A subscriber with one pattern, from some time to some time."""

    name: str
    dispatcher: str
    pattern: Pattern
    #: 0: it was there before, and everybody knows it.
    since: float = 0.0
    until: float | None = None

    @property
    def stays(self) -> bool:
        """Whether it is there all the time, so that it must get whatever it wants."""
        return not self.since and self.until is None


@dataclass(frozen=True, slots=True)
class Publication:
    """A value that is published at a dispatcher."""

    number: int
    time: float
    dispatcher: str
    value: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run is made of, but the protocol."""

    tree: Tree
    substitution: Substitution
    clients: tuple[Client, ...]
    publications: tuple[Publication, ...] = ()
    #: When the link is replaced; a link takes one unit of time on average.
    time: float = 10.0
    #: The old link is taken away by hand, and might go on to work; otherwise it breaks, with some of what is under way.
    is_graceful: bool = False
    delays: Delays = "constant"
    #: Fixes the delays, and what a broken link takes with it.
    seed: int = 0

    def __post_init__(self) -> None:
        names = [*self.tree.brokers, *(client.name for client in self.clients)]
        if len(set(names)) != len(names):
            raise ConfigurationError(f"names of dispatchers and clients must differ: {', '.join(sorted(names))}")

    def first_tables(self, reduce: Reducer) -> dict[str, Table]:
        """What all dispatchers know at the start."""
        return tables(self.tree, [client for client in self.clients if not client.since], reduce)

    def last_tables(self, reduce: Reducer) -> dict[str, Table]:
        """What the last tree and the last subscriptions imply."""
        tree = self.substitution.applied_to(self.tree)
        return tables(tree, [client for client in self.clients if client.until is None], reduce)

    @classmethod
    def drawn(
        cls,
        seed: int,
        *,
        dispatchers: tuple[int, int] = (4, 20),
        churn: float = 1.0,
        is_graceful: bool | None = None,
        publications: int = 40,
    ) -> Plan:
        """A plan by chance: few patterns, so that they are held in many places, and clients that come and go meanwhile.

        `churn` is the number of clients that come or go for each one that stays; with 0 nothing happens but the substitution.
        """
        random = Random(f"cugola {seed}")
        tree = _tree(random, random.randint(*dispatchers))
        substitution = draw_substitution(random, tree)
        values = random.randint(2, 12)
        patterns = [_pattern(random, values) for _ in range(random.randint(1, 8))]
        time = 10.0
        # As long as the sweeps take, and a little on either side.
        length = 2.0 * len(substitution.chain) + 6.0
        clients = []
        for number in range(random.randint(2, 12)):
            clients.append(Client(f"c{number}", random.choice(tree.brokers), random.choice(patterns)))
        for number in range(round(churn * len(clients))):
            name, dispatcher, pattern = f"d{number}", random.choice(tree.brokers), random.choice(patterns)
            since = random.choice((0.0, random.uniform(time - 4, time + length)))
            # Gone before it was there would be gone for good: it has come, or comes first.
            leaves = not since or random.random() < 0.5
            until = max(since, time - 4) + random.uniform(0.01, length / 2) if leaves else None
            clients.append(Client(name, dispatcher, pattern, since, until))
        published = sorted(random.uniform(time - 6, time + 2 * length) for _ in range(publications))
        return cls(
            tree,
            substitution,
            tuple(clients),
            tuple(
                Publication(number, at, random.choice(tree.brokers), random.randrange(values))
                for number, at in enumerate(published)
            ),
            time,
            random.random() < 0.5 if is_graceful is None else is_graceful,
            random.choice(("constant", "uniform", "exponential")),
            seed,
        )

    @classmethod
    def calm(
        cls,
        seed: int,
        *,
        dispatchers: int,
        subscriptions: int,
        publications: int = 0,
    ) -> Plan:
        """A plan where nothing happens but the substitution of a broken link, and publications meanwhile: for costs.

        Patterns are intervals of 50 of 10,000 values on average. Publications begin with the substitution and go on, one in a
        unit of time, each wanted by somebody; those that are lost say for how long something is.
        """
        random = Random(f"cugola {seed} {dispatchers} {subscriptions}")
        tree = Tree.drawn(random, dispatchers)
        substitution = draw_substitution(random, tree)
        clients = []
        for number in range(subscriptions):
            low = random.randrange(10_000)
            high = min(low + int(random.expovariate(1 / 50)), 9_999)
            clients.append(Client(f"c{number}", random.choice(tree.brokers), Pattern(low, high)))
        published = (
            Publication(number, 10.0 + number, random.choice(tree.brokers), random.choice(clients).pattern.low)
            for number in range(publications)
        )
        return cls(tree, substitution, tuple(clients), tuple(published), seed=seed)


def tables(tree: Tree, clients: list[Client], reduce: Reducer) -> dict[str, Table]:
    """What every dispatcher of a tree must know when it is quiet: its own clients, and for each neighbour what is behind it."""
    local: dict[str, dict[str, Patterns]] = {dispatcher: {} for dispatcher in tree.brokers}
    for client in clients:
        local[client.dispatcher][client.name] = frozenset({client.pattern})
    told: dict[tuple[str, str], Patterns] = {}

    def tell(sender: str, receiver: str) -> Patterns:
        if (sender, receiver) not in told:
            wanted = {pattern for patterns in local[sender].values() for pattern in patterns}
            for other in tree.neighbours[sender]:
                if other != receiver:
                    wanted |= tell(other, sender)
            told[sender, receiver] = reduce(wanted)
        return told[sender, receiver]

    return {
        dispatcher: tidied(
            {**local[dispatcher], **{other: tell(other, dispatcher) for other in tree.neighbours[dispatcher]}}
        )
        for dispatcher in tree.brokers
    }


def tidied(table: Table) -> Table:
    """A table without hops that want nothing."""
    return {hop: patterns for hop, patterns in table.items() if patterns}


def draw_substitution(random: Random, tree: Tree) -> Substitution:
    """Some link of a tree of three dispatchers or more, and another one in its place."""
    while True:
        a, b = random.sample(random.choice(tree.links), 2)
        new = random.choice(tree.behind(b, a)), random.choice(tree.behind(a, b))
        if new != (a, b):
            return Substitution.of(tree, (a, b), new)


def _tree(random: Random, size: int) -> Tree:
    """Each dispatcher hangs below one of those just before it: from long and thin to short and wide."""
    reach = random.choice((1, 2, 4, size))
    return Tree(
        tuple((f"B{random.randrange(max(number - reach, 0), number)}", f"B{number}") for number in range(1, size))
    )


def _pattern(random: Random, values: int) -> Pattern:
    low = random.randrange(values)
    return Pattern(low, random.randint(low, values - 1))
