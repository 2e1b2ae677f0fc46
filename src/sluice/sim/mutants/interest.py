"""Bugs in what watchers are told, and in what replays reach."""

from __future__ import annotations

from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session.seam import Replayed
from sluice.client.session.session import Session
from sluice.protocol.arrival import Arrival
from sluice.protocol.interest import Demand, Factory
from sluice.protocol.messages import Kind, Request, Role
from sluice.protocol.questions import ReplayEvent
from sluice.protocol.route.table import Relevance, Table
from sluice.sim.mutants.mutant import Patch, mutant
from sluice.sim.mutants.routing import steer_without_waiting


@mutant("interest", "knows-nobody", "watchers are told of nobody", canary=True)
def _() -> Patch:
    return Session, "_tell_interest", lambda original: lambda self, delta: None


@mutant("interest", "late-watcher", "who watches is not told of those who asked before")
def _() -> Patch:
    return Relevance, "steer", steer_without_waiting


@mutant("interest", "interest-stays", "watchers are not told that somebody unsubscribed")
def _() -> Patch:
    def make(original: Any) -> Any:
        def update(self: Table, source: str, added: Any, removed: Any) -> Any:
            return original(self, source, added, [] if self.kind == Kind.INTEREST else removed)

        return update

    return Table, "update", make


@mutant("interest", "interest-survives-link", "a client that lost its link still believes what it was told of interest")
def _() -> Patch:
    def make(original: Any) -> Any:
        def tell(self: Session, delta: Any) -> None:
            if self.broker is not None:
                original(self, delta)

        return tell

    return Session, "_tell_interest", make


@mutant("interest", "replay-for-others", "a replay also counts for another subscription of the client")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            original(self, message)
            if isinstance(message, Request) and isinstance(message.question, ReplayEvent):
                for id in self.entries[Kind.SUBSCRIPTIONS]:
                    self._out += [Replayed(id, batch) for batch in message.question.batches if id != message.to]

        return receive

    return Session, "_receive", make


@mutant("interest", "replay-delivered", "a replay reaches every subscriber as if it were new")
def _() -> Patch:
    def make(original: Any) -> Any:
        def ask(self: Broker, peer: str, request: Request) -> None:
            if isinstance(request.question, ReplayEvent):
                source = next(peer for peer, role in self.roles.items() if role == Role.BROKER)
                self._publish([Arrival(source, batch) for batch in request.question.batches])
            else:
                original(self, peer, request)

        return ask

    return Broker, "_ask", make


@mutant("interest", "demand-stays", "who wants something no more still counts as demand")
def _() -> Patch:
    return Demand, "update", lambda original: lambda self, added, removed: original(self, added, [])


@mutant("interest", "factory-never-stops", "a factory does not stop what nobody needs any more")
def _() -> Patch:
    return Factory, "update", lambda original: lambda self, added, removed: original(self, added, [])
