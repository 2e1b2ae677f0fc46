"""One measurement of one contestant: its broker and its clients stand ready, an order goes out, and the figures come back.

A contestant is set up once for a scenario and measured several times, in turn with the others, so that whatever else the
machine does meets all of them alike.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.brokers.client import PERCENTILES, Order
from bench.brokers.figures import Trial
from bench.brokers.records import expected
from bench.brokers.server import SOURCES, Server, all_cpu_seconds
from bench.match import ROOT

#: To connect and subscribe; ten thousand bindings take a while.
SETUP_SECONDS = 600.0
#: What a client may take beyond the limit of its order to answer.
ANSWER_SECONDS = 30.0
#: A subscription's text can be long, and so can a line of figures.
LINE_BYTES = 2**20


class ClientError(Exception):
    """A client process failed; the message has the last line that it wrote."""


@dataclass(frozen=True, slots=True)
class Client:
    """A role that a process plays."""

    role: str
    options: Mapping[str, Any] = field(default_factory=dict)
    broker: int = 0
    """Which of the brokers it connects to."""

    def share(self, count: int) -> int:
        """How many of so many messages it must receive: those for its keys, or all of them."""
        if "keys" not in self.options:
            return count
        return expected(self.options["connection"], self.options["connections"], count, self.options["keys"])


@dataclass(frozen=True, slots=True)
class Contestant:
    """A system in one of its formulations."""

    label: str
    system: str
    publisher: Client
    subscribers: tuple[Client, ...] = ()
    serve: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    """Of what the scenario varies: subscriptions, or brokers in a line."""

    def shares(self, count: int) -> list[int]:
        """How many of so many messages each subscriber must receive."""
        return [client.share(count) for client in self.subscribers]


class Process:
    """A client process and the lines exchanged with it."""

    def __init__(self, client: Client, process: asyncio.subprocess.Process) -> None:
        self._client = client
        self._process = process

    async def hear(self, limit_seconds: float) -> dict[str, Any]:
        """The next line that it says."""
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), limit_seconds)
        except TimeoutError:
            raise ClientError(f"{self._client.role} said nothing for {limit_seconds:g} s") from None
        if not line:
            assert self._process.stderr is not None
            last = (await self._process.stderr.read()).decode(errors="replace").strip().splitlines()
            raise ClientError(f"{self._client.role} ended: {last[-1] if last else 'no message'}")
        words: dict[str, Any] = json.loads(line)
        return words

    async def tell(self, words: Mapping[str, Any]) -> None:
        """Says something to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        await self._process.stdin.drain()

    async def stop(self) -> None:
        """Hangs up; it ends by itself, or is ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.communicate(), ANSWER_SECONDS)
        except (TimeoutError, ConnectionError):
            self._process.kill()
            await self._process.communicate()


@asynccontextmanager
async def playing(system: str, client: Client, address: str) -> AsyncIterator[Process]:
    """A process that plays a role until the block ends, connected."""
    options = {**client.options, "address": address}
    process = Process(
        client,
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.brokers.client", system, client.role, json.dumps(options)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | SOURCES,
            cwd=ROOT,
            limit=LINE_BYTES,
        ),
    )
    try:
        await process.hear(SETUP_SECONDS)
        yield process
    finally:
        await process.stop()


class Stand:
    """A contestant with its broker running and its clients connected."""

    def __init__(
        self, contestant: Contestant, server: Server, publisher: Process, subscribers: Sequence[Process]
    ) -> None:
        self.contestant = contestant
        self.server = server
        self._publisher = publisher
        self._subscribers = subscribers

    @property
    def _everyone(self) -> tuple[Process, ...]:
        return *self._subscribers, self._publisher

    async def prepare(self, order: Order) -> None:
        """Has everybody prepare for an order: the publisher for all of it, every subscriber for its share."""
        counts = (*self.contestant.shares(order.count), order.count)
        for process, count in zip(self._everyone, counts, strict=True):
            await process.tell(asdict(replace(order, count=count)))
        for process in self._everyone:
            await process.hear(SETUP_SECONDS)

    async def go(self) -> None:
        """Gives everybody the word."""
        for process in self._everyone:
            await process.tell({})

    async def found(self, order: Order) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What the subscribers have found in carrying out an order, and what the publisher has."""
        limit_seconds = order.limit_seconds + ANSWER_SECONDS
        *received, published = [await process.hear(limit_seconds) for process in self._everyone]
        return received, published

    async def measure(self, order: Order) -> Trial:
        """Has the publisher carry out an order, and every subscriber receive its share."""
        await self.prepare(order)
        before, all_before = self.server.cpu_seconds(), all_cpu_seconds()
        await self.go()
        received, published = await self.found(order)
        broker, everything = self.server.cpu_seconds() - before, all_cpu_seconds() - all_before
        clients = sum(words["cpu_seconds"] for words in received)
        last_ns = max(words["last_ns"] for words in received or [published])
        return Trial(
            count=order.count,
            seconds=(last_ns - published["first_ns"]) / 1e9,
            missing=sum(words["missing"] for words in received or [published]),
            publisher_cpu_seconds=published["cpu_seconds"],
            broker_cpu_seconds=broker,
            subscriber_cpu_seconds=clients,
            other_cpu_seconds=max(0.0, everything - broker - clients - published["cpu_seconds"]),
            latency_us={name: value for words in received for name, value in words.items() if name in PERCENTILES},
        )


@asynccontextmanager
async def standing(contestant: Contestant) -> AsyncIterator[Stand]:
    """Starts a contestant's broker and clients; all are gone when the block ends."""
    module = importlib.import_module(f"bench.brokers.{contestant.system}")
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-bench-")))
        server: Server = stack.enter_context(module.serve(directory, **contestant.serve))
        clients = [
            await stack.enter_async_context(playing(contestant.system, client, server.addresses[client.broker]))
            for client in (*contestant.subscribers, contestant.publisher)
        ]
        yield Stand(contestant, server, clients[-1], clients[:-1])
