"""Clients of a real network that write down what they do and are told, as the trace that the specification judges.

Each is the `Session` of production over a socket, without anything in between, and connects again by itself. All run in one
event loop and read one clock, so that the order of the trace is the order in which things happened to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, assert_never

import pyarrow as pa

from sluice.client.places import Places
from sluice.client.session import commands as client
from sluice.client.session.seam import Begun, CaughtUp, Ended, Full, Missed, Replayed
from sluice.client.session.session import Session
from sluice.net.address import Address
from sluice.net.connection import Connection
from sluice.protocol.batch import Batch, Rows
from sluice.protocol.events import LinkDown, LinkUp, Received, Send
from sluice.protocol.messages import EntryId, Kind, Role
from sluice.protocol.questions import Answer, Describe, Described
from sluice.protocol.wire.link import (
    PROTOCOL,
    Anything,
    Bye,
    Channel,
    Credit,
    Dropped,
    Elsewhere,
    Hello,
    Ping,
    Welcome,
)
from sluice.sim.domain import parsed
from sluice.sim.plan import Action, Advertise, Cancel, Publish, Subscribe, Watch
from sluice.sim.trace import trace as said
from tests.patience import PATIENCE_SECONDS

#: More than a test publishes: nobody is slow here.
CREDIT = 1_000_000_000
RETRY_SECONDS = 0.02


class Recorder:
    """The trace, and all clients that write it."""

    def __init__(self) -> None:
        self.trace = said.Trace()
        self.clients: dict[str, Client] = {}
        self._start = time.monotonic()
        self._changed = asyncio.Event()
        self._fences = count(1)
        self._is_over = False

    @property
    def now(self) -> float:
        """The time of the trace."""
        return time.monotonic() - self._start

    def write(self, event: said.TraceEvent) -> None:
        """Something has happened."""
        if not self._is_over:
            self.trace.append(event)

    async def add(self, name: str, broker: str, address: Address, *, moves: bool = False) -> Client:
        """A client that is connected; one that moves goes on where its broker has told it when that one is not there."""
        self.write(said.Attached(self.now, name, broker))
        one = self.clients[name] = Client(self, name, broker, address, moves=moves)
        await self.until(lambda: one.session.broker is not None, f"{name} is connected")
        return one

    async def close(self) -> None:
        """Ends all clients, without a word in the trace: the story is over."""
        self._is_over = True
        for one in self.clients.values():
            await one.close()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Something was told to somebody."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits until something is so."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never: {what}") from None

    async def until_brokers_know(self, names: Iterable[str], at: Iterable[Client]) -> None:
        """Waits until the brokers of these clients know of exactly these brokers."""
        wanted = {*names}
        for one in at:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while {*await one.brokers()} != wanted:
                    await asyncio.sleep(RETRY_SECONDS)

    async def rest(self, *, advertisements: bool) -> None:
        """Waits until everything that was said has had its consequences, and writes that down.

        What a client says last comes last on every link. So a new advertisement and a new subscription that are complete, and a
        publication of each client that has reached all of them, have driven all else before them.
        """
        fence = next(self._fences)
        where = f"fence = {fence}"
        everybody = [*self.clients.values()]
        if advertisements:
            for one in everybody:
                one.advertise(where)
            await self.until(lambda: all(one.is_complete for one in everybody), "all advertisements are complete")
        for one in everybody:
            one.subscribe(where)
        await self.until(lambda: all(one.is_complete for one in everybody), "all subscriptions are complete")
        for one in everybody:
            one.publish([{"fence": fence}])
        wanted = {(one.name, fence) for one in everybody}
        await self.until(lambda: all(one.fences >= wanted for one in everybody), f"everybody has got fence {fence}")
        self.write(said.Quiet(self.now))


class Client:
    """One client, connected whenever its broker is there, or, if it moves, one that its broker knew."""

    def __init__(self, recorder: Recorder, name: str, broker: str, address: Address, *, moves: bool) -> None:
        self.name = name
        self.broker = broker
        self.session = Session(name)
        self.fences: set[tuple[str, int]] = set()
        self._recorder = recorder
        self._places = Places([str(address)], 0.0 if moves else None)
        self._connection: Connection | None = None
        #: Where that is.
        self._place = str(address)
        self._was_lost = False
        #: For each filter of a plan: the id that it has here, and the command that takes it back.
        self._held: dict[int, client.Command] = {}
        self._incomplete: set[tuple[Kind, EntryId]] = set()
        self._published: set[int] = set()
        self._answers: dict[EntryId, asyncio.Future[Answer]] = {}
        self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    # --- the link -----------------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for place in self._places.candidates(loop.time()):
                connection = Connection(on_messages=self._messages, on_lost=self._lost)
                try:
                    await loop.create_connection(lambda connection=connection: connection, *Address.of(place)[:2])  # type: ignore[misc]
                except OSError:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                self._connection, self._place = connection, place
                connection.send(Hello(PROTOCOL, Role.CLIENT, self.name, 1, CREDIT))
                await connection.over.wait()
                break

    def cut(self) -> None:
        """Breaks the connection; it comes back by itself."""
        if self._connection is not None and self.session.broker is not None:
            self._connection.close("the test cuts this link")
            self._lost("the test cuts this link")

    async def close(self) -> None:
        """Ends the client."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.close("the test is over")
            await self._connection.over.wait()

    def _messages(self, messages: list[Anything]) -> None:
        for message in messages:
            match message:
                case Welcome(_, broker, _, accepted, heartbeat_seconds):
                    assert self._connection is not None
                    self._connection.beat(heartbeat_seconds)
                    self._up(broker, accepted)
                case Ping() | Bye():
                    pass
                case Elsewhere(addresses):
                    self._places.told(addresses)
                case Hello() | Credit() | Dropped() | Channel():
                    raise AssertionError(f"{self.name} was told {message}")
                case _:
                    if self.session.broker is not None:
                        self._step(Received(self.session.broker, message))
        self._recorder.changed()

    def _up(self, broker: str, accepted: int | None) -> None:
        if self._was_lost:
            self._recorder.write(said.LinkHealed(self._recorder.now, self.name, self.broker))
        self._places.arrived(self._place)
        if broker != self.broker:
            self.broker = broker
            self._recorder.write(said.Attached(self._recorder.now, self.name, broker))
        # All of it is asked for again over the new link.
        self._incomplete = {(kind, id) for kind, entries in self.session.entries.items() for id in entries}
        self._step(LinkUp(broker, Role.BROKER, accepted))

    def _lost(self, reason: str) -> None:
        if self.session.broker is not None:
            self._was_lost = True
            self._recorder.write(said.LinkLost(self._recorder.now, self.name, self.broker))
            self._places.lost(asyncio.get_running_loop().time())
            self._step(LinkDown(self.session.broker))
            for answer in self._answers.values():
                answer.cancel()
            self._answers.clear()
        self._recorder.changed()

    # --- what it does -------------------------------------------------------------------------------------------------

    def perform(self, action: Action) -> None:
        """Does what a plan says; what only a simulator could do is no part of it."""
        match action:
            case Subscribe(_, ref, where, None):
                self._held[ref] = client.Unsubscribe(self.subscribe(where))
            case Advertise(_, ref, where):
                self._held[ref] = client.Unadvertise(self.advertise(where))
            case Watch(_, ref, where):
                self._held[ref] = client.Unwatch(self._ask(Kind.WATCHES, where))
            case Cancel(_, ref):
                self._take_back(self._held.pop(ref))
            case Publish(_, record):
                self.publish([record])
            case _:
                raise AssertionError(f"no client does this: {action}")

    def subscribe(self, where: str) -> EntryId:
        """Asks for what matches."""
        return self._ask(Kind.SUBSCRIPTIONS, where)

    def advertise(self, where: str) -> EntryId:
        """Says what it will publish."""
        return self._ask(Kind.ADVERTISEMENTS, where)

    def publish(self, records: Sequence[Mapping[str, Any]], *, in_columns: bool = False) -> None:
        """Publishes records together, as Arrow columns if wished."""
        batch: Batch = self.session.batch(records)
        columns = {name: [record.get(name) for record in records] for record in records for name in record}
        if in_columns and columns:
            batch = Rows(self.name, batch.numbers, table=pa.RecordBatch.from_pydict(columns))
        self._step(client.Publish(batch))

    async def settled(self) -> None:
        """Waits until it is known what became of all it published."""
        await self._recorder.until(
            lambda: self.session.settled == self.session.published, f"{self.name} knows what was accepted"
        )

    async def brokers(self) -> list[str]:
        """The brokers that its own broker knows; none if it cannot ask."""
        if self.session.broker is None:
            return []
        id = self.session.new_id()
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        self._step(client.Inquire(id, self.broker, Describe()))
        await asyncio.wait([answer])
        told = None if answer.cancelled() else answer.result()
        return list(told.report["brokers"]) if isinstance(told, Described) else []

    @property
    def is_complete(self) -> bool:
        """Whether all it asks for is complete."""
        return not self._incomplete

    def _ask(self, kind: Kind, where: str) -> EntryId:
        id, filter, now = self.session.new_id(), parsed(where), self._recorder.now
        self._incomplete.add((kind, id))
        match kind:
            case Kind.SUBSCRIPTIONS:
                self._recorder.write(said.Subscribed(now, self.name, id, filter.to_sql()))
                self._step(client.Subscribe(id, filter))
            case Kind.ADVERTISEMENTS:
                self._recorder.write(said.Advertised(now, self.name, id, filter.to_sql()))
                self._step(client.Advertise(id, filter))
            case Kind.WATCHES:
                self._recorder.write(said.Watched(now, self.name, id, filter.to_sql()))
                self._step(client.Watch(id, filter))
            case Kind.INTEREST | Kind.BROKERS:
                raise AssertionError("no client asks for that")
            case _:
                assert_never(kind)
        return id

    def _take_back(self, command: client.Command) -> None:
        now = self._recorder.now
        match command:
            case client.Unsubscribe(id):
                self._incomplete.discard((Kind.SUBSCRIPTIONS, id))
                self._recorder.write(said.Unsubscribed(now, self.name, id))
            case client.Unadvertise(id):
                self._incomplete.discard((Kind.ADVERTISEMENTS, id))
                self._recorder.write(said.Unadvertised(now, self.name, id))
            case client.Unwatch(id):
                self._incomplete.discard((Kind.WATCHES, id))
                self._recorder.write(said.Unwatched(now, self.name, id))
        self._step(command)

    # --- what it is told ----------------------------------------------------------------------------------------------

    def _step(self, event: Any) -> None:
        for answer in self.session.step(event, time.monotonic()):
            if isinstance(answer, Send):
                assert self._connection is not None
                self._connection.send(answer.message)
            else:
                self._told(answer)

    def _told(self, upcall: client.Upcall) -> None:
        now, name = self._recorder.now, self.name
        match upcall:
            case client.Delivered():
                for notification, subscriptions in upcall.deliveries:
                    publisher, number = notification.id
                    self._recorder.write(said.Notified(now, name, publisher, number, subscriptions))
                    if "fence" in notification.record:
                        self.fences.add((publisher, notification.record["fence"]))
            case client.Published(batch):
                for notification in batch:
                    self._published.add(notification.id.number)
                    self._recorder.write(said.Published(now, name, notification.id.number, notification.record))
            case client.Completed(kind, id):
                self._incomplete.discard((kind, id))
                self._recorder.write(said.Completed(now, name, kind.name.lower(), id))
            case client.PublishRefused(id):
                # What a client could not even send was never published.
                if id.number in self._published:
                    self._recorder.write(said.Refused(now, name, id.number))
            case client.InterestChanged(added, removed):
                for entry in removed:
                    self._recorder.write(said.Uninterested(now, name, str(entry.id)))
                for entry in added:
                    self._recorder.write(said.Interested(now, name, str(entry.id), entry.where.to_sql()))
            case client.Told(id, answer):
                waiting = self._answers.pop(id, None)
                if waiting is not None:
                    waiting.set_result(answer)
            case client.Withheld() | Begun() | Replayed() | Ended() | CaughtUp() | Full() | Missed():
                raise AssertionError(f"{name} asked for nothing but what is live and got {upcall}")
            case client.PublishAccepted() | client.PublishUnknown():
                pass
            case _:
                assert_never(upcall)
