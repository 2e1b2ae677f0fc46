"""Lamport stamps and link floors: fully distributed, from what a broker knows of its own links.

A broker has a clock that never falls behind any time it has seen. A *floor* is a promise on one link: whatever is stamped and
follows has a later time. A broker can promise the least of its own present and the floors of its other links, for what follows
is stamped here, or comes from one of them; what is stamped and being stored holds its present back. Who waits for a floor asks
for it; a question moves clocks forward on its way, so that it is answered even where nothing is published. Links behind which
nobody publishes are not waited for. When somebody there begins to, the time is asked for first: what he publishes is stamped
later than all that was promised without him.
"""

from __future__ import annotations

import math
from typing import assert_never

from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import Peer, Stamp
from sluice.protocol.messages import Await, Floor, OrderMessage
from sluice.protocol.order.algorithm import Said
from sluice.protocol.route.directions import Direction, Directions, Plane


class Hop:
    """A link to another broker: what was promised and asked for, in both directions."""

    __slots__ = ("asked", "carries", "heard", "told", "wanted")

    def __init__(self) -> None:
        #: Whether anybody behind it may publish something.
        self.carries = False
        #: The floor that the other end has promised, and the one that it knows to be asked for.
        self.heard = 0
        self.asked = 0
        #: The floor that the other end was promised, and the one that it asks for.
        self.told = 0
        self.wanted = 0


class Floors:
    """The floors of one broker; an `Algorithm`."""

    #: Everybody stamps what he takes in, on its way to wherever it is wanted.
    root: Peer | None = None
    followers: tuple[Peer, ...] = ()
    counts_publishers = True

    def __init__(self, directions: Directions) -> None:
        self._directions = directions
        self.clock = 0
        self.hops: dict[Peer, Hop] = {}
        #: Whether a link may have been promised less than it asks for.
        self.is_awaited = False
        #: The times of what is being stored, in order.
        self._storing: dict[int, None] = {}
        #: A time that everybody has to come to, since somebody here has seen it.
        self._goal = 0
        #: For the record: how often something was promised or asked for.
        self.floors = self.questions = self.lost = 0

    @property
    def limit(self) -> float:
        """The least floor of the links that anything may come over, and less than what comes from the disk."""
        limit = min((hop.heard for hop in self.hops.values() if hop.carries), default=math.inf)
        return min(limit, self.present) if self._storing else limit

    @property
    def present(self) -> int:
        """The clock, or the time before the first of what is being stored."""
        return next(iter(self._storing), self.clock + 1) - 1

    # --- links --------------------------------------------------------------------------------------------------------

    def linked(self, peer: Peer) -> None:
        """Begins with no promises at all."""
        self.hops[peer] = Hop()

    def unlinked(self, peer: Peer) -> None:
        """Forgets the link, and so waits for nothing that should have come over it."""
        self.hops.pop(peer, None)

    def carries(self, peer: Peer, publications: bool) -> Said:
        """Asks for the present at once where somebody begins to publish: what was promised so far did not count him."""
        hop = self.hops.get(peer)
        if hop is None or hop.carries == publications:
            return
        hop.carries = publications
        if publications and self.clock > hop.heard:
            yield self._ask(peer, hop, self.clock)

    def survey(self) -> None:
        """Only neighbours count."""

    # --- publications -------------------------------------------------------------------------------------------------

    def follows(self, publisher: Peer, now: float) -> bool:
        """All takes the same way, in order or not."""
        return False

    def place(self, arrival: Arrival, is_marked: bool, now: float) -> Arrival:
        """Stamps it at once."""
        logged = arrival.batch.logged
        stamp = self.stamp(is_marked, 0 if logged is None else logged.moment)
        return arrival._replace(batch=arrival.batch.stamped(stamp))

    def moment(self) -> int:
        """The next moment of the clock."""
        self.clock += 1
        self._storing[self.clock] = None
        return self.clock

    def stored(self, moment: int) -> None:
        """Lets go of a moment."""
        self._storing.pop(moment, None)

    def stamp(self, is_marked: bool, moment: int) -> Stamp:
        """Its moment, or the next one of the clock."""
        if not moment:
            self.clock += 1
            moment = self.clock
        return Stamp(moment, self._directions.name, is_marked)

    def arrived(self, peer: Peer, time: int, floor: int | None) -> None:
        """Moves the clock; a floor that comes along says that more will follow without being asked for."""
        self.clock = max(self.clock, time)
        hop = self.hops.get(peer)
        if hop is not None and floor is not None:
            self._promised(hop, floor)
            hop.asked = max(hop.asked, time)

    def onward(self, peer: Peer, time: int) -> int | None:
        """Whoever gets something will want the floor to reach it: no need to ask."""
        hop = self.hops.get(peer)
        if hop is None:
            return None
        hop.wanted = max(hop.wanted, time)
        self.is_awaited = True
        return hop.told

    # --- promises -----------------------------------------------------------------------------------------------------

    def hear(self, peer: Peer, message: OrderMessage) -> None:
        """Takes a promise, or a question, which moves the clock up to what it asks for."""
        hop = self.hops.get(peer)
        if hop is None:
            return
        match message:
            case Floor(time):
                self._promised(hop, time)
            case Await(time):
                self.clock = max(self.clock, time)
                hop.wanted = max(hop.wanted, time)
                self.is_awaited = True
            case _:
                assert_never(message)

    def see(self, time: int) -> None:
        """Moves the clock."""
        self.clock = max(self.clock, time)

    def reach(self, time: int) -> None:
        """Moves the clocks of all forward, by questions that nobody needs an answer to."""
        self.clock = max(self.clock, time)
        self._goal = max(self._goal, time)

    def _promised(self, hop: Hop, floor: int) -> None:
        hop.heard = max(hop.heard, floor)
        self.clock = max(self.clock, floor)

    def renew(self) -> None:
        """Forgets what was told and asked for, but not what was promised to this broker."""
        for hop in self.hops.values():
            hop.told = hop.asked = 0
        self.is_awaited = True

    def settle(self, held: int) -> Said:
        """Promises what can be promised to those who wait, and asks for what they, and those here, wait for."""
        lowest: dict[Plane, list[tuple[float, Direction]]] = {}
        short: dict[Direction, int] = {}
        for peer, hop in self.hops.items():
            if hop.wanted > hop.told:
                plane = self._directions.plane(peer)
                if plane not in lowest:
                    lowest[plane] = self._lowest(plane)
                floor = self._floor_for(peer, lowest[plane])
                if floor > hop.told:
                    hop.told = floor
                    self.floors += 1
                    yield peer, Floor(floor)
                if floor < hop.wanted:
                    direction = self._directions.of(peer)
                    short[direction] = max(short.get(direction, 0), hop.wanted)
        self.is_awaited = bool(short)
        here = max(held, self._goal)
        for peer, hop in self.hops.items():
            if hop.carries:
                others = (wanted for direction, wanted in short.items() if self._may_pass(peer, direction))
                needed = max([here, *others])
                if needed > hop.heard and needed > hop.asked:
                    yield self._ask(peer, hop, needed)

    def _ask(self, peer: Peer, hop: Hop, time: int) -> tuple[Peer, OrderMessage]:
        hop.asked = max(hop.asked, time)
        self.questions += 1
        return peer, Await(time)

    def _may_pass(self, peer: Peer, direction: Direction) -> bool:
        """Whether something that comes over a link may ever go on in a direction."""
        here, plane = self._directions.of(peer), self._directions.plane(direction)
        return here != direction and not self._directions.is_sibling(here) and self._directions.reaches(peer, plane)

    def _lowest(self, plane: Plane) -> list[tuple[float, Direction]]:
        """The two directions with the least floors: what goes on in any direction comes from another one.

        While there are two planes nothing comes to one from the other: who counted both would wait for himself.
        """
        least: dict[Direction, float] = {}
        for peer, hop in self.hops.items():
            direction = self._directions.of(peer)
            if hop.carries and not self._directions.is_sibling(direction) and self._directions.reaches(peer, plane):
                least[direction] = min(hop.heard, least.get(direction, math.inf))
        return sorted((floor, direction) for direction, floor in least.items())[:2]

    def _floor_for(self, peer: Peer, lowest: list[tuple[float, Direction]]) -> int:
        """What can be promised on a link: nothing is stamped here before the present, and the rest comes over other links."""
        own = self._directions.of(peer)
        return int(min([self.present, *(floor for floor, direction in lowest if direction != own)]))
