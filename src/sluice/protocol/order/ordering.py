"""What a broker does about order: who asks for it, which publications get a stamp, and when each client gets them.

A publication is stamped if its publisher asks for order, or if somebody somewhere does who might get it; where and how is a
matter of the algorithm. It is held back for those of its subscribers for whom order counts; everything else flows as if there
were no order. Where it has to be known who publishes, the first publications of a new advertisement wait until it is
acknowledged: by then every broker that they may reach has asked for its own time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sluice.errors import ConfigurationError
from sluice.limits import MAX_AHEAD
from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import MARKED, Batch, Peer
from sluice.protocol.events import Event, Received
from sluice.protocol.messages import (
    Await,
    Change,
    Deliver,
    Entry,
    EntryId,
    Floor,
    Kind,
    Message,
    Notify,
    OrderMessage,
    Role,
    Snapshot,
)
from sluice.protocol.order.algorithm import Algorithm, Said
from sluice.protocol.order.floors import Floors
from sluice.protocol.order.queue import Queue
from sluice.protocol.order.rooted import Rooted
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.table import Table
from sluice.protocol.route.ways import Ways


def algorithm_named(name: str, directions: Directions, brokers: Ways, root: Peer | None) -> Algorithm:
    """The algorithm with a name, for one broker; `root` is the broker that it should prefer, if it prefers any."""
    match name:
        case "floors":
            return Floors(directions)
        case "rooted":
            return Rooted(directions, brokers, root)
        case _:
            raise ConfigurationError(f"no order algorithm is called {name!r}: take floors or rooted")


class Ordering:
    """The order of all, as one broker keeps it for its clients."""

    def __init__(
        self,
        name: Peer,
        algorithm: Algorithm,
        *,
        roles: Mapping[Peer, Role],
        tables: Mapping[Kind, Table],
        is_unanswered: Callable[[Peer], bool] | None,
        send: Callable[[Peer, Message], None],
        promise: Callable[[Peer, Floor], None],
        orders_all: bool,
    ) -> None:
        self._name = name
        self.algorithm = algorithm
        self._roles = roles
        self._table = tables[Kind.SUBSCRIPTIONS]
        self._brokers = tables[Kind.BROKERS]
        #: Whether an advertisement of a client is not acknowledged yet; None: there are none, or nothing depends on them.
        self._is_unanswered = is_unanswered if algorithm.counts_publishers else None
        self._send = send
        self._promise = promise
        self._orders_all = orders_all
        #: The ordered subscriptions of each client.
        self._asking: dict[Peer, dict[EntryId, None]] = {}
        #: What is held back for each client, of those for whom something is.
        self._queues: dict[Peer, Queue] = {}
        #: What all of that takes.
        self.held_bytes = 0
        #: For whom something has come in this step.
        self._touched: dict[Peer, None] = {}
        #: The latest time that was ever held back, and the limit that was released up to.
        self._latest = 0
        self._released: float = 0
        #: Publications of clients with an advertisement that is not acknowledged yet, and what they advertise after these.
        self.waiting: dict[Peer, deque[Arrival | Received]] = {}
        #: Whether anything has happened in this step.
        self._is_due = False
        #: For the record: how much was stamped and held back, for how long in all and at most.
        self.stamped = self.held = 0
        self.held_seconds = self.longest_seconds = 0.0

    # --- links and tables ---------------------------------------------------------------------------------------------

    def linked(self, peer: Peer) -> None:
        """A link came up; what it says of order comes before all that is told of tables."""
        if self._roles[peer] == Role.BROKER:
            self.algorithm.linked(peer)
            if self._is_unanswered is None:
                self.carries(peer, True)

    def unlinked(self, peer: Peer) -> None:
        """A link is gone, with all that was held back for it."""
        self.algorithm.unlinked(peer)
        if peer in self._queues:
            self.held_bytes -= self._queues.pop(peer).bytes
        self._asking.pop(peer, None)
        if peer in self.waiting:
            # What was taken in goes on, without its publisher; what was not never came.
            self.waiting[peer] = deque(each for each in self.waiting[peer] if isinstance(each, Arrival))
            if not self.waiting[peer]:
                del self.waiting[peer]
        self._is_due = True

    def carries(self, peer: Peer, publications: bool) -> None:
        """Whether anybody behind a broker publishes something, as its advertisements tell."""
        self._say(self.algorithm.carries(peer, publications))
        self._is_due = True

    @property
    def is_root(self) -> bool:
        """Whether this broker stamps what all publish."""
        return self.algorithm.root == self._name

    def survey(self) -> bool:
        """Other brokers are known now, or there are other ways to them: whether this one is the root."""
        self.algorithm.survey()
        self._is_due = True
        return self.is_root

    def subscribed(self, client: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """The subscriptions of a client change; the table follows before anybody is told of the entries."""
        asking = self._asking.get(client, {})
        for entry in removed:
            asking.pop(entry.id or "", None)
        # Reliable ones are put in order where their streams come together, at the client.
        asking.update(
            (entry.id, None) for entry in added if entry.ordered and not entry.reliable and entry.id is not None
        )
        if asking:
            self._asking[client] = asking
        else:
            self._asking.pop(client, None)
        self._table.ordered = bool(self._asking)

    def receive(self, peer: Peer, message: OrderMessage, now: float) -> None:
        """Another broker says something about order, or a client how far it is; questions go on before anything else does."""
        self._is_due = True
        if self._roles[peer] == Role.BROKER:
            self.algorithm.hear(peer, message)
        elif isinstance(message, Await):
            self.algorithm.reach(message.time)
        if isinstance(message, Await):
            self.settle(now)

    @property
    def unordered(self) -> str | None:
        """Why nothing can be in the order of all; None: all can, for what is known of the network."""
        for _, entry in self._brokers.contents():
            if entry.where.is_empty:
                return (
                    f"{entry.id} is one of several brokers of its node, and what they pass on need not be in one order: "
                    "start a network with one broker for each node"
                )
        return None

    def objection(self, message: Message, unordered: str | None) -> str | None:
        """Why a client must not say this; `unordered` is why nothing can be in order here, if nothing can."""
        match message:
            case Await(time):
                if time > self.algorithm.clock + MAX_AHEAD:
                    return f"nothing can have been stamped with {time}: no clock is as far ahead"
                return None
            case Notify(batch):
                asks = batch.stamp is not None
            case Change(added=entries) | Snapshot(entries=entries):
                asks = any(entry.ordered and not entry.reliable for entry in entries)
            case _:
                asks = False
        return unordered or self.unordered if asks else None

    def _say(self, said: Said) -> None:
        for peer, message in said:
            if isinstance(message, Floor):
                self._promise(peer, message)
            else:
                self._send(peer, message)

    # --- publications -------------------------------------------------------------------------------------------------

    def admit(self, arrived: list[Arrival], now: float) -> list[Arrival]:
        """Stamps what clients publish and somebody wants in order, as soon as it can be; takes note of what others stamped."""
        is_wanted = self._orders_all or self._table.is_ordered or self.waiting or self.algorithm.followers
        if not is_wanted:
            for each in arrived:
                if each.batch.stamp is not None:
                    break
            else:
                return arrived
        admitted: list[Arrival] = []
        for each in arrived:
            if self._roles.get(each.source) == Role.BROKER:
                if each.batch.stamp == MARKED:
                    admitted += self._place(each, True, now)
                    continue
                if each.batch.stamp is not None and not each.comes_again:
                    self.algorithm.arrived(each.source, each.batch.stamp.time, each.floor)
                    self._is_due = True
                admitted.append(each)
            elif self._is_early(each):
                waiting = self.waiting.setdefault(each.source, deque())
                place = next((place for place, one in enumerate(waiting) if isinstance(one, Received)), len(waiting))
                waiting.insert(place, each)
            else:
                admitted += self.stamp(each, now)
        return admitted

    def moment(self) -> int:
        """A moment for what is going to be stored, in the order of the log; 0: it is stamped later.

        Where advertisements are acknowledged first, the stamp has to wait for that.
        """
        return 0 if self._is_unanswered is not None else self.algorithm.moment()

    def stored(self, moment: int) -> None:
        """What was to have a moment is on disk, or never will be."""
        if moment:
            self.algorithm.stored(moment)
            self._is_due |= bool(self._queues) or self.algorithm.is_awaited

    def _is_marked(self, batch: Batch) -> bool:
        return self._orders_all or (batch.stamp is not None and batch.stamp.is_marked)

    def _is_early(self, arrival: Arrival) -> bool:
        """Whether it is too early to stamp something, or something before it."""
        if arrival.source in self.waiting:
            return True
        if self._is_unanswered is None or not self._is_unanswered(arrival.source):
            return False
        return self._table.is_ordered or self._is_marked(arrival.batch)

    def stamp(self, arrival: Arrival, now: float) -> list[Arrival]:
        """What is published here now, on the way to its place in the order of all if anybody wants to know that."""
        is_marked = self._is_marked(arrival.batch)
        if is_marked or self._table.is_ordered or self.algorithm.follows(arrival.batch.publisher, now):
            return self._place(arrival, is_marked, now)
        return [arrival]

    def _place(self, arrival: Arrival, is_marked: bool, now: float) -> list[Arrival]:
        self._is_due = True
        placed = self.algorithm.place(arrival, is_marked, now)
        if placed is None:
            return []
        if placed.upward is None:
            self.stamped += len(placed.batch)
        return [placed]

    def defers(self, event: Event) -> bool:
        """Whether a client publishes or advertises something behind publications that wait: then it waits, too."""
        if type(event) is not Received or event.peer not in self.waiting:
            return False
        match event.message:
            case Notify() | Change(kind=Kind.ADVERTISEMENTS) | Snapshot(kind=Kind.ADVERTISEMENTS):
                self.waiting[event.peer].append(event)
                return True
            case _:
                return False

    def answered(self) -> Arrival | Received | None:
        """The next thing that has waited for an advertisement and need not any more."""
        for client, waiting in self.waiting.items():
            if self._is_unanswered is None or not self._is_unanswered(client):
                each = waiting.popleft()
                if not waiting:
                    del self.waiting[client]
                return each
        return None

    def onward(self, peer: Peer, message: Notify) -> Notify:
        """What goes to another broker, with a promise if somebody there holds it back until it has one."""
        stamp = message.batch.stamp
        if stamp is None or (message.passage is not None and message.passage.to is not None):
            return message
        if not stamp.is_marked and not self._table.wants_order(peer):
            return message
        self._is_due = True
        return replace(message, floor=self.algorithm.onward(peer, stamp.time))

    # --- clients ------------------------------------------------------------------------------------------------------

    def deliver(
        self,
        client: Peer,
        batch: Batch,
        combinations: tuple[tuple[EntryId, ...], ...],
        which: Sequence[int],
        now: float,
    ) -> None:
        """Gives a client what it wants: at once, or in order if that counts for it."""
        stamp = batch.stamp
        if stamp is None and not self._asking and not self._queues:
            self._send(client, Deliver(batch, combinations, which))
            return
        asking, queue = self._asking.get(client), self._queues.get(client)
        if asking is not None and stamp is None:
            # It was on its way before those who publish knew of these subscriptions; they are not complete yet.
            combinations = tuple(tuple(id for id in ids if id not in asking) for ids in combinations)
            rows = [row for row in range(len(batch)) if combinations[which[row] if which else 0]]
            if not rows:
                return
            batch, which = batch.whole_or(rows), [which[row] for row in rows] if which else which
        if stamp is not None and (
            stamp.is_marked or (asking is not None and any(id in asking for ids in combinations for id in ids))
        ):
            queue = self._queues.setdefault(client, Queue())
            before = queue.bytes
            queue.hold(Deliver(batch, combinations, which, ordered=True), stamp, now)
            self.held_bytes += queue.bytes - before
            self._latest = max(self._latest, stamp.time)
            self._touched[client] = None
            self._is_due = True
            return
        message = Deliver(batch, combinations, which)
        before = 0 if queue is None else queue.bytes
        if queue is None or not queue.follow(message, now):
            self._send(client, message)
        else:
            self.held_bytes += queue.bytes - before

    def settle(self, now: float) -> None:
        """After a step: releases what nothing can precede any more, and says what others wait for."""
        if not self._is_due:
            return
        self._is_due = False
        limit = self.algorithm.limit
        # Where the limit is the same, only what has just come can be within it.
        for client in list(self._queues if limit > self._released else self._touched):
            self._release(client, limit, now)
        self._touched.clear()
        self._released = limit
        self._say(self.algorithm.settle(self._latest if self._queues else 0))

    def _release(self, client: Peer, limit: float, now: float) -> None:
        queue = self._queues.get(client)
        if queue is None:
            return
        before = queue.bytes
        for held in queue.release(limit):
            waited = now - held.since
            self.held += waited > 0
            self.held_seconds += waited
            self.longest_seconds = max(self.longest_seconds, waited)
            self._send(client, held.message)
        self.held_bytes -= before - queue.bytes
        if not queue:
            del self._queues[client]

    # --- memory -------------------------------------------------------------------------------------------------------

    def held_for(self, client: Peer) -> int:
        """What is held back for a client, in bytes."""
        queue = self._queues.get(client)
        return 0 if queue is None else queue.bytes

    def give_up(self, client: Peer) -> int:
        """There is no room: forgets the oldest that is held back for a client; returns how many publications that are."""
        queue = self._queues[client]
        held = queue.pop()
        self.held_bytes -= held.bytes
        if not queue:
            del self._queues[client]
        return len(held.message.batch)

    def renew(self) -> None:
        """Works out anew who asks, and says and asks everything once more, in case that something was lost or damaged."""
        self._asking.clear()
        for peer, replica in self._table.replicas.items():
            if self._roles.get(peer) == Role.CLIENT:
                self.subscribed(peer, replica.entries, ())
        self._table.ordered = bool(self._asking)
        self.algorithm.renew()
        self._released, self._is_due = 0, True

    # --- its own account ----------------------------------------------------------------------------------------------

    def account(self, now: float) -> dict[str, float]:
        """How it goes: who asks for order here, what is held back and for how long, and what was said for that."""
        return {
            "subscriptions": sum(map(len, self._asking.values())),
            "stamped": self.stamped,
            "waiting": sum(map(len, self._queues.values())),
            "waiting_bytes": self.held_bytes,
            "waiting_clients": len(self._queues),
            "waiting_seconds": max((now - queue.oldest for queue in self._queues.values()), default=0.0),
            "unstamped": sum(map(len, self.waiting.values())),
            "held": self.held,
            "held_seconds": self.held_seconds,
            "longest_seconds": self.longest_seconds,
            "floors": self.algorithm.floors,
            "questions": self.algorithm.questions,
            "lost": self.algorithm.lost,
        }
