"""A broker on the network: connections in, the pure core in the middle, connections and the log out.

What has arrived when the event loop comes round goes through the core as one batch, and what it answers is sent at the end of
the same turn. Publications of a durable broker pass through the journal first. Publishers are held up, and nobody else, while
the journal, a link or a subscriber that has chosen so cannot take more.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from contextlib import suppress
from typing import Any, assert_never

from sluice.broker import account
from sluice.broker.config import SHARED, ServerConfig
from sluice.broker.core.broker import Broker
from sluice.broker.desk import Desk
from sluice.broker.dialler import HANDSHAKE_SECONDS, Dialler
from sluice.broker.door import Door
from sluice.broker.linkbook import LinkBook
from sluice.broker.logs import log
from sluice.broker.peering import Peering
from sluice.broker.room import Room
from sluice.broker.security import Security
from sluice.broker.settings import SETTINGS
from sluice.broker.shape import Shape
from sluice.broker.store.journal import Journal
from sluice.broker.store.store import Retention, Store
from sluice.broker.store.writer import Writer
from sluice.errors import ConfigurationError
from sluice.limits import MAX_CLIENT_MESSAGE_BYTES
from sluice.match.warm import warm
from sluice.net.connection import Connection
from sluice.net.tls import reason
from sluice.protocol.batch import Peer
from sluice.protocol.events import (
    Answered,
    Ask,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    NotStored,
    Received,
    Reserve,
    Reserved,
    Send,
    Stored,
    Tick,
)
from sluice.protocol.events import Store as StoreEffect
from sluice.protocol.messages import Change, Deliver, Kind, Message, Notify, Reply, Request, Role, Snapshot
from sluice.protocol.questions import Failed
from sluice.protocol.reshape.channel import link_of, split
from sluice.protocol.reshape.messages import Dial, HangUp, LinkAdded, LinkRemoved, Reshaped
from sluice.protocol.rewiring import Connect, Leave, Part, Replace
from sluice.protocol.wire.link import PROTOCOL, Elsewhere, Hello, Welcome

#: How often the broker looks after memory and patience.
WATCH_SECONDS = 0.25
#: How long a broker that stops waits for its peers to take their leave.
FAREWELL_SECONDS = 1.0
#: What is taken in from a publisher that was held up before the next one has its turn.
PORTION_BYTES = 64 << 10
#: What holds publishers up besides a peer; no peer has such a name.
_JOURNAL, _ORDER = "", "/order"


class Server:
    """One broker, from its configuration.

    >>> async def main() -> str:
    ...     server = Server(ServerConfig(name="b1", listen="127.0.0.1:0"))
    ...     await server.start()
    ...     await server.stop()
    ...     return server.address.host
    >>> asyncio.run(main())
    '127.0.0.1'
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.name: Peer = config.name
        self.outbox_bytes = config.outbox_bytes
        self.heartbeat_seconds = config.heartbeat_seconds
        self.silent_heartbeats = config.silent_heartbeats
        self.watched_heartbeats = config.watched_heartbeats
        #: Where it listens, once it does.
        self.address = config.address
        self._security = Security()
        self.peers: dict[Peer, Peering] = {}
        self._room = Room(self.peers, config.memory_bytes)
        #: Connections whose peer has not said who it is.
        self._strangers: dict[Peering, float] = {}
        self._events: list[Event] = []
        self._turn_due = False
        #: Connections that something was sent on in this turn.
        self._touched: dict[Connection, None] = {}
        self._tick: asyncio.TimerHandle | None = None
        #: Which neighbours it dials, and where each of those that there is a link to can be dialled.
        self.links = LinkBook(config.dialled, config.links_at)
        self._neighbours: dict[Peer, str] = {}
        #: What publishers wait for, and since when.
        self._holds: dict[Peer, float] = {}
        #: The publishers that wait, the next one first.
        self._held: dict[Peering, None] = {}
        #: How many filters clients have told, about: what they take back is subtracted now and then.
        self._filters = 0
        self._stopping = False
        #: Whether it leaves its network for good.
        self.is_leaving = False
        self._listener: asyncio.Server | None = None
        self._failed: asyncio.Future[None] | None = None
        self._counts = dict.fromkeys(("published", "forwarded", "delivered", "dropped"), 0)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, *, listens: bool = True) -> None:
        """Opens the log, listens (unless its clients come by `attach` alone), and begins to dial its neighbours."""
        self._loop = asyncio.get_running_loop()
        self._failed = self._loop.create_future()
        self._started = self._loop.time()
        core = self.config.broker_config()
        self._security = Security.of(self.config)
        warm()
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._writer: Writer | None = None
        accepted: dict[Peer, int] = {}
        incarnation, head, moment = time.time_ns() // 1_000_000, 0, 0
        if self.config.data is not None:
            self._store = Store(self.config.data / "log.db", fsync=self.config.fsync)
            retention = Retention(seconds=self.config.retain_seconds, bytes=self.config.retain_bytes)
            pending = self.config.memory_bytes // 4
            self._journal = Journal(
                self._store, max_pending_bytes=pending, stream=self.name, retention=retention, needed_from=1
            )
            accepted, incarnation, head = self._store.accepted(), self._store.incarnation, self._store.head
            self._writer, moment = Writer(self.name, self._store, self._journal, self._written), self._store.moment
            for first, last in self._store.damaged:
                log("damaged", level=logging.ERROR, first=first, last=last)
        self.broker = Broker(
            *(self.name, core, incarnation, accepted),
            node=self.config.node,
            head=head,
            moment=moment,
            marks=self.links.marks,
        )
        self.broker.forwarding.begin()
        dialler = Dialler(self, self._security, self._hello)
        self.shape = Shape(self, self.config.unshapeable, self.links, dialler, f"{self.name}/{incarnation}")
        self._desk = Desk(
            self.name,
            self._store,
            self._journal,
            describe=self.report,
            orders=self.shape.ask,
            reply=self.replied,
        )
        self._door = Door(self.broker, self._security, self.peers, self.shape.wants)
        if listens:
            await self._listen()
        self.shape.start()
        self._watching = self._loop.create_task(self._watch())

    async def _listen(self) -> None:
        own = self._security.identity
        try:
            self._listener = await self._loop.create_server(
                self._stranger,
                self.address.host,
                self.address.port,
                backlog=1_024,
                ssl=own,
                ssl_handshake_timeout=None if own is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            raise ConfigurationError(
                f"{self.name} cannot listen on {self.address}: {reason(error)}. Let it listen elsewhere, "
                "with --listen or, for `sluice up`, port in the file; with port 0 the kernel picks one that is free"
            ) from None
        self.address = self.address._replace(port=self._listener.sockets[0].getsockname()[1])
        log("listens", address=str(self.address))
        self._security.warn_of_plain(self.address, self._security.tokens)

    async def serve_forever(self) -> None:
        """Runs until it is stopped, or until something inside it fails."""
        assert self._failed is not None
        await self._failed

    def leave(self) -> None:
        """From now on it serves no more: who runs it is to stop it, and its clients are told to go on at its neighbours."""
        self.is_leaving = True
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)

    async def stop(self) -> None:
        """Takes nothing new, finishes what it has accepted, tells its peers and ends."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        await self.shape.stop()
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        for peering in [*self.peers.values(), *self._strangers]:
            peering.connection.pause_reading()
        self._desk.close()
        if self._journal is not None and self._store is not None:
            await self._loop.run_in_executor(None, self._journal.close)
            await asyncio.sleep(0)  # what the journal's thread has sent to this one
            self._store.close()
        self._turn()
        elsewhere = tuple(self._neighbours.values()) if self.is_leaving else ()
        reason = f"{self.name} {'leaves' if self.is_leaving else 'stops'}"
        peerings = [*self.peers.values(), *self._strangers]
        connections = [peering.connection for peering in peerings]
        for peering in peerings:
            is_final = self.is_leaving and peering.role == Role.BROKER
            peering.connection.close(reason, is_final=is_final, elsewhere=elsewhere)
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                for connection in connections:
                    await connection.over.wait()
        if self._tick is not None:
            self._tick.cancel()
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)
        if self._listener is not None:
            await self._listener.wait_closed()
        log("stopped")

    async def attach(self, end: socket.socket) -> None:
        """Serves a client on a socket that is connected already."""
        await self._loop.connect_accepted_socket(self._stranger, end)

    # --- connections --------------------------------------------------------------------------------------------------

    def _stranger(self) -> asyncio.Protocol:
        """Somebody connects."""
        return Peering(self).connection

    def met(self, peering: Peering) -> None:
        """There is a connection; nobody has said anything."""
        self._strangers[peering] = self._loop.time()

    def _hello(self, peering: Peering) -> Hello:
        """What it says to whom it dials."""
        return Hello(
            PROTOCOL,
            Role.BROKER,
            self.name,
            self.broker.incarnation,
            token=self._security.token,
            node=self.config.node,
            address=None if self._listener is None else str(self.address),
            job=peering.job,
        )

    def hello(self, peering: Peering, hello: Hello) -> None:
        """A peer has introduced itself."""
        refusal = self._door.refusal(hello)
        if refusal is not None:
            peering.connection.close(refusal, is_final=hello.role == Role.CLIENT)
            return
        if hello.name not in self.peers and len(self.peers) >= self.config.max_connections:
            full = f"{self.name} has its {self.config.max_connections:,} connections: try later, or another broker"
            peering.connection.close(full)
            return
        accepted = self.broker.intake.settled(hello.name) if self.config.data is not None else None
        welcome = Welcome(
            PROTOCOL,
            self.name,
            self.broker.incarnation,
            accepted,
            self.heartbeat_seconds,
            self.config.node,
            self.config.unreliable,
            self.config.unordered or self.broker.order.unordered,
        )
        peering.connection.send(welcome)
        if hello.role == Role.CLIENT:
            peering.begin_client(hello)
        else:
            peering.begin_broker(hello)
        if self._security.tokens is not None:
            peering.holder = self._security.holder(hello.token)
            log("let-in", peer=hello.name, holder=peering.holder)
        self._up(peering)

    def welcome(self, peering: Peering, welcome: Welcome) -> None:
        """A broker that was dialled has answered."""
        refusal = self._door.refusal_of_dialled(welcome, peering.job)
        if refusal is not None:
            peering.connection.close(refusal)
        else:
            peering.begin_broker(welcome)
            self._up(peering)

    def _up(self, peering: Peering) -> None:
        self._strangers.pop(peering, None)
        known = self.peers.get(peering.name)
        self.peers[peering.name] = peering
        if peering.node is not None:
            self._door.nodes[peering.name] = peering.node
        if known is not None:
            reason = f"another connection says that it is {peering.name}"
            known.connection.close(reason, is_final=known.role == Role.CLIENT)
        log("link-up", peer=peering.name, role=peering.role.name.lower())
        self._tell_elsewhere(peering)
        if peering.role == Role.BROKER:
            self.shape.linked(peering)
        else:
            self.post(LinkUp(peering.name, peering.role))

    def _tell_elsewhere(self, peering: Peering) -> None:
        """Tells a new client where else it could be, and of a new neighbour all clients."""
        if peering.role == Role.CLIENT:
            clients = [peering] if self._neighbours else []
        elif peering.address is None or self._neighbours.get(peering.name) == str(peering.address):
            clients = []
        else:
            self._neighbours[peering.name] = str(peering.address)
            clients = [each for each in self.peers.values() if each.role == Role.CLIENT]
        for client in clients:
            client.connection.send(Elsewhere(tuple(self._neighbours.values())))

    def lost(self, peering: Peering, reason: str) -> None:
        """A connection is over."""
        self._strangers.pop(peering, None)
        self._held.pop(peering, None)
        self._room.outbox_bytes -= peering.outbox.bytes
        self._counts["dropped"] += peering.outbox.dropped
        if self.peers.get(peering.name) is peering:
            del self.peers[peering.name]
            self._door.nodes.pop(peering.name, None)
            self._release(peering.name)
            log("link-down", peer=peering.name, reason=reason)
            if peering.role == Role.BROKER and peering.farewell is not None and peering.farewell.is_final:
                peering.is_parted = True
                self.shape.parted(peering)
            if not self._stopping:
                self.post(LinkDown(peering.name, peering.is_parted))
        elif not peering.is_up:
            where: dict[str, Any] = {} if peering.dialled is None else {"address": str(peering.dialled)}
            log("refused", level=logging.WARNING, **where, reason=reason)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def objection(self, peering: Peering, message: Message) -> str | None:
        """Why a peer must not say this; None: it may."""
        if peering.role == Role.CLIENT and (no := self.broker.order.objection(message, self.config.unordered)):
            return no
        if not isinstance(message, Change | Snapshot):
            return None
        entries = message.added if isinstance(message, Change) else message.entries
        if message.kind == Kind.BROKERS:
            if self._events:
                self._turn()  # what another link has said in the same moment counts
            if self.broker.reshape.job is not None:
                return None  # for a while there are two trees
            ways, direction_of = self.broker.ways[Kind.BROKERS], self.broker.directions.of
            for entry in entries:
                way = ways.get(entry.id or "", lambda peer: peer not in self.broker.held)
                is_other = way is not None and link_of(direction_of(way)) != link_of(direction_of(peering.name))
                if entry.id == self.name or is_other:
                    return f"{entry.id} is reached another way: this link would close a cycle, and nodes form a tree"
        elif peering.role == Role.CLIENT:
            if self.config.unreliable is not None and any(entry.reliable for entry in entries):
                return self.config.unreliable
            self._filters += len(entries)
            if self._filters > self.config.max_subscriptions:
                return f"{self.name} has its {self.config.max_subscriptions:,} subscriptions: use another broker"
        return None

    def arrived(self, peering: Peering, messages: list[Message]) -> None:
        """Messages for the core."""
        if peering.role == Role.CLIENT and (peering.held or (self._holds and _publishes(messages))):
            peering.hold(messages)
            self._held[peering] = None
            if sum(each.held_bytes for each in self._held) > self.config.memory_bytes // 4:
                peering.connection.pause_reading()
            return
        self._take_in(peering, messages)

    def _take_in(self, peering: Peering, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, Notify) and peering.role == Role.CLIENT:
                self._counts["published"] += len(message.batch)
            if isinstance(message, Request) and self._forbids(peering, message):
                continue
            self.post(Received(peering.channel, message))

    def _forbids(self, peering: Peering, request: Request) -> bool:
        """Whether a client must not give an order; it is told then."""
        if peering.role == Role.BROKER or not isinstance(request.question, Connect | Part | Replace | Leave):
            return False
        reason = self._security.forbids(peering.holder)
        if reason is not None:
            peering.send(Reply(request.id, Failed(reason)))
        return reason is not None

    def post(self, event: Event) -> None:
        """Something has happened: the core hears of it before the event loop comes round."""
        self._events.append(event)
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Has the core take in what arrived, and does what it says."""
        self._turn_due = False
        events, self._events = self._events, []
        try:
            for effect in self.broker.step_all(events, self._loop.time()):
                self._do(effect)
            for connection in self._touched:
                connection.flush()
            self._touched.clear()
            self._room.make(self.broker.order)
            if self._room.is_short(self.broker.order):
                self._hold(_ORDER)
            else:
                self._release(_ORDER)
        except Exception as error:  # the core's state cannot be trusted any more: end, and be started again
            log("failed", level=logging.CRITICAL, error=error)
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)
            return
        deadline = self.broker.deadline
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if deadline != math.inf and not self._stopping:
            self._tick = self._loop.call_at(max(deadline, self._loop.time()), self.post, Tick())

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send(peer, message):
                self._send(peer, message)
            case StoreEffect() | Reserve():
                self._write(effect)
            case Ask(request):
                self._desk.ask(request)
            case Dial() | HangUp() | LinkAdded() | LinkRemoved() | Reshaped():
                self.shape.do(effect)
            case _:
                assert_never(effect)

    # --- what goes ----------------------------------------------------------------------------------------------------

    def _send(self, peer: Peer, message: Message) -> None:
        peering, job = self.peers.get(peer), ""
        if peering is None:
            link, job = split(peer)
            peering = self.peers.get(link)
        if peering is None:
            return
        if isinstance(message, Deliver):
            self._counts["delivered"] += len(message.batch)
        elif isinstance(message, Notify):
            self._counts["forwarded"] += len(message.batch)
        peering.send(message, job)
        self._touched[peering.connection] = None
        unsent = peering.connection.unsent_bytes
        if unsent > MAX_CLIENT_MESSAGE_BYTES:
            self._pile_up(peering, unsent)

    def _pile_up(self, peering: Peering, unsent: int) -> None:
        """A peer does not take what it is sent."""
        if peering.role == Role.CLIENT or unsent > self.config.memory_bytes:
            peering.connection.close("you do not take what you are sent")
        else:
            self._hold(peering.name)

    def waits(self, peering: Peering, change: int) -> None:
        """What waits for a peer has changed, by so many bytes."""
        self._room.outbox_bytes += change
        if peering.outbox.is_hopeless:
            peering.connection.close("you are slower than what you asked for, and have chosen to be disconnected then")
        if peering.outbox.holds_up:
            self._hold(peering.name)
        elif change <= 0:
            self._release(peering.name)
        self._room.make(self.broker.order)

    # --- holding publishers up ----------------------------------------------------------------------------------------

    def _hold(self, cause: Peer) -> None:
        self._holds.setdefault(cause, self._loop.time())

    def _release(self, cause: Peer) -> None:
        if self._holds.pop(cause, None) is not None and not self._holds:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Takes in what was held, a portion of one publisher's at a time, until publishers are to wait again."""
        while self._held and not self._holds:
            peering = next(iter(self._held))
            del self._held[peering]
            self._take_in(peering, peering.release(PORTION_BYTES))
            self._turn()
            if peering.held:
                self._held[peering] = None

    async def _watch(self) -> None:
        """Looks after memory and patience, now and then."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = self._loop.time()
            if self._journal is not None:
                self._journal.needed_from = self.broker.reliable.needs_from(now)
            self._filters = sum(
                len(replica.entries)
                for table in self.broker.tables.values()
                for peer, replica in table.replicas.items()
                if self.broker.roles.get(peer) == Role.CLIENT
            )
            for peering, since in list(self._strangers.items()):
                if now - since > HANDSHAKE_SECONDS:
                    peering.connection.close("say hello sooner")
            for cause, since in list(self._holds.items()):
                held_up = self.peers.get(cause)
                if held_up is not None and held_up.connection.can_write and not held_up.outbox.holds_up:
                    self._release(cause)
                elif held_up is not None and now - since > self.config.patience_seconds:
                    held_up.connection.close("publishers have waited for you long enough")
            passing = sorted((*self.peers.values(), *self._strangers), key=lambda each: each.connection.memory_bytes)
            total = sum(peering.connection.memory_bytes for peering in passing)
            while passing and total > self.config.memory_bytes:
                largest = passing.pop()
                total -= largest.connection.memory_bytes
                largest.connection.close("the broker has no room for the messages between you and it")

    # --- the log ------------------------------------------------------------------------------------------------------

    def _write(self, effect: StoreEffect | Reserve) -> None:
        assert self._writer is not None and self._journal is not None
        if isinstance(effect, Reserve):
            self._writer.reserve(effect.moment)
            return
        self._writer.log(*effect)
        if self._journal.full:
            self._hold(_JOURNAL)

    def _written(self, event: Stored | NotStored | Reserved) -> None:
        assert self._journal is not None
        if isinstance(event, Stored):
            self._desk.stored(event.batch)
        self.post(event)
        if not self._journal.full:
            self._release(_JOURNAL)

    def replied(self, reply: Reply) -> None:
        """A question is answered."""
        self.post(Answered(reply))

    # --- its own account ----------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """How this broker is, for `sluice status`."""
        now = self._loop.time()
        return {
            **account.of_core(self.broker, now),
            "address": str(self.address),
            "uptime_seconds": now - self._started,
            **account.of_links(self.peers.values(), self.links),
            "missing_links": self.shape.missing([*self.broker.ways[Kind.BROKERS]]),
            "orders": self.shape.account(),
            "settings": {name: SETTINGS[name].show(getattr(self.config, name)) for name in SHARED},
            "clients": sum(peering.role == Role.CLIENT for peering in self.peers.values()),
            **account.of_log(self._store, self.name),
            "memory_bytes": self._room.outbox_bytes + self.broker.order.held_bytes,
            **self._counts,
            "fetched": self._desk.fetched,
            "fetched_bytes": self._desk.fetched_bytes,
            "dropped": self._counts["dropped"] + sum(peering.outbox.dropped for peering in self.peers.values()),
        }


def _publishes(messages: list[Message]) -> bool:
    return any(isinstance(message, Notify) for message in messages)
