"""Real networks that are reshaped under load: by hand, while nothing fails, and by themselves, when a link or a broker does.

What clients do and are told is judged by the specification. By hand, links are replaced, an inner broker leaves and its client
moves, and it is judged as if nothing had happened.
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
from sluice.client.reshape import leave, replace, tree_of
from sluice.client.tree import Replacement, Tree
from sluice.sim import trace as said
from sluice.sim.trace import Trace
from tests.network.processes import restart, started
from tests.network.test_traces import Run, Setting, judge
from tests.patience import PATIENCE_SECONDS

#: b1 is linked to b2 and b3, b2 to b4.
LINKS = [("b1", "b2"), ("b1", "b3"), ("b2", "b4")]
#: The broker that leaves. Nobody is there but who is to move.
LEAVING = "b2"
TRAVELLER = "traveller"


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


async def travel(network: Network, arrived: asyncio.Event) -> None:
    """A client of the broker that leaves, with a durable subscription: it goes on elsewhere, and reads everything once."""
    async with (
        sluice.connect(str(network.addresses[LEAVING]), TRAVELLER, close_seconds=PATIENCE_SECONDS) as bus,
        bus.subscribe("trip >= 0", durable=TRAVELLER, start="earliest") as trips,
    ):
        read = []
        for leg in range(2):
            await bus.publish_many([{"trip": 20 * leg + trip} for trip in range(20)])
            read += [(await anext(trips))["trip"] for _ in range(20)]
            # What is in the log of a broker that has left can be read when it is back, and not before.
            arrived.set()
            while not leg and await bus.broker() == LEAVING:
                await asyncio.sleep(0.01)
        assert read == [*range(40)] and not trips.gaps


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
    judge(without(run.recorder.trace, TRAVELLER))


async def leave_under_load(run: Run, bus: Bus) -> None:
    """An inner broker leaves, with a client that goes on elsewhere."""
    arrived = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(travel(run.network, arrived))
        await arrived.wait()
        group.create_task(run.live(150))
        await leave(bus, await tree_of(bus), LEAVING, lambda news: None)
    assert await asyncio.to_thread(run.network.brokers[LEAVING].ends_within, PATIENCE_SECONDS)
    assert sorted((await bus.describe())["brokers"]) == ["b1", "b3", "b4"]


def without(trace: Trace, client: str) -> Trace:
    """A trace in which nobody hears of a client that has not written it."""
    return Trace(
        [
            event
            for event in trace
            if getattr(event, "publisher", "") != client
            and not str(getattr(event, "subscription", "")).startswith(f"{client}/")
        ]
    )


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


# --- repair -----------------------------------------------------------------------------------------------------------

#: Long enough that nothing is given up before another link is there, however slow the machine is.
REPAIR = {"repair": True, "hold_seconds": 8.0}


async def repair(setting: Setting) -> None:
    """A link is cut for good, and brokers find another one; then the broker in the middle is killed, and they do so again."""
    settings = {**setting.of_brokers, **REPAIR}
    net = topology("line", ["b1", "b2", "b3", "b4"], settings=settings)
    async with asyncio.timeout(PATIENCE_SECONDS), started(net, "b3") as (network, relays):
        run = Run(setting, network)
        await run.begin(without=["b2"])
        recorder = run.recorder
        try:
            await run.live(100)
            await run.rest()
            async with sluice.connect(str(network.addresses["b1"])) as bus:
                recorder.write(said.LinkLost(recorder.now, "b2", "b3"))
                relays["b3"].cut()
                await run.live(100)
                await until_linked(bus, {("b1", "b2"), ("b2", "b4"), ("b3", "b4")})
                recorder.write(said.LinkHealed(recorder.now, "b2", "b3"))
                await run.all_know_all()
                await run.rest()
                recorder.write(said.BrokerDown(recorder.now, "b2"))
                network.kill("b2")
                await run.live(100)
                await until_linked(bus, {("b1", "b4"), ("b3", "b4")})
                recorder.write(said.BrokerUp(recorder.now, "b2"))  # what was behind it can be reached again
                await run.rest()
                await restart(network, "b2")
                await until_linked(bus, {("b1", "b4"), ("b3", "b4"), ("b1", "b2")})
                await run.all_know_all()
                await run.live(100)
                await run.rest()
        finally:
            await recorder.close()
    judge(recorder.trace)


async def until_linked(bus: Bus, links: set[tuple[str, str]]) -> None:
    """Waits until these are the links of a network, and all that there are."""
    names = sorted({name for link in links for name in link})
    found: set[tuple[str, str]] = set()
    while found != links:
        await asyncio.sleep(0.05)
        tree = await tree_of(bus)
        found = {(one, other) for one in tree.addresses for other in tree.neighbours(one) if one < other}
        found = found if sorted(tree.addresses) == names else set()


@pytest.mark.long
@pytest.mark.parametrize(
    "setting", [Setting("merging", False), Setting("simple", True), Setting("covering", True)], ids=str
)
def test_brokers_find_other_links_by_themselves(setting: Setting) -> None:
    asyncio.run(repair(setting))
