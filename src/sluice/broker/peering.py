"""One connection of a broker: its handshake, what the peer may say, and what waits for it.

Everything that a peer says is looked at here, at the door: what it must not say ends the connection with a reason, and the core
behind the door never sees it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, assert_never

from sluice.broker.outbox import Outbox, Remark
from sluice.errors import ConfigurationError
from sluice.limits import MAX_CLIENT_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_RECORD_BYTES
from sluice.net.address import Address
from sluice.net.connection import Connection
from sluice.protocol.batch import MARKED, Peer, Records
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Await,
    Change,
    Deliver,
    Digest,
    Floor,
    Gone,
    Halted,
    Head,
    Heard,
    Kind,
    Lost,
    Message,
    Missing,
    Notify,
    Passed,
    Quiet,
    Reached,
    Ready,
    Refused,
    Reply,
    Request,
    Role,
    Skipped,
    Snapshot,
    Started,
)
from sluice.protocol.reshape.channel import channel_of
from sluice.protocol.reshape.messages import ReshapeMessage
from sluice.protocol.wire.link import Anything, Bye, Channel, Credit, Dropped, Elsewhere, Hello, Ping, Policy, Welcome

#: What a client may have sent while publishers are held up before nothing more is read from it.
HELD_BYTES = 8 << 20
#: What a message, or an entry in it, takes while it is kept, about.
MESSAGE_BYTES = 1_000


class Host(Protocol):
    """What a peering needs of the broker it belongs to."""

    name: Peer
    outbox_bytes: int
    heartbeat_seconds: float
    silent_heartbeats: int
    watched_heartbeats: int | None

    def met(self, peering: Peering) -> None:
        """There is a connection; nobody has said anything."""

    def hello(self, peering: Peering, hello: Hello) -> None:
        """A peer has introduced itself."""

    def welcome(self, peering: Peering, welcome: Welcome) -> None:
        """A broker that was dialled has answered."""

    def objection(self, peering: Peering, message: Message) -> str | None:
        """Why a peer must not say this; None: it may."""

    def arrived(self, peering: Peering, messages: list[Message]) -> None:
        """Messages for the core."""

    def waits(self, peering: Peering, change: int) -> None:
        """What waits for a peer has changed, by so many bytes."""

    def lost(self, peering: Peering, reason: str) -> None:
        """The connection is over."""


class Peering:
    """A peer as its broker sees it."""

    def __init__(self, host: Host, *, dialled: Address | None = None, job: str | None = None) -> None:
        self._host = host
        #: What this broker has dialled; None: it was dialled.
        self.dialled = dialled
        #: Where others can dial a broker; None: nobody can, or it is a client.
        self.address = dialled
        #: The job that a broker was dialled for, by either end; None: it is a neighbour in the tree.
        self.job = job
        #: All jobs that need the link.
        self.jobs: dict[str, None] = {}
        self.is_of_tree = job is None
        #: Whether somebody has taken the link away for good.
        self.is_parted = False
        #: Whether an operator has this broker dial the other.
        self.is_added = False
        #: The channel of what comes, as the core calls it, and the job whose channel what goes is in; "": the first one.
        self.channel: Peer = ""
        self._said_in = ""
        #: Set when the handshake is over, or there will be none.
        self.answered = asyncio.Event()
        self.name: Peer = ""
        self.role = Role.CLIENT
        #: The node of a broker: its own name if it is a node by itself.
        self.node: str | None = None
        self.is_up = False
        #: Who holds the token that it has shown.
        self.holder: str | None = None
        self.outbox = Outbox(Policy.DROP_OLDEST, host.outbox_bytes, 0)
        self.farewell: Bye | None = None
        #: What came while publishers were held up.
        self.held: deque[Message] = deque()
        self.held_bytes = 0
        self.connection = Connection(
            on_messages=self._messages,
            on_lost=self._lost,
            on_writable=self.drain,
            on_made=lambda: host.met(self),
            heartbeat_seconds=host.heartbeat_seconds,
            silent_heartbeats=host.silent_heartbeats,
            watched_heartbeats=host.watched_heartbeats,
            max_message_bytes=MAX_CLIENT_MESSAGE_BYTES,
        )

    @property
    def dials(self) -> bool:
        """Whether this broker has opened the connection."""
        return self.dialled is not None

    def end(self) -> Connection:
        """This end of the connection."""
        return self.connection

    def begin_client(self, hello: Hello) -> None:
        """The handshake is over: a client is who it says."""
        self.name, self.role, self.is_up = hello.name, Role.CLIENT, True
        self.channel = self.name
        self.answered.set()
        self.outbox = Outbox(hello.policy, self._host.outbox_bytes, hello.credit)

    def begin_broker(self, said: Hello | Welcome) -> None:
        """The handshake is over: a broker is who it says."""
        self.name, self.role, self.node, self.is_up = said.name, Role.BROKER, said.node or said.name, True
        self.channel = self.name
        self.connection.allow(MAX_MESSAGE_BYTES)
        if isinstance(said, Hello):
            self.address = self._address_of(said)
            self.job, self.is_of_tree = said.job, said.job is None
        self.answered.set()

    def _address_of(self, hello: Hello) -> Address | None:
        """Where whoever has dialled listens: what listens everywhere can be dialled where it came from."""
        if hello.address is None:
            return None
        try:
            address = Address.of(hello.address)
        except ConfigurationError:
            return None
        return address._replace(host=self.connection.peer_host) if address.is_anywhere else address

    def _lost(self, reason: str) -> None:
        self.answered.set()
        self._host.lost(self, self.farewell.reason if self.farewell else reason)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def _messages(self, messages: list[Anything]) -> None:
        for_core: list[Message] = []
        for message in messages:
            if self.connection.closing:
                break
            if isinstance(message, Ping):
                continue
            if isinstance(message, Bye):
                self.farewell = message
                self.connection.close("goodbye")
                break
            problem = self._problem(message)
            if problem is not None:
                self.connection.close(problem)
                break
            match message:
                case Credit(total):
                    self.outbox.grant(total)
                    self.drain()
                case Hello():
                    self._host.hello(self, message)
                case Welcome():
                    self._host.welcome(self, message)
                case Dropped() | Elsewhere():
                    pass  # objected to
                case Channel(job):
                    if for_core:
                        self._host.arrived(self, for_core)
                    for_core = []
                    self.channel = channel_of(self.name, job) if job else self.name
                case _:
                    for_core.append(message)
        if for_core:
            self._host.arrived(self, for_core)

    def _problem(self, message: Anything) -> str | None:
        """What is wrong with a message at this moment."""
        if isinstance(message, Hello):
            return "you have said hello before" if self.is_up or self.dials else None
        if isinstance(message, Welcome):
            return None if self.dials and not self.is_up else "nobody waits for your welcome"
        if not self.is_up:
            return "say hello first"
        if isinstance(message, Dropped | Elsewhere):
            return f"only brokers say {type(message).__name__}, and to their clients alone"
        if isinstance(message, Credit | Ping | Bye):
            return None
        if isinstance(message, Channel):
            return None if self.role == Role.BROKER else "only brokers have several channels"
        if self.role == Role.CLIENT:
            return self._problem_of_client(message) or self._host.objection(self, message)
        return self._host.objection(self, message)

    def _problem_of_client(self, message: Message) -> str | None:
        """What a client must not say: the rest of the network believes its broker."""
        match message:
            case Change() | Snapshot():
                return self._problem_of_table(message)
            case Request(id):
                if id.rpartition("/")[0] != self.name:
                    return f"the id {id!r} is not yours: begin it with '{self.name}/'"
            case Deliver() | Started() | Ready() | Skipped() | Passed() | Accepted() | Refused() | Halted():
                return f"only brokers say {type(message).__name__}"
            case Quiet() | Head() | Missing() | Gone() | Reached() | Floor() | ReshapeMessage():
                return f"only brokers say {type(message).__name__}"
            case Notify(batch, passage, floor):
                if batch.logged is not None or passage is not None:
                    return "only brokers say where a publication is logged"
                if batch.stamp not in (None, MARKED) or floor is not None:
                    return "only brokers say where a publication stands in the order of all"
                if isinstance(batch, Records) and max(batch.lengths) > MAX_RECORD_BYTES:
                    return f"a record takes more than {MAX_RECORD_BYTES:,} bytes: publish a reference to the data"
            case Digest() | Lost() | Ack() | Reply() | Heard() | Await():
                pass
            case _:
                assert_never(message)
        return None

    def _problem_of_table(self, message: Change | Snapshot) -> str | None:
        entries = message.added if isinstance(message, Change) else message.entries
        if message.kind in (Kind.INTEREST, Kind.BROKERS):
            return f"a client has no table of {message.kind.name.lower()} to tell of"
        if message.clocks or message.ordered:
            return "only brokers have clocks, and say that others want order"
        prefix = f"{self.name}/"
        for entry in entries:
            if entry.id is None or not entry.id.startswith(prefix):
                return f"the id {entry.id!r} is not yours: begin it with {prefix!r}"
            if entry.reliable and (message.kind != Kind.SUBSCRIPTIONS or entry.replay is not None):
                return f"{entry.id} cannot be reliable: only a subscription without a replay can"
            if entry.ordered and (message.kind != Kind.SUBSCRIPTIONS or entry.replay is not None):
                return f"{entry.id} cannot be in order: only a subscription without a replay can"
        return None

    def hold(self, messages: list[Message]) -> None:
        """Keeps what a client says until publishers may go on."""
        self.held.extend(messages)
        self.held_bytes += sum(map(_held_size, messages))
        if self.held_bytes > HELD_BYTES:
            self.connection.pause_reading()

    def release(self, max_bytes: int) -> list[Message]:
        """Some of what was kept: about so many bytes, but one message if there is any."""
        released: list[Message] = []
        size = 0
        while self.held and size < max_bytes:
            released.append(self.held.popleft())
            size += _held_size(released[-1])
        self.held_bytes -= size
        if self.held_bytes <= HELD_BYTES:
            self.connection.resume_reading()
        return released

    # --- what goes ----------------------------------------------------------------------------------------------------

    def send(self, message: Message, job: str = "") -> None:
        """Sends a message, to a broker in the channel of a job; deliveries, and what is said of them, as credit allows."""
        if self.connection.closing:
            return
        if job != self._said_in:
            self._said_in = job
            self.connection.send(Channel(job))
        if isinstance(message, Deliver | Remark):
            before = self.outbox.bytes
            self.outbox.put(message)
            self._host.waits(self, self.outbox.bytes - before)
            self.drain()
        else:
            self.connection.send(message)

    def drain(self) -> None:
        """Sends what waits, as far as the peer takes it."""
        if self.connection.can_write and not self.connection.closing:
            before = self.outbox.bytes
            for pieces in self.outbox.ready():
                self.connection.send_pieces(pieces)
                if not self.connection.takes_more:
                    break
            self._host.waits(self, self.outbox.bytes - before)

    def shed(self) -> None:
        """The broker has no room: gives the oldest delivery up, or the peer if that is not what it has chosen."""
        if self.outbox.can_drop:
            self._host.waits(self, -self.outbox.drop())
        else:
            self.connection.close("the broker has no room for all that waits for you: take it faster")


def _held_size(message: Message) -> int:
    """What a message that is kept weighs, about."""
    match message:
        case Notify(batch):
            return batch.size + MESSAGE_BYTES
        case Change(added=entries) | Snapshot(entries=entries):
            return MESSAGE_BYTES * (1 + len(entries))
        case _:
            return MESSAGE_BYTES
