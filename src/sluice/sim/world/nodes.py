"""Nodes of a simulated network: a broker or a client, with the pure core that it runs and a clock that may be wrong.

A node that is down has no core: a broker comes back with what is on its disk, if it has one, and with a new incarnation; a
client comes back empty.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.session import Session
from sluice.protocol.batch import Notification
from sluice.protocol.interest import Demand, Factory, History
from sluice.protocol.messages import EntryId, Role
from sluice.protocol.reshape.messages import Mark
from sluice.sim.world.historian import Archive, Historian
from sluice.sim.world.reader import Reader

if TYPE_CHECKING:
    from sluice.sim.world.links import Direction
    from sluice.sim.world.program import Program
    from sluice.sim.world.surroundings import Surroundings
    from sluice.sim.world.world import World

#: How long a history may be silent, in units of the longest delay of a link: it asks every stream before it speaks.
PATIENCE = 200.0
#: How much of a log a subscription reads at a time where its past meets what is live: little, so that much happens meanwhile.
PAGE_BYTES = 60


class Node(ABC):
    """What brokers and clients have in common: a name, a clock, links."""

    __slots__ = ("clock", "hurry", "incarnation", "name", "node", "offset", "out", "rate", "role", "tick_at")

    def __init__(self, name: str, role: Role) -> None:
        self.name = name
        self.role = role
        #: The node that a broker belongs to; None: it is one by itself.
        self.node: str | None = None
        self.incarnation = 0
        #: Its clock shows `offset + rate * true time`.
        self.offset = 0.0
        self.rate = 1.0
        #: What its clock showed last: a clock never goes back.
        self.clock = -math.inf
        #: When the next look at its deadline is due, in true time.
        self.tick_at = math.inf
        #: How often in its life it was not content with a tick.
        self.hurry = 0
        #: The way to each peer.
        self.out: dict[str, Direction] = {}

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """Whether it has a core."""

    def local(self, time: float) -> float:
        """What its clock shows."""
        shown = self.offset + self.rate * time
        if shown < self.clock:
            return self.clock
        self.clock = shown
        return shown

    def true(self, local: float) -> float:
        """When its clock will show that."""
        return (local - self.offset) / self.rate


class BrokerNode(Node):
    """A broker and its core."""

    __slots__ = ("core", "marks", "surroundings")

    def __init__(self, name: str, node: str | None = None) -> None:
        super().__init__(name, Role.BROKER)
        self.node = node
        self.core: Broker | None = None
        #: Which links were replaced and added, which it remembers in any case.
        self.marks: dict[str, Mark] = {}
        #: Its disk; None: it keeps nothing.
        self.surroundings: Surroundings | None = None

    @property
    def is_up(self) -> bool:
        return self.core is not None

    def start(self, config: BrokerConfig) -> None:
        """Begins a new life, with what is on its disk."""
        self.incarnation += 1
        disk = None if self.surroundings is None else self.surroundings.disk
        accepted, head, moment = (None, 0, 0) if disk is None else (disk.accepted(), disk.head, disk.moment)
        self.core = Broker(
            self.name,
            config,
            self.incarnation,
            accepted,
            node=self.node,
            head=head,
            moment=moment,
            marks=self.marks,
        )


class ClientNode(Node):
    """A client, the session it runs, and what reached it."""

    __slots__ = (
        "archive",
        "broker",
        "completed",
        "core",
        "deliveries",
        "demand",
        "factory",
        "holds",
        "interests",
        "past",
        "programs",
        "published",
        "reader",
        "reads",
        "refusals",
        "replays",
        "withheld",
    )

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name, Role.CLIENT)
        self.core: Session | None = None
        self.broker = broker
        self.completed: dict[EntryId, None] = {}
        #: What was delivered, with the subscriptions it was delivered for.
        self.deliveries: list[tuple[Notification, tuple[EntryId, ...]]] = []
        #: What came too late to be delivered in order.
        self.withheld: list[Notification] = []
        #: What was replayed, with the one subscription it was replayed for.
        self.replays: list[tuple[Notification, EntryId]] = []
        #: The subscriptions of others that overlap what it watches.
        self.interests: dict[EntryId, str] = {}
        #: The numbers of what it has published.
        self.published: dict[int, None] = {}
        #: Why publications were refused.
        self.refusals: list[str] = []
        #: What it keeps for those who ask for the past; None: it keeps nothing.
        self.past: History | None = None
        #: Who would get what it publishes, as far as it watches that.
        self.demand = Demand()
        #: The producers that it runs while somebody wants what they make; None: it runs none.
        self.factory: Factory[str] | None = None
        #: What it reads from every stream, and the program that does so while it is up; None: it reads none.
        self.reads: str | None = None
        self.holds = False
        self.reader: Reader | None = None
        #: What it keeps of all streams, to replay it to those who wish for it; None: it keeps none.
        self.archive: Archive | None = None
        #: What runs on it while it is up.
        self.programs: list[Program] = []

    @property
    def is_up(self) -> bool:
        return self.core is not None

    def start(self, world: World) -> None:
        """Begins a new life, with the programs that run on it."""
        self.incarnation += 1
        self.core = Session(
            self.name,
            lease=world.config.lease,
            incarnation=self.incarnation,
            history_seconds=PATIENCE * world.max_delay,
            page_bytes=PAGE_BYTES,
        )
        self.reader = None if self.reads is None else Reader(world, self, self.reads, self.holds)
        historian = None if self.archive is None else Historian(world, self, self.archive)
        self.programs = [program for program in (self.reader, historian) if program is not None]
