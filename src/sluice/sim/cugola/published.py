"""The published substitution, as printed in figures 7 to 10, and what has to be repaired.

Each `Repair` is a switch. Without any, this is the listing line by line: a dispatcher has a table S of pairs (node, pattern),
its neighbours D, and a table I of unsubscriptions to ignore; RECMSG travels along the chain from A to B, and CTRLMSG back over
each link of the head. Section 4.5 of the paper says in words what the figures say in symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from sluice.sim.cugola.dispatcher import Control, Dispatcher, Event, Protocol, Update
from sluice.sim.cugola.pattern import Pattern, Patterns, identity
from sluice.sim.cugola.plan import Table
from sluice.sim.cugola.substitution import Substitution, after, before


class Repair(StrEnum):
    """What is wrong with the listing, each with the figure where it is wrong."""

    #: Figures 7 and 8: the one other holder is looked for among neighbours only; a client who wants the same is forgotten.
    COUNT_CLIENTS = "R1"
    #: Figure 10, P′del: patterns of clients on the head are deleted, as only neighbours are asked whether they need them.
    KEEP_CLIENTS = "R2"
    #: Figure 10, last(newLink): D tells C what only C wants.
    NO_ECHO = "R3"
    #: Figure 10: B is in the tail, or is last(newLink), and never gets to the branch of last(RP), where it would clean up.
    CLEAN_UP = "R4"
    #: Figure 8: what still comes from somebody who is no neighbour any more is taken at its word.
    KNOW_NEIGHBOURS = "R5"
    #: Figure 10: D tells C what it holds because of the lost link. So B cleans up first, and D speaks when RECDONE is back.
    CLEAN_UP_FIRST = "R6"


LITERAL: frozenset[Repair] = frozenset()
REPAIRED = frozenset(Repair)


@dataclass(frozen=True, slots=True)
class RecMsg(Control):
    """RECMSG: what is to be added and removed on the head, and the path. Empty sets on the tail."""

    add: Patterns
    delete: Patterns
    path: Substitution

    @property
    def entries(self) -> int:
        return len(self.add) + len(self.delete)


@dataclass(frozen=True, slots=True)
class CtrlMsg(Control):
    """CTRLMSG: RECMSG has been processed, unsubscriptions count again."""


@dataclass(frozen=True, slots=True)
class RecDone(Control):
    """RECDONE, a repair: the end of the path has cleaned up."""

    path: Substitution


class Published(Dispatcher):
    """The protocol of the paper at one dispatcher."""

    def __init__(self, name: str, neighbours: tuple[str, ...], table: Table, repairs: frozenset[Repair]) -> None:
        super().__init__(name, neighbours)
        self._repairs = repairs
        #: The paper's S: for each pattern the nodes, clients or neighbours, that want it.
        self._holders: dict[Pattern, dict[str, None]] = {}
        for node, patterns in table.items():
            self._insert(node, patterns)
        #: The paper's I; a run has one reconfiguration, and no need of its number.
        self._ignored: dict[str, Patterns] = {}
        #: The far end of a new link that is there and not in use yet.
        self._pending: str | None = None
        #: What C holds for D, while D waits for RECDONE.
        self._added: Patterns = frozenset()
        #: SUB and UNSUB of one step: they travel together.
        self._told: dict[str, dict[Pattern, bool]] = {}

    # Figure 8.

    def subscribe(self, client: str, pattern: Pattern) -> None:
        self._subscribed(client, pattern)
        self._flush()

    def unsubscribe(self, client: str) -> None:
        for pattern in self._held_for(client):
            self._unsubscribed(client, pattern)
        self._flush()

    def event(self, source: str | None, event: Event) -> None:
        if source is None or self._listens_to(source):
            nodes: dict[str, None] = {}
            for pattern, holders in self._holders.items():
                if pattern.matches(event.value):
                    nodes |= holders
            for node in nodes:
                if node != source:
                    self.hand_on(node, event)

    def receive(self, sender: str, message: Control) -> None:
        if not self._listens_to(sender):
            return
        match message:
            case Update():
                for pattern in sorted(message.added):
                    self._subscribed(sender, pattern)
                for pattern in sorted(message.removed):
                    if pattern not in self._ignored.get(sender, ()):
                        self._unsubscribed(sender, pattern)
            case RecMsg():
                self._reconfigure(sender, message)
            case CtrlMsg():
                self._ignored.pop(sender, None)
            case RecDone():
                self._done(message.path)
        self._flush()

    def _listens_to(self, sender: str) -> bool:
        return Repair.KNOW_NEIGHBOURS not in self._repairs or sender in self.neighbours or sender == self._pending

    def _subscribed(self, node: str, pattern: Pattern) -> None:
        if node not in self._holders.get(pattern, ()):
            self._insert(node, (pattern,))
            self._pass_on(node, pattern, wants=True)

    def _unsubscribed(self, node: str, pattern: Pattern) -> None:
        if node in self._holders.get(pattern, ()):
            self._remove(node, (pattern,))
            self._pass_on(node, pattern, wants=False)

    def _pass_on(self, node: str, pattern: Pattern, *, wants: bool) -> None:
        """If nobody else holds a pattern, all other neighbours are told; if exactly one neighbour does, only that one."""
        others = [other for other in self._holders.get(pattern, ()) if other != node]
        neighbours = [other for other in others if other in self.neighbours]
        only = others if Repair.COUNT_CLIENTS in self._repairs else neighbours
        if not others:
            for neighbour in self.neighbours:
                if neighbour != node:
                    self._tell(neighbour, pattern, wants)
        elif len(only) == 1 and neighbours:
            self._tell(only[0], pattern, wants)

    # Figure 10.

    def replace(self, substitution: Substitution, is_graceful: bool) -> None:
        (a, b), (c, d) = substitution.old, substitution.new
        if self.name == d:
            self._pending = c
        if self.name != a:
            return
        add = self._held_for(b)
        onward = substitution.chain[1]
        self._update(add, onward, add, b)
        del self.neighbours[b]
        if a != c:
            self._ignored[onward] = add
        else:
            self.neighbours[d] = None
            self._tell_all(d)
        # P_del: without what clients or other neighbours need.
        delete = frozenset(pattern for pattern in add if self._nobody_but(onward, pattern))
        self._forward(onward, RecMsg(add, delete, substitution))

    def _reconfigure(self, sender: str, message: RecMsg) -> None:
        path = message.path
        onward = after(path.chain, self.name)
        if self.name in path.head:
            assert onward is not None
            if self.name != path.head[-1]:
                self._ignored[onward] = message.add
            else:
                self.neighbours[onward] = None
            self._update(message.add, onward, message.delete, sender)
            self.send(sender, CtrlMsg())
            if self.name == path.head[-1]:
                self._tell_all(onward)
            self._forward(onward, RecMsg(message.add, self._still_to_delete(message.delete, onward), path))
        else:
            if self.name == path.tail[0]:
                self._added = message.add
                if Repair.CLEAN_UP_FIRST not in self._repairs:
                    self._reconcile(sender)
            if onward is not None:
                self._forward(onward, RecMsg(frozenset(), frozenset(), path))
            else:
                if Repair.CLEAN_UP in self._repairs:
                    self._clean_up(path.old[0])
                if Repair.CLEAN_UP_FIRST in self._repairs:
                    self._done(path)

    def _still_to_delete(self, delete: Patterns, onward: str) -> Patterns:
        """P′del, what the next dispatcher is to delete."""
        if Repair.KEEP_CLIENTS in self._repairs:
            return frozenset(pattern for pattern in delete if self._nobody_but(onward, pattern))
        return frozenset(
            pattern
            for pattern in delete
            if not any(node in self.neighbours and node != onward for node in self._holders.get(pattern, ()))
        )

    def _done(self, path: Substitution) -> None:
        """The tail is clean behind this dispatcher: D reconciles, others say so to the one before them."""
        if self.name == path.tail[0]:
            self._reconcile(path.new[0])
        else:
            back = before(path.chain, self.name)
            assert back is not None
            self._forward(back, RecDone(path))

    def _reconcile(self, first: str) -> None:
        """D tells C what has changed on its side since the link was lost; C has been told P_add on its behalf."""
        self.neighbours[first] = None
        for pattern in sorted(self._added):
            if self._nobody_but(first, pattern):
                self._tell(first, pattern, wants=False)
        for pattern in sorted(self._holders):
            echo = Repair.NO_ECHO not in self._repairs
            if pattern not in self._added and (echo or not self._nobody_but(first, pattern)):
                self._tell(first, pattern, wants=True)

    def _clean_up(self, gone: str) -> None:
        self.neighbours.pop(gone, None)
        for pattern in sorted(self._held_for(gone)):
            self._unsubscribed(gone, pattern)

    # Figure 7, and the table S.

    def _update(self, add: Patterns, onward: str, delete: Patterns, back: str) -> None:
        self._insert(onward, add)
        self._remove(back, delete)

    def _tell_all(self, neighbour: str) -> None:
        for pattern in sorted(self._holders):
            if not self._nobody_but(neighbour, pattern):
                self._tell(neighbour, pattern, wants=True)

    def _insert(self, node: str, patterns: Iterable[Pattern]) -> None:
        for pattern in patterns:
            self._holders.setdefault(pattern, {})[node] = None

    def _remove(self, node: str, patterns: Iterable[Pattern]) -> None:
        for pattern in patterns:
            holders = self._holders.get(pattern, {})
            holders.pop(node, None)
            if not holders:
                self._holders.pop(pattern, None)

    def _held_for(self, node: str) -> Patterns:
        return frozenset(pattern for pattern, holders in self._holders.items() if node in holders)

    def _nobody_but(self, node: str, pattern: Pattern) -> bool:
        return all(holder == node for holder in self._holders.get(pattern, ()))

    def table(self) -> Table:
        held: dict[str, list[Pattern]] = {}
        for pattern, holders in self._holders.items():
            for node in holders:
                held.setdefault(node, []).append(pattern)
        return {node: frozenset(patterns) for node, patterns in held.items()}

    # SUB and UNSUB.

    def _tell(self, neighbour: str, pattern: Pattern, wants: bool) -> None:
        self._told.setdefault(neighbour, {})[pattern] = wants

    def _forward(self, neighbour: str, message: Control) -> None:
        """Sends a message behind all subscriptions that were said before it."""
        self._flush()
        self.send(neighbour, message)

    def _flush(self) -> None:
        for neighbour, told in self._told.items():
            added = frozenset(pattern for pattern, wants in told.items() if wants)
            self.send(neighbour, Update(added, frozenset(told) - added))
        self._told = {}


def published(repairs: frozenset[Repair]) -> Protocol:
    """The protocol with some repairs; it knows no other reduction than identity."""
    return Protocol(partial(Published, repairs=repairs), identity)
