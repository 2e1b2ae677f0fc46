"""Real networks that are reshaped under load: links are replaced by hand, an inner broker leaves, and clients move.

What clients do and are told is judged by the specification, as if nothing had happened: nothing has failed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

import sluice
from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from sluice.client.bus import Bus
from sluice.client.durable import DurableSubscription
from sluice.client.reshape import leave, replace, tree_of
from sluice.client.subscription import LiveSubscription
from sluice.client.tree import Replacement, Tree
from tests.network.processes import restart, started
from tests.network.test_traces import Run, Setting, judge
from tests.patience import PATIENCE_SECONDS

#: b1 is linked to b2 and b3, b2 to b4.
LINKS = [("b1", "b2"), ("b1", "b3"), ("b2", "b4")]
#: The broker that leaves. Nobody is there but who is to move.
LEAVING = "b2"


def any_replacement(tree: Tree, random: Random) -> Replacement:
    """A link of a tree, and another that could be in its place."""
    a = random.choice(sorted(tree.addresses))
    b = random.choice(tree.neighbours(a))
    while True:
        c, d = random.choice(tree.side(a, b)), random.choice(tree.side(b, a))
        if (c, d) != (a, b):
            return Replacement(a, b, c, d)


async def replace_links(run: Run, bus: Bus, times: int, random: Random) -> None:
    """Replaces links, one after the other, while the clients do what they do."""
    for _ in range(times):
        tree = await tree_of(bus)
        change = any_replacement(tree, random)
        living = asyncio.create_task(run.live(60))
        await replace(bus, tree, change, lambda news: None)
        await living
        assert change.d in (await tree_of(bus)).neighbours(change.c)


class Traveller:
    """A client of the broker that leaves: with a durable subscription, a live one, and what it publishes itself."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.read: list[int] = []
        self.heard: list[int] = []
        self.home = ""

    async def run(self, arrived: asyncio.Event, is_over: asyncio.Event) -> None:
        """Publishes and reads until it is over and all that it published has come."""
        address = str(self._network.addresses[LEAVING])
        async with (
            asyncio.TaskGroup() as group,
            sluice.connect(address, "traveller", close_seconds=PATIENCE_SECONDS) as bus,
            bus.subscribe("trip >= 0", durable="traveller", start="earliest") as logged,
            bus.subscribe("trip >= 0") as live,
        ):
            await live.complete()
            listening = group.create_task(self._listen(live))
            reading = group.create_task(self._read(logged))
            trip = 0
            while not is_over.is_set():
                await bus.publish({"trip": trip})
                trip += 1
                if trip == 20:
                    arrived.set()
                await asyncio.sleep(0.002)
            await bus.flush()
            while len(self.read) < trip:
                await asyncio.sleep(0.01)
            assert sorted(self.read) == [*range(trip)], "each once, from one log or the other"
            assert [*dict.fromkeys(self.heard)] == self.heard == sorted(self.heard)
            assert live.gaps or len(self.heard) == trip
            self.home = await bus.broker()
            for task in (listening, reading):
                task.cancel()

    async def _read(self, logged: DurableSubscription) -> None:
        async for event in logged:
            self.read.append(event["trip"])

    async def _listen(self, live: LiveSubscription) -> None:
        async for event in live:
            self.heard.append(event["trip"])


async def reshape(setting: Setting, times: int, data: Path) -> None:
    random = Random(f"reshape/{setting.number}")
    settings = {**setting.of_brokers, "fsync": False}
    net = topology("links", ["b1", "b2", "b3", "b4"], links=LINKS, settings=settings, data=data)
    async with asyncio.timeout(PATIENCE_SECONDS), started(net) as (network, _):
        run = Run(setting, network)
        await run.begin(without=[LEAVING])
        try:
            async with sluice.connect(str(network.addresses["b1"])) as bus:
                await replace_links(run, bus, times, random)
                await run.rest()
                await leave_under_load(run, bus)
                await run.rest()
        finally:
            await run.recorder.close()
    judge(run.recorder.trace)


async def leave_under_load(run: Run, bus: Bus) -> None:
    """An inner broker leaves, with a client that goes on elsewhere."""
    traveller, arrived, is_over = Traveller(run.network), asyncio.Event(), asyncio.Event()
    travelling = asyncio.create_task(traveller.run(arrived, is_over))
    await asyncio.wait((travelling, asyncio.create_task(arrived.wait())), return_when=asyncio.FIRST_COMPLETED)
    living = asyncio.create_task(run.live(150))
    await leave(bus, await tree_of(bus), LEAVING, lambda news: None)
    await living
    assert await asyncio.to_thread(run.network.brokers[LEAVING].ends_within, PATIENCE_SECONDS)
    assert sorted((await bus.describe())["brokers"]) == ["b1", "b3", "b4"]
    # What is in the log of a broker that has left can be read when it is back, and not before.
    await restart(run.network, LEAVING)
    is_over.set()
    await travelling
    assert traveller.home in ("b1", "b3", "b4")


@pytest.mark.parametrize(
    ("setting", "times"),
    [
        (Setting("covering", False), 6),
        pytest.param(Setting("merging", True), 40, marks=pytest.mark.long),
        pytest.param(Setting("simple", True), 40, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_nothing_is_lost_or_comes_twice_while_links_are_replaced(setting: Setting, times: int, tmp_path: Path) -> None:
    asyncio.run(reshape(setting, times, tmp_path))
