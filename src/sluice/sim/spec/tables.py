"""Routing configurations: are the tables of all brokers, together, such that every notification finds its way?

From the tables come the notifications that a broker sends to a destination (nu, 3.1); from what the clients ask for, those that
are of interest at a broker (I, 3.5) and behind a neighbour (eta, 3.6). A configuration is *valid* if nu is at least eta for
every neighbour and exactly the client's own filters for every client (Def. 3.1), *weakly valid* if that holds for the
subscriptions that are acknowledged (Def. 3.2), and *perfect* if nu equals eta. With advertisements a neighbour is owed only
what may be published on this side of the link. The algebra proves this where it can; where it cannot, the points decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, EntryId, Kind, Role
from sluice.sim.spec.filters import Filters, members
from sluice.sim.spec.violation import Violation
from sluice.sim.trace.trace import Record


class ReplicaView(Protocol):
    """What a broker holds of a peer's table."""

    @property
    def entries(self) -> Iterable[Entry]: ...


class ExportView(Protocol):
    """What a peer was told of a broker's table."""

    @property
    def sent(self) -> Iterable[Entry]: ...


class TableView(Protocol):
    """A table of a broker."""

    @property
    def replicas(self) -> Mapping[Peer, ReplicaView]: ...

    @property
    def exports(self) -> Mapping[Peer, ExportView]: ...


class BrokerView(Protocol):
    """What the checks want to see of a broker; `sluice.broker.core.broker.Broker` has it."""

    @property
    def tables(self) -> Mapping[Kind, TableView]: ...

    @property
    def roles(self) -> Mapping[Peer, Role]: ...


@dataclass(frozen=True, slots=True)
class Client:
    """A client that is up: where it is and what it asks for."""

    broker: Peer
    subscriptions: Mapping[EntryId, Subscription] = field(default_factory=dict)
    advertisements: Mapping[EntryId, Subscription] = field(default_factory=dict)
    watches: Mapping[EntryId, Subscription] = field(default_factory=dict)
    #: The subscriptions and advertisements that it was told are complete; None: all of them.
    completed: Collection[EntryId] | None = None


class Configuration:
    """The tables of all brokers that are up, the links that are up, and what the clients at them ask for.

    `points` are sample records: best all that there are. Give `filters` to keep what was worked out for an earlier one, which
    is not to be asked any more then.
    """

    def __init__(
        self,
        brokers: Mapping[Peer, BrokerView],
        links: Iterable[tuple[Peer, Peer]],
        clients: Mapping[Peer, Client],
        points: Sequence[Record] = (),
        *,
        advertisements: bool = False,
        root: Peer | None = None,
        at: float = 0.0,
        filters: Filters | None = None,
    ) -> None:
        self.brokers = brokers
        self.clients = clients
        self.advertisements = advertisements
        #: The broker that advertises everything, since it puts in order what all publish; None: none does.
        self.root = root
        self.at = at
        self.filters = Filters(points) if filters is None else filters
        self.filters.trim()
        self.neighbours: dict[Peer, list[Peer]] = {name: [] for name in brokers}
        for a, b in links:
            if a in brokers and b in brokers:
                self.neighbours[a].append(b)
                self.neighbours[b].append(a)
        self.local: dict[Peer, list[Peer]] = {name: [] for name in brokers}
        for name, client in clients.items():
            if client.broker in brokers:
                self.local[client.broker].append(name)

    def directed(self) -> Iterator[tuple[Peer, Peer]]:
        """Every link in both directions."""
        for broker, neighbours in self.neighbours.items():
            for neighbour in neighbours:
                yield broker, neighbour

    def entries(self, broker: Peer, kind: Kind, destination: Peer) -> list[Entry]:
        """The routing entries of a broker with a destination."""
        replica = self.brokers[broker].tables[kind].replicas.get(destination)
        return [] if replica is None else list(replica.entries)

    def forwarded(self, broker: Peer, destination: Peer) -> int:
        """nu (3.1): the filters for which a broker sends notifications to a destination."""
        entries = self.entries(broker, Kind.SUBSCRIPTIONS, destination)
        return self.filters.set_of(entry.where for entry in entries)

    def interests(self, completed_only: bool = False) -> dict[Peer, int]:
        """I (3.5): what the local clients of each broker ask for; with `completed_only` (3.7)."""
        return {
            broker: self.filters.set_of(
                where
                for name in names
                for id, where in self.clients[name].subscriptions.items()
                if not completed_only or _is_completed(self.clients[name], id)
            )
            for broker, names in self.local.items()
        }

    def offers(self, completed_only: bool = False) -> dict[Peer, int]:
        """What each broker and its local clients advertise."""
        return {
            broker: self.filters.set_of(
                [
                    *([Subscription([EVERYTHING])] if broker == self.root else ()),
                    *(
                        where
                        for name in names
                        for id, where in self.clients[name].advertisements.items()
                        if not completed_only or _is_completed(self.clients[name], id)
                    ),
                ]
            )
            for broker, names in self.local.items()
        }

    def behind(self, own: Mapping[Peer, int]) -> dict[tuple[Peer, Peer], int]:
        """eta (3.6): for each link (a, b), what any broker has on that side of it on which a is."""
        order: list[tuple[Peer, Peer | None]] = []
        seen: dict[Peer, None] = {}
        for root in self.brokers:
            if root in seen:
                continue
            seen[root] = None
            start = len(order)
            order.append((root, None))
            for broker, _ in _growing(order, start):
                for neighbour in self.neighbours[broker]:
                    if neighbour not in seen:
                        seen[neighbour] = None
                        order.append((neighbour, broker))
        found: dict[tuple[Peer, Peer], int] = {}
        for broker, parent in reversed(order):
            if parent is not None:
                below = (found[other, broker] for other in self.neighbours[broker] if other != parent)
                found[broker, parent] = _union(own[broker], below)
        for broker, parent in order:
            # Everything around this broker, without one child after the other: from the left and from the right.
            children = [other for other in self.neighbours[broker] if other != parent]
            left = own[broker] if parent is None else own[broker] | found[parent, broker]
            rights = [0]
            for child in reversed(children):
                rights.append(rights[-1] | found[child, broker])
            for child, right in zip(children, reversed(rights[:-1]), strict=True):
                found[broker, child] = left | right
                left |= found[child, broker]
        return found


def _growing(order: list[tuple[Peer, Peer | None]], start: int) -> Iterator[tuple[Peer, Peer | None]]:
    while start < len(order):
        yield order[start]
        start += 1


def _union(first: int, others: Iterable[int]) -> int:
    for other in others:
        first |= other
    return first


def _is_completed(client: Client, id: EntryId) -> bool:
    return client.completed is None or id in client.completed


def remote_validity(configuration: Configuration, *, weak: bool = False) -> list[Violation]:
    """Where a broker would not send a notification to a neighbour behind which it is wanted (Def. 3.1, weak: Def. 3.2)."""
    name = "weak-remote-validity" if weak else "remote-validity"
    filters = configuration.filters
    eta = configuration.behind(configuration.interests(completed_only=weak))
    offers = configuration.behind(configuration.offers(completed_only=weak)) if configuration.advertisements else {}
    found = []
    for broker, neighbour in configuration.directed():
        nu = configuration.forwarded(broker, neighbour)
        for number in members(eta[neighbour, broker] & ~nu):
            offered = offers.get((broker, neighbour), 0)
            if configuration.advertisements and not filters.overlaps_any(number, offered):
                continue
            if filters.is_covered(number, nu):
                continue
            says = f"{broker} should send {neighbour} what matches {filters[number]}"
            if not filters.points:
                found.append(Violation(name, configuration.at, f"{says}, and that cannot be shown"))
                continue
            owed = filters.matching(1 << number)
            if configuration.advertisements:
                owed &= filters.matching(offered)
            missed = owed & ~filters.matching(nu)
            if missed:
                says += f", but not {dict(filters.point(missed))}"
                found.append(Violation(name, configuration.at, says))
    return found


def perfection(configuration: Configuration) -> list[Violation]:
    """Where a broker would send a notification to a neighbour behind which nobody wants it."""
    filters = configuration.filters
    eta = configuration.behind(configuration.interests())
    offers = configuration.behind(configuration.offers()) if configuration.advertisements else {}
    found = []
    for broker, neighbour in configuration.directed():
        sent = filters.matching(configuration.forwarded(broker, neighbour))
        wasted = sent & ~filters.matching(eta[neighbour, broker])
        if configuration.advertisements:
            # What cannot be published on this side is never sent, whatever the table says.
            wasted &= filters.matching(offers[broker, neighbour])
        if wasted:
            says = f"{broker} would send {neighbour} {dict(filters.point(wasted))}, which nobody there wants"
            found.append(Violation("perfection", configuration.at, says))
    return found


_WISHES: tuple[tuple[Kind, Callable[[Client], Mapping[EntryId, Subscription]]], ...] = (
    (Kind.SUBSCRIPTIONS, lambda client: client.subscriptions),
    (Kind.ADVERTISEMENTS, lambda client: client.advertisements),
    (Kind.WATCHES, lambda client: client.watches),
)


def local_validity(configuration: Configuration, *, weak: bool = False) -> list[Violation]:
    """Where the entries of a client are not exactly what it asks for, or somebody has entries who is not there (Def. 3.1).

    With `weak`, while messages are on their way: where something is missing that was acknowledged.
    """
    found = []

    def wrong(says: str) -> None:
        found.append(Violation("local-validity", configuration.at, says))

    for broker, names in configuration.local.items():
        for name in names:
            client = configuration.clients[name]
            for kind, wishes in _WISHES[:1] if weak else _WISHES:
                asked = {(id, where) for id, where in wishes(client).items() if not weak or _is_completed(client, id)}
                held = {(entry.id, entry.where) for entry in configuration.entries(broker, kind, name)}
                of = f"of the {kind.name.lower()} of {name}"
                for id, where in sorted(asked - held, key=str):
                    wrong(f"{broker} does not hold {id} {of}: {where}")
                if not weak:
                    for other, where in sorted(held - asked, key=str):
                        wrong(f"{broker} holds {other} {of}, which it does not ask for: {where}")
        if not weak:
            there = {*names, *configuration.neighbours[broker]}
            for kind, table in configuration.brokers[broker].tables.items():
                for peer in table.replicas:
                    if peer not in there and configuration.entries(broker, kind, peer):
                        wrong(f"{broker} holds {kind.name.lower()} of {peer}, which is not there")
    return found


def valid(configuration: Configuration) -> list[Violation]:
    """What keeps a configuration from being valid (Def. 3.1); the network is to be at rest."""
    return remote_validity(configuration) + local_validity(configuration)


def weakly_valid(configuration: Configuration) -> list[Violation]:
    """What keeps a configuration from being weakly valid (Def. 3.2); it should be so at any time.

    A client's filters reach its broker by message, so of its own entries only the acknowledged ones are asked for.
    """
    return remote_validity(configuration, weak=True) + local_validity(configuration, weak=True)


def perfect(configuration: Configuration) -> list[Violation]:
    """What keeps a configuration from being valid and perfect."""
    return valid(configuration) + perfection(configuration)


Portrait = dict[tuple[Peer, str, Peer], tuple[tuple[str, str], ...]]


def portrait(brokers: Mapping[Peer, BrokerView]) -> Portrait:
    """The contents of all tables, without versions, so that those of two networks can be compared."""
    return {
        (name, kind.name.lower(), peer): tuple(sorted(entry.sort_key() for entry in replica.entries))
        for name, broker in brokers.items()
        for kind, table in broker.tables.items()
        for peer, replica in table.replicas.items()
        if any(True for _ in replica.entries)
    }


def differences(portrait: Portrait, wanted: Portrait, at: float = 0.0) -> list[Violation]:
    """Where tables are not those of another network, such as one that was built afresh for the same clients."""
    found = []
    for key in sorted({*portrait, *wanted}):
        broker, kind, peer = key
        mine, theirs = portrait.get(key, ()), wanted.get(key, ())
        if mine != theirs:
            says = [f"has {_entry(one)} too much" for one in mine if one not in theirs]
            says += [f"lacks {_entry(one)}" for one in theirs if one not in mine]
            found.append(Violation("same-tables", at, f"{broker}, {kind} of {peer}: {'; '.join(says)}"))
    return found


def _entry(key: tuple[str, str]) -> str:
    where, id = key
    return f"{id}: {where}" if id else where
