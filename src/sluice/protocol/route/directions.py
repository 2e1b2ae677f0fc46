"""Where peers lie: a network is a tree of nodes, and the brokers of a node are interchangeable.

All brokers of a neighbouring node lie in one *direction*: what one of them has told is not told to another, and one of them
gets what is for the node. A broker is linked to the other brokers of its own node too, its *siblings*. Each sibling is a
direction by itself, in which nothing lies but its own clients: that is all they tell each other, and all that passes between
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

from sluice.protocol.batch import Peer
from sluice.protocol.messages import Role

#: The name of a neighbouring node, of a sibling or of a client.
Direction = str


class Directions:
    """The peers that a broker has links to, and where each of them lies."""

    __slots__ = ("_by_peer", "_clients", "_peers", "_siblings", "name", "node")

    def __init__(self, name: Peer, node: str | None = None) -> None:
        self.name = name
        self.node = name if node is None else node
        self._by_peer: dict[Peer, Direction] = {}
        self._peers: dict[Direction, dict[Peer, None]] = {}
        self._siblings: dict[Peer, None] = {}
        self._clients: dict[Peer, None] = {}

    def linked(self, peer: Peer, role: Role, node: str | None) -> None:
        """A link to a peer works from now on."""
        if role == Role.CLIENT:
            self._clients[peer] = None
        elif node == self.node:
            self._siblings[peer] = None
        direction = peer if node is None or peer in self._siblings else node
        self._by_peer[peer] = direction
        self._peers.setdefault(direction, {})[peer] = None

    def unlinked(self, peer: Peer) -> None:
        """The link to a peer is gone."""
        direction = self._by_peer.pop(peer)
        del self._peers[direction][peer]
        if not self._peers[direction]:
            del self._peers[direction]
        self._siblings.pop(peer, None)
        self._clients.pop(peer, None)

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
        if self.of(source) == self.of(peer):
            return False
        return peer not in self._siblings or source in self._clients

    def passes(self, source: Peer, direction: Direction) -> bool:
        """Whether what came from a peer goes on in a direction: what comes from a sibling is for the clients here."""
        return self.of(source) != direction and source not in self._siblings

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
