"""From when on does a subscriber miss nothing? Acknowledgements that travel back along the tree (Tanner and Mühl), and caching.

A version of a peer's table is acknowledged once every version that had to go onward because of it is. Versions count up, so
a filter that was not sent on because another one covers it waits for the version that carried the other one.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sluice.errors import ConfigurationError
from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import Batch, Notification, NotificationId, Peer
from sluice.protocol.export import Export
from sluice.protocol.messages import Delivery, Entry, EntryId, Version


class Completion:
    """Which versions of one table are still to be acknowledged, and what each of them waits for."""

    __slots__ = ("_owed",)

    def __init__(self) -> None:
        self._owed: dict[Peer, deque[tuple[Version, dict[Peer, int]]]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether anybody is owed an acknowledgement."""
        return bool(self._owed)

    def is_owed(self, peer: Peer) -> bool:
        """Whether a peer is."""
        return peer in self._owed

    def owe(self, peer: Peer, version: Version, exports: Iterable[tuple[Peer, Export]]) -> None:
        """A peer is owed an acknowledgement of a version once what others have been told by now is acknowledged."""
        waits = {other: export.version.sequence for other, export in exports if not export.is_settled}
        self._owed.setdefault(peer, deque()).append((version, waits))

    def await_also(self, peer: Peer, sequence: int, others: Iterable[Peer]) -> None:
        """A new neighbour: what is not yet acknowledged to others waits for it too."""
        for other in others:
            for _, waits in self._owed.get(other, ()):
                waits[peer] = sequence

    def forget(self, peer: Peer) -> None:
        """A peer is gone: it is owed nothing, and nobody waits for it."""
        self._owed.pop(peer, None)
        for owed in self._owed.values():
            for _, waits in owed:
                waits.pop(peer, None)

    def settle(self, exports: dict[Peer, Export]) -> Iterator[tuple[Peer, Version]]:
        """The acknowledgements that are due now, the latest for each peer."""
        for peer in list(self._owed):
            owed = self._owed[peer]
            due: Version | None = None
            while owed and _is_over(owed[0][1], exports):
                due = owed.popleft()[0]
            if not owed:
                del self._owed[peer]
            if due is not None:
                yield peer, due

    def clamp(self, exports: dict[Peer, Export]) -> None:
        """Waits for nothing that was never sent: what damage may have left behind."""
        for owed in self._owed.values():
            for _, waits in owed:
                for other in list(waits):
                    export = exports.get(other)
                    if export is None:
                        del waits[other]
                    else:
                        waits[other] = min(waits[other], export.version.sequence)


def _is_over(waits: dict[Peer, int], exports: dict[Peer, Export]) -> bool:
    """Whether nothing is waited for any more; what has come is crossed off."""
    while waits:
        other, sequence = next(iter(waits.items()))
        export = exports.get(other)
        if export is not None and export.acked < sequence:
            return False
        del waits[other]
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """How much of the recent past a broker keeps.

    With caches a subscriber also gets what was published between its request and its acknowledgement, as long as no broker on
    the way saw more than `notifications` in that time and it took no longer than `seconds`.
    """

    notifications: int = 10_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.notifications < 1 or not self.seconds > 0:
            raise ConfigurationError(
                f"a cache of {self.notifications} notifications for {self.seconds} s keeps nothing: leave it out instead"
            )


class _Kept:
    __slots__ = ("expires", "notification", "reached", "source")

    def __init__(self, notification: Notification, source: Peer, expires: float) -> None:
        self.notification = notification
        self.source = source
        self.expires = expires
        self.reached: dict[Peer | EntryId, None] = {}


class Cache:
    """The notifications that passed recently, and whom each has reached: none goes the same way twice."""

    __slots__ = ("_config", "_kept")

    def __init__(self, config: CacheConfig) -> None:
        self._config = config
        self._kept: OrderedDict[NotificationId, _Kept] = OrderedDict()

    def keep(self, batch: Batch, source: Peer, now: float) -> list[int]:
        """Takes notifications in; returns the rows of those that have not been here before."""
        self._trim(now)
        new: list[int] = []
        for row, notification in enumerate(batch):
            if notification.id not in self._kept:
                self._kept[notification.id] = _Kept(notification, source, now + self._config.seconds)
                new.append(row)
        while len(self._kept) > self._config.notifications:
            self._kept.popitem(last=False)
        return new

    def fresh(self, arrival: Arrival, now: float) -> Arrival | None:
        """Takes in what arrived: what is new of it. What others account for stays whole, as somebody may rely on all of it."""
        if arrival.comes_again or arrival.upward is not None:
            return arrival
        rows = self.keep(arrival.batch, arrival.source, now)
        if arrival.passage is not None:
            return arrival if len(rows) == len(arrival.batch) else arrival._replace(fresh=frozenset(rows))
        return arrival._replace(batch=arrival.batch.whole_or(rows)) if rows else None

    def reached(self, id: NotificationId, whom: Iterable[Peer | EntryId]) -> None:
        """A notification was sent to neighbours, and to these subscriptions of clients."""
        kept = self._kept.get(id)
        if kept is not None:
            kept.reached.update(dict.fromkeys(whom))

    def missed(
        self, direction: str, added: Iterable[Entry], passes: Callable[[Peer], bool], now: float
    ) -> Iterator[Notification]:
        """What would have gone in a direction had its new entries come earlier, in the order in which it passed.

        `passes` says of which peers anything goes there.
        """
        entries = list(added)
        for kept in self._kept_now(now):
            is_new = direction not in kept.reached and passes(kept.source)
            if is_new and any(entry.where.matches(kept.notification.record) for entry in entries):
                kept.reached[direction] = None
                yield kept.notification

    def missed_by_client(self, peer: Peer, added: Iterable[Entry], now: float) -> Iterator[Delivery]:
        """The same for a client, whose subscriptions count one by one: it may just have given up the one it was served for."""
        entries = [(entry.id, entry.where) for entry in added if entry.id is not None]
        for kept in self._kept_now(now):
            if kept.source == peer:
                continue
            new = [id for id, where in entries if id not in kept.reached and where.matches(kept.notification.record)]
            if new:
                kept.reached.update(dict.fromkeys(new))
                yield Delivery(kept.notification, tuple(new))

    def _kept_now(self, now: float) -> Iterator[_Kept]:
        self._trim(now)
        return iter(self._kept.values())

    def clamp(self, now: float) -> None:
        """Keeps nothing for longer than configured, whatever damage may have said."""
        for kept in self._kept.values():
            kept.expires = min(kept.expires, now + self._config.seconds)

    def _trim(self, now: float) -> None:
        while self._kept:
            first = next(iter(self._kept.values()))
            if first.expires > now and not math.isnan(first.expires):
                break
            self._kept.popitem(last=False)
