"""The links of a broker: channels are opened, told, heard, held and closed, each with everything that the broker keeps of it.

A link of the tree has one channel. While the tree is reshaped (`sluice.protocol.reshape`) links of the chain have two: the same
steps, in another order, bring the second one up beside the first and take the first one down without anybody noticing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from sluice.broker.core.config import BrokerConfig
from sluice.protocol.batch import Peer
from sluice.protocol.complete import Completion
from sluice.protocol.effects import Effects
from sluice.protocol.events import Effect
from sluice.protocol.export import Delta
from sluice.protocol.intake import Intake
from sluice.protocol.messages import Change, Entry, Kind, Message, Role, Snapshot, Version
from sluice.protocol.order.ordering import Ordering
from sluice.protocol.reliable.reliable import Reliable
from sluice.protocol.request import Requests
from sluice.protocol.reshape.channel import link_of
from sluice.protocol.route.directions import Directions, Plane
from sluice.protocol.route.table import Table
from sluice.protocol.route.ways import Ways

#: What a client tells its broker, and waits for.
HEARD_FROM_CLIENTS = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)


class Links(ABC):
    """The part of a broker that knows what belongs to a channel."""

    name: Peer
    config: BrokerConfig
    incarnation: int
    roles: dict[Peer, Role]
    #: Channels whose link is broken, and of which only what they have told is left.
    held: dict[Peer, None]
    directions: Directions
    tables: dict[Kind, Table]
    completion: dict[Kind, Completion]
    ways: dict[Kind, Ways]
    reliable: Reliable
    order: Ordering
    intake: Intake
    requests: Requests
    _expiry: float
    _out: Effects
    _now: float

    @abstractmethod
    def _send(self, peer: Peer, message: Message) -> None:
        """Has a message sent."""

    @abstractmethod
    def _send_changes(self, changes: Iterator[tuple[Peer, Change]]) -> None:
        """Has peers told what has changed for them."""

    @abstractmethod
    def _spread(self, kind: Kind, peer: Peer, delta: Delta, is_later: bool = False, *, catches_up: bool = True) -> None:
        """A peer's entries have changed: everything that follows from it."""

    @abstractmethod
    def _survey(self) -> None:
        """Other ways may lead to other brokers."""

    @abstractmethod
    def _owe(self, kind: Kind, peer: Peer, version: Version) -> None:
        """A peer waits for a version to take effect."""

    @abstractmethod
    def _contents(self, kind: Kind) -> Iterator[tuple[Peer, Entry]]:
        """What a table tells about."""

    def send(self, peer: Peer, message: Message) -> None:
        """Has a message sent to the other end of a link."""
        self._send(peer, message)

    def do(self, effect: Effect) -> None:
        """Has something done, behind all that was said before."""
        self._out.all.append(effect)

    # --- who tells what -----------------------------------------------------------------------------------------------

    def _heard(self, role: Role) -> Iterable[Kind]:
        if role == Role.CLIENT:
            return HEARD_FROM_CLIENTS
        return Kind if self.config.advertisements else [kind for kind in Kind if kind != Kind.ADVERTISEMENTS]

    def _hears(self, kind: Kind, peer: Peer) -> bool:
        """Whether a peer tells of a table."""
        return peer in self.roles and kind in self._heard(self.roles[peer])

    def _told(self, role: Role) -> Iterable[Kind]:
        return [Kind.INTEREST] if role == Role.CLIENT else self._heard(role)

    def tables_between_brokers(self) -> Iterable[Kind]:
        """What brokers tell each other of."""
        return self._told(Role.BROKER)

    def _tells(self, kind: Kind, peer: Peer) -> bool:
        """Whether a peer is told of a table."""
        return peer in self.roles and peer not in self.held and kind in self._told(self.roles[peer])

    def steered(self) -> tuple[Kind, ...]:
        """The tables of which a broker is told only what concerns it, as far as it has told what does."""
        return (Kind.SUBSCRIPTIONS, Kind.INTEREST) if self.config.advertisements else (Kind.INTEREST,)

    @property
    def is_steered(self) -> bool:
        """Whether that makes a difference: there are advertisements, or somebody somewhere watches something."""
        watches = self.tables[Kind.WATCHES].replicas.values()
        return self.config.advertisements is not None or any(replica.entries for replica in watches)

    def way(self, broker: Peer, source: Peer) -> Peer | None:
        """The channel that leads to a broker, for what comes from a peer; None: nothing is known of it."""
        return self.ways[Kind.BROKERS].get(
            broker, lambda peer: peer not in self.held and self.directions.leads(source, peer)
        )

    # --- links of the tree --------------------------------------------------------------------------------------------

    def link_up(self, peer: Peer, role: Role, node: str | None) -> None:
        """A link works from now on: both ends tell each other everything.

        What is only held is not told to a broker that comes later: some of it may be there, or be reached another way by now.
        """
        for ghost in self.held if role == Role.BROKER else ():
            self.directions.conceal(ghost, peer)
        self.open(peer, role, node)
        self.join(peer)
        for message in self.tell(peer, self._told(role)):
            self._send(peer, message)

    def link_down(self, peer: Peer) -> None:
        """A link is gone, with all that came over it."""
        if peer in self.roles:
            self.close([peer])

    # --- channels -----------------------------------------------------------------------------------------------------

    def open(self, peer: Peer, role: Role, node: str | None = None, plane: Plane = Plane.SIDE) -> None:
        """A channel is there from now on; nothing is told or heard in it yet."""
        self.roles[peer] = role
        self.directions.linked(peer, role, node)
        if plane != Plane.SIDE:
            self.directions.part([peer], plane)
        for kind in self._heard(role):
            self.tables[kind].replica(peer, self._now)
        if self.config.lease is not None:
            self._expiry = min(self._expiry, self._now + self.config.lease.lease_seconds)

    def join(self, peer: Peer) -> None:
        """The other end knows a channel, too: it takes part in reliable delivery and in order."""
        self.reliable.relinked(peer)
        self.order.linked(peer)

    def tell(self, peer: Peer, kinds: Iterable[Kind], base: Peer | None = None) -> Iterator[Change | Snapshot]:
        """Begins to tell of tables: what is to be said, as changes of what the other end holds of a base, if there is one."""
        for kind in kinds:
            table = self.tables[kind]
            table.tell(peer, self.incarnation, partial(self._contents, kind))
            export = table.exports[peer]
            before = None if base is None else table.exports.get(base)
            yield export.snapshot() if before is None else export.since(before)
            if kind in self.completion:
                others = [other for other in self.roles if self.directions.tells(other, peer)]
                self.completion[kind].await_also(peer, export.version.sequence, others)

    def hear(self, peer: Peer, messages: Iterable[Change | Snapshot], base: Peer | None) -> bool:
        """Begins to hear tables, as changes of what was heard from a base; False if that is not what they are changes of."""
        for message in messages:
            table = self.tables[message.kind]
            replica = table.replica(peer, self._now)
            if isinstance(message, Change):
                before = None if base is None else table.replicas.get(base)
                if before is None:
                    return False
                replica.copy(before)
                if replica.change(message) is None:
                    replica.clear()
                    return False
            else:
                replica.snapshot(message)
            replica.renewed = self._now
            delta: Delta = list(replica.entries), []
            # What passed before went the other way, and so it has been where it was to go.
            self._spread(message.kind, peer, delta, any(replica.tags), catches_up=False)
            self._owe(message.kind, peer, message.version)
        return True

    def flip(self, heard: Iterable[Peer]) -> None:
        """The sides are told of the new plane instead of the old one; who hears nothing new hears nothing."""
        self.directions.flip()
        sides = [peer for peer in self.roles if self.directions.plane(peer) == Plane.SIDE]
        new = list(heard)
        for kind, table in self.tables.items():
            self._send_changes(table.retell(sides, partial(self._contents, kind)))
            if kind in self.completion:
                for peer, export in table.exports.items():
                    if peer in sides and not export.is_settled:
                        self.completion[kind].await_also(peer, export.version.sequence, new)
        self._survey()
        self.reliable.heard(self._now)

    def flush(self, peer: Peer) -> None:
        """Says what waits to be said in a channel."""
        self.reliable.relay.flush(self.directions.of(peer))

    def hold(self, peer: Peer) -> None:
        """The link of a channel is broken: nothing is said in it any more, but what came over it is believed."""
        self._mute([peer])
        self.held[peer] = None
        self._void([peer], {})

    def remember(self, peer: Peer, ghost: Peer) -> None:
        """The link of a channel is broken: what came over it is held as that of a ghost, which nobody speaks to."""
        self._mute([peer])
        self.open(ghost, Role.BROKER, link_of(peer))
        self.directions.mute(ghost)
        self.held[ghost] = None
        for kind, table in self.tables.items():
            if peer in table.replicas:
                replica = table.replica(ghost, self._now)
                replica.copy(table.replicas[peer])
                delta: Delta = list(replica.entries), []
                self._spread(kind, ghost, delta, any(replica.tags), catches_up=False)
        self.close([peer])

    def close(self, peers: list[Peer], successors: Mapping[Peer, Peer] | None = None) -> None:
        """Channels are gone, all at the same time; questions on their way go on in those that follow them."""
        self._mute(peers)
        for kind, table in self.tables.items():
            for peer in peers:
                is_tagged = peer in table.replicas and any(table.replicas[peer].tags)
                self._spread(kind, peer, table.stop_hearing(peer), is_tagged)
        for peer in peers:
            del self.roles[peer]
            self.held.pop(peer, None)
            self.reliable.relinked(peer)
            self.directions.unlinked(peer)
            self.intake.unlinked(peer)
        self._void(peers, successors or {})

    def _mute(self, peers: list[Peer]) -> None:
        for peer in peers:
            for table in self.tables.values():
                table.stop_telling(peer)
            for completion in self.completion.values():
                completion.forget(peer)
            self.order.unlinked(peer)

    def _void(self, peers: list[Peer], successors: Mapping[Peer, Peer]) -> None:
        for peer in peers:
            if peer in successors:
                self.requests.move(peer, successors[peer])
            else:
                for asker, reply in self.requests.forget(peer):
                    self._send(asker, reply)
