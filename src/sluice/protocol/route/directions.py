"""Where peers lie: a network is a tree of nodes, and the brokers of a node are interchangeable.

All brokers of a neighbouring node lie in one *direction*: what one of them has told is not told to another, and one of them
gets what is for the node. A broker is linked to the other brokers of its own node too, its *siblings*. Each sibling is a
direction by itself, in which nothing lies but its own clients: that is all they tell each other, and all that passes between
them.

While the tree is reshaped (`sluice.protocol.reshape`) the channels of the chain lie in two *planes*, the old tree and the new
one; all others are sides of both. What a side tells is told in both planes. What is published there enters one of them, the old
one until this broker *flips*, and stays in it. The sides are told of the plane that is entered from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from hashlib import blake2b

from sluice.protocol.batch import Peer
from sluice.protocol.messages import Role

#: The name of a neighbouring node, of a sibling or of a client.
Direction = str


class Plane(Enum):
    """Where a channel lies while the tree is reshaped."""

    SIDE = "side"
    OLD = "old"
    NEW = "new"


class Directions:
    """The peers that a broker has links to, and where each of them lies."""

    __slots__ = ("_by_peer", "_clients", "_concealed", "_entered", "_peers", "_planes", "_siblings", "name", "node")

    def __init__(self, name: Peer, node: str | None = None) -> None:
        self.name = name
        self.node = name if node is None else node
        self._by_peer: dict[Peer, Direction] = {}
        self._peers: dict[Direction, dict[Peer, None]] = {}
        self._siblings: dict[Peer, None] = {}
        self._clients: dict[Peer, None] = {}
        #: Channels that are only held, with the peers that came later and are not told what is held.
        self._concealed: dict[tuple[Peer, Peer], None] = {}
        #: The channels of the chain, while there is one, and the plane that is entered from here.
        self._planes: dict[Peer, Plane] = {}
        self._entered = Plane.OLD

    def linked(self, peer: Peer, role: Role, node: str | None) -> None:
        """A link to a peer works from now on."""
        if role == Role.CLIENT:
            self._clients[peer] = None
        elif node == self.node:
            self._siblings[peer] = None
        direction = peer if node is None or peer in self._siblings else node
        self._by_peer[peer] = direction
        self._peers.setdefault(direction, {})[peer] = None

    def mute(self, peer: Peer) -> None:
        """Nothing goes to a peer any more, though it lies where it lies."""
        direction = self.of(peer)
        self._peers[direction].pop(peer, None)
        if not self._peers[direction]:
            del self._peers[direction]

    def conceal(self, source: Peer, peer: Peer) -> None:
        """What one has told is not told to the other, for as long as both are there."""
        self._concealed[source, peer] = None

    def unlinked(self, peer: Peer) -> None:
        """The link to a peer is gone."""
        direction = self._by_peer.pop(peer)
        self._peers.get(direction, {}).pop(peer, None)
        if not self._peers.get(direction):
            self._peers.pop(direction, None)
        self._siblings.pop(peer, None)
        self._clients.pop(peer, None)
        self._planes.pop(peer, None)
        self._concealed = {pair: None for pair in self._concealed if peer not in pair}

    # --- planes -------------------------------------------------------------------------------------------------------

    def part(self, channels: Iterable[Peer], plane: Plane) -> None:
        """Channels of the chain lie in a plane from now on."""
        for channel in channels:
            self._planes[channel] = self._planes[self.of(channel)] = plane

    def flip(self) -> None:
        """From now on what comes from the sides enters the new plane, and they are told of it."""
        self._entered = Plane.NEW

    def unite(self) -> None:
        """There is one plane again."""
        self._planes.clear()
        self._entered = Plane.OLD

    def plane(self, peer: Peer) -> Plane:
        """The plane of a peer."""
        return self._planes.get(peer, Plane.SIDE)

    def reaches(self, source: Peer, plane: Plane) -> bool:
        """Whether what comes from a peer may ever get into a plane, now or when this broker flips."""
        here = self.plane(source)
        return here == plane or Plane.SIDE in (here, plane)

    def leads(self, source: Peer, peer: Peer) -> bool:
        """Whether what is published at or behind one goes on to the other, by their planes."""
        if not self._planes:
            return True
        here, there = self.plane(source), self.plane(peer)
        if here == Plane.SIDE:
            return there in (Plane.SIDE, self._entered)
        return there in (Plane.SIDE, here)

    def _reports(self, source: Peer, peer: Peer) -> bool:
        """Whether what one has told is told to the other, by their planes."""
        here, there = self.plane(source), self.plane(peer)
        if there == Plane.SIDE:
            return here in (Plane.SIDE, self._entered)
        return here in (Plane.SIDE, there)

    # --- directions ---------------------------------------------------------------------------------------------------

    def of(self, peer: Peer) -> Direction:
        """The direction in which a peer lies."""
        return self._by_peer.get(peer, peer)

    def is_sibling(self, direction: Direction) -> bool:
        """Whether a direction is that of a broker of the same node."""
        return direction in self._siblings

    def brokers(self) -> list[Direction]:
        """The directions of all brokers that there are links to."""
        return [direction for direction in self._peers if direction not in self._clients]

    def tells(self, source: Peer, peer: Peer) -> bool:
        """Whether a peer is told what another one has told; the broker itself is a source, too."""
        if source == self.name:
            return True
        if self.of(source) == self.of(peer) or (self._planes and not self._reports(source, peer)):
            return False
        if self._concealed and (source, peer) in self._concealed:
            return False
        return peer not in self._siblings or source in self._clients

    def differ(self, source: Peer, peer: Peer) -> bool:
        """Whether a question of one may go to the other: it does not lead back, nor from one sibling to the next."""
        return source in self._clients or (self.of(source) != self.of(peer) and source not in self._siblings)

    def passes(self, source: Peer, direction: Direction) -> bool:
        """Whether what came from a peer goes on in a direction: what comes from a sibling is for the clients here."""
        return self.of(source) != direction and source not in self._siblings and self.leads(source, direction)

    def choose(
        self, direction: Direction, stream: Peer, leads_on: Callable[[Peer], bool] = lambda _: True
    ) -> Peer | None:
        """The broker of a direction that gets what is of one stream: the same as long as it is there, so that order is kept.

        One that does not lead on to where it has to go gets it only if none does: it may be back before its own links are.
        """
        peers = self._peers.get(direction, {})
        if len(peers) == 1:
            return next(iter(peers))
        return min(peers, key=lambda peer: (not leads_on(peer), _weight(stream, peer)), default=None)

    def choose_sibling(self, stream: Peer) -> Peer | None:
        """A broker of the same node, which may have a link that this one lacks."""
        return min(self._siblings, key=lambda peer: _weight(stream, peer), default=None)


@lru_cache(maxsize=65_536)
def _weight(stream: Peer, peer: Peer) -> bytes:
    """Each stream prefers brokers in an order of its own, so that the load is spread over them."""
    return blake2b(repr((stream, peer)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
