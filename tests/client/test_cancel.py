"""Whoever is cancelled has lost nothing and doubled nothing: cancelled at every moment, under load, by chance with a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.client import inbox as inbox_module
from sluice.client import publisher as publisher_module
from sluice.errors import PublishError
from tests.broker.raw import directory, played, running
from tests.client.test_bus import at

SEEDS = range(5)
COUNT = 600
#: What a task returns that was cancelled before it was done.
CANCELLED = object()


async def cancelled_or_done(work: Coroutine[Any, Any, Any], chance: random.Random) -> Any:
    """What work returns, or `CANCELLED`: it is cancelled after some turns of the loop, wherever it is then."""
    task = asyncio.ensure_future(work)
    for _ in range(chance.randrange(6)):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return CANCELLED


async def taken(take: Callable[[], Coroutine[Any, Any, Any]], chance: random.Random, count: int) -> list[Any]:
    """So many things, taken by tasks of which many are cancelled."""
    got: list[Any] = []
    while len(got) < count:
        one = await cancelled_or_done(take(), chance)
        if one is CANCELLED:
            await asyncio.sleep(0)
        else:
            got.append(one)
    return got


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little that everybody has to wait all the time."""
    monkeypatch.setattr(publisher_module, "MAX_UNACCEPTED", 8)
    monkeypatch.setattr(publisher_module, "MAX_TOGETHER", 3)
    monkeypatch.setattr(inbox_module, "MAX_TAKEN", 3)


@pytest.mark.parametrize("seed", SEEDS)
@played
async def test_a_subscriber(seed: int) -> None:
    chance = random.Random(seed)
    async with (
        running() as server,
        sluice.connect(at(server), prefetch=4, policy="block") as bus,
        sluice.connect(at(server)) as publisher,
        bus.subscribe("n >= 0") as numbers,
    ):
        await numbers.complete()

        async def publish() -> None:
            for n in range(COUNT):
                await publisher.publish({"n": n})

        task = asyncio.create_task(publish())
        got = await taken(lambda: numbers.__anext__(), chance, COUNT)
        await task
        assert [event["n"] for event in got] == [*range(COUNT)]


@pytest.mark.parametrize("seed", SEEDS)
@played
async def test_a_reader_of_logs(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    async with (
        running(**directory(tmp_path, "b")) as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("n >= 0", durable="reader") as numbers,
    ):

        async def publish() -> None:
            for n in range(COUNT):
                await bus.publish({"n": n})

        task = asyncio.create_task(publish())
        got = await taken(lambda: numbers.__anext__(), chance, COUNT - 1)
        await task
        assert [event.offset for event in got] == [*range(1, COUNT)]
        assert numbers.positions == {"b": COUNT - 1}  # the last one is not handled yet
        while await cancelled_or_done(numbers.commit(), chance) is CANCELLED:
            pass
        assert numbers.positions == {"b": COUNT}


@pytest.mark.parametrize("seed", SEEDS)
@played
async def test_a_publisher(seed: int) -> None:
    chance = random.Random(seed)
    async with (
        running() as server,
        sluice.connect(at(server)) as bus,
        sluice.connect(at(server)) as publisher,
        bus.subscribe("n >= 0") as numbers,
    ):
        await numbers.complete()
        published: list[int] = []
        given: list[int] = []
        for n in range(COUNT):
            many = chance.random() < 0.2
            records = [{"n": n + part / 2} for part in range(2 if many else 1)]
            work = publisher.publish_many(records) if many else publisher.publish(records[0])
            number = await cancelled_or_done(work, chance)
            if number is not CANCELLED:
                published += [record["n"] for record in records]  # type: ignore[misc]
                given.append(number)
        assert given == sorted(set(given)) and publisher.published == len(published)
        await publisher.flush()
        got = [await anext(numbers) for _ in published]
        assert [event["n"] for event in got] == published and len(published) > 0
        assert [event.id.number for event in got] == [*range(1, len(published) + 1)]


@pytest.mark.parametrize("seed", SEEDS)
@played
async def test_flush_and_complete(seed: int) -> None:
    chance = random.Random(seed)
    async with running(advertisements="simple") as server, sluice.connect(at(server)) as bus:
        told: dict[int, str] = {}
        for _ in range(40):
            await bus.publish({"n": 1})  # nothing is advertised
            try:
                await cancelled_or_done(bus.flush(), chance)
            except PublishError as error:
                assert not told.keys() & error.refused
                told |= error.refused
            async with bus.subscribe("true") as feed:
                while await cancelled_or_done(feed.complete(), chance) is CANCELLED:
                    pass
        try:
            await bus.flush()
        except PublishError as error:
            assert not told.keys() & error.refused
            told |= error.refused
        assert [*told] == [*range(1, 41)]


@played
async def test_a_cancelled_connect_leaves_nothing_behind() -> None:
    chance = random.Random(1)
    async with running() as server:
        for _ in range(50):

            async def visit() -> None:
                async with sluice.connect(at(server)) as bus:
                    await bus.publish({"n": 1})

            await cancelled_or_done(visit(), chance)
        assert {task for task in asyncio.all_tasks() if "_keep" in repr(task)} == set()
