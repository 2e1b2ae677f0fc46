"""Where does a notification go next? The subscription table turned into an index (section 3.3.1).

The index is made when the first notification comes and follows the table from then on: a broker that only plans or repairs its
tables does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.match.filterset import FilterSet
from sluice.protocol.messages import Entry, Peer
from sluice.protocol.route.table import Table


class Forwarding:
    """Finds the entries, and so the peers, that a notification is for."""

    __slots__ = ("_index", "_table")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._index: FilterSet[tuple[Peer, Entry]] | None = None

    def update(self, peer: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Follows a change of a peer's entries."""
        if self._index is not None:
            for entry in removed:
                self._index.remove((peer, entry))
            for entry in added:
                self._index.add((peer, entry), entry.where)

    def reset(self) -> None:
        """Forgets the index; the next notification makes it anew."""
        self._index = None

    def find(self, records: Sequence[object]) -> list[dict[Peer, list[Entry]]]:
        """For each record, the peers it is for and the entries that say so."""
        if self._index is None:
            self._index = FilterSet()
            for peer, entry in self._table.contents():
                self._index.add((peer, entry), entry.where)
        found: list[dict[Peer, list[Entry]]] = []
        for keys in self._index.matching_each(records):
            peers: dict[Peer, list[Entry]] = {}
            for peer, entry in keys:
                peers.setdefault(peer, []).append(entry)
            found.append(peers)
        return found
