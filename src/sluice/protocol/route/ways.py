"""Where ways begin that lead to something with a name, as far as peers have told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, EntryId


class Ways:
    """For each name the peers that lead there: the brokers of a node all do."""

    __slots__ = ("_peers",)

    def __init__(self) -> None:
        self._peers: dict[EntryId, dict[Peer, None]] = {}

    def __iter__(self) -> Iterator[EntryId]:
        return iter(self._peers)

    def get(self, id: EntryId, leads: Callable[[Peer], bool] = lambda _: True) -> Peer | None:
        """A peer that leads there, of those that may be taken; None: nobody does."""
        return next(filter(leads, self._peers.get(id, ())), None)

    def add(self, id: EntryId | None, peer: Peer) -> None:
        """A peer leads there from now on."""
        if id is not None:
            self._peers.setdefault(id, {})[peer] = None

    def remove(self, id: EntryId | None, peer: Peer) -> None:
        """A peer leads there no more."""
        if id is not None and id in self._peers:
            self._peers[id].pop(peer, None)
            if not self._peers[id]:
                del self._peers[id]

    def update(self, peer: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Follows what a peer has told."""
        for entry in removed:
            self.remove(entry.id, peer)
        for entry in added:
            self.add(entry.id, peer)

    def clear(self, id: EntryId | None = None) -> None:
        """Forgets all ways, or all that lead there."""
        if id is None:
            self._peers.clear()
        else:
            self._peers.pop(id, None)
