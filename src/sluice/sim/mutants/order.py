"""Bugs in order: promises that are not kept, clocks that stand still, and queues that let something pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluice.client.session.inorder import InOrder
from sluice.protocol.batch import Batch
from sluice.protocol.effects import Effects
from sluice.protocol.export import Replica
from sluice.protocol.messages import Await, Deliver, Floor, Notify
from sluice.protocol.order import queue
from sluice.protocol.order.floors import Floors
from sluice.protocol.order.ordering import Ordering
from sluice.protocol.order.queue import Queue
from sluice.protocol.route.table import Table
from sluice.sim.mutants.mutant import Patch, mutant

# --- promises ---------------------------------------------------------------------------------------------------------


@mutant("order", "floor-too-high", "a broker promises what its own clock says, whatever its other links may bring")
def _() -> Patch:
    return Floors, "_floor_for", lambda original: lambda self, peer, lowest: self.clock


@mutant("order", "floor-of-one-link", "a broker promises what the best of its other links promises, not the worst")
def _() -> Patch:
    return Floors, "_lowest", lambda original: lambda self, plane: original(self, plane)[1:]


@mutant("order", "hop-forgotten", "what is held back waits for one link only")
def _() -> Patch:
    def make(original: Any) -> Any:
        return property(lambda self: max((hop.heard for hop in self.hops.values() if hop.carries), default=1 << 62))

    return Floors, "limit", make


@mutant("order", "floor-one-more", "what is held back is released one moment too early")
def _() -> Patch:
    return Floors, "limit", lambda original: property(lambda self: original.fget(self) + 1)


@mutant(
    "order",
    "promise-before-the-last",
    "a promise rides on the first publication that goes, and others follow",
    first=24,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def note(self: Effects, peer: str, message: Notify) -> None:
            riding = self._riding.get(peer)
            original(self, peer, message)
            if riding is not None:
                self._riding[peer] = riding

        return note

    return Effects, "note", make


@mutant(
    "order", "promises-kept-to-itself", "a broker does not say what it can promise, unless something goes the same way"
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def promise(self: Effects, peer: str, message: Floor) -> None:
            if peer in self._riding:
                original(self, peer, message)

        return promise

    return Effects, "promise", make


@mutant("order", "dead-link-awaited", "a link that is gone is still waited for", first=43)
def _() -> Patch:
    return Floors, "unlinked", lambda original: lambda self, peer: None


# --- clocks and questions ---------------------------------------------------------------------------------------------


@mutant("order", "moment-used-twice", "the clock does not move on when something is stamped")
def _() -> Patch:
    def make(original: Any) -> Any:
        def stamp(self: Floors, is_marked: bool) -> Any:
            self.clock -= self.clock > 0
            return original(self, is_marked)

        return stamp

    return Floors, "stamp", make


@mutant("order", "clock-not-moved", "the clock does not follow what comes over links", first=34)
def _() -> Patch:
    def make(original: Any) -> Any:
        def arrived(self: Floors, peer: str, time: int, floor: int | None) -> None:
            clock = self.clock
            original(self, peer, time, floor)
            self.clock = clock

        return arrived

    return Floors, "arrived", make


@mutant("order", "question-unheard", "a question does not move the clock")
def _() -> Patch:
    def make(original: Any) -> Any:
        def hear(self: Floors, peer: str, message: Any) -> None:
            clock = self.clock
            original(self, peer, message)
            if isinstance(message, Await):
                self.clock = clock

        return hear

    return Floors, "hear", make


@mutant("order", "question-not-passed-on", "a broker asks for what its own clients wait for, and for nobody else")
def _() -> Patch:
    def make(original: Any) -> Any:
        def settle(self: Floors, held: int) -> Any:
            for peer, message in original(self, held):
                if isinstance(message, Floor) or message.time <= max(held, self._goal):
                    yield peer, message

        return settle

    return Floors, "settle", make


@mutant("order", "held-unasked", "what is held back is not asked for")
def _() -> Patch:
    return Floors, "settle", lambda original: lambda self, held: original(self, 0)


@mutant("order", "present-not-asked", "where somebody begins to publish the time is not asked for", first=16)
def _() -> Patch:
    def make(original: Any) -> Any:
        def carries(self: Floors, peer: str, publications: bool) -> Any:
            for _ in original(self, peer, publications):
                self.hops[peer].asked = 0
            return iter(())

        return carries

    return Floors, "carries", make


@mutant("order", "nobody-begins", "links are waited for only if something stamped came over them before", first=4)
def _() -> Patch:
    def make(original: Any) -> Any:
        return property(
            lambda self: min((hop.heard for hop in self.hops.values() if hop.carries and hop.heard), default=1 << 62)
        )

    return Floors, "limit", make


@mutant("order", "stamped-too-early", "the first publications of a new advertisement do not wait for it", first=126)
def _() -> Patch:
    return Ordering, "_is_early", lambda original: lambda self, arrival: False


@mutant("order", "waiting-overtaken", "what a client publishes passes what waits for its advertisement", first=17)
def _() -> Patch:
    return Ordering, "defers", lambda original: lambda self, event: False


# --- who asks ---------------------------------------------------------------------------------------------------------


@mutant("order", "fifo-only", "everything is delivered when it comes")
def _() -> Patch:
    def make(original: Any) -> Any:
        def deliver(self: Ordering, client: str, batch: Batch, combinations: Any, which: Any, now: float) -> None:
            self._send(client, Deliver(batch, combinations, which))

        return deliver

    return Ordering, "deliver", make


@mutant("order", "alone-unordered", "who is the only one to ask for order at a broker gets everything at once")
def _() -> Patch:
    def make(original: Any) -> Any:
        def deliver(self: Ordering, client: str, batch: Batch, combinations: Any, which: Any, now: float) -> None:
            if len(self._asking) < 2:
                self._send(client, Deliver(batch, combinations, which))
            else:
                original(self, client, batch, combinations, which, now)

        return deliver

    return Ordering, "deliver", make


@mutant("order", "wish-untold", "brokers do not tell each other that somebody wants order")
def _() -> Patch:
    return Table, "_tags_for", lambda original: lambda self, peer: (original(self, peer)[0], False)


@mutant("order", "wish-unheard", "that somebody wants order is heard only in a snapshot")
def _() -> Patch:
    def make(original: Any) -> Any:
        def change(self: Replica, message: Any) -> Any:
            return original(self, replace(message, ordered=self.ordered))

        return change

    return Replica, "change", make


@mutant("order", "mark-lost", "what its publisher wants in order for all is so only where it was published")
def _() -> Patch:
    def make(original: Any) -> Any:
        def onward(self: Ordering, peer: str, message: Notify) -> Any:
            said = original(self, peer, message)
            stamp = said.batch.stamp
            return said if stamp is None else replace(said, batch=said.batch.stamped(stamp._replace(is_marked=False)))

        return onward

    return Ordering, "onward", make


@mutant("order", "unstamped-delivered", "an ordered subscription gets what nobody has stamped", first=15)
def _() -> Patch:
    def make(original: Any) -> Any:
        def deliver(self: Ordering, client: str, batch: Batch, combinations: Any, which: Any, now: float) -> None:
            if batch.stamp is None:
                self._send(client, Deliver(batch, combinations, which))
            else:
                original(self, client, batch, combinations, which, now)

        return deliver

    return Ordering, "deliver", make


# --- queues and clients -----------------------------------------------------------------------------------------------


@mutant("order", "released-as-it-came", "what is held back is released in the order in which it came")
def _() -> Patch:
    return queue, "key_of", lambda original: lambda stamp, number: (stamp.time, "", 0)


@mutant("order", "unordered-overtakes", "what is not ordered passes what is held back of its publisher", first=15)
def _() -> Patch:
    return Queue, "follow", lambda original: lambda self, message, now: False


@mutant("order", "head-only", "a release ends with the first thing")
def _() -> Patch:
    def make(original: Any) -> Any:
        def release(self: Queue, limit: float) -> Any:
            for held in original(self, limit):
                yield held
                return

        return release

    return Queue, "release", make


@mutant("order", "late-delivered", "a client gives its program what came too late", first=15)
def _() -> Patch:
    return InOrder, "take", lambda original: lambda self, batch, rows, number: (rows, [])


@mutant("order", "withheld-untold", "a client withholds what came too late and does not say so", first=15)
def _() -> Patch:
    return InOrder, "take", lambda original: lambda self, batch, rows: (original(self, batch, rows)[0], [])


@mutant("order", "client-forgets", "a client does not say how far it is when it comes to a broker", first=164)
def _() -> Patch:
    return InOrder, "time", lambda original: property(lambda self: 0)
