"""A drill: durable brokers are killed with SIGKILL under load, and what was promised is counted afterwards.

At every broker a program publishes numbered records without pause and follows what is acknowledged; others read, by durable and
by live subscriptions, at brokers of their own. None of them is ever restarted or helped. A seed picks who is killed, and after
how many acknowledgements. In the end the logs are read and everything is compared.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import sluice
from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from sluice.client.subscription import LiveSubscription
from sluice.model import parse
from tests.network.processes import started
from tests.patience import PATIENCE_SECONDS

LOOK_SECONDS = 0.005
#: The longest time between two bursts of a publisher: all programs run in one process, and it is not to be the bottleneck.
PAUSE_SECONDS = 0.03
#: What records differ in, besides their publisher and their number.
KINDS = 3

#: An offset in a stream, and the publisher and number of the record there.
Place = tuple[int, str, int]
#: What the logs of all brokers hold: offsets with records.
Logs = Mapping[str, list[tuple[int, dict[str, Any]]]]


@dataclass(slots=True)
class Report:
    """What happened in all drills together."""

    cycles: int = 0
    acknowledged: int = 0
    deliveries: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    longest_recovery_seconds: float = 0.0
    #: The longest that anything was waited for within a recovery, and what that was.
    longest_wait: tuple[float, str] = (0.0, "nothing")

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"cycles of kill and recovery   {self.cycles:,}"
        yield f"publications acknowledged     {self.acknowledged:,}"
        yield f"durable deliveries            {self.deliveries:,}"
        kills = ", ".join(f"{name} {count:,}" for name, count in sorted(self.kills.items()))
        yield f"kills                         {self.kills.total():,} ({kills})"
        seconds, what = self.longest_wait
        yield f"longest recovery              {self.longest_recovery_seconds:.1f} s"
        yield f"longest wait in one           {seconds:.1f} s, until {what}"


class Lost(AssertionError):
    """A promise was not kept."""


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until something is so."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise Lost(f"never: {what}") from None


class Publishing:
    """A program that publishes at one broker, and knows what was acknowledged."""

    def __init__(
        self,
        name: str,
        home: str,
        address: str,
        random: Random,
        *,
        backlog: int = 0,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.name, self.home = name, home
        self._pause_seconds = pause_seconds
        #: What it publishes at once when it begins.
        self._backlog = backlog
        self.published = self.acknowledged = 0
        self.is_over = False
        self._address, self._random = address, random

    async def run(self) -> None:
        """Publishes until it is over and everything is acknowledged."""
        # It waits for its own broker, however long that takes to start: what it publishes is to be there, and nowhere else.
        connection = sluice.connect(self._address, self.name, close_seconds=PATIENCE_SECONDS, move_seconds=None)
        async with connection as bus, asyncio.TaskGroup() as group:
            group.create_task(self._publish(bus))
            group.create_task(self._follow(bus))

    async def _publish(self, bus: sluice.Bus) -> None:
        await bus.publish_many([self._record(number) for number in range(1, self._backlog + 1)])
        self.published = self._backlog
        while not self.is_over:
            for _ in range(self._random.randint(1, 20)):
                number = self.published + 1
                await bus.publish(self._record(number))
                self.published = number
            await asyncio.sleep(self._random.random() * self._pause_seconds)

    def _record(self, number: int) -> dict[str, Any]:
        return {"publisher": self.name, "number": number, "kind": self._random.randrange(KINDS)}

    async def _follow(self, bus: sluice.Bus) -> None:
        while not self.is_over or self.acknowledged < self.published:
            published = self.published
            await bus.flush()
            self.acknowledged = published
            await asyncio.sleep(LOOK_SECONDS)


class Reading:
    """A program that reads by a durable subscription."""

    def __init__(self, name: str, address: str, where: str) -> None:
        self.name, self.where = name, where
        #: What came of each stream, in order.
        self.places: dict[str, list[Place]] = {}
        self._address = address

    @property
    def count(self) -> int:
        """How many events came."""
        return sum(map(len, self.places.values()))

    def has_passed(self, stream: str, number: int) -> bool:
        """Whether something behind that number has come from a stream."""
        return any(place[2] > number for place in self.places.get(stream, ())[-1:])

    async def run(self) -> None:
        """Reads for ever."""
        async with (
            sluice.connect(self._address, self.name) as bus,
            bus.subscribe(self.where, durable=self.name, start="earliest") as events,
        ):
            async for event in events:
                self._take(event)
                if events.gaps:
                    raise Lost(f"{self.name} is told that something is missing: {events.gaps[0]}")

    def _take(self, event: sluice.Event) -> None:
        assert event.stream is not None and event.offset is not None
        places = self.places.setdefault(event.stream, [])
        if places and event.offset <= places[-1][0]:
            raise Lost(f"{self.name} gets offset {event.offset} of {event.stream} after {places[-1][0]}")
        places.append((event.offset, event["publisher"], event["number"]))


class Listening:
    """A program with a live subscription: it may miss something when a broker dies, and gets nothing twice or too late."""

    def __init__(self, name: str, address: str, where: str) -> None:
        self.name, self.where = name, where
        self.last: dict[str, int] = {}
        self.events: LiveSubscription | None = None
        self._address = address
        self._filter = parse(where)

    async def run(self) -> None:
        """Listens for ever."""
        async with sluice.connect(self._address, self.name) as bus, bus.subscribe(self.where) as self.events:
            async for event in self.events:
                publisher, number = event.id
                if number <= self.last.get(publisher, 0):
                    raise Lost(f"{self.name} gets {publisher}#{number} after {publisher}#{self.last[publisher]}")
                if not self._filter.matches(event):
                    raise Lost(f"{self.name} gets {event}, which it did not ask for")
                self.last[publisher] = number


class Drill:
    """One network with its programs."""

    def __init__(self, network: Network, seed: int, report: Report) -> None:
        self.network = network
        self.report = report
        self._random = Random(f"drill/{seed}")
        homes = [*network.brokers]
        at = {name: str(address) for name, address in network.addresses.items()}
        self.publishers = [Publishing(f"p-{home}", home, at[home], Random(f"drill/{seed}/{home}")) for home in homes]
        self.readers = [
            Reading("all", at[homes[-1]], "number IS NOT NULL"),
            Reading("some", at[homes[0]], "kind = 1"),
        ]
        self.listeners = [
            Listening("live-all", at[homes[1]], "true"),
            Listening("live-some", at[homes[-1]], "kind = 2"),
        ]

    async def run(self, cycles: int) -> None:
        """Kills and waits for recovery so many times, then compares; raises `Lost` if a promise was not kept."""
        async with asyncio.TaskGroup() as group:
            programs: list[Reading | Listening] = [*self.readers, *self.listeners]
            endless = [group.create_task(one.run()) for one in programs]
            publishing = [group.create_task(one.run()) for one in self.publishers]
            await until(lambda: all(one.acknowledged for one in self.publishers), "all publish")
            for _ in range(cycles):
                await self._cycle()
            for one in self.publishers:
                one.is_over = True
            await asyncio.gather(*publishing)
            await self._compare()
            for task in endless:
                task.cancel()
        self.report.acknowledged += sum(one.acknowledged for one in self.publishers)
        self.report.deliveries += sum(one.count for one in self.readers)

    # --- killing ------------------------------------------------------------------------------------------------------

    @property
    def _acknowledged(self) -> int:
        return sum(one.acknowledged for one in self.publishers)

    async def _cycle(self) -> None:
        """One or two brokers die at some moment, now and then once more while they start, and all go on by themselves."""
        goal = self._acknowledged + self._random.randrange(300)
        await until(lambda: self._acknowledged >= goal, "publications are acknowledged")
        await asyncio.sleep(self._random.random() * 0.02)
        victims = self._random.sample([*self.network.brokers], 2 if self._random.random() < 0.2 else 1)
        began = time.monotonic()
        for victim in victims:
            self._kill(victim)
        before = {one.home: one.acknowledged for one in self.publishers}
        for victim in victims:
            self.network.launch(victim)
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.random())
                self._kill(victim)
                self.network.launch(victim)
        for victim in victims:
            await self._wait(asyncio.to_thread(self.network.wait, victim), f"{victim} listens")
        for one in self.publishers:
            what = f"{one.name} goes on"
            await self._wait(until(lambda one=one: one.acknowledged > before[one.home], what), what)  # type: ignore[misc]
        for reader in self.readers:
            for stream in victims:
                what = f"{reader.name} reads on in {stream}"
                passed = partial(reader.has_passed, stream, before[stream])
                await self._wait(until(passed, what), what)
        self.report.cycles += 1
        self.report.longest_recovery_seconds = max(self.report.longest_recovery_seconds, time.monotonic() - began)

    async def _wait(self, condition: Awaitable[None], what: str) -> None:
        began = time.monotonic()
        await condition
        self.report.longest_wait = max(self.report.longest_wait, (time.monotonic() - began, what))

    def _kill(self, name: str) -> None:
        self.network.kill(name)
        self.report.kills[name] += 1

    # --- comparing ----------------------------------------------------------------------------------------------------

    async def _compare(self) -> None:
        """What the logs hold is what was acknowledged, and what readers got is what the logs hold."""
        async with sluice.connect(str(next(iter(self.network.addresses.values())))) as bus:
            await self._until_whole(bus)
            logs = {name: await log_of(bus, name) for name in self.network.brokers}
            for one in self.publishers:
                compare(one.name, one.home, one.published, logs)
            for reader in self.readers:
                await self._compare_reader(reader, logs)
            await self._probe(bus)

    async def _until_whole(self, bus: sluice.Bus) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while {*(await bus.describe())["brokers"]} != {*self.network.brokers}:
                await asyncio.sleep(LOOK_SECONDS)

    async def _compare_reader(self, reader: Reading, logs: Logs) -> None:
        where = parse(reader.where)
        for stream, log in logs.items():
            wanted = [
                (offset, record["publisher"], record["number"]) for offset, record in log if where.matches(record)
            ]
            await until(
                lambda wanted=wanted, stream=stream: reader.places.get(stream, [])[-1:] == wanted[-1:],  # type: ignore[misc]
                f"{reader.name} reaches the end of {stream}",
            )
            missed = {*wanted} - {*reader.places.get(stream, [])}
            if missed or reader.places.get(stream, []) != wanted:
                raise Lost(f"{reader.name} missed {len(missed)} of {stream}: {sorted(missed)[:5]}")

    async def _probe(self, bus: sluice.Bus) -> None:
        """Live subscriptions are whole again: what is published reaches them once the brokers have told each other of them."""
        for one in self.listeners:
            assert one.events is not None
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await one.events.complete()
                    # A link that has just come back may not have carried all of them yet: then it is the next one that arrives.
                    while bus.name not in one.last:
                        await bus.publish({"probe": 1, "kind": 2})
                        await bus.flush()
                        await asyncio.sleep(LOOK_SECONDS)
            except TimeoutError:
                raise Lost(f"never: {one.name} gets a probe") from None


def compare(publisher: str, home: str, published: int, logs: Logs) -> None:
    """Every publication is in the log of the publisher's broker, once and in order, and in no other."""
    for stream, log in logs.items():
        numbers = [record["number"] for _, record in log if record["publisher"] == publisher]
        wanted = [*range(1, published + 1)] if stream == home else []
        if numbers != wanted:
            lacks, foreign = sorted({*wanted} - {*numbers})[:5], sorted({*numbers} - {*wanted})[:5]
            twice = [number for number, count in Counter(numbers).items() if count > 1][:5]
            raise Lost(
                f"{publisher} published {published:,} records at {home}: the log of {stream} lacks {lacks}, has {twice} twice "
                f"and {foreign} too much, and may have them in a wrong order"
            )


async def log_of(bus: sluice.Bus, stream: str) -> list[tuple[int, dict[str, Any]]]:
    """All that a log holds."""
    found: list[tuple[int, dict[str, Any]]] = []
    reading = bus.fetch(stream)
    async for batch in reading:
        assert isinstance(batch, list)
        found += ((event.offset or 0, dict(event)) for event in batch)
    offsets = [offset for offset, _ in found]
    if reading.missing or offsets != [*range(1, len(offsets) + 1)]:
        raise Lost(f"the log of {stream} has holes: {reading.missing}")
    return found


async def drill(
    data: Path, seed: int, *, shape: str, brokers: int, cycles: int, report: Report, imports: tuple[str, ...] = ()
) -> None:
    """Runs a drill on a network of its own."""
    settings = {"log_level": "error", "imports": imports}
    async with started(topology(shape, brokers, data=data, settings=settings)) as (network, _):
        await Drill(network, seed, report).run(cycles)
