"""Bugs in what becomes of publications that are stored first, and in how logs are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session.session import Session
from sluice.protocol import stream as stream_module
from sluice.protocol.batch import Batch, Logged
from sluice.protocol.events import NotStored, Store
from sluice.protocol.intake import Intake
from sluice.protocol.messages import Accepted, Halted, Notify, Request
from sluice.protocol.questions import Fetch, Fetched
from sluice.protocol.request import Requests
from sluice.protocol.stream import Stream
from sluice.sim.mutants.mutant import Patch, mutant


@mutant("streams", "forwards-first", "a durable broker forwards before it has stored", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def taken_in(self: Broker, event: Any) -> Any:
            taken = original(self, event)
            if taken is None and isinstance(getattr(event, "message", None), Notify) and event.peer in self.roles:
                return event.peer, event.message.batch
            return taken

        return taken_in

    return Broker, "_taken_in", make


@mutant("streams", "accepts-first", "a durable broker accepts before it has stored", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def taken_in(self: Broker, event: Any) -> Any:
            start = len(self._out.all)
            taken = original(self, event)
            for effect in self._out.all[start:]:
                if isinstance(effect, Store):
                    self._send(effect.batch.publisher, Accepted(effect.batch.numbers[-1]))
            return taken

        return taken_in

    return Broker, "_taken_in", make


@mutant("streams", "takes-twice", "what comes again is stored again")
def _() -> Patch:
    def make(original: Any) -> Any:
        def take(self: Intake, batch: Batch) -> Any:
            last = self._taken.get(batch.publisher, 0)
            self._under_way[batch.publisher] += 1
            return batch, last

        return take

    return Intake, "take", make


@mutant("streams", "forgets-at-restart", "a broker that restarts does not know how far its publishers were")
def _() -> Patch:
    return (
        Broker,
        "__init__",
        lambda original: (
            lambda self, name, config, incarnation=1, accepted=None, **more: original(
                self, name, config, incarnation, **more
            )
        ),
    )


@mutant("streams", "failure-accepted", "a publisher is told that what could not be stored is accepted")
def _() -> Patch:
    def make(original: Any) -> Any:
        def send(self: Broker, peer: str, message: Any) -> None:
            original(self, peer, Accepted(1 << 60) if isinstance(message, Halted) else message)

        return send

    return Broker, "_send", make


@mutant("streams", "failure-untold", "a publisher is not told that something could not be stored")
def _() -> Patch:
    def make(original: Any) -> Any:
        def handle(self: Broker, event: Any) -> None:
            if isinstance(event, NotStored):
                self.intake.failed(event.batch, event.accepted)
            else:
                original(self, event)

        return handle

    return Broker, "_handle", make


@mutant("streams", "never-halts", "what follows a failure is taken before the publisher has heard of the failure")
def _() -> Patch:
    return Intake, "halt", lambda original: lambda self, publisher: None


@mutant("streams", "never-heard", "a publisher does not say that it has heard of a failure")
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Session, message: Any) -> None:
            start = len(self._out)
            original(self, message)
            if isinstance(message, Halted):
                self._out[start:] = [one for one in self._out[start:] if not hasattr(one, "peer")]

        return receive

    return Session, "_receive", make


@mutant("streams", "not-sent-again", "a client does not send again what was not accepted when its link broke")
def _() -> Patch:
    def make(original: Any) -> Any:
        def link_up(self: Session, broker: str, accepted: int | None) -> None:
            self._unaccepted.clear()
            original(self, broker, accepted)

        return link_up

    return Session, "_link_up", make


@mutant("streams", "unlogged-settles", "what was stored while its publisher was away is not settled")
def _() -> Patch:
    def make(original: Any) -> Any:
        def stored(self: Intake, batch: Batch) -> int:
            before = self.settled(batch.publisher)
            original(self, batch)
            self._settled[batch.publisher] = before
            return before

        return stored

    return Intake, "stored", make


@mutant("streams", "looked-too-far", "a page says that it has looked further than it has")
def _() -> Patch:
    def make(original: Any) -> Any:
        def fetch(self: Stream, question: Fetch, where: Any, first: int, head: int) -> Fetched:
            found: Fetched = original(self, question, where, first, head)
            return replace(found, through=head)

        return fetch

    return Stream, "fetch", make


@mutant("streams", "looked-again", "a page begins with the last offset of the page before")
def _() -> Patch:
    def make(original: Any) -> Any:
        def fetch(self: Stream, question: Fetch, where: Any, first: int, head: int) -> Fetched:
            found: Fetched = original(self, question, where, first, head)
            if found.batches and question.after:
                again = replace(question, after=question.after - 1)
                found = replace(original(self, again, where, first, head), through=found.through)
            return found

        return fetch

    return Stream, "fetch", make


@mutant("streams", "gone-untold", "a reader is not told what is past its retention")
def _() -> Patch:
    def make(original: Any) -> Any:
        def fetch(self: Stream, question: Fetch, where: Any, first: int, head: int) -> Fetched:
            found: Fetched = original(self, question, where, first, head)
            return replace(found, missing=())

        return fetch

    return Stream, "fetch", make


@mutant("streams", "trims-what-is-held", "a log is trimmed as if nobody held it")
def _() -> Patch:
    return stream_module, "keep_from", lambda original: lambda read: None


@mutant("streams", "trims-one-too-many", "the first publication that somebody holds is trimmed")
def _() -> Patch:
    def make(original: Any) -> Any:
        def keep_from(read: Any) -> int | None:
            kept: int | None = original(read)
            return None if kept is None else kept + 1

        return keep_from

    return stream_module, "keep_from", make


@mutant("streams", "offsets-shifted", "of a batch that matches in part the first offsets are told", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def take(self: Logged, rows: Any) -> Logged:
            return Logged(self.stream, self.offsets[: len(rows)], self.time_micros)

        return take

    return Logged, "take", make


@mutant("streams", "wrong-asker", "an answer goes to somebody else who has asked")
def _() -> Patch:
    def make(original: Any) -> Any:
        def answer(self: Requests, id: str) -> str | None:
            asker: str | None = original(self, id)
            return next((other for other, _ in self._open.values()), asker)

        return answer

    return Requests, "answer", make


@mutant("streams", "broken-way-untold", "who asked over a way that broke is not told so")
def _() -> Patch:
    def make(original: Any) -> Any:
        def forget(self: Requests, peer: str) -> Any:
            for _ in original(self, peer):
                pass
            return iter(())

        return forget

    return Requests, "forget", make


@mutant("streams", "question-lost", "a broker does not pass a question on", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def send(self: Broker, peer: str, message: Any) -> None:
            if not isinstance(message, Request):
                original(self, peer, message)

        return send

    return Broker, "_send", make
