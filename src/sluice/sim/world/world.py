"""A whole network in one process and in virtual time: the cores that run in production, driven by a heap of events.

Nothing here decides by chance except from the seed, and nothing by the order of a set, so a seed fixes a run. The world hands
each core its events, carries its messages over `links`, and writes what the clients see into the trace that the specification
judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.errors import SluiceError
from sluice.protocol.batch import NotificationId, batches_of
from sluice.protocol.events import Ask, Effect, Event, LinkDown, LinkUp, Received, Reserve, Send, Store, Tick
from sluice.protocol.interest import Demand, Factory
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Deliver, Entry, EntryId, Kind, Message
from sluice.protocol.questions import ReplayEvent
from sluice.protocol.reshape.channel import channel_of, split
from sluice.sim.domain import SERVICES
from sluice.sim.trace import streamed
from sluice.sim.trace import trace as said
from sluice.sim.trace.wishes import said_of
from sluice.sim.world.historian import Archive
from sluice.sim.world.links import Direction, Link
from sluice.sim.world.nodes import BrokerNode, ClientNode, Node
from sluice.sim.world.shape import Shape
from sluice.sim.world.surroundings import Surroundings
from sluice.sim.world.upcalls import kept_quiet, write_down

N = TypeVar("N", bound=Node)

#: The kinds of events on the heap; an event is (time, number, kind, what, epoch, message).
MESSAGE, UP, DOWN, TICK, CALL, LATER = range(6)
#: Those that do not keep the network from being at rest: they only wait for time to pass.
_WAITING = (TICK, LATER)

#: What may happen to a message when it is sent: the ways along which it goes on, possibly none, possibly changed.
Noise = Callable[[Direction, Message], Sequence[Message]]


class CoreError(SluiceError):
    """A core raised an error."""


class NeverQuiet(SluiceError):
    """Messages keep moving although nothing happens any more."""


def recovery_seconds(lease: LeaseConfig) -> float:
    """How long anything may be wrong: damage, or what is left of a client that fell silent."""
    return max(lease.bound_seconds, lease.silence_seconds)


class World:
    """Brokers, clients, links and the time that passes for them."""

    def __init__(
        self,
        seed: int | str,
        config: BrokerConfig | None = None,
        *,
        min_delay_seconds: float = 0.001,
        max_delay_seconds: float = 0.01,
    ) -> None:
        self.seed = seed
        self.config = BrokerConfig() if config is None else config
        self.min_delay = min_delay_seconds
        self.max_delay = max_delay_seconds
        self.now = 0.0
        #: How many events have happened.
        self.events = 0
        #: How many messages and notices are under way: the network is at rest at 0.
        self.moving = 0
        self.trace = said.Trace()
        self.shape = Shape(self)
        self.brokers: dict[str, BrokerNode] = {}
        self.clients: dict[str, ClientNode] = {}
        self.links: dict[tuple[str, str], Link] = {}
        #: What cores did that no core should: when, which rule it broke, and what.
        self.complaints: list[tuple[float, str, str]] = []
        #: In which life of a broker, and for whom, which notification was sent to a client, whether it got there or not.
        self._served: set[tuple[int, EntryId, NotificationId]] = set()
        #: Set while messages are lost, doubled or changed on their way.
        self.noise: Noise | None = None
        #: Called after each step of a broker, while somebody wants to know.
        self.after_step: Callable[[BrokerNode, Any], None] | None = None
        #: Called with everything that is put on a link: who says it, to whom, and what.
        self.on_send: Callable[[str, str, Message], None] | None = None
        self._heap: list[tuple[float, int, int, Any, int, Any]] = []
        self._number = 0
        self._notices = Random(f"{seed}/notices")
        self.programs = Random(f"{seed}/programs")
        self._span = max_delay_seconds - min_delay_seconds

    # Building

    def add_broker(self, name: str, *, node: str | None = None, offset: float = 0.0, rate: float = 1.0) -> BrokerNode:
        """A broker, up, without links; several may belong to one node of the tree."""
        broker = self._new(BrokerNode(name, node), offset, rate)
        if self.config.durable:
            broker.surroundings = Surroundings(self, broker)
        self.brokers[name] = broker
        self.start_broker(name)
        return broker

    def add_client(
        self,
        name: str,
        at: str,
        *,
        reads: str | None = None,
        holds: bool = False,
        archives: bool = False,
        offset: float = 0.0,
        rate: float = 1.0,
    ) -> ClientNode:
        """A client with a link to its broker; `reads` is what it reads from the streams, a history `archives` them.

        A reader that `holds` has its broker keep what it has not read.
        """
        node = self._new(ClientNode(name, at), offset, rate)
        node.reads, node.holds = reads, holds
        node.archive = Archive() if archives else None
        self.clients[name] = node
        self.trace.append(said.Attached(self.now, name, at))
        self.start_client(name)
        self._join(self.brokers[at], node)
        return node

    def add_link(self, a: str, b: str) -> None:
        """A link between two brokers."""
        self._join(self.brokers[a], self.brokers[b])

    @property
    def root(self) -> str | None:
        """The broker that puts all publications in order while it is up, if there is one."""
        if self.config.order_algorithm != "rooted":
            return None
        preferred = self.config.order_root
        return preferred if preferred in self.brokers else min(self.brokers, default=None)

    def stage(self) -> tuple[said.Configured, said.Topology]:
        """What a trace begins with: what the network promises, and what it looks like."""
        cache, lease = self.config.cache, self.config.lease
        rates = [node.rate for node in (*self.brokers.values(), *self.clients.values())]
        promised = said.Configured(
            0.0,
            advertisements=self.config.advertisements is not None,
            cache_notifications=0 if cache is None else cache.notifications,
            cache_seconds=None if cache is None else cache.seconds / max(rates, default=1.0),
            # How long a disk takes nobody knows.
            delay_seconds=None if self.config.durable else self.max_delay,
            recovery_seconds=None if lease is None else recovery_seconds(lease) / min(rates, default=1.0),
            root=self.root,
        )
        links = tuple(key for key in self.links if key[1] in self.brokers)
        return promised, said.Topology(0.0, tuple(self.brokers), links)

    def _new(self, node: N, offset: float, rate: float) -> N:
        if node.name in self.brokers or node.name in self.clients:
            raise SluiceError(f"there is a {node.name!r} already: give each broker and client a name of its own")
        node.offset, node.rate = offset, rate
        return node

    def join(self, a: Node, b: Node) -> Link:
        """A link that nobody needs yet."""
        link = Link(a, b, f"{self.seed}/delays")
        link.members.clear()
        self.links[a.name, b.name] = link
        a.out[b.name], b.out[a.name] = link.forth, link.back
        return link

    def _join(self, a: Node, b: Node) -> None:
        link = self.join(a, b)
        link.members.update({a.name: None, b.name: None})
        self.refresh(link)

    # Time

    def call(self, time: float, action: Callable[[], None]) -> None:
        """Has something done at a time."""
        self._push(time, CALL, action, 0, None)

    def later(self, time: float, action: Callable[[], None]) -> None:
        """The same for something that only waits for time to pass: the network may be at rest before it."""
        self._push(time, LATER, action, 0, None)

    def run(self, until: float) -> None:
        """Lets time pass up to that moment."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self._happen()
        self.now = max(self.now, until)

    def settle(self, limit: int = 1_000_000) -> None:
        """Lets time pass until nothing is under way; what only the clocks would do later waits."""
        for _ in range(limit):
            if not self.moving:
                return
            self._happen()
        raise NeverQuiet(f"messages still move {limit} events after the last thing happened")

    def _push(self, time: float, kind: int, what: Any, epoch: int, message: Any) -> None:
        self._number += 1
        if kind not in _WAITING:
            self.moving += 1
        heappush(self._heap, (time, self._number, kind, what, epoch, message))

    def _happen(self) -> None:
        self.now, _, kind, what, epoch, message = heappop(self._heap)
        if kind == TICK:
            self._tick(what)
            return
        self.moving -= kind != LATER
        self.events += 1
        if kind == MESSAGE:
            if what.epoch == epoch and what.told:
                job, said = message
                sender = channel_of(what.sender.name, job) if job else what.sender.name
                self.step(what.receiver, Received(sender, said))
        elif kind == UP:
            if what.epoch == epoch:
                what.told = True
                accepted, is_of_tree = message
                if is_of_tree:
                    self.shape.joined(what)
                for job in (None,) if is_of_tree else what.link.jobs_of(what.receiver):
                    self.step(what.receiver, replace(what.up, accepted=accepted, job=job))
        elif kind == DOWN:
            self._notice_down(what, epoch)
        else:
            what()

    def _tick(self, node: BrokerNode | ClientNode) -> None:
        if node.tick_at != self.now or node.core is None:
            return
        node.tick_at = math.inf
        deadline = node.core.deadline
        if node.true(deadline) > self.now:
            self._schedule_tick(node)
            return
        # The clock of the node shows at least what it was waiting for, whatever rounding says.
        node.clock = max(node.local(self.now), deadline)
        self.events += 1
        self.step(node, Tick())
        if node.core.deadline <= node.clock:
            self._stuck(node)

    def _stuck(self, node: BrokerNode | ClientNode) -> None:
        """A core wants another tick at once. That may be rounding, so its clock moves by a hair; not more than a few times."""
        node.hurry += 1
        if node.hurry > 100:
            assert node.core is not None
            raise CoreError(
                f"the deadline of {node.name} stays at {node.core.deadline} when it is {node.clock} already"
            )
        node.clock += 1e-9 * max(1.0, abs(node.clock))

    def _schedule_tick(self, node: BrokerNode | ClientNode) -> None:
        if node.core is None or (deadline := node.core.deadline) == math.inf:
            return
        at = node.true(deadline)
        if at < node.tick_at:
            node.tick_at = max(at, self.now)
            self._push(node.tick_at, TICK, node, 0, None)

    # Cores

    def step(self, node: Node, event: Any) -> None:
        """Hands an event or a command to the core of a node and does what it answers."""
        if isinstance(node, BrokerNode):
            self.step_together(node, (event,))
        elif isinstance(node, ClientNode):
            if node.core is None:
                return
            try:
                answers = node.core.step(event, node.local(self.now))
            except Exception as error:
                raise CoreError(f"client {node.name} at {event}: {type(error).__name__}: {error}") from error
            for answer in answers:
                if isinstance(answer, Send):
                    self.send(node, answer.peer, answer.message)
                else:
                    write_down(self, node, answer)
            if isinstance(event, Received) and isinstance(event.message, Deliver) and event.message.ordered:
                for missing in kept_quiet(node, node.core, event.message, answers):
                    says = f"{node.name} gets {missing} in order, and tells nobody"
                    self.complaints.append((self.now, "tells-what-is-late", says))
            if node.core.deadline != math.inf:
                self._schedule_tick(node)
            for program in node.programs:
                if isinstance(event, LinkUp):
                    program.linked()
                elif isinstance(event, LinkDown):
                    program.unlinked()

    def step_together(self, node: BrokerNode, events: Sequence[Event]) -> None:
        """Hands events that came together to the core of a broker and does what it answers."""
        broker = node.core
        if broker is None:
            return
        try:
            effects: Sequence[Effect] = broker.step_all(events, node.local(self.now))
        except Exception as error:
            at = "; ".join(map(str, events))
            raise CoreError(f"broker {node.name} at {at}: {type(error).__name__}: {error}") from error
        for effect in effects:
            if isinstance(effect, Send):
                self.send(node, effect.peer, effect.message)
            elif not isinstance(effect, Store | Reserve | Ask):
                self.shape.do(node, effect)
            elif node.surroundings is not None:
                node.surroundings.do(effect)
        if broker.deadline != math.inf:
            self._schedule_tick(node)
        if self.after_step is not None:
            for event in events:
                self.after_step(node, event)

    def send(self, node: Node, peer: str, message: Message) -> None:
        """Puts a message on a link, in one of its channels."""
        link, job = (peer, "") if peer in node.out else split(peer)
        way = node.out.get(link)
        if way is None or not way.back.told:
            says = f"{node.name} speaks to {peer}, to which it has no link: {message}"
            self.complaints.append((self.now, "speaks-on-links", says))
            return
        # Where messages may be doubled on their way, a broker cannot know.
        if isinstance(message, Deliver) and self.config.lease is None:
            self._serve(node, message)
        if self.on_send is not None:
            self.on_send(node.name, link, message)
        if not way.is_open:
            return
        if self.noise is None:
            self.carry(way, message, job)
        else:
            for one in self.noise(way, message):
                self.carry(way, one, job)

    def _serve(self, node: Node, message: Deliver) -> None:
        """A session would hide it from the client if its broker sent something twice, so the world looks itself."""
        # A broker that crashed and comes back elsewhere in the tree gets from caches there what it has forgotten.
        life = node.incarnation if self.shape.is_changing else 0
        for notification, subscriptions in message.deliveries:
            for id in subscriptions:
                if (life, id, notification.id) in self._served:
                    says = f"{node.name} sends {notification.id} for {id} once more"
                    self.complaints.append((self.now, "serves-once", says))
                self._served.add((life, id, notification.id))

    def carry(self, way: Direction, message: Message, job: str = "") -> None:
        """Has a message arrive after a delay, behind those that are under way already."""
        at = self.now + self.min_delay + self._span * way.random.random()
        if at < way.last:
            at = way.last
        way.last = at
        self._push(at, MESSAGE, way, way.epoch, (job, message))

    def carry_late(self, way: Direction, message: Message, seconds: float) -> None:
        """Has a message arrive so much later, whatever overtakes it."""
        self._push(self.now + self.min_delay + seconds, MESSAGE, way, way.epoch, ("", message))

    def proceed(self, node: ClientNode, life: int, subscription: EntryId) -> None:
        """The program of a client has taken what came of the past of a subscription."""
        if node.incarnation == life:
            self.step(node, client.Proceed(subscription))

    def interest(self, node: ClientNode, added: Sequence[Entry], removed: Sequence[Entry]) -> None:
        for entry in removed:
            node.interests.pop(str(entry.id), None)
            self.trace.append(said.Uninterested(self.now, node.name, str(entry.id)))
        for entry in added:
            node.interests[str(entry.id)] = entry.where.to_sql()
            self.trace.append(said.Interested(self.now, node.name, str(entry.id), entry.where.to_sql()))
        node.demand.update(added, removed)
        if node.factory is not None:
            node.factory.update(added, removed)
        for program in node.programs:
            program.interest(added, removed)
        for entry in added:
            answer = () if node.past is None else node.past.answer(entry, self.now)
            if answer:
                past = ReplayEvent(tuple(batches_of(answer)), through={})
                self.step(node, client.Inquire(self.new_id(node.name) or "", str(entry.id), past))

    # What clients do

    def command(self, name: str, command: client.Command) -> bool:
        """Has a client do something, and writes it down; False if it is away."""
        node = self.clients[name]
        if node.core is None:
            return False
        for event in said_of(command, name, self.now):
            self.trace.append(event)
        self.step(node, command)
        return True

    def publish(self, name: str, *records: Mapping[str, Any], ordered: bool = False) -> bool:
        """Has a client publish records, in one batch; False if it is away."""
        core = self.clients[name].core
        return core is not None and self.command(name, client.Publish(core.batch(records, ordered=ordered)))

    def new_id(self, name: str) -> EntryId | None:
        """A name for a filter of a client; None if the client is away."""
        core = self.clients[name].core
        return None if core is None else core.new_id()

    # What goes wrong

    def start_broker(self, name: str) -> None:
        """A broker comes up, with nothing but what is on its disk."""
        node = self.brokers[name]
        if node.core is None:
            node.start(self.config)
            self._schedule_tick(node)
            if node.incarnation > 1:
                self.trace.append(said.BrokerUp(self.now, name))
                self.shape.tell()
            self._refresh_all(node)

    def stop_broker(self, name: str) -> None:
        """A broker crashes and forgets everything that is not on its disk."""
        node = self.brokers[name]
        if node.core is not None:
            node.core = None
            for way in node.out.values():
                way.link.jobs.clear()
            if node.surroundings is not None:
                node.surroundings.crash()
            self.trace.append(said.BrokerDown(self.now, name))
            self.shape.tell()
            self._deafen(node)
            self._refresh_all(node)

    def start_client(self, name: str) -> None:
        """A client comes up; it asks for nothing yet."""
        node = self.clients[name]
        if node.core is None:
            node.start(self)
            self._schedule_tick(node)
            if node.incarnation > 1:
                self.trace.append(said.ClientUp(self.now, name))
            for way in node.out.values():
                self.close(way.link)  # if nobody has noticed that it was gone
            self._refresh_all(node)

    def stop_client(self, name: str, *, unnoticed: bool = False) -> None:
        """A client vanishes without a word; if `unnoticed`, its broker goes on to believe in the link."""
        node = self.clients[name]
        if node.core is not None:
            node.core = node.reader = None
            node.programs = []
            node.completed.clear()
            node.interests.clear()
            node.demand = Demand()
            node.factory = node.factory and Factory(SERVICES)
            self.trace.append(said.ClientDown(self.now, name))
            self._deafen(node)
            if not unnoticed:
                self._refresh_all(node)

    def lose_link(self, a: str, b: str) -> None:
        """A link breaks."""
        link = self.links[a, b]
        if not link.is_lost:
            link.is_lost = True
            self.trace.append(said.LinkLost(self.now, a, b))
            self.shape.tell()
            self.refresh(link)

    def heal_link(self, a: str, b: str) -> None:
        """A broken link works again."""
        link = self.links[a, b]
        if link.is_lost:
            link.is_lost = False
            self.trace.append(said.LinkHealed(self.now, a, b))
            self.shape.tell()
            self.refresh(link)

    def fill_disk(self, name: str) -> None:
        """The disk of a broker takes nothing any more."""
        self._set_full(name, True)

    def free_disk(self, name: str) -> None:
        """The disk of a broker has room again."""
        self._set_full(name, False)

    def _set_full(self, name: str, is_full: bool) -> None:
        surroundings = self.brokers[name].surroundings
        if surroundings is not None and surroundings.disk.is_full != is_full:
            surroundings.disk.is_full = is_full
            self.trace.append((streamed.DiskFull if is_full else streamed.DiskFree)(self.now, name))

    def trim(self, name: str, batches: int, is_forced: bool) -> None:
        """The oldest batches in the log of a broker are past their retention; past twice that they go, needed or not."""
        surroundings, core = self.brokers[name].surroundings, self.brokers[name].core
        if surroundings is not None and core is not None:
            surroundings.disk.trim(name, batches, None if is_forced else core.reliable.needs_from(self.now))
            self.trace.append(streamed.Trimmed(self.now, name, surroundings.disk.first, is_forced))

    def heal(self) -> None:
        """Ends all faults: brokers are up, links work, disks have room, messages arrive as they were sent."""
        self.noise = None
        for name in self.brokers:
            self.free_disk(name)
        for name in self.brokers:
            self.start_broker(name)
        for a, b in self.links:
            self.heal_link(a, b)

    # Links that come and go

    def _deafen(self, node: Node) -> None:
        """A node that is down hears nothing, and what comes back later knows nothing of the links it had."""
        node.tick_at = math.inf
        for way in node.out.values():
            way.back.epoch += 1
            way.back.told = False

    def _refresh_all(self, node: Node) -> None:
        for way in node.out.values():
            self.refresh(way.link)

    def refresh(self, link: Link) -> None:
        """Opens or closes a link as it should be; waits until both ends know that it was closed before it opens."""
        if link.is_wanted and not link.is_open and not link.closing:
            link.is_open = True
            for way in (link.forth, link.back):
                way.is_open = True
                way.last = self.now + self._notices.random() * self.max_delay
                self._push(way.last, UP, way, way.epoch, (self._accepted(way), bool(link.members)))
        elif not link.is_possible:
            self.close(link)

    def _accepted(self, way: Direction) -> int | None:
        """What a durable broker tells a client that connects: how far it has its publications on disk."""
        if self.config.durable and isinstance(way.sender, BrokerNode) and isinstance(way.receiver, ClientNode):
            assert way.sender.core is not None
            return way.sender.core.intake.settled(way.receiver.name)
        return None

    def close(self, link: Link) -> None:
        """Has a link go down; each end notices that in its own time."""
        if not link.is_open:
            return
        link.is_open = False
        for way in (link.forth, link.back):
            way.is_open = False
            if way.receiver.is_up:
                link.closing += 1
                self._push(self.now + self._notices.random() * self.max_delay, DOWN, way, way.epoch, None)

    def _notice_down(self, way: Direction, epoch: int) -> None:
        link = way.link
        link.closing -= 1
        if way.epoch == epoch:
            way.epoch += 1
            if way.told:
                way.told = False
                self.step(way.receiver, replace(way.down, is_final=link.is_taken))
        if not link.closing:
            self.refresh(link)

    # Who is active

    def active(self, kind: Kind) -> list[tuple[ClientNode, Entry]]:
        """What the clients that are up ask for now."""
        return [
            (node, entry)
            for node in self.clients.values()
            if node.core is not None
            for entry in node.core.entries[kind].values()
        ]
