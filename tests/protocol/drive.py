"""Brokers and clients joined by links without delay: what is sent waits in one queue per link, and `run` empties them all.

No time passes by itself. A test may hold a link back, to look at the network while messages are on their way, lose or repeat
what is on it, and cut and join links as it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

from sluice import parse
from sluice.broker import Broker, BrokerConfig
from sluice.client.session.commands import Advertise, Command, Completed, Delivered, Publish, Subscribe, Upcall
from sluice.client.session.session import Session
from sluice.protocol.batch import Peer
from sluice.protocol.events import (
    Answered,
    Ask,
    Event,
    LinkDown,
    LinkUp,
    NotStored,
    Received,
    Reserve,
    Send,
    Store,
    Stored,
    Tick,
)
from sluice.protocol.export import Export
from sluice.protocol.messages import Change, Entry, EntryId, Kind, Message, Replay, Role, Version
from sluice.protocol.reshape.messages import ReshapeEffect

U = TypeVar("U")

#: More messages than any test of ours causes: beyond this, brokers talk in circles.
MAX_MESSAGES = 20_000


class Network:
    """A tree of brokers with clients at them."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig()
        self.now = 0.0
        self.brokers: dict[Peer, Broker] = {}
        self.clients: dict[Peer, Session] = {}
        self.news: list[tuple[Peer, Upcall]] = []
        #: Everything that was ever sent, in order: from, to, message.
        self.log: list[tuple[Peer, Peer, Message]] = []
        #: What brokers want from their surroundings, in order.
        self.asked: list[tuple[Peer, Store | Reserve | Ask]] = []
        #: What brokers want done with their links.
        self.wanted: list[tuple[Peer, ReshapeEffect]] = []
        self._links: dict[tuple[Peer, Peer], deque[Message]] = {}
        self._held: dict[tuple[Peer, Peer], None] = {}

    # --- what there is ------------------------------------------------------------------------------------------------

    def broker(
        self, name: Peer, *neighbours: Peer, incarnation: int = 1, accepted: dict[Peer, int] | None = None
    ) -> Broker:
        """A new broker, linked to neighbours; a durable one has this on disk."""
        self.brokers[name] = Broker(name, self.config, incarnation, accepted)
        for neighbour in neighbours:
            self.link(name, neighbour)
        return self.brokers[name]

    def client(self, name: Peer, at: Peer | None = None, incarnation: int = 1) -> Session:
        """A new client, linked to a broker."""
        self.clients[name] = Session(name, lease=self.config.lease, incarnation=incarnation)
        if at is not None:
            self.link(name, at)
        return self.clients[name]

    def link(self, a: Peer, b: Peer) -> None:
        """Joins two peers; whatever was on an earlier link between them is gone."""
        self._links[a, b] = deque()
        self._links[b, a] = deque()
        for here, there in ((a, b), (b, a)):
            role = Role.CLIENT if there in self.clients else Role.BROKER
            accepted = None
            if self.config.durable and here in self.clients:
                accepted = self.brokers[there].intake.settled(here)
            self._step(here, LinkUp(there, role, accepted))

    def cut(self, a: Peer, b: Peer) -> None:
        """Takes a link away, with all that is on it."""
        del self._links[a, b], self._links[b, a]
        for here, there in ((a, b), (b, a)):
            if here in self.brokers or here in self.clients:
                self._step(here, LinkDown(there))

    def crash(self, name: Peer) -> list[Peer]:
        """A peer is gone without a word; returns its neighbours."""
        self.brokers.pop(name, None)
        self.clients.pop(name, None)
        neighbours = [there for here, there in self._links if here == name]
        for neighbour in neighbours:
            self.cut(name, neighbour)
        return neighbours

    # --- what happens -------------------------------------------------------------------------------------------------

    def do(self, client: Peer, command: Command) -> None:
        """Gives a client a command."""
        self._step(client, command)

    def tick(self, name: Peer) -> None:
        """Tells a peer that time has passed."""
        self._step(name, Tick())

    def tell(self, name: Peer, event: Stored | NotStored | Answered) -> None:
        """The surroundings of a broker answer it."""
        self._step(name, event)

    def pass_time(self, seconds: float) -> None:
        """Lets time pass: everybody is woken at its deadline, and all that is sent arrives at once."""
        end = self.now + seconds
        while True:
            due = min(((self._core(name).deadline, name) for name in [*self.brokers, *self.clients]), default=None)
            if due is None or due[0] > end:
                break
            self.now = max(self.now, due[0])
            before = due[0]
            self.tick(due[1])
            assert self._core(due[1]).deadline > max(before, self.now), f"{due[1]} asks for the same moment again"
            self.run()
        self.now = end

    def hold(self, sender: Peer, receiver: Peer) -> None:
        """Lets nothing arrive in one direction of a link until `release`."""
        self._held[sender, receiver] = None

    def release(self, sender: Peer, receiver: Peer) -> None:
        """Lets what is held arrive."""
        del self._held[sender, receiver]

    def waiting(self, sender: Peer, receiver: Peer) -> deque[Message]:
        """What is on its way: a test may take from it and add to it."""
        return self._links[sender, receiver]

    def run(self) -> None:
        """Lets everything arrive that is not held back."""
        messages = 0
        busy = True
        while busy:
            busy = False
            for (sender, receiver), queue in list(self._links.items()):
                if queue and (sender, receiver) not in self._held:
                    busy = True
                    messages += 1
                    assert messages <= MAX_MESSAGES, "there is no end to the messages"
                    self._step(receiver, Received(sender, queue.popleft()))

    def deliver_one(self, sender: Peer, receiver: Peer) -> Message:
        """Lets one message of a link arrive."""
        message = self._links[sender, receiver].popleft()
        self._step(receiver, Received(sender, message))
        return message

    def _core(self, name: Peer) -> Broker | Session:
        return self.brokers[name] if name in self.brokers else self.clients[name]

    def _step(self, name: Peer, event: Any) -> None:
        for effect in self._core(name).step(event, self.now):
            if isinstance(effect, Store | Reserve | Ask):
                self.asked.append((name, effect))
            elif isinstance(effect, Send):
                assert (name, effect.peer) in self._links, f"{name} sends to {effect.peer}, to which it has no link"
                self._links[name, effect.peer].append(effect.message)
                self.log.append((name, effect.peer, effect.message))
            elif isinstance(effect, ReshapeEffect):
                self.wanted.append((name, effect))
            else:
                self.news.append((name, effect))

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def take_news(self, kind: type[U]) -> list[tuple[Peer, U]]:
        """The news of one kind, which are then forgotten with all others."""
        found: list[tuple[Peer, U]] = [(name, each) for name, each in self.news if isinstance(each, kind)]
        self.news.clear()
        return found

    def deliveries(self) -> list[tuple[EntryId, dict[str, Any]]]:
        """What was delivered, to which subscription, sorted; then all news are forgotten."""
        found = [
            (id, dict(delivery.notification.record))
            for _, each in self.take_news(Delivered)
            for delivery in each.deliveries
            for id in delivery.subscriptions
        ]  # fmt: skip
        return sorted(found, key=repr)

    def completed(self, kind: Kind = Kind.SUBSCRIPTIONS) -> list[EntryId]:
        """What is complete, in order; then all news are forgotten."""
        return [each.id for _, each in self.take_news(Completed) if each.kind == kind]

    def changes(self, kind: Kind = Kind.SUBSCRIPTIONS) -> Iterator[tuple[Peer, Peer, Change]]:
        """The changes of one table that were sent between brokers."""
        for sender, receiver, message in self.log:
            if isinstance(message, Change) and message.kind == kind and {sender, receiver} <= self.brokers.keys():
                yield sender, receiver, message

    def told(self, broker: Peer, neighbour: Peer, kind: Kind = Kind.SUBSCRIPTIONS) -> list[str]:
        """What a broker has told a neighbour, as texts."""
        return sorted(entry.where.to_sql() for entry in self.brokers[broker].tables[kind].exports[neighbour].sent)

    def assert_consistent(self) -> None:
        """Every replica is what its sender sent, and every export what a broker that starts anew would send."""
        for name, broker in self.brokers.items():
            for kind, table in broker.tables.items():
                for peer, replica in table.replicas.items():
                    if peer in self.brokers:
                        export = self.brokers[peer].tables[kind].exports[name]
                        assert (list_of(replica.entries), replica.version) == (list_of(export.sent), export.version)
                    else:
                        mine = dict.fromkeys(self.clients[peer].entries[kind].values())
                        assert list_of(replica.entries) == list_of(mine), (name, kind, peer)
            assert fresh_exports(broker) == {
                (kind, peer): list_of(export.sent)
                for kind, table in broker.tables.items()
                for peer, export in table.exports.items()
            }


def entry(text: str, id: EntryId | None = None, replay: Replay | None = None) -> Entry:
    """An entry from the text of its filter."""
    return Entry(parse(text), id, replay)


def subscribe(network: Network, id: EntryId, text: str, replay: Replay | None = None) -> None:
    """The client of an id asks for a filter."""
    network.do(id.partition("/")[0], Subscribe(id, parse(text), replay))


def advertise(network: Network, id: EntryId, text: str) -> None:
    """The client of an id says what it will publish."""
    network.do(id.partition("/")[0], Advertise(id, parse(text)))


def sends(broker: Broker, *events: Event, now: float = 0.0) -> list[Send]:
    """What a broker says when events come together, and to whom."""
    return [effect for effect in broker.step_all(events, now) if isinstance(effect, Send)]


def publish(network: Network, client: Peer, *records: dict[str, Any]) -> None:
    """A client publishes records, in one batch."""
    network.do(client, Publish(network.clients[client].batch(records)))


def list_of(entries: dict[Entry, None]) -> list[Entry]:
    """Entries in an order that does not depend on when they came."""
    return sorted(entries, key=lambda entry: (*entry.sort_key(), repr(entry.replay)))


def fresh_exports(broker: Broker) -> dict[tuple[Kind, Peer], list[Entry]]:
    """What a new broker in the same place would tell its neighbours, had it been told the same in another order."""
    fresh = Broker(broker.name, broker.config)
    for peer, role in reversed(broker.roles.items()):
        fresh.step(LinkUp(peer, role), 0.0)
    for kind, table in broker.tables.items():
        for peer, replica in reversed(table.replicas.items()):
            # Told in two parts, the second on top of the first.
            entries = list(reversed(replica.entries))
            export = _told_by(peer, kind, entries)
            for message in export:
                fresh.step(Received(peer, message), 0.0)
    return {
        (kind, peer): list_of(export.sent)
        for kind, table in fresh.tables.items()
        for peer, export in table.exports.items()
    }


def _told_by(peer: Peer, kind: Kind, entries: list[Entry]) -> list[Message]:
    export = Export(kind, Version(1, 0))
    half = len(entries) // 2
    export.change(entries[:half], [])
    messages: list[Message] = [export.snapshot()]
    change = export.change(entries[half:], [])
    return messages if change is None else [*messages, change]


def line(config: BrokerConfig, length: int) -> Network:
    """Brokers b0 - b1 - b2 - ..., and nothing on its way."""
    network = Network(config)
    for i in range(length):
        network.broker(f"b{i}", *([f"b{i - 1}"] if i else []))
    network.run()
    return network


def star(config: BrokerConfig, arms: int) -> Network:
    """A hub with arms a0, a1, ..., and nothing on its way."""
    network = Network(config)
    network.broker("hub")
    for i in range(arms):
        network.broker(f"a{i}", "hub")
    network.run()
    return network
