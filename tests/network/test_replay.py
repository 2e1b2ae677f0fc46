"""Subscribers with a past come and go under load while their broker is killed: each has every number from its first one on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import sluice
from sluice.broker.topology import topology
from sluice.client import engine
from sluice.client.event import Event
from sluice.spark.replay import service
from sluice.spark.replay.past import Nothing
from sluice.spark.replay.service import History
from tests.network.processes import restart, started
from tests.patience import PATIENCE_SECONDS

#: How many subscribers there are at a time, and how often each comes; how many notifications it takes after its past.
PLACES, VISITS, TAKEN = 3, 3, 200


class Load:
    """A publisher that does not stop."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.published = 0

    async def run(self) -> None:
        async with sluice.connect(self._address, "load") as bus:
            while True:
                numbers = range(self.published, self.published + 20)
                self.published += 20
                await bus.publish_many([{"n": n} for n in numbers])
                await asyncio.sleep(0.01)


async def visit(address: str, random: Random, half_way: Callable[[], None]) -> None:
    """A subscriber: it comes, takes its past and something more, and goes."""
    step = random.choice((1, 3))
    last = random.choice((None, 5, 200))
    async with sluice.connect(address, connect_seconds=PATIENCE_SECONDS) as bus:
        if last is None:
            subscription = bus.subscribe(f"n % {step} = 0", replay="1h")
        else:
            subscription = bus.subscribe(f"n % {step} = 0", last=last)
        async with subscription as events:
            got: list[Event] = []
            live = 0
            while live < TAKEN:
                event = await anext(events)
                got.append(event)
                live += not event.replayed
                if live == TAKEN // 2:
                    half_way()
                if random.random() < 0.01:
                    await asyncio.sleep(0.02)
            assert not events.gaps
    numbers = [event["n"] for event in got]
    assert numbers == [*range(numbers[0], numbers[-1] + 1, step)]
    replayed = [event.replayed for event in got]
    assert replayed == sorted(replayed, reverse=True), "the past comes first"
    assert replayed.count(True) >= (last or 1) and (last is not None or numbers[0] == 0)


def _nothing() -> None:
    pass


async def run(directory: Path) -> None:
    async with started(topology("line", 2, data=directory, settings={"log_level": "error"})) as (network, _):
        first, second = network.brokers
        addresses = {name: str(address) for name, address in network.addresses.items()}
        load = Load(addresses[first])
        async with sluice.connect(addresses[first]) as bus:
            history = History(bus, Nothing())
            tasks = [asyncio.create_task(load.run()), asyncio.create_task(history.run())]
            await history.ready()
            while load.published < 1_000:
                await asyncio.sleep(0.01)

            visits = 0
            is_live = asyncio.Event()

            async def place(number: int) -> None:
                nonlocal visits
                for count in range(VISITS):
                    # The broker is killed while one subscriber at least is live, and others are wherever they are.
                    half_way = is_live.set if number == 0 and count == 1 else _nothing
                    await visit(addresses[second], Random(f"{number}/{count}"), half_way)
                    visits += 1

            async def kill() -> None:
                await is_live.wait()
                network.kill(second)
                await restart(network, second)

            async with asyncio.TaskGroup() as group:
                for number in range(PLACES):
                    group.create_task(place(number))
                group.create_task(kill())
            assert visits == PLACES * VISITS and history.account.sent > 0
            for task in tasks:
                assert not task.done(), "the load and the history have gone on"
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def test_every_subscriber_has_every_number_from_its_first_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CHUNK_ROWS", 100)  # so that every past comes in several parts
    monkeypatch.setattr(engine, "HISTORY_SECONDS", PATIENCE_SECONDS)
    asyncio.run(run(tmp_path))
