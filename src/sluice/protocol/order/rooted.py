"""A root gives all places: what is to be in order travels up to it, and comes down where it is wanted.

Links are first in, first out, so whoever gets two publications gets them in the root's order, and nobody waits. The root
follows from the brokers that are known: the preferred one, or else the first by name. Brokers that know others for a while may
go by several roots. Nothing is in another order for that: stamps decide, clocks never fall behind what they have seen, and what
is too late for a client is withheld there. On its way up nothing turns round: what would have to is lost, and counted.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial

from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import MARKED, Peer, Stamp
from sluice.protocol.messages import Await, OrderMessage
from sluice.protocol.order.algorithm import Said
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.ways import Ways

#: So long does all that somebody publishes go over the root after something that had to: far longer than the way takes. What
#: took even longer would come too late for those who have got something that was published after it.
FOLLOW_SECONDS = 60.0


class Rooted:
    """The way to the root, and the clock; an `Algorithm`."""

    counts_publishers = False
    #: Nothing that comes from the root is followed by anything earlier.
    limit = math.inf

    def __init__(self, directions: Directions, brokers: Ways, preferred: Peer | None) -> None:
        self._directions = directions
        self._name = name = directions.name
        self._brokers = brokers
        self._preferred = preferred
        self.root: Peer = name
        #: The neighbour that leads to the root; None: this is the root.
        self._parent: Peer | None = None
        self.clock = 0
        #: The latest time that the neighbour knows, for certain.
        self._told = 0
        #: Publishers here that have lately sent something up, and until when they follow it.
        self.followers: OrderedDict[Peer, float] = OrderedDict()
        self.floors = self.questions = self.lost = 0

    # --- links and brokers --------------------------------------------------------------------------------------------

    def linked(self, peer: Peer) -> None:
        """Who is behind it is told as a table."""

    def unlinked(self, peer: Peer) -> None:
        """Likewise."""

    def carries(self, peer: Peer, publications: bool) -> Said:
        """Nothing depends on who publishes."""
        return iter(())

    def survey(self) -> None:
        """Finds the root; a new one has to hear of all times that were seen."""
        known = [self._name, *self._brokers]
        root = self._preferred if self._preferred is not None and self._preferred in known else min(known)
        leads = partial(self._directions.leads, self._name)
        parent = None if root == self._name else self._brokers.get(root, leads)
        if (root, parent) != (self.root, self._parent):
            self.root, self._parent, self._told = root, parent, 0

    @property
    def present(self) -> int:
        """Nothing is stamped here but at once."""
        return self.clock

    is_awaited = False

    # --- publications -------------------------------------------------------------------------------------------------

    def moment(self) -> int:
        """The root has it, when it is stored long since."""
        return 0

    def stored(self, moment: int) -> None:
        """Nothing has a moment before."""

    def follows(self, publisher: Peer, now: float) -> bool:
        """Whether something of this publisher may still be on its way over the root."""
        while self.followers and next(iter(self.followers.values())) <= now:
            self.followers.popitem(last=False)
        return publisher in self.followers

    def place(self, arrival: Arrival, is_marked: bool, now: float) -> Arrival | None:
        """The root stamps it, as if it were published there; others send it up. Whatever has a place is in order for all."""
        if self._parent is None:
            self.clock += 1
            return arrival._replace(
                source=self._name, batch=arrival.batch.stamped(Stamp(self.clock, self._name, is_marked=True))
            )
        publisher = arrival.batch.publisher
        if arrival.source == self._parent:
            self.lost += len(arrival.batch)
            return None
        if arrival.source == publisher:
            self.followers[publisher] = now + FOLLOW_SECONDS
            self.followers.move_to_end(publisher)
        return arrival._replace(batch=arrival.batch.stamped(MARKED), upward=self._parent)

    def arrived(self, peer: Peer, time: int, floor: int | None) -> None:
        """Moves the clock."""
        self.clock = max(self.clock, time)
        if peer == self._parent:
            self._told = max(self._told, time)

    def onward(self, peer: Peer, time: int) -> int | None:
        """Nobody waits for a promise."""
        return None

    # --- times --------------------------------------------------------------------------------------------------------

    def hear(self, peer: Peer, message: OrderMessage) -> None:
        """Takes note of a time that was seen somewhere."""
        if isinstance(message, Await):
            self.arrived(peer, message.time, None)

    def see(self, time: int) -> None:
        """Moves the clock."""
        self.clock = max(self.clock, time)

    def reach(self, time: int) -> None:
        """The root hears of it."""
        self.clock = max(self.clock, time)

    def renew(self) -> None:
        """Tells the time once more."""
        self._told = 0

    def settle(self, held: int) -> Said:
        """Tells the neighbour on the way to the root of a time that did not come from there."""
        if self._parent is not None and self.clock > self._told:
            self._told = self.clock
            self.questions += 1
            yield self._parent, Await(self.clock)
