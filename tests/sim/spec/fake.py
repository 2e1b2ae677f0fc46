"""Brokers that are nothing but tables, filled by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, Kind, Role
from sluice.sim.spec.tables import Client, Configuration
from sluice.sim.trace.trace import Record

#: Every record that there is: prices from 0 to 9 of two stocks, and one without a price.
POINTS: tuple[Record, ...] = (
    *({"symbol": symbol, "price": price} for symbol in ("A", "B") for price in range(10)),
    {"symbol": "A"},
)


class Side:
    """A replica and an export at once."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = dict.fromkeys(entries)

    @property
    def sent(self) -> dict[Entry, None]:
        return self.entries


class FakeTable:
    def __init__(self) -> None:
        self.replicas: dict[Peer, Side] = {}
        self.exports: dict[Peer, Side] = {}


class FakeBroker:
    def __init__(self) -> None:
        self.tables = {kind: FakeTable() for kind in Kind}
        self.roles: dict[Peer, Role] = {}


def wishes(texts: dict[str, str]) -> dict[str, Subscription]:
    return {id: parse(text) for id, text in texts.items()}


class Network:
    """Fake brokers and clients; entries are texts, `alice/1: price > 3` those with an id."""

    def __init__(self, *links: tuple[Peer, Peer], brokers: Sequence[Peer] = ()) -> None:
        self.links = links
        self.brokers = {
            name: FakeBroker() for name in dict.fromkeys((*brokers, *(end for link in links for end in link)))
        }
        self.clients: dict[Peer, Client] = {}
        for a, b in links:
            self.brokers[a].roles[b] = self.brokers[b].roles[a] = Role.BROKER

    def client(
        self,
        name: Peer,
        at: Peer,
        subscriptions: dict[str, str] | None = None,
        *,
        advertisements: dict[str, str] | None = None,
        watches: dict[str, str] | None = None,
        completed: set[str] | None = None,
        known: bool = True,
    ) -> None:
        """A client, of which its broker knows everything unless told otherwise."""
        asked = [wishes(texts or {}) for texts in (subscriptions, advertisements, watches)]
        self.clients[name] = Client(at, asked[0], asked[1], asked[2], completed)
        self.brokers[at].roles[name] = Role.CLIENT
        if known:
            for kind, mine in zip((Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES), asked, strict=True):
                self.brokers[at].tables[kind].replicas[name] = Side(Entry(where, id) for id, where in mine.items())

    def hold(self, broker: Peer, peer: Peer, *texts: str, kind: Kind = Kind.SUBSCRIPTIONS) -> None:
        """Has a broker hold entries of a peer."""
        self.brokers[broker].tables[kind].replicas[peer] = Side(map(entry, texts))

    def tell(self, broker: Peer, peer: Peer, *texts: str, kind: Kind = Kind.SUBSCRIPTIONS) -> None:
        """Has a broker believe that it told a peer entries, and the peer hold them."""
        self.brokers[broker].tables[kind].exports[peer] = Side(map(entry, texts))
        if peer in self.brokers:
            self.hold(peer, broker, *texts, kind=kind)

    def configuration(self, *, points: Sequence[Record] = POINTS, advertisements: bool = False) -> Configuration:
        return Configuration(self.brokers, self.links, self.clients, points, advertisements=advertisements, at=7.0)


def entry(text: str) -> Entry:
    id, separator, where = text.rpartition(": ")
    return Entry(parse(where), id if separator else None)
