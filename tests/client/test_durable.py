"""Durable subscriptions and logs read again: by position, in order, once; what was not handled comes again."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sluice
from sluice.client import durable as durable_module
from sluice.client import reading as reading_module
from sluice.client.reading import Pages
from sluice.errors import ConfigurationError, RequestError
from tests.broker.raw import directory, played, running, until
from tests.client.test_bus import at, take


def numbers(events: list[Any]) -> list[int]:
    return [event["n"] for event in events]


async def fill(bus: sluice.Bus, start: int, end: int) -> None:
    """Publishes numbers, each a batch of its own, and waits until they are on disk."""
    for n in range(start, end):
        await bus.publish({"n": n, "even": n % 2 == 0})
        await bus.flush()


def read_in_short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has a record or two, whoever reads."""
    for module in (durable_module, reading_module):
        monkeypatch.setattr(module, "Pages", partial(Pages, page_bytes=40))


class Crash(Exception):
    """The program dies."""


@played
async def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    settings = directory(tmp_path, "b")
    async with running(**settings) as server, sluice.connect(at(server)) as bus:
        port = server.address.port
        await fill(bus, 0, 5)
        async with bus.subscribe("n >= 0", durable="d") as feed:  # begins now
            await feed.complete()
            await fill(bus, 5, 10)
            events = await take(feed, 3)
            assert numbers(events) == [5, 6, 7]
            assert [event.offset for event in events] == [6, 7, 8] and events[0].stream == "b"
            assert events[0].time is not None and events[0].subscriptions == (feed,)
            assert feed.positions == {"b": 8}  # where the third one is, which the program still has
        await fill(bus, 10, 12)
    async with running(**settings, listen=f"127.0.0.1:{port}") as server, sluice.connect(at(server)) as bus:
        async with bus.subscribe("n >= 0", durable="d") as feed:
            assert numbers(await take(feed, 4)) == [8, 9, 10, 11]
        await bus.forget("d")
        async with bus.subscribe("n >= 0", durable="d", start="earliest") as feed:
            assert numbers(await take(feed, 12)) == [*range(12)]


@played
async def test_what_is_held_outlives_its_retention(tmp_path: Path) -> None:
    async with running(**directory(tmp_path, "b"), retain_bytes=1) as server, sluice.connect(at(server)) as bus:
        await bus.hold("archive", "b", 0)
        await fill(bus, 0, 6)
        await bus.hold("archive", "b", 4)

        async def first(offset: int) -> None:
            while (await bus.streams())["b"].start != offset:
                await asyncio.sleep(0.01)

        await first(5)
        assert (await bus.describe())["log"]["holds"] == {"archive": 4}
        await bus.forget("archive", "b")
        await first(7)
        with pytest.raises(RequestError, match="no durable subscription 'archive'"):
            await bus.forget("archive")


@played
async def test_what_was_not_handled_comes_again(tmp_path: Path) -> None:
    async with running(**directory(tmp_path, "b")) as server, sluice.connect(at(server)) as bus:
        with pytest.raises(Crash):
            async with bus.subscribe("true", durable="d") as feed:
                await fill(bus, 0, 6)
                assert numbers(await take(feed, 3)) == [0, 1, 2]
                raise Crash
        async with bus.subscribe("true", durable="d") as feed:
            assert numbers(await take(feed, 2)) == [2, 3]
            await feed.commit()  # these two are handled, whatever happens next
        async with bus.subscribe("true", durable="d") as feed:
            async for batch in feed.batches():
                assert batch == [{"n": 4, "even": True}]
                break
        async with bus.subscribe("true", durable="d") as feed:
            assert numbers(await take(feed, 1)) == [5]


@played
async def test_handled_events_are_noted_without_being_asked(tmp_path: Path) -> None:
    async with (
        running(**directory(tmp_path, "b")) as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("even", durable="d") as feed,
    ):
        store = server._store
        assert store is not None

        def noted() -> int:
            held = store.subscription("d")
            assert held is not None
            return held[1]["b"]

        await fill(bus, 0, 6)
        assert numbers(await take(feed, 3)) == [0, 2, 4]
        await until(lambda: noted() >= 3)
        assert noted() < 5  # the program still has the event at offset 5
        waiting = asyncio.create_task(feed.__anext__())
        await until(lambda: noted() >= 5)
        await fill(bus, 6, 7)
        assert (await waiting)["n"] == 6


@played
async def test_the_streams_of_all_brokers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_module, "LOOK_SECONDS", 0.02)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        first = await enter(running(**directory(tmp_path, "first")))
        await enter(running("plain", links=(at(first),)))  # keeps no log, and is passed over
        second = await enter(running(**directory(tmp_path, "second"), links=(at(first),)))
        here = await enter(sluice.connect(at(first)))
        there = await enter(sluice.connect(at(second)))
        await until(lambda: len(first.report()["brokers"]) == 3)
        await fill(there, 0, 2)
        async with here.subscribe("true", durable="d") as feed:
            await fill(here, 2, 4)
            await fill(there, 4, 6)
            events = await take(feed, 4)
            assert sorted((event.stream, event.offset, event["n"]) for event in events) == [
                ("first", 1, 2),
                ("first", 2, 3),
                ("second", 3, 4),
                ("second", 4, 5),
            ]
            # A stream that appears later is read from its beginning.
            third = await enter(running(**directory(tmp_path, "third"), listen="127.0.0.1:0"))
            late = await enter(sluice.connect(at(third)))
            await fill(late, 6, 8)
            await enter(running("bridge", links=(at(first), at(third))))
            assert numbers(await take(feed, 2)) == [6, 7]
            positions = feed.positions
            assert positions == {"first": 3, "second": 5, "third": 2}
        assert feed.positions["third"] == 3  # who leaves in peace has handled what he has
        async with here.subscribe("true", start=positions) as again:
            assert numbers(await take(again, 1)) == [7]


@played
async def test_a_broken_link_costs_a_durable_subscription_nothing(tmp_path: Path) -> None:
    settings = directory(tmp_path, "b")
    told: list[sluice.Gap] = []
    async with running(**settings) as server:
        port = server.address.port
        async with (
            sluice.connect(at(server), on_gap=told.append, close_seconds=0.1) as bus,
            bus.subscribe("true", durable="d") as feed,
        ):
            await fill(bus, 0, 3)
            assert numbers(await take(feed, 2)) == [0, 1]
            await server.stop()
            async with running(**settings, listen=f"127.0.0.1:{port}") as again:
                await fill(bus, 3, 6)
                assert numbers(await take(feed, 4)) == [2, 3, 4, 5]
                for peering in [*again.peers.values()]:
                    peering.connection.close("a hiccup")
                await fill(bus, 6, 8)
                assert numbers(await take(feed, 2)) == [6, 7]
            assert told == []


@played
async def test_what_is_past_its_retention_is_told(tmp_path: Path) -> None:
    settings = directory(tmp_path, "b")
    told: list[sluice.Gap] = []
    async with running(**settings) as server, sluice.connect(at(server), on_gap=told.append) as bus:
        async with bus.subscribe("true", durable="d"):
            pass
        await fill(bus, 0, 40)
        held = server.report()["log"]["bytes"]
    async with running(**settings, retain_bytes=held // 4) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 40, 41)
        await until(lambda: server.report()["log"]["first"] > 10)
        first = server.report()["log"]["first"]
    async with running(**settings) as server, sluice.connect(at(server), on_gap=told.append) as bus:
        async with bus.subscribe("true", durable="d") as feed:
            assert numbers(await take(feed, 1)) == [first - 1]
            (gap,) = told
            assert (gap.stream, gap.offsets, gap.count) == ("b", range(1, first), first - 1)
            assert [*feed.gaps] == [gap] and f"offsets 1 to {first - 1} of b are missing" in str(gap)
        reading = bus.fetch("b", 5)
        assert numbers([event async for batch in reading for event in batch]) == [*range(first - 1, 41)]
        assert reading.missing == [range(5, first)]
        # Who begins with the earliest misses nothing of what there is.
        async with bus.subscribe("true", start="earliest") as feed:
            assert numbers(await take(feed, 1)) == [first - 1] and not feed.gaps


@played
async def test_a_log_that_was_replaced_is_read_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_module, "WAIT_SECONDS", 0.02)
    settings = directory(tmp_path, "b")
    async with running(**settings) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 0, 5)
        async with bus.subscribe("true", start="earliest") as feed:
            assert numbers(await take(feed, 5)) == [0, 1, 2, 3, 4]
            positions = feed.positions | {"b": 6}
    shutil.rmtree(tmp_path / "b")
    async with running(**settings) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 10, 12)
        async with bus.subscribe("true", start=positions) as feed:
            assert numbers(await take(feed, 2)) == [10, 11]
            assert ["replaced" in gap.reason for gap in feed.gaps] == [True]


@played
async def test_who_cannot_have_a_durable_subscription_is_told(tmp_path: Path) -> None:
    async with running(**directory(tmp_path, "b")) as server, sluice.connect(at(server)) as bus:
        async with bus.subscribe("n > 1", durable="d"):
            pass
        with pytest.raises(RequestError, match="asks for n > 1"):
            async with bus.subscribe("n > 2", durable="d"):
                pass
        with pytest.raises(ConfigurationError, match="characters"):
            bus.subscribe("n > 2", durable="")
        with pytest.raises(ConfigurationError, match="'soon'"):
            bus.subscribe("n > 2", start="soon")  # type: ignore[call-overload]
        with pytest.raises(RequestError, match="there is no durable subscription 'e'"):
            await bus.forget("e")
    async with running() as server, sluice.connect(at(server)) as bus:
        with pytest.raises(RequestError, match="keeps no log"):
            async with bus.subscribe("n > 1", durable="d"):
                pass


@played
async def test_a_range_is_read_again_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_short_pages(monkeypatch)
    async with running(**directory(tmp_path, "b")) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 0, 30)
        await bus.publish_arrow(pa.RecordBatch.from_pydict({"n": [30, 31], "even": [True, False]}))
        await bus.flush()

        async def read(*arguments: Any) -> list[int]:
            found: list[int] = []
            async for batch in bus.fetch("b", *arguments):
                found += batch.column("n").to_pylist() if isinstance(batch, pa.RecordBatch) else numbers(batch)
            return found

        assert await read() == [*range(32)]
        assert await read(5, 9) == [4, 5, 6, 7]
        assert await read(5, 5) == []
        assert await read(1, 100, "even") == [*range(0, 32, 2)]
        assert await read(20, None, "n > 100") == []
        with pytest.raises(ConfigurationError, match="no range"):
            bus.fetch("b", 0)
        with pytest.raises(ConfigurationError, match="no range"):
            bus.fetch("b", 5, 4)


@played
async def test_reading_waits_for_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_short_pages(monkeypatch)
    async with running(**directory(tmp_path, "b")) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 0, 60)
        async with bus.subscribe("true", start="earliest") as feed:
            await until(lambda: feed._progress["b"].pages == durable_module.MAX_PAGES)
            held = len(feed.inbox.waiting())
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert len(feed.inbox.waiting()) == held < 20
            assert numbers(await take(feed, 60)) == [*range(60)]
