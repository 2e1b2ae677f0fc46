"""One peer's table as another peer holds it: a set of entries with a version, kept equal by changes on an exact base.

With the entries come *clocks* that say up to which time of their brokers the reliable subscriptions behind the sender are all
covered by the entries, and whether anybody there wants order; all change together or not at all.

`Export` is the sender's half, `Replica` the receiver's. A change that does not fit, a lost or repeated message, a restart, a
reconnect and silent damage all end the same way: the receiver says `Lost`, the sender answers with a `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from sluice.protocol.messages import NO_CLOCKS, Change, Clocks, Digest, Entry, Kind, Snapshot, Version

#: What a step adds to a table and takes from it; no entry is in both.
Delta = tuple[list[Entry], list[Entry]]


class Export:
    """What a peer tells another about one of its tables."""

    __slots__ = ("acked", "clocks", "kind", "ordered", "sent", "version")

    def __init__(self, kind: Kind, version: Version) -> None:
        self.kind = kind
        self.version = version
        self.sent: dict[Entry, None] = {}
        self.clocks: Clocks = {}
        self.ordered = False
        #: The last sequence number that the receiver has acknowledged.
        self.acked = -1

    def change(
        self, added: Iterable[Entry], removed: Iterable[Entry], clocks: Clocks = NO_CLOCKS, ordered: bool = False
    ) -> Change | None:
        """The message that makes the receiver's copy follow, or None if nothing changes."""
        added, removed = tuple(added), tuple(removed)
        later = moved(self.clocks, clocks)
        if not added and not removed and not later and ordered == self.ordered:
            return None
        for entry in removed:
            self.sent.pop(entry, None)
        for entry in added:
            self.sent[entry] = None
        self.clocks, self.ordered = dict(clocks), ordered
        base = self.version
        self.version = Version(base.incarnation, base.sequence + 1)
        return Change(self.kind, base, self.version, added, removed, later, ordered)

    def snapshot(self) -> Snapshot:
        """The whole export."""
        return Snapshot(self.kind, self.version, tuple(self.sent), self.clocks, self.ordered)

    def since(self, base: Export) -> Change:
        """The whole export, as a change of another one that the receiver holds."""
        added = tuple(entry for entry in self.sent if entry not in base.sent)
        removed = tuple(entry for entry in base.sent if entry not in self.sent)
        clocks = moved(base.clocks, self.clocks)
        return Change(self.kind, base.version, self.version, added, removed, clocks, self.ordered)

    def digest(self) -> Digest:
        """Where the export stands."""
        return Digest(self.kind, self.version, checksum(self.sent, self.clocks, self.ordered))

    def acknowledge(self, version: Version) -> None:
        """Takes note that the receiver, and all that lies behind it, has a version."""
        if version.incarnation == self.version.incarnation:
            self.acked = max(self.acked, min(version.sequence, self.version.sequence))

    @property
    def is_settled(self) -> bool:
        """Whether all that was sent is acknowledged."""
        return self.acked >= self.version.sequence


class Replica:
    """What a peer holds of another peer's table."""

    __slots__ = ("asked", "clocks", "entries", "ordered", "renewed", "version")

    def __init__(self, now: float) -> None:
        self.entries: dict[Entry, None] = {}
        self.clocks: Clocks = {}
        self.ordered = False
        self.version: Version | None = None
        #: Whether a snapshot has been asked for and not yet come.
        self.asked = False
        #: When the sender last said that this is what it has.
        self.renewed = now

    def change(self, message: Change) -> Delta | None:
        """Takes a change over; None, and nothing taken, if it does not fit on what is held."""
        fits = (
            self.version == message.base
            and all(entry in self.entries for entry in message.removed)
            and not any(entry in self.entries for entry in message.added)
        )
        if not fits:
            return None
        for entry in message.removed:
            del self.entries[entry]
        for entry in message.added:
            self.entries[entry] = None
        if message.clocks:
            self.clocks = {name: time for name, time in {**self.clocks, **message.clocks}.items() if time}
        self.version, self.ordered = message.version, message.ordered
        return list(message.added), list(message.removed)

    def snapshot(self, message: Snapshot) -> Delta:
        """Takes a whole export over."""
        new = dict.fromkeys(message.entries)
        added = [entry for entry in new if entry not in self.entries]
        removed = [entry for entry in self.entries if entry not in new]
        self.entries, self.version, self.asked = new, message.version, False
        self.clocks, self.ordered = dict(message.clocks), message.ordered
        return added, removed

    def copy(self, other: Replica) -> None:
        """Begins with what another one holds."""
        self.entries, self.version = dict(other.entries), other.version
        self.clocks, self.ordered = dict(other.clocks), other.ordered

    def agrees(self, message: Digest) -> bool:
        """Whether this is what the sender says it has sent."""
        return self.version == message.version and self.checksum == message.checksum

    @property
    def checksum(self) -> int:
        """What it adds up to."""
        return checksum(self.entries, self.clocks, self.ordered)

    @property
    def tags(self) -> tuple[Clocks, bool]:
        """What is said with the entries."""
        return self.clocks, self.ordered

    def clear(self) -> Delta:
        """Gives everything up."""
        removed = list(self.entries)
        self.entries, self.version, self.asked = {}, None, False
        self.clocks, self.ordered = {}, False
        return [], removed


def moved(before: Clocks, after: Clocks) -> Clocks:
    """The clocks that are others now; 0: there is none any more."""
    later = {name: time for name, time in after.items() if before.get(name) != time}
    return {**later, **{name: 0 for name in before if name not in after}}


def checksum(entries: Iterable[Entry], clocks: Clocks = NO_CLOCKS, ordered: bool = False) -> int:
    """A number that differs if the entries or the clocks do, whatever their order, or the wish for order."""
    return (sum(map(_fingerprint, entries)) + sum(map(_hashed, clocks.items())) + ordered) & 0xFFFF_FFFF_FFFF_FFFF


@lru_cache(maxsize=65_536)
def _fingerprint(entry: Entry) -> int:
    replay = entry.replay and (entry.replay.last, entry.replay.seconds)
    return _hashed((entry.where.to_sql(), entry.id, replay, entry.reliable, entry.ordered))


def _hashed(said: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
