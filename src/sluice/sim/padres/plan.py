"""What happens in a run, before any algorithm has a say: the tree, the clients, who publishes what when, and what breaks.

A publication is a value of a small domain; a subscription and an advertisement are sets of values. Everybody is known to
everybody from the start, as after a time of rest: this is about order, not about routing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal, NamedTuple

from sluice.errors import ConfigurationError
from sluice.sim.padres.tree import Tree


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A client that wants some values."""

    name: str
    broker: str
    wanted: frozenset[int]


@dataclass(frozen=True, slots=True)
class Publisher:
    """A client that may publish the values it has advertised; the paper's conflicts are sorted by its name."""

    name: str
    broker: str
    advertised: frozenset[int]


class Publication(NamedTuple):
    """One value of one publisher. Publisher and number are the paper's message id, and publications compare by it."""

    publisher: str
    number: int
    value: int

    def __str__(self) -> str:
        return f"{self.publisher}#{self.number}"


@dataclass(frozen=True, slots=True)
class Crash:
    """A broker ends, and with it what it held."""

    time: float
    broker: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A link breaks for good, and with it some of what was under way."""

    time: float
    link: tuple[str, str]


Fault = Crash | Cut
Delays = Literal["constant", "uniform", "exponential"]


@dataclass(frozen=True, slots=True)
class Place:
    """What one broker knows: its neighbours, and by hop who subscribes and who may publish there.

    A hop is a neighbour or a client of this broker. This is what forwarding along reverse paths leaves in its tables.
    """

    broker: str
    neighbours: tuple[str, ...]
    subscriptions: Mapping[str, tuple[Subscriber, ...]]
    advertisements: Mapping[str, tuple[Publisher, ...]]
    #: The neighbour on the way to the median of the tree; None there.
    upward: str | None
    #: The hops that want each value.
    hops: Mapping[int, tuple[str, ...]]

    def wanting(self, value: int, but: str | None = None) -> list[str]:
        """The hops where a value is wanted, other than the one it came from."""
        return [hop for hop in self.hops.get(value, ()) if hop != but]

    def is_broker(self, hop: str) -> bool:
        """Whether a hop is a neighbour, and no client."""
        return hop in self.neighbours


@dataclass(frozen=True)
class Plan:
    """Everything that a run is made of, but the ordering."""

    tree: Tree
    publishers: tuple[Publisher, ...]
    subscribers: tuple[Subscriber, ...]
    #: Time, publisher, value; one link takes one unit of time on average.
    schedule: tuple[tuple[float, str, int], ...]
    delays: Delays = "constant"
    faults: tuple[Fault, ...] = ()
    #: How long a broker is busy with each message; one after the other.
    work: float = 0.0
    #: Fixes the delays, and what a fault takes with it.
    seed: int = 0

    def __post_init__(self) -> None:
        names = [*(one.name for one in self.publishers), *(one.name for one in self.subscribers)]
        if len({*names, *self.tree.brokers}) != len(names) + len(self.tree.brokers):
            raise ConfigurationError(f"names of brokers and clients must differ: {', '.join(sorted(names))}")
        for _, name, value in self.schedule:
            if value not in self.publisher[name].advertised:
                raise ConfigurationError(f"{name} publishes {value} and has not advertised it")

    @cached_property
    def publisher(self) -> dict[str, Publisher]:
        """The publishers by their names."""
        return {publisher.name: publisher for publisher in self.publishers}

    def place(self, broker: str) -> Place:
        """What a broker knows."""
        hop_to = {other: hop for hop in self.tree.neighbours[broker] for other in self.tree.behind(broker, hop)}
        subscriptions: dict[str, list[Subscriber]] = {}
        for subscriber in self.subscribers:
            subscriptions.setdefault(hop_to.get(subscriber.broker, subscriber.name), []).append(subscriber)
        advertisements: dict[str, list[Publisher]] = {}
        for publisher in self.publishers:
            advertisements.setdefault(hop_to.get(publisher.broker, publisher.name), []).append(publisher)
        hops: dict[int, dict[str, None]] = {}
        for hop, known in subscriptions.items():
            for subscriber in known:
                for value in sorted(subscriber.wanted):
                    hops.setdefault(value, {})[hop] = None
        return Place(
            broker,
            self.tree.neighbours[broker],
            {hop: tuple(known) for hop, known in subscriptions.items()},
            {hop: tuple(known) for hop, known in advertisements.items()},
            hop_to.get(self.tree.median),
            {value: tuple(found) for value, found in hops.items()},
        )

    @classmethod
    def drawn(
        cls, seed: int, *, faults: bool = False, delays: Delays | None = None, interval: float | None = None
    ) -> Plan:
        """A plan by chance: small domains, so that interests overlap, and from calm to many publications under way.

        `interval` is the mean time between two publications of one publisher.
        """
        random = Random(f"padres {seed}")
        tree = Tree.drawn(random, random.randint(3, 12))
        values = range(random.randint(1, 4))
        publishers = tuple(
            Publisher(f"p{number}", random.choice(tree.brokers), _some(random, values))
            for number in range(random.randint(2, 6))
        )
        subscribers = tuple(
            Subscriber(f"s{number}", random.choice(tree.brokers), _some(random, values))
            for number in range(random.randint(2, 8))
        )
        drawn_interval = random.choice((0.5, 1.0, 2.0, 4.0))
        interval = drawn_interval if interval is None else interval
        length = interval * random.randint(3, 12)
        if faults:
            # Long enough for traffic before, during and after.
            length += 24
        schedule = [one for publisher in publishers for one in _times(random, publisher, interval, length)]
        chosen_delays: Delays = random.choice(("constant", "uniform", "exponential"))
        return cls(
            tree,
            publishers,
            subscribers,
            tuple(sorted(schedule)),
            chosen_delays if delays is None else delays,
            _faults(random, tree, length) if faults else (),
            seed=seed,
        )

    @classmethod
    def data_centres(
        cls,
        seed: int,
        *,
        cores: int,
        topics: int,
        interval: float,
        length: float,
        abroad: float = 0.2,
        work: float = 0.0,
    ) -> Plan:
        """The setting of section V: a publisher and a subscriber at every edge broker of a chain of data centres.

        A data centre has one topic and shares it with others if there are fewer topics than data centres; with one topic
        everybody gets everything. `abroad` is the share of subscribers that want the topic of another data centre as well.
        """
        random = Random(f"data centres {seed}")
        tree = Tree.data_centres(cores)
        publishers, subscribers = [], []
        for edge in (broker for broker in tree.brokers if broker.startswith("E")):
            topic = int(edge[1:].partition(".")[0]) % topics
            publishers.append(Publisher(f"p{edge}", edge, frozenset({topic})))
            other = random.randrange(topics) if random.random() < abroad else topic
            subscribers.append(Subscriber(f"s{edge}", edge, frozenset({topic, other})))
        schedule = [one for publisher in publishers for one in _times(random, publisher, interval, length)]
        return cls(tree, tuple(publishers), tuple(subscribers), tuple(sorted(schedule)), work=work, seed=seed)


def _times(random: Random, publisher: Publisher, interval: float, length: float) -> Iterator[tuple[float, str, int]]:
    """When a publisher publishes which of its values."""
    time = random.expovariate(1 / interval)
    while time < length:
        yield time, publisher.name, random.choice(sorted(publisher.advertised))
        time += random.expovariate(1 / interval)


def _some(random: Random, values: range) -> frozenset[int]:
    return frozenset(random.sample(values, random.randint(1, len(values))))


def _faults(random: Random, tree: Tree, length: float) -> tuple[Fault, ...]:
    found: list[Fault] = []
    for _ in range(random.choice((1, 1, 2))):
        time = random.uniform(0.1, 0.5) * length
        found.append(
            Crash(time, random.choice(tree.brokers)) if random.random() < 0.7 else Cut(time, random.choice(tree.links))
        )
    return tuple(found)
