"""Bugs in how brokers tell each other what is wanted, and in how notifications find their way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session.session import Session
from sluice.protocol.batch import Batch
from sluice.protocol.export import Export, Replica
from sluice.protocol.messages import Deliver, Kind, Snapshot
from sluice.protocol.route import stages
from sluice.protocol.route.forward import Forwarding
from sluice.protocol.route.policy import Traffic
from sluice.protocol.route.stages import Counted, Loosened, Maximal, Merged, Net
from sluice.protocol.route.table import Relevance, Table
from sluice.sim.mutants.mutant import Patch, mutant


@mutant("routing", "delivers-nothing", "notifications match nobody", canary=True)
def _() -> Patch:
    return Forwarding, "find", lambda original: lambda self, batches: iter([{} for _ in batches])


@mutant("routing", "delivers-twice", "every delivery is sent twice", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def send(self: Broker, peer: str, message: Any) -> None:
            original(self, peer, message)
            if isinstance(message, Deliver):
                original(self, peer, message)

        return send

    return Broker, "_send", make


@mutant("routing", "told-twice", "a client is told of every delivery twice", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            start = len(self._out)
            original(self, message)
            if isinstance(message, Deliver):
                self._out += self._out[start:]

        return receive

    return Session, "_receive", make


@mutant("routing", "uncovered-forgotten", "when a filter goes, those it covered do not surface")
def _() -> Patch:
    def make(original: Any) -> Any:
        def take(self: Maximal, where: Any, net: Net[Any]) -> None:
            if self._above[where] is None:
                del self._above[where]
                self._roots.remove(where)
                net.add(where, -1)
            else:
                original(self, where, net)

        return take

    return Maximal, "_take", make


@mutant("routing", "covered-kept", "a filter stays in the table when one comes that covers it")
def _() -> Patch:
    def make(original: Any) -> Any:
        def place(self: Maximal, where: Any, net: Net[Any]) -> None:
            if self._roots.covering(where):
                original(self, where, net)
                return
            self._roots.add(where, where)
            self._above[where] = None
            net.add(where)

        return place

    return Maximal, "_place", make


@mutant("routing", "twin-removed", "an unsubscription removes an equal filter of somebody else too")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Counted[Any], added: Any, removed: Any) -> Any:
            net: Net[Any] = Net()
            for item in added:
                if item not in self._counts:
                    net.add(item)
                self._counts[item] = 1
            for item in removed:
                if self._counts.pop(item, None) is not None:
                    net.add(item, -1)
            return net.result()

        return update

    return Counted, "update", make


@mutant("routing", "merger-keeps-all", "a merger is not narrowed when one of its parts goes")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Merged, added: Any, removed: Any) -> Any:
            kept = []
            for where in removed:
                key = self._key(where)
                if key is not None and len(self._groups[key].parts) > 1:
                    kept.append(where)
            return original(self, added, [where for where in removed if where not in kept])

        return update

    return Merged, "update", make


@mutant("routing", "merger-loses-part", "a merger of three filters or more leaves out one of them", first=34)
def _() -> Patch:
    def make(original: Any) -> Any:
        def mergers(key: Any, parts: Any, policy: Any) -> Any:
            parts = list(parts)
            return original(key, parts[1:] if len(parts) > 2 else parts, policy)

        return mergers

    return stages, "_mergers", make


@mutant("routing", "gap-narrowed", "closing the gaps of a merger by traffic loses its last interval", first=21)
def _() -> Patch:
    def make(original: Any) -> Any:
        def close_gaps(self: Traffic, name: str, whole: Any, rest: Any) -> Any:
            closed = original(self, name, whole, rest)
            return type(closed)(closed.cuts[:-2]) if len(closed.cuts) > 2 else closed

        return close_gaps

    return Traffic, "close_gaps", make


@mutant(
    "routing",
    "loosened-twin-removed",
    "of two filters that are the same without a side, one takes the other with it",
    first=21,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Loosened, added: Any, removed: Any) -> Any:
            come, go = (list(dict.fromkeys(map(self._loosen, some))) for some in (added, removed))
            counts = self._counted._counts
            fresh = [where for where in come if where not in counts]
            gone = [where for where in go if where in counts]
            counts.update(dict.fromkeys(fresh, 1))
            for where in gone:
                del counts[where]
            return [where for where in fresh if where in counts], [where for where in gone if where not in fresh]

        return update

    return Loosened, "update", make


@mutant("routing", "told-its-own", "a neighbour is told what it told itself")
def _() -> Patch:
    return Table, "update", lambda original: lambda self, source, added, removed: original(self, "", added, removed)


@mutant("routing", "vanished-kept", "the entries of a peer that is gone are still told to the others")
def _() -> Patch:
    def make(original: Any) -> Any:
        def clear(self: Replica) -> Any:
            original(self)
            return [], []

        return clear

    return Replica, "clear", make


@mutant("routing", "newcomer-told-less", "a new neighbour is not told of the first entry")
def _() -> Patch:
    def make(original: Any) -> Any:
        def snapshot(self: Export) -> Snapshot:
            message: Snapshot = original(self)
            return replace(message, entries=message.entries[1:])

        return snapshot

    return Export, "snapshot", make


@mutant("routing", "waiting-forgotten", "a subscription that waits for an advertisement is not sent when it comes")
def _() -> Patch:
    return Relevance, "steer", steer_without_waiting


def steer_without_waiting(original: Any) -> Any:
    def steer(self: Relevance, added: Any, removed: Any) -> Any:
        for steering in added:
            self._steering.add(steering, steering.where)
        return original(self, (), removed)

    return steer


@mutant("routing", "unadvertised-kept", "subscriptions stay where nothing is advertised any more")
def _() -> Patch:
    def make(original: Any) -> Any:
        def steer(self: Relevance, added: Any, removed: Any) -> Any:
            for steering in removed:
                self._steering.remove(steering)
            return original(self, added, ())

        return steer

    return Relevance, "steer", make


@mutant("routing", "refuses-nothing", "everybody may publish everything")
def _() -> Patch:
    return Broker, "_admitted", lambda original: lambda self, client, batch: range(len(batch))


@mutant("routing", "refused-and-sent", "what is refused is sent on all the same")
def _() -> Patch:
    def make(original: Any) -> Any:
        def admitted(self: Broker, client: str, batch: Batch) -> Any:
            original(self, client, batch)
            return range(len(batch))

        return admitted

    return Broker, "_admitted", make


@mutant("routing", "silent-unsubscribe", "a client does not tell its broker that it unsubscribes")
def _() -> Patch:
    def make(original: Any) -> Any:
        def change(self: Session, kind: Kind, added: Any, removed: Any) -> None:
            if added:
                original(self, kind, added, removed)

        return change

    return Session, "_change", make


@mutant("routing", "index-behind", "the index of a broker does not follow new entries")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Forwarding, peer: str, added: Any, removed: Any) -> None:
            if self._index is not None:
                for entry in removed:
                    if (peer, entry) in self._index:
                        self._index.remove((peer, entry))

        return update

    return Forwarding, "update", make


@mutant("routing", "one-subscription-only", "a delivery names only the first of the subscriptions it is for")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            if isinstance(message, Deliver):
                message = replace(message, combinations=tuple(ids[:1] for ids in message.combinations))
            original(self, message)

        return receive

    return Session, "_receive", make
