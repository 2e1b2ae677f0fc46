"""Histories against real brokers: the past comes to the one who wished for it, in order, and what is live follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sluice
from sluice.broker.server import Server
from sluice.client.bus import Bus
from sluice.client.event import Event
from sluice.client.subscription import LiveSubscription
from sluice.errors import SparkError
from sluice.model import parse
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Logged, Peer, Records
from sluice.spark.replay import service
from sluice.spark.replay.past import Archived, Nothing, Past
from sluice.spark.replay.service import History
from tests.broker.raw import played, running, until
from tests.spark.shelf import shelve


class Memory:
    """A past in memory."""

    where = parse("true")

    def __init__(self, *batches: Batch) -> None:
        self.batches = batches
        self.reads = 0

    def positions(self) -> Mapping[Peer, int]:
        return {each.logged.stream: each.logged.offsets[-1] for each in self.batches if each.logged is not None}

    def read(self, where: Subscription, since_micros: int | None, last: int | None) -> Iterator[Batch]:
        self.reads += 1
        for batch in self.batches:
            assert batch.logged is not None
            if since_micros is None or batch.logged.time_micros >= since_micros:
                rows = [row for row, record in enumerate(batch.records) if where.matches(record)]
                if rows:
                    yield batch.whole_or(rows)


@asynccontextmanager
async def serving(server: Server, past: Past) -> AsyncIterator[History]:
    """A history, as long as the block lasts."""
    async with sluice.connect(str(server.address)) as bus:
        history = History(bus, past)
        task = asyncio.create_task(history.run())
        try:
            await history.ready()
            yield history
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def publish(bus: Bus, *numbers: int) -> None:
    await bus.publish_many([{"n": n} for n in numbers])
    await bus.flush()


async def take(events: LiveSubscription, count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


def ns(events: list[Event]) -> list[tuple[int, bool]]:
    return [(event["n"], event.replayed) for event in events]


def past_of(*numbers: int) -> list[tuple[int, bool]]:
    return [(n, True) for n in numbers]


def live(*numbers: int) -> list[tuple[int, bool]]:
    return [(n, False) for n in numbers]


@played
async def test_the_past_comes_first_and_then_what_is_live(tmp_path: Path) -> None:
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, 1, 2, 3)
        async with (
            serving(server, Nothing()) as history,
            bus.subscribe("n > 1", replay="1h") as hour,
            bus.subscribe("true", last=1) as one,
        ):
            await hour.replayed()
            await one.replayed()
            await publish(bus, 4)
            got = await take(hour, 3)
            assert ns(got) == past_of(2, 3) + live(4)
            assert [event.offset for event in got] == [2, 3, 4] and got[0].stream == "b"
            assert got[0].subscriptions == (hour,)
            assert ns(await take(one, 2)) == past_of(3) + live(4)
            await until(lambda: history.account.done == 2)
            assert not hour.gaps and not one.gaps
            assert history.account.sent == 3 and not history.account.running


@played
async def test_what_is_older_is_not_replayed(tmp_path: Path) -> None:
    old = Records("old", [1, 2], records=[{"n": -2}, {"n": -1}], logged=Logged("gone", [8, 9], 1_000_000))
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, 1, 2, 3)
        async with (
            serving(server, Memory(old)),
            bus.subscribe("true", replay="1h") as hour,
            bus.subscribe("true", last=4) as four,
        ):
            assert ns(await take(hour, 3)) == past_of(1, 2, 3)
            got = await take(four, 4)
            assert ns(got) == past_of(-1, 1, 2, 3)
            assert (got[0].stream, got[0].offset, got[0].id.publisher) == ("gone", 9, "old")


@played
async def test_an_archive_and_then_the_logs(tmp_path: Path) -> None:
    async with running(data=tmp_path / "data") as server, sluice.connect(str(server.address), "pub") as bus:
        await bus.publish_many([{"n": 1, "deep": {"er": "x"}, "tags": ["a", "b"]}, {"n": 2}])
        await bus.flush()
        pages = bus.pages("b", 1, 3)
        shelve(tmp_path / "archive", (await pages.next()).batches)
        await publish(bus, 3)
        async with (
            serving(server, Archived(tmp_path / "archive")),
            bus.subscribe("true", replay="1h") as hour,
            bus.subscribe("true", last=2) as two,
        ):
            got = await take(hour, 3)
            assert [dict(event) for event in got] == [
                {"n": 1, "deep": {"er": "x"}, "tags": ["a", "b"]},
                {"n": 2},
                {"n": 3},
            ]
            assert [(event.id.number, event.stream, event.offset) for event in got] == [
                *((1, "b", 1), (2, "b", 2), (3, "b", 3))
            ]
            assert all(event.replayed for event in got)
            assert ns(await take(two, 2)) == past_of(2, 3)


@played
async def test_a_slow_subscriber_holds_nobody_up_and_gets_everything(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "CHUNK_ROWS", 100)
    monkeypatch.setattr(service, "MAX_READING", 1)
    monkeypatch.setattr(service, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr("sluice.client.engine.AHEAD", 50)
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, *range(1_000))
        async with (
            serving(server, Nothing()) as history,
            sluice.connect(str(server.address)) as other,
            bus.subscribe("true", replay="1h") as slow,
        ):
            assert ns(await take(slow, 1)) == past_of(0)
            for _ in range(2):
                async with other.subscribe("n >= 500", replay="1h") as quick:
                    assert ns(await take(quick, 500)) == past_of(*range(500, 1_000))
            assert slow.id in history.account.running
            await publish(bus, 1_000)
            rest = await take(slow, 1_000)
            assert [event["n"] for event in rest] == [*range(1, 1_001)] and not slow.gaps


@played
async def test_two_histories_are_as_good_as_one(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "CHUNK_ROWS", 7)
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, *range(200))
        async with serving(server, Nothing()), serving(server, Nothing()):
            for _ in range(3):
                async with bus.subscribe("true", replay="1h") as hour:
                    assert ns(await take(hour, 200)) == past_of(*range(200))


@played
async def test_without_a_history_a_gap_is_told_and_what_is_live_comes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sluice.client.engine.HISTORY_SECONDS", 0.2)
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, 1)
        async with bus.subscribe("true", last=1) as alone:
            await alone.replayed()
            assert "no history has answered" in alone.gaps[0].reason
            await publish(bus, 2)
            assert ns(await take(alone, 1)) == live(2)


@played
async def test_what_the_history_has_lost_is_told(tmp_path: Path) -> None:
    batch = Records("pub", [1], records=[{"n": 1}], logged=Logged("b", [1], 1_000_000))
    async with (
        running(data=tmp_path, retain_seconds=0.01) as server,
        sluice.connect(str(server.address), "pub") as bus,
    ):
        await publish(bus, 1, 2, 3)
        await until(lambda: server._store is not None and server._store.first == 4)
        async with serving(server, Memory(batch)), bus.subscribe("true", last=9) as nine:
            assert ns(await take(nine, 1)) == past_of(1)
            await nine.replayed()
            (gap,) = nine.gaps
            assert (gap.stream, gap.offsets) == ("b", range(2, 4)) and "lost" in gap.reason


@played
async def test_what_cannot_be_read_is_given_up_and_told(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("sluice.client.engine.HISTORY_SECONDS", 0.5)
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.01)
    async with running(data=tmp_path / "data") as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, 1, 2)
        table = shelve(tmp_path / "archive", (await bus.pages("b", 1, 3).next()).batches)
        [file] = table.files()
        (tmp_path / "archive" / file.path).write_bytes(b"not Parquet at all")
        async with serving(server, Archived(tmp_path / "archive")) as history, bus.subscribe("true", last=5) as five:
            await five.replayed()
            assert "no history has answered" in five.gaps[0].reason
            await publish(bus, 3)
            assert ns(await take(five, 1)) == live(3)
            assert history.account.given_up == 1 and not history.account.running
            assert "1 given up" in str(history.account) and file.path in str(history.account)
            [said] = [record.message for record in caplog.records if record.levelname == "ERROR"]
            assert five.id in said and file.path in said


@played
async def test_an_archive_that_is_tidied_up_meanwhile_is_read_anew(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.01)
    batches = [Records("pub", [n], records=[{"n": n}], logged=Logged("b", [n], n)) for n in (1, 2, 3)]

    class Tidied(Memory):
        def read(self, where: Subscription, since_micros: int | None, last: int | None) -> Iterator[Batch]:
            for batch in super().read(where, since_micros, last):
                assert batch.logged is not None
                if batch.logged.offsets[0] > self.reads:
                    raise SparkError("a file of the archive is gone")
                yield batch

    monkeypatch.setattr(service, "CHUNK_ROWS", 1)
    async with (
        running(data=tmp_path) as server,
        sluice.connect(str(server.address), "pub") as bus,
        serving(server, Tidied(*batches)) as history,
        bus.subscribe("true", replay="90000d") as ever,
    ):
        assert ns(await take(ever, 3)) == past_of(1, 2, 3)
        await until(lambda: history.account.done == 1)
        assert not history.account.given_up


@played
async def test_a_history_answers_only_what_it_keeps(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sluice.client.engine.HISTORY_SECONDS", 0.5)
    part = Memory()
    part.where = parse("n > 10")
    async with running(data=tmp_path) as server, sluice.connect(str(server.address), "pub") as bus:
        await publish(bus, 9, 11)
        async with (
            serving(server, part),
            bus.subscribe("n > 10", last=5) as inside,
            bus.subscribe("n > 0", last=5) as more,
        ):
            assert ns(await take(inside, 1)) == past_of(11)
            await more.replayed()
            assert "no history" in more.gaps[0].reason and part.reads == 1


def test_the_blocking_face(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(data=tmp_path) as server, serving(server, Nothing()):
            await asyncio.to_thread(block, str(server.address))

    def block(address: str) -> None:
        with sluice.connect(address, "pub") as bus:
            bus.publish_many([{"n": 1}, {"n": 2}])
            bus.flush()
            with bus.subscribe("true", replay=3_600, last=1) as one:
                one.replayed(30)
                bus.publish({"n": 3})
                assert ns([one.get(30), one.get(30)]) == past_of(2) + live(3)

    asyncio.run(main())
