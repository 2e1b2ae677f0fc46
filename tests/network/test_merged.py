"""Order without loss over real processes: brokers are killed under load, and all subscribers get all of it in one order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import sluice
from sluice.broker.topology import topology
from sluice.client.bus import Bus
from sluice.client.subscription import ReliableSubscription
from tests.network.processes import started
from tests.patience import PATIENCE_SECONDS

#: So many by each of the publishers, in bursts.
COUNT, BURST = 120, 8

Taken = list[tuple[str, int]]


async def publish(bus: Bus, name: str, halfway: asyncio.Event) -> None:
    """Publishes through whatever happens to its broker, which keeps what it accepts."""
    for first in range(0, COUNT, BURST):
        await bus.publish_many([{"by": name, "n": n} for n in range(first, first + BURST)])
        if first >= COUNT // 2:
            halfway.set()
        await asyncio.sleep(0.01)
    await bus.flush()


async def collect(subscription: ReliableSubscription, total: int) -> Taken:
    return [(event["by"], event["n"]) for event in [await anext(subscription) for _ in range(total)]]


async def play(data: Path, brokers: Sequence[str], killed: Sequence[str]) -> tuple[list[Taken], Taken]:
    """What each of the reliable subscribers gets, one at each broker of a line, and what somebody who asks for order alone."""
    net = topology("line", brokers, data=data, settings={"log_level": "error"})
    async with asyncio.timeout(PATIENCE_SECONDS), started(net) as (network, _), AsyncExitStack() as stack:
        enter = stack.enter_async_context
        buses = {name: await enter(sluice.connect(str(network.addresses[name]), f"at-{name}")) for name in brokers}
        for bus in buses.values():
            while len((await bus.describe())["brokers"]) < len(brokers):
                await asyncio.sleep(0.01)
        feeds = [await enter(bus.subscribe("n >= 0", delivery="reliable", order="total")) for bus in buses.values()]
        live = await enter(buses[brokers[0]].subscribe("n >= 0", order="total"))
        await asyncio.gather(*(feed.complete() for feed in feeds), live.complete())
        halfway = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            taken = [group.create_task(collect(feed, COUNT * len(brokers))) for feed in feeds]
            for name, bus in buses.items():
                group.create_task(publish(bus, name, halfway))
            await halfway.wait()
            for name in killed:
                await asyncio.to_thread(network.kill, name)
                await asyncio.to_thread(network.restart, name)
        assert not any(feed.gaps or feed.waits_for for feed in feeds)
        some = [(event["by"], event["n"]) for portion in live.inbox.waiting() for event in portion.events()]
        return [task.result() for task in taken], some


@pytest.mark.parametrize(
    ("brokers", "killed"),
    [
        (("left", "right"), ("right",)),
        pytest.param(("left", "hub", "right"), ("hub", "right", "left"), marks=pytest.mark.long),
    ],
)
def test_killed_brokers_lose_nothing_and_change_no_order(
    tmp_path: Path, brokers: tuple[str, ...], killed: tuple[str, ...]
) -> None:
    (first, *others), some = asyncio.run(play(tmp_path, brokers, killed))
    assert sorted(first) == sorted((name, n) for name in brokers for n in range(COUNT))
    assert all(other == first for other in others)
    got = set(some)
    assert got and some == [each for each in first if each in got], "who asks for order alone may miss something"
