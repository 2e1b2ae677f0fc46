"""Bugs in acknowledgements, and in what caches give back."""

from __future__ import annotations

from typing import Any

from sluice.client.session.commands import Completed
from sluice.client.session.session import Session
from sluice.client.session.taken import Taken
from sluice.protocol.complete import Cache, Completion
from sluice.protocol.messages import Delivery, Kind
from sluice.sim.mutants.mutant import Patch, mutant


@mutant("completeness", "completes-at-once", "a client believes itself that its subscription is complete")
def _() -> Patch:
    def make(original: Any) -> Any:
        def ask(self: Session, kind: Kind, entry: Any) -> None:
            original(self, kind, entry)
            if self._pending[kind].pop(entry.id, None) is not None:
                self._out.append(Completed(kind, entry.id))

        return ask

    return Session, "_ask", make


@mutant("completeness", "ack-too-early", "a broker acknowledges what it has not heard back about", first=6)
def _() -> Patch:
    return Completion, "owe", lambda original: lambda self, peer, version, exports: original(self, peer, version, ())


@mutant(
    "completeness",
    "rider-not-waiting",
    "a filter that another one covers does not wait for the other one's acknowledgement",
    first=12,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        seen: dict[int, tuple[Completion, dict[str, int]]] = {}

        def owe(self: Completion, peer: str, version: Any, exports: Any) -> None:
            exports = list(exports)
            _, before = seen.get(id(self), (self, {}))
            news = [(other, export) for other, export in exports if export.version.sequence != before.get(other)]
            seen[id(self)] = self, {other: export.version.sequence for other, export in exports}
            original(self, peer, version, news)

        return owe

    return Completion, "owe", make


@mutant("completeness", "acks-forgotten", "when a neighbour goes, nobody is acknowledged any more")
def _() -> Patch:
    def make(original: Any) -> Any:
        def forget(self: Completion, peer: str) -> None:
            original(self, peer)
            self._owed.clear()

        return forget

    return Completion, "forget", make


@mutant("completeness", "never-acknowledged", "nobody is ever told that anything is complete", canary=True)
def _() -> Patch:
    return Completion, "settle", lambda original: lambda self, exports: iter(())


@mutant("completeness", "cache-repeats", "a cache forgets whom a notification has reached")
def _() -> Patch:
    return Cache, "reached", lambda original: lambda self, id, peers: None


@mutant("completeness", "taken-twice", "a client takes again what a cache sends for a newer subscription")
def _() -> Patch:
    return Taken, "new", lambda original: lambda self, batch, rows: rows


@mutant("completeness", "cache-silent", "a cache never gives anything back", first=5)
def _() -> Patch:
    return Cache, "missed", lambda original: lambda self, direction, added, passes, now: iter(())


@mutant("completeness", "cache-gives-too-much", "a cache gives a subscriber what it did not ask for")
def _() -> Patch:
    def make(original: Any) -> Any:
        def missed(self: Cache, peer: str, added: Any, now: float) -> Any:
            ids = tuple(entry.id for entry in added)
            for kept in self._kept_now(now):
                new = tuple(id for id in ids if id not in kept.reached)
                if new:
                    kept.reached.update(dict.fromkeys(new))
                    yield Delivery(kept.notification, new)

        return missed

    return Cache, "missed_by_client", make
