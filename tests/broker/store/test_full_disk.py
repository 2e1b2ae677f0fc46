"""A broker whose disk is full refuses publications with the reason and serves everything else; with room again it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import sluice
from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.broker.store.store import Store


def test_a_broker_with_a_full_disk_refuses_and_goes_on(tmp_path: Path) -> None:
    asyncio.run(_story(tmp_path))


async def _story(tmp_path: Path) -> None:
    server = Server(ServerConfig(name="b1", listen="127.0.0.1:0", data=tmp_path / "b1"))
    await server.start()
    try:
        async with sluice.connect(str(server.address)) as bus, bus.subscribe("n >= 0") as everything:
            await everything.complete()
            await bus.publish({"n": 0})
            await bus.flush()
            await _allow_pages(server, 40)
            written = 1
            while not await _is_refused(bus, {"n": written, "filler": "x" * 50_000}):
                written += 1
            assert [event["n"] for event in await _fetched(bus)] == list(range(written))
            assert (await bus.describe())["log"]["head"] == written
            async with bus.subscribe("n = -1") as more:
                await more.complete()
            await _allow_pages(server, 1_000_000)
            await bus.publish({"n": written})
            await bus.flush()
            assert [event["n"] for event in await _fetched(bus)] == list(range(written + 1))
            live = [(await anext(everything))["n"] for _ in range(written + 1)]
            assert live == list(range(written + 1)), "what was refused reached nobody"
    finally:
        await server.stop()


async def _allow_pages(server: Server, pages: int) -> None:
    """Lets the file of the log have so many pages and no more."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def limit(store: Store) -> Any:
        store.checkpoint()
        return store._connection.pragma("max_page_count", pages)

    def tell(result: Any) -> None:
        loop.call_soon_threadsafe(done.set_result, result)

    assert server._journal is not None
    server._journal.call(limit, tell)
    await done


async def _is_refused(bus: sluice.Bus, record: dict[str, Any]) -> bool:
    number = await bus.publish(record)
    try:
        await bus.flush()
    except sluice.PublishError as error:
        assert [*error.refused] == [number] and "the disk is full" in error.refused[number]
        return True
    return False


async def _fetched(bus: sluice.Bus) -> list[Any]:
    return [event async for batch in bus.fetch("b1", 1, None, "n >= 0") for event in batch]
