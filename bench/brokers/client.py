"""A client process: ``python -m bench.brokers.client SYSTEM ROLE OPTIONS``.

It runs one role of one system and talks with the benchmark in lines of JSON. On standard output: that it is connected, that
it is prepared, what it found. On standard input: an order, and the word to go.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

PERCENTILES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Order:
    """What a client is to do next."""

    count: int
    limit_seconds: float = 60.0
    per_second: int = 0
    """How many to publish a second; 0: as many as possible."""


class Talk:
    """The lines between a client and the benchmark."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._cpu_seconds = 0.0

    async def orders(self) -> AsyncIterator[Order]:
        """Says that the client is connected; then one order after the other, until the benchmark hangs up."""
        self._say(connected=True)
        while line := await self._reader.readline():
            yield Order(**json.loads(line))

    async def go(self) -> None:
        """Says that all is prepared, and waits for the word; from here on time counts."""
        # What was prepared stays: collecting it again and again would measure the benchmark, not the system.
        gc.collect()
        gc.freeze()
        self._say(prepared=True)
        await self._reader.readline()
        self._cpu_seconds = time.process_time()

    def found(self, **figures: Any) -> None:
        """Says what was found in carrying out an order."""
        self._say(**figures, cpu_seconds=time.process_time() - self._cpu_seconds)

    @staticmethod
    def _say(**words: Any) -> None:
        print(json.dumps(words), flush=True)


async def within(limit_seconds: float, done: asyncio.Event) -> None:
    """Waits until it is done or the time is up: then the figures tell what is missing."""
    try:
        await asyncio.wait_for(done.wait(), limit_seconds)
    except TimeoutError:
        return


async def paced(order: Order) -> AsyncIterator[range]:
    """Numbers of the messages that are due, every millisecond."""
    start, sent = time.perf_counter(), 0
    while sent < order.count:
        due = min(order.count, int((time.perf_counter() - start) * order.per_second) + 1)
        if due > sent:
            yield range(sent, due)
            sent = due
        # The event loop wakes by whole milliseconds.
        await asyncio.sleep(0.001)


class Arrivals:
    """When each of so many records came, where some may come late, twice or never."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen: set[int] = set()
        self._times_ns: list[int] = []

    def note(self, id: int) -> bool:
        """A record came; whether that was the last one."""
        self._times_ns.append(time.perf_counter_ns())
        self._seen.add(id)
        return len(self._seen) == self._count

    def found(self) -> dict[str, Any]:
        """What there is to tell."""
        seen = len(self._seen)
        return {"arrivals_ns": self._times_ns, "missing": self._count - seen, "twice": len(self._times_ns) - seen}


def latencies(nanoseconds: list[int]) -> dict[str, float]:
    """The median and the 99th percentile, in microseconds."""
    ordered = sorted(nanoseconds)
    if not ordered:
        return {}
    return {name: ordered[int(len(ordered) * part)] / 1e3 for name, part in PERCENTILES.items()}


async def run(system: str, role: str, options: dict[str, Any]) -> None:
    """Plays a role until the benchmark hangs up."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    module = importlib.import_module(f"bench.brokers.{system}")
    await module.ROLES[role](Talk(reader), **options)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
