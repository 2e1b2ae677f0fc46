"""Brokers in this process and those who talk to them: guests that keep to the protocol, and raw connections that need not.

Everything goes over real sockets on ports that the kernel picks. Tests wait for conditions: `until` looks again and again, and
fails only when something did not happen for a very long time.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from sluice import parse
from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.client.session.commands import Command as SessionCommand
from sluice.client.session.commands import (
    Completed,
    Delivered,
    Inquire,
    Publish,
    PublishAccepted,
    Subscribe,
    Told,
    Upcall,
)
from sluice.client.session.session import Session
from sluice.net.address import Address
from sluice.net.connection import Connection
from sluice.protocol.batch import Batch
from sluice.protocol.events import LinkDown, LinkUp, Received, Send
from sluice.protocol.messages import Role
from sluice.protocol.questions import Answer, Question
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import FrameReader
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
    Policy,
    Welcome,
)
from tests.patience import PATIENCE_SECONDS

T = TypeVar("T")
P = ParamSpec("P")

#: As much as anybody wants.
ENOUGH = 1 << 40


def played(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs a test in an event loop; what goes wrong in a callback, where nobody waits for it, fails the test too."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: unheard.append(context))
            await test(*args, **kwargs)

        unheard: list[dict[str, Any]] = []
        asyncio.run(main())
        assert not unheard

    return run


async def until(condition: Callable[[], T | None], patience_seconds: float = PATIENCE_SECONDS) -> T:
    """Waits until something is true, and returns it."""
    end = time.monotonic() + patience_seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def running(name: str = "b", **settings: Any) -> AsyncIterator[Server]:
    """A broker, as long as the block lasts; at the end nothing must have failed inside it."""
    server = Server(ServerConfig(name=name, **{"listen": "127.0.0.1:0", **settings}))
    await server.start()
    life = asyncio.ensure_future(server.serve_forever())
    try:
        yield server
    finally:
        await server.stop()
        await life


class Listening(Protocol):
    """A broker, in this process or another."""

    address: Address


class Guest:
    """A client that keeps to the protocol: the session of a real one and little around it."""

    def __init__(self, name: str, session: Session | None = None) -> None:
        self.name = name
        self.session = session or Session(name)
        self.news: list[Upcall] = []
        self.dropped = 0
        self.byes: list[Bye] = []
        self.elsewhere: tuple[str, ...] = ()
        self.pings = 0
        self.lost: str | None = None
        self.connection: Connection
        self._numbers = itertools.count(1)

    @classmethod
    async def of(cls, server: Listening, name: str, credit: int = ENOUGH, policy: Policy = Policy.DROP_OLDEST) -> Guest:
        """A guest at a broker."""
        guest = cls(name)
        await guest.connect(server, credit, policy)
        return guest

    async def connect(self, server: Listening, credit: int = ENOUGH, policy: Policy = Policy.DROP_OLDEST) -> None:
        """Connects, or connects again; returns when the broker has said welcome."""
        self.lost = None
        self.connection = Connection(on_messages=self._came, on_lost=self._gone)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.connection, server.address.host, server.address.port)
        self.connection.send(Hello(PROTOCOL, Role.CLIENT, self.name, 1, credit, policy))
        await until(lambda: self.session.broker or self.lost)

    def _came(self, messages: list[Anything]) -> None:
        for message in messages:
            match message:
                case Welcome(name=name, accepted=accepted, heartbeat_seconds=heartbeat_seconds):
                    self.connection.beat(heartbeat_seconds)
                    self.step(LinkUp(name, Role.BROKER, accepted))
                case Bye():
                    self.byes.append(message)
                case Dropped(count):
                    self.dropped += count
                case Ping():
                    self.pings += 1
                case Elsewhere(addresses):
                    self.elsewhere = addresses
                case Hello() | Credit() | Channel():
                    raise AssertionError(f"a broker said {message}")
                case _:
                    self.step(Received(self.session.broker or "", message))

    def _gone(self, reason: str) -> None:
        self.lost = reason
        if self.session.broker is not None:
            self.step(LinkDown(self.session.broker))

    def step(self, event: SessionCommand | LinkUp | LinkDown | Received) -> None:
        """Has the session take something in, and does what it says."""
        for effect in self.session.step(event, time.monotonic()):
            if isinstance(effect, Send):
                self.connection.send(effect.message)
            else:
                self.news.append(effect)

    def id(self) -> str:
        return f"{self.name}/{next(self._numbers)}"

    async def subscribe(self, where: str) -> str:
        """Subscribes; returns when nothing is missed any more."""
        id = self.id()
        self.step(Subscribe(id, parse(where)))
        await until(lambda: any(isinstance(one, Completed) and one.id == id for one in self.news))
        return id

    def publish(self, records: Iterable[object] | Batch) -> int:
        """Publishes records; returns the number of the last."""
        self.step(Publish(records if isinstance(records, Batch) else self.session.batch(records)))
        return self.session.published

    @property
    def accepted(self) -> int:
        """The last number that the broker has accepted."""
        return max((one.number for one in self.news if isinstance(one, PublishAccepted)), default=0)

    async def published(self, records: Iterable[object] | Batch) -> None:
        """Publishes records; returns when they are accepted."""
        last = self.publish(records)
        await until(lambda: self.accepted >= last)

    @property
    def batches(self) -> list[Batch]:
        """What was delivered."""
        return [one.batch for one in self.news if isinstance(one, Delivered)]

    @property
    def got(self) -> list[int]:
        """The `n` of all records that were delivered, in order."""
        return [record["n"] for batch in self.batches for record in batch.records]

    async def ask(self, to: str, question: Question) -> Answer:
        """Asks a broker and waits for the answer."""
        return await self.answer(self.inquire(to, question))

    def inquire(self, to: str, question: Question) -> str:
        """Asks without waiting; returns the id of the question."""
        id = self.id()
        self.step(Inquire(id, to, question))
        return id

    async def answer(self, id: str) -> Answer:
        """The answer to a question."""
        return await until(
            lambda: next((one.answer for one in self.news if isinstance(one, Told) and one.id == id), None)
        )

    def grant(self, total: int) -> None:
        """Says how many notifications may be sent, from the beginning of the connection."""
        self.connection.send(Credit(total))

    async def leave(self) -> None:
        """Ends the connection."""
        self.connection.close("enough")
        await self.connection.over.wait()


class Raw:
    """A connection that says whatever it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(1 << 30)
        self.came: list[Anything] = []
        self._looked = 0

    @classmethod
    async def to(cls, server: Listening) -> Raw:
        """A connection to a broker on which nothing is said yet."""
        return cls(*await asyncio.open_connection(server.address.host, server.address.port))

    @classmethod
    async def client(cls, server: Listening, name: str, **hello: Any) -> Raw:
        """A connection on which a client has said hello and is welcome."""
        raw = await cls.to(server)
        raw.say(Hello(PROTOCOL, Role.CLIENT, name, 1, **hello))
        await raw.hear(Welcome)
        return raw

    @classmethod
    async def broker(cls, server: Listening, name: str, node: str | None = None) -> Raw:
        """The same for a broker."""
        raw = await cls.to(server)
        raw.say(Hello(PROTOCOL, Role.BROKER, name, 1, node=node))
        await raw.hear(Welcome)
        return raw

    def say(self, *said: Anything | bytes) -> None:
        """Sends messages, or bytes that may be none."""
        for one in said:
            self._writer.write(one if isinstance(one, bytes) else b"".join(encode(one)))

    async def hear(self, kind: type[T]) -> T:
        """The next message of a kind; others are passed over."""
        while True:
            for message in self.came[self._looked :]:
                self._looked += 1
                if isinstance(message, kind):
                    return message
            assert await self._read(), f"the connection ended, and no {kind.__name__} had come"

    async def _read(self) -> bool:
        try:
            data = await asyncio.wait_for(self._reader.read(1 << 20), PATIENCE_SECONDS)
        except ConnectionError:
            data = b""
        self.came += [decode(type, payload) for type, payload in self._frames.feed(data)]
        return bool(data)

    async def end(self) -> Bye | None:
        """Reads to the end of the connection; the last word of the other side, if it said goodbye."""
        while await self._read():
            pass
        await self.close()
        last = self.came[-1] if self.came else None
        return last if isinstance(last, Bye) else None

    def stop_saying(self) -> None:
        """Nothing more will be said; what comes can still be heard."""
        self._writer.write_eof()

    async def close(self) -> None:
        """Ends the connection without a word."""
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Bystanders:
    """A publisher and a subscriber that mind their own business: whatever others do, they lose nothing."""

    def __init__(self, publisher: Guest, subscriber: Guest) -> None:
        self.publisher = publisher
        self.subscriber = subscriber
        self._task = asyncio.ensure_future(self._publish())
        self._enough = False

    async def _publish(self) -> None:
        number = 0
        while not self._enough:
            await self.publisher.published([{"bystander": True, "n": number}])
            number += 1
            await asyncio.sleep(0.001)

    async def undisturbed(self) -> int:
        """Ends it: everything that was published has come, once, in order. Returns how much that was."""
        self._enough = True
        await self._task
        assert not self.publisher.byes and not self.subscriber.byes
        count = self.publisher.session.published
        await until(lambda: len(self.subscriber.got) >= count)
        assert self.subscriber.got == [*range(count)]
        await self.publisher.leave()
        await self.subscriber.leave()
        return count


@asynccontextmanager
async def bystanders(at: Server, and_at: Server | None = None) -> AsyncIterator[Bystanders]:
    """Bystanders who talk to each other while the block lasts, and have lost nothing at its end."""
    subscriber = await Guest.of(and_at or at, "bystanding-subscriber")
    await subscriber.subscribe("bystander")
    pair = Bystanders(await Guest.of(at, "bystanding-publisher"), subscriber)
    yield pair
    assert await pair.undisturbed()


def directory(path: Path, name: str) -> dict[str, Any]:
    """Settings of a durable broker that need not survive a power cut."""
    return {"name": name, "data": path / name, "fsync": False}
