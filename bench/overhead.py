"""What reliable delivery costs in bytes: the real brokers, without sockets, and every message between them encoded and weighed.

A publisher's broker, a broker in the middle, and around that the brokers of the subscribers. The same records are published to
best-effort and to reliable subscriptions. Time is virtual, so nothing here depends on the speed of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from bench.brokers.records import keyed, keys_of
from bench.command import say
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Command, Publish, Subscribe
from sluice.client.session.session import Session
from sluice.lab.network import Network
from sluice.lab.topology import Topology
from sluice.model.parse import parse
from sluice.protocol.batch import Logged, Peer, Records
from sluice.protocol.events import Event, Send, Store, Stored, Tick
from sluice.protocol.messages import Message, Notify, Quiet, TableMessage
from sluice.protocol.wire.codec import encode
from sluice.protocol.wire.vectors import ClocksSaid

PUBLISHER, MIDDLE = "publisher", "middle"
#: Between two publications; silences wait for company, so how many there are depends on it.
PAUSE_SECONDS = 0.001
#: After the last publication: what waits for company has gone by then, and no report is due.
REST_SECONDS = 0.2
#: Publications between two new subscriptions, where some come.
CHANGE_EVERY = 100
#: Sizes of one scale go with this size of the other.
MANY_BROKERS, MANY_SUBSCRIPTIONS = 4, 256


@dataclass(slots=True)
class Weights:
    """Bytes on a link, in both directions, by what they are for."""

    data: int = 0
    """Notifications, as a best-effort subscriber needs them."""
    vectors: int = 0
    """What the same messages say beyond that: stretches of offsets, and vectors of clocks."""
    silences: int = 0
    """Messages that tell of nothing but offsets that nobody wants."""
    reports: int = 0
    """Where a stream ends, and how far everybody is: by time, not by publication."""
    tables: int = 0
    """Changes of routing tables, with the clocks in them."""

    @property
    def all(self) -> int:
        """All bytes."""
        return self.data + self.vectors + self.silences + self.reports + self.tables


@dataclass(frozen=True, slots=True)
class Point:
    """One size: how many brokers have subscribers, how many subscriptions there are, and what went over which link."""

    brokers: int
    subscriptions: int
    changes: bool
    """Whether subscriptions come meanwhile: with each of them the vectors are others."""
    publications: int
    first: Weights
    """On the link from the publisher's broker, behind which all subscribers are."""
    first_best_effort: Weights
    last: Weights
    """On all links to brokers of subscribers together."""
    last_best_effort: Weights

    def each(self, weights: Weights, name: str) -> float:
        """Bytes of one kind for a publication, and for one broker of subscribers if it is about those."""
        links = 1 if weights is self.first or weights is self.first_best_effort else self.brokers
        found: int = getattr(weights, name)
        return found / self.publications / links

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Point:
        """What `asdict` has made of it."""
        names = ("first", "first_best_effort", "last", "last_best_effort")
        return cls(**found | {name: Weights(**found[name]) for name in names})


class Metered(Network):
    """A network of durable brokers in virtual time, whose links weigh what goes over them."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, BrokerConfig(durable=True))
        self.now = 0.0
        self.weights = {link: Weights() for link in topology.links}
        self._said: dict[tuple[Peer, Peer], ClocksSaid] = {}
        self._heads = dict.fromkeys(topology.brokers, 0)
        self._stored: list[tuple[Peer, Stored]] = []

    def settle(self) -> None:
        """Delivers every message that is under way; what is to be stored is on disk at once."""
        super().settle()
        while self._stored:
            name, stored = self._stored.pop(0)
            self._tell_broker(name, stored)
            super().settle()

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, and brokers do what is due meanwhile."""
        until = self.now + seconds
        while (due := min(self.brokers.values(), key=lambda broker: broker.deadline)).deadline <= until:
            self.now = max(self.now, due.deadline)
            self._tell_broker(due.name, Tick())
            self.settle()
        self.now = until

    def _tell_broker(self, name: Peer, event: Event) -> None:
        for effect in self.brokers[name].step(event, self.now):
            if isinstance(effect, Send):
                self._weigh(name, *effect)
                self._queue.append((name, effect))
            else:
                assert isinstance(effect, Store), "nobody has missed anything, so no log is read"
                first = self._heads[name] + 1
                self._heads[name] += len(effect.batch)
                offsets = range(first, first + len(effect.batch))
                placed = effect.batch.placed(Logged(name, offsets, round(self.now * 1e6), effect.moment))
                self._stored.append((name, Stored(placed)))

    def _tell_session(self, session: Session, event: Event | Command) -> None:
        for effect in session.step(event, self.now):
            if isinstance(effect, Send):
                self._queue.append((session.name, effect))

    def _weigh(self, sender: Peer, receiver: Peer, message: Message) -> None:
        link = (sender, receiver) if (sender, receiver) in self.weights else (receiver, sender)
        weights = self.weights.get(link)
        if weights is None:
            return  # a client's
        size = _size(message, self._said.setdefault((sender, receiver), ClocksSaid()))
        match message:
            case Notify(batch):
                bare = _size(Notify(batch), ClocksSaid())
                weights.data += bare
                weights.vectors += size - bare
            case Quiet():
                weights.silences += size
            case _ if isinstance(message, TableMessage):
                weights.tables += size
            case _:
                weights.reports += size


def _size(message: Message, said: ClocksSaid) -> int:
    return sum(map(len, encode(message, said)))


def star(brokers: int) -> Topology:
    """The publisher's broker, and so many of subscribers around one in the middle."""
    homes = tuple(f"subscribers-{number:02d}" for number in range(1, brokers + 1))
    return Topology(MIDDLE, (MIDDLE,), (PUBLISHER, *homes), tuple((MIDDLE, name) for name in (PUBLISHER, *homes)))


def weigh(
    brokers: int, subscriptions: int, publications: int, *, changes: bool, reliable: bool
) -> tuple[Weights, Weights]:
    """What goes over the first link and over all last ones while so many records are published, half of them for nobody."""
    network = Metered(star(brokers))
    clients = list[Session]()
    for number, home in enumerate(network.topology.locals[1:]):
        client = network.join(f"client-{number}")
        for key in keys_of(number, 2 * brokers, 2 * subscriptions):
            network.command(client, _subscribe(client, key, reliable=reliable))
        network.connect(client, home)
        clients.append(client)
    network.link_all()
    publisher = network.join("alice")
    network.connect(publisher, PUBLISHER)
    network.pass_time(10.0)  # everybody knows everything, and has said so
    for link in network.weights:
        network.weights[link] = Weights()
    records = keyed(publications, 2 * subscriptions)
    Random("publications").shuffle(records)  # what is wanted and what is not must not take turns
    for number, record in enumerate(records):
        network.pass_time(PAUSE_SECONDS)
        if changes and number % CHANGE_EVERY == CHANGE_EVERY // 2:
            client = clients[number // CHANGE_EVERY % brokers]
            network.command(client, _subscribe(client, f"new-{number}", reliable=reliable))
        network.command(publisher, Publish(Records.of(publisher.name, number + 1, [record])))
    network.pass_time(REST_SECONDS)
    first = network.weights.pop((MIDDLE, PUBLISHER))
    return first, _sum(network.weights.values())


def _subscribe(client: Session, key: str, *, reliable: bool) -> Subscribe:
    return Subscribe(client.new_id(), parse(f"key = '{key}'"), reliable=reliable)


def _sum(several: Iterable[Weights]) -> Weights:
    total = Weights()
    for one in several:
        for name in Weights.__slots__:
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


def point(brokers: int, subscriptions: int, publications: int, *, changes: bool) -> Point:
    """One size, with best-effort and with reliable subscriptions."""
    plain = weigh(brokers, subscriptions, publications, changes=changes, reliable=False)
    reliable = weigh(brokers, subscriptions, publications, changes=changes, reliable=True)
    found = Point(brokers, subscriptions, changes, publications, reliable[0], plain[0], reliable[1], plain[1])
    say(
        f"bytes, {brokers} brokers, {subscriptions:,} subscriptions{', changing' if changes else ''}".ljust(56)
        + f"vectors {found.each(found.first, 'vectors'):.1f}, silences {found.each(found.first, 'silences'):.1f}"
    )
    return found


def sweep(brokers: Sequence[int], subscriptions: Sequence[int], publications: int) -> Iterator[Point]:
    """All points: along either scale, at rest and with subscriptions that come."""
    sizes = [(each, MANY_SUBSCRIPTIONS) for each in brokers] + [(MANY_BROKERS, each) for each in subscriptions]
    for changes in (False, True):
        for size in dict.fromkeys(sizes):
            yield point(*size, publications, changes=changes)
