"""What a way of putting publications in one order has to do at one broker.

A publication gets a stamp where it is taken in, or at a place that it is sent to for that. Stamps are the order: whoever gets
two publications gets the one with the smaller stamp first. An algorithm gives stamps out, and says up to which time all that is
to come has come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import Peer
from sluice.protocol.messages import OrderMessage

#: What is to be said to other brokers.
Said = Iterator[tuple[Peer, OrderMessage]]


class Algorithm(Protocol):
    """One broker's part in the order of all. Links are those to other brokers."""

    #: The latest time that was seen here.
    clock: int
    #: For the record: how often something was promised or asked for, and how many publications found no way to their place.
    floors: int
    questions: int
    lost: int

    @property
    def root(self) -> Peer | None:
        """The broker that stamps what all publish; None: every broker stamps what it takes in."""

    @property
    def counts_publishers(self) -> bool:
        """Whether it has to be known who publishes before anything of his is stamped."""

    @property
    def followers(self) -> Collection[Peer]:
        """Publishers here that may be among those who `follows` is about; nearly always nobody is."""

    @property
    def limit(self) -> float:
        """What has this time or an earlier one, and is for somebody here, has come."""

    @property
    def present(self) -> int:
        """Whatever this broker is still to stamp, or has stamped and not stored, has a later time."""

    @property
    def is_awaited(self) -> bool:
        """Whether another broker may wait for a promise."""

    def linked(self, peer: Peer) -> None:
        """A link works from now on; nobody publishes anything behind it before `carries` says so."""

    def unlinked(self, peer: Peer) -> None:
        """A link is gone: nobody waits any more for what was to come over it."""

    def carries(self, peer: Peer, publications: bool) -> Said:
        """Whether anybody behind a link may publish something."""

    def survey(self) -> None:
        """Other brokers are known now, or there are other ways to them."""

    def moment(self) -> int:
        """A time for what is going to be stored, behind all that this broker has seen or promised; it waits for `stored`.

        0: it gets one elsewhere.
        """

    def stored(self, moment: int) -> None:
        """What was to have this time is on disk, or never will be: nobody waits for it any more."""

    def follows(self, publisher: Peer, now: float) -> bool:
        """Whether what somebody publishes here has to take the way of what is in order, so that it does not overtake that."""

    def place(self, arrival: Arrival, is_marked: bool, now: float) -> Arrival | None:
        """What is to be in order, with a stamp later than all that was seen here, or on its way to where it gets one.

        What was stored with a moment has its stamp by that. None: it finds no way there, and is lost.
        """

    def arrived(self, peer: Peer, time: int, floor: int | None) -> None:
        """Something stamped came over a link, with what was promised behind it."""

    def onward(self, peer: Peer, time: int) -> int | None:
        """Something stamped goes on over a link: the promise that goes with it; more follow as soon as they can be given."""

    def hear(self, peer: Peer, message: OrderMessage) -> None:
        """Another broker promises something, or asks for a promise."""

    def see(self, time: int) -> None:
        """Somebody has seen this time, or promises it: what is stamped here from now on is later."""

    def reach(self, time: int) -> None:
        """Somebody here has seen so much already: what is stamped from now on is later, wherever it is stamped."""

    def renew(self) -> None:
        """Has everything said and asked once more, in case that something was lost or damaged."""

    def settle(self, held: int) -> Said:
        """What is to be said now that a step is over; `held` is the latest time that is held back here, 0 if nothing is."""
