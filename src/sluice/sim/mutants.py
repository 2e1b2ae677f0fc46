"""Bugs on purpose: each mutant breaks one thing in a core, and the simulator must notice it.

A check that finds no bug proves nothing. A mutant is a patch of one real function for the time of a run. `hunt` runs seeds
until a check fails; the canaries must be caught on nearly every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sluice.broker.broker import Broker
from sluice.client import session as sessions
from sluice.client.session import Session, Taken
from sluice.protocol.batch import Batch, batches_of
from sluice.protocol.complete import Cache, Completion
from sluice.protocol.export import Export, Replica
from sluice.protocol.interest import Demand, Factory
from sluice.protocol.messages import Deliver, Delivery, Kind, Lost, ReplayEvent, Role, Send, Snapshot
from sluice.protocol.route import stages
from sluice.protocol.route.forward import Forwarding
from sluice.protocol.route.stages import Counted, Maximal, Merged, Net
from sluice.protocol.route.table import Relevance, Table
from sluice.sim.scenario import Choices, scenario_named

#: After so many seeds a mutant counts as missed.
SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: which scenario should notice it, what is wrong, and how it is made."""

    name: str
    scenario: str
    says: str
    apply: Callable[[], AbstractContextManager[None]]
    #: A bug so bad that nearly every seed must notice it.
    is_canary: bool = False


@dataclass(frozen=True, slots=True)
class Caught:
    """A mutant was noticed: after how many seeds, and by which check."""

    seeds: int
    check: str


MUTANTS: list[Mutant] = []


def hunt(mutant: Mutant, first: int = 0, seeds: int = SEEDS) -> Caught | None:
    """Runs seeds with a bug in place until one fails; None if none does."""
    scenario = scenario_named(mutant.scenario)
    with mutant.apply():
        for tried in range(seeds):
            outcome = scenario.run(first + tried, Choices())
            if outcome.violations:
                return Caught(tried + 1, outcome.violations[0].check)
    return None


Patch = tuple[object, str, Callable[[Any], Any]]


def _mutant(scenario: str, name: str, says: str, *, canary: bool = False) -> Callable[[Callable[[], Patch]], None]:
    """Registers a bug. The function gives the owner, the name of the function and what is made of the function there."""

    def register(function: Callable[[], Patch]) -> None:
        @contextmanager
        def apply() -> Iterator[None]:
            owner, attribute, make = function()
            original = vars(owner)[attribute]
            setattr(owner, attribute, make(original))
            try:
                yield
            finally:
                setattr(owner, attribute, original)

        MUTANTS.append(Mutant(name, scenario, says, apply, canary))

    return register


# Routing


@_mutant("routing", "delivers-nothing", "notifications match nobody", canary=True)
def _() -> Patch:
    return Forwarding, "find", lambda original: lambda self, batches: iter([{} for _ in batches])


@_mutant("routing", "delivers-twice", "every delivery is sent twice", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def send(self: Broker, peer: str, message: Any) -> None:
            original(self, peer, message)
            if isinstance(message, Deliver):
                original(self, peer, message)

        return send

    return Broker, "_send", make


@_mutant("routing", "told-twice", "a client is told of every delivery twice", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            start = len(self._out)
            original(self, message)
            if isinstance(message, Deliver):
                self._out += self._out[start:]

        return receive

    return Session, "_receive", make


@_mutant("routing", "uncovered-forgotten", "when a filter goes, those it covered do not surface")
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


@_mutant("routing", "covered-kept", "a filter stays in the table when one comes that covers it")
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


@_mutant("routing", "twin-removed", "an unsubscription removes an equal filter of somebody else too")
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


@_mutant("routing", "merger-keeps-all", "a merger is not narrowed when one of its parts goes")
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


@_mutant("routing", "merger-loses-part", "a merger of three filters or more leaves out one of them")
def _() -> Patch:
    def make(original: Any) -> Any:
        def mergers(key: Any, parts: Any, policy: Any) -> Any:
            parts = list(parts)
            return original(key, parts[1:] if len(parts) > 2 else parts, policy)

        return mergers

    return stages, "_mergers", make


@_mutant("routing", "told-its-own", "a neighbour is told what it told itself")
def _() -> Patch:
    return Table, "update", lambda original: lambda self, source, added, removed: original(self, "", added, removed)


@_mutant("routing", "vanished-kept", "the entries of a peer that is gone are still told to the others")
def _() -> Patch:
    def make(original: Any) -> Any:
        def clear(self: Replica) -> Any:
            original(self)
            return [], []

        return clear

    return Replica, "clear", make


@_mutant("routing", "newcomer-told-less", "a new neighbour is not told of the first entry")
def _() -> Patch:
    def make(original: Any) -> Any:
        def snapshot(self: Export) -> Snapshot:
            message: Snapshot = original(self)
            return replace(message, entries=message.entries[1:])

        return snapshot

    return Export, "snapshot", make


@_mutant("routing", "waiting-forgotten", "a subscription that waits for an advertisement is not sent when it comes")
def _() -> Patch:
    return Relevance, "steer", _steer_without_waiting


def _steer_without_waiting(original: Any) -> Any:
    def steer(self: Relevance, added: Any, removed: Any) -> Any:
        for steering in added:
            self._steering.add(steering, steering.where)
        return original(self, (), removed)

    return steer


@_mutant("routing", "unadvertised-kept", "subscriptions stay where nothing is advertised any more")
def _() -> Patch:
    def make(original: Any) -> Any:
        def steer(self: Relevance, added: Any, removed: Any) -> Any:
            for steering in removed:
                self._steering.remove(steering)
            return original(self, added, ())

        return steer

    return Relevance, "steer", make


@_mutant("routing", "refuses-nothing", "everybody may publish everything")
def _() -> Patch:
    return Broker, "_admitted", lambda original: lambda self, client, batch: range(len(batch))


@_mutant("routing", "refused-and-sent", "what is refused is sent on all the same")
def _() -> Patch:
    def make(original: Any) -> Any:
        def admitted(self: Broker, client: str, batch: Batch) -> Any:
            original(self, client, batch)
            return range(len(batch))

        return admitted

    return Broker, "_admitted", make


@_mutant("routing", "silent-unsubscribe", "a client does not tell its broker that it unsubscribes")
def _() -> Patch:
    def make(original: Any) -> Any:
        def change(self: Session, kind: Kind, added: Any, removed: Any) -> None:
            if added:
                original(self, kind, added, removed)

        return change

    return Session, "_change", make


@_mutant("routing", "index-behind", "the index of a broker does not follow new entries")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Forwarding, peer: str, added: Any, removed: Any) -> None:
            if self._index is not None:
                for entry in removed:
                    if (peer, entry) in self._index:
                        self._index.remove((peer, entry))

        return update

    return Forwarding, "update", make


@_mutant("routing", "one-subscription-only", "a delivery names only the first of the subscriptions it is for")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            if isinstance(message, Deliver):
                message = replace(message, combinations=tuple(ids[:1] for ids in message.combinations))
            original(self, message)

        return receive

    return Session, "_receive", make


# Completeness


@_mutant("completeness", "completes-at-once", "a client believes itself that its subscription is complete")
def _() -> Patch:
    def make(original: Any) -> Any:
        def ask(self: Session, kind: Kind, entry: Any) -> None:
            original(self, kind, entry)
            if self._pending[kind].pop(entry.id, None) is not None:
                self._out.append(sessions.Completed(kind, entry.id))

        return ask

    return Session, "_ask", make


@_mutant("completeness", "ack-too-early", "a broker acknowledges what it has not heard back about")
def _() -> Patch:
    return Completion, "owe", lambda original: lambda self, peer, version, exports: original(self, peer, version, ())


@_mutant(
    "completeness",
    "rider-not-waiting",
    "a filter that another one covers does not wait for the other one's acknowledgement",
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


@_mutant("completeness", "acks-forgotten", "when a neighbour goes, nobody is acknowledged any more")
def _() -> Patch:
    def make(original: Any) -> Any:
        def forget(self: Completion, peer: str) -> None:
            original(self, peer)
            self._owed.clear()

        return forget

    return Completion, "forget", make


@_mutant("completeness", "never-acknowledged", "nobody is ever told that anything is complete", canary=True)
def _() -> Patch:
    return Completion, "settle", lambda original: lambda self, exports: iter(())


@_mutant("completeness", "cache-repeats", "a cache forgets whom a notification has reached")
def _() -> Patch:
    return Cache, "reached", lambda original: lambda self, id, peers: None


@_mutant("completeness", "taken-twice", "a client takes again what a cache sends for a newer subscription")
def _() -> Patch:
    return Taken, "new", lambda original: lambda self, batch, rows: rows


@_mutant("completeness", "cache-silent", "a cache never gives anything back")
def _() -> Patch:
    return Cache, "missed", lambda original: lambda self, peer, added, now: iter(())


@_mutant("completeness", "cache-gives-too-much", "a cache gives a subscriber what it did not ask for")
def _() -> Patch:
    def make(original: Any) -> Any:
        def missed(self: Cache, peer: str, added: Any, now: float) -> Any:
            ids = tuple(entry.id for entry in added)
            for kept in self._others(peer, now):
                new = tuple(id for id in ids if id not in kept.reached)
                if new:
                    kept.reached.update(dict.fromkeys(new))
                    yield Delivery(kept.notification, new)

        return missed

    return Cache, "missed_by_client", make


# Interest


@_mutant("interest", "knows-nobody", "watchers are told of nobody", canary=True)
def _() -> Patch:
    return Session, "_tell_interest", lambda original: lambda self, delta: None


@_mutant("interest", "late-watcher", "who watches is not told of those who asked before")
def _() -> Patch:
    return Relevance, "steer", _steer_without_waiting


@_mutant("interest", "interest-stays", "watchers are not told that somebody unsubscribed")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Table, source: str, added: Any, removed: Any) -> Any:
            return original(self, source, added, [] if self.kind == Kind.INTEREST else removed)

        return update

    return Table, "update", make


@_mutant(
    "interest", "interest-survives-link", "a client that lost its link still believes what it was told of interest"
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def tell(self: Session, delta: Any) -> None:
            if self.broker is not None:
                original(self, delta)

        return tell

    return Session, "_tell_interest", make


@_mutant("interest", "replay-for-others", "a replay also counts for another subscription of the client")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            original(self, message)
            if isinstance(message, ReplayEvent):
                others = [id for id in self.entries[Kind.SUBSCRIPTIONS] if id != message.subscription]
                if others:
                    original(self, replace(message, subscription=others[0]))

        return receive

    return Session, "_receive", make


@_mutant("interest", "replay-delivered", "a replay reaches every subscriber as if it were new")
def _() -> Patch:
    def make(original: Any) -> Any:
        def replay(self: Broker, message: ReplayEvent) -> None:
            source = next(peer for peer, role in self.roles.items() if role == Role.BROKER)
            self._publish([(source, batch) for batch in batches_of(message.notifications)])

        return replay

    return Broker, "_replay", make


@_mutant("interest", "demand-stays", "who wants something no more still counts as demand")
def _() -> Patch:
    return Demand, "update", lambda original: lambda self, added, removed: original(self, added, [])


@_mutant("interest", "factory-never-stops", "a factory does not stop what nobody needs any more")
def _() -> Patch:
    return Factory, "update", lambda original: lambda self, added, removed: original(self, added, [])


# Leases


@_mutant("leases", "never-renewed", "a broker does not renew what it told its neighbours", canary=True)
def _() -> Patch:
    return Broker, "_renew", lambda original: lambda self: self._rebuild()


@_mutant("leases", "client-never-renews", "a client does not renew what it asked for")
def _() -> Patch:
    def make(original: Any) -> Any:
        def tick(self: Session) -> None:
            start = len(self._out)
            original(self)
            self._out[start:] = [one for one in self._out[start:] if not isinstance(one, Send)]

        return tick

    return Session, "_tick", make


@_mutant("leases", "digest-believed", "a digest is never compared with what is held")
def _() -> Patch:
    return Replica, "agrees", lambda original: lambda self, message: True


@_mutant("leases", "checksum-ignored", "of a digest only the version is compared")
def _() -> Patch:
    return Replica, "agrees", lambda original: lambda self, message: self.version == message.version


@_mutant("leases", "nothing-worked-out-anew", "what is derived from the tables is never worked out anew")
def _() -> Patch:
    return Broker, "_rebuild", lambda original: lambda self: None


@_mutant("leases", "lost-unanswered", "a broker does not answer when somebody has lost what it told")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Broker, peer: str, message: Any) -> None:
            if not isinstance(message, Lost):
                original(self, peer, message)

        return receive

    return Broker, "_receive", make


@_mutant("leases", "never-expires", "what is not renewed is kept for ever")
def _() -> Patch:
    def make(original: Any) -> Any:
        def tick(self: Broker) -> None:
            for _, _, replica in self._replicas():
                replica.renewed = self._now
            original(self)

        return tick

    return Broker, "_tick", make
