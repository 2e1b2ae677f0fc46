"""Real networks that are reshaped under load: by hand, while nothing fails, and by themselves, when a link or a broker does.

What clients do and are told is judged by the specification. By hand, links are replaced, an inner broker leaves and its client
moves, and it is judged as if nothing had happened. By themselves, brokers replace a link that is cut, and go on around a broker
that is killed, whose clients move: what was under way there may be lost, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sluice
from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from sluice.client.bus import Bus
from sluice.client.reshape import leave, replace, tree_of
from sluice.client.tree import Replacement, Tree
from sluice.sim.spec import ALL, REFUSED, REFUSING
from sluice.sim.trace import trace as said
from sluice.sim.trace.trace import Trace
from tests.network.processes import Relay, restart, started
from tests.network.test_traces import Run, Setting, judge
from tests.patience import PATIENCE_SECONDS

#: b1 is linked to b2 and b3, b2 to b4.
LINKS = [("b1", "b2"), ("b1", "b3"), ("b2", "b4")]
#: The broker that leaves, or dies.
LEAVING = "b2"
TRAVELLER = "traveller"
#: A durable broker judges what follows a refused publication by what is advertised when it comes again.
DURABLE = [each for each in ALL if each not in (REFUSED, REFUSING)]
#: Long enough that nothing is given up before another link is there, however slow the machine is.
REPAIR = {"repair": True, "hold_seconds": 8.0}


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
    """A client of the broker that is about to go, with a durable subscription: it goes on elsewhere, and reads all once."""
    options: dict[str, Any] = {"close_seconds": PATIENCE_SECONDS, "move_seconds": 0.0}
    async with (
        sluice.connect(str(network.addresses[LEAVING]), TRAVELLER, **options) as bus,
        bus.advertise("trip >= 0"),
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
    settings = {**setting.of_brokers, **REPAIR, "fsync": False}
    net = topology("links", ["b1", "b2", "b3", "b4"], links=LINKS, settings=settings, data=data)
    async with asyncio.timeout(PATIENCE_SECONDS), started(net, "b3") as (network, relays):
        run = Run(setting, network)
        await run.begin(without=[LEAVING])
        try:
            async with sluice.connect(str(network.addresses["b1"])) as bus:
                await cut(run, bus, relays["b3"], ("b1", "b3"), {("b1", "b2"), ("b2", "b3"), ("b2", "b4")})
                await replace_links(run, bus, times, random)
                await run.rest()
                await leave_under_load(run, bus)
                await run.rest()
        finally:
            await run.recorder.close()
    judge(without(run.recorder.trace, TRAVELLER), DURABLE)


async def cut(run: Run, bus: Bus, relay: Relay, link: tuple[str, str], repaired: set[tuple[str, str]]) -> None:
    """A link breaks for good while the clients do what they do, and brokers put another one in its place."""
    recorder = run.recorder
    recorder.write(said.LinkLost(recorder.now, *link))
    relay.cut()
    await run.live(60)
    await until_linked(bus, repaired.__eq__)
    recorder.write(said.LinkHealed(recorder.now, *link))
    await run.all_know_all()
    await run.rest()


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


async def until_linked(bus: Bus, is_right: Callable[[set[tuple[str, str]]], bool]) -> None:
    """Waits until the links of a network are right, as all brokers at their ends see it."""
    while True:
        tree = await tree_of(bus)
        links = {(one, other) for one in tree.addresses for other in tree.neighbours(one) if one < other}
        if {name for link in links for name in link} == {*tree.addresses} and is_right(links):
            return
        await asyncio.sleep(0.05)


async def repair(setting: Setting) -> None:
    """A link is cut for good, and brokers find another one; then the broker in the middle is killed, and they do so again."""
    settings = {**setting.of_brokers, **REPAIR}
    net = topology("line", ["b1", "b2", "b3", "b4"], settings=settings)
    async with asyncio.timeout(PATIENCE_SECONDS), started(net, "b3") as (network, relays):
        run = Run(setting, network)
        await run.begin(without=["b2"])
        try:
            await run.live(100)
            await run.rest()
            async with sluice.connect(str(network.addresses["b1"])) as bus:
                await cut(run, bus, relays["b3"], ("b2", "b3"), {("b1", "b2"), ("b2", "b4"), ("b3", "b4")})
                await kill(run, bus, {("b1", "b4"), ("b3", "b4")}.__eq__)
                await restart(network, "b2")
                await until_linked(bus, {("b1", "b4"), ("b3", "b4"), ("b1", "b2")}.__eq__)
                await run.all_know_all()
                await run.live(100)
                await run.rest()
        finally:
            await run.recorder.close()
    judge(run.recorder.trace)


async def kill(run: Run, bus: Bus, is_repaired: Callable[[set[tuple[str, str]]], bool]) -> None:
    """A broker is killed while the clients do what they do; the others find together, and its clients go on at them."""
    recorder, left = run.recorder, [name for name in run.network.brokers if name != LEAVING]
    living = asyncio.create_task(run.live(100))
    await asyncio.sleep(0)
    recorder.write(said.BrokerDown(recorder.now, LEAVING))
    run.network.kill(LEAVING)
    await living
    await until_linked(bus, is_repaired)
    await recorder.until(lambda: all(one.session.broker in left for one in run.clients), "all clients are at a broker")
    await recorder.until_brokers_know(left, run.clients)
    recorder.write(said.BrokerUp(recorder.now, LEAVING))  # what was behind it can be reached again
    await run.live(100)
    await run.rest()


async def die(setting: Setting, data: Path) -> None:
    """A broker with three neighbours, one of which has another behind it, is killed; its clients move, and it comes back."""
    links = [("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5")]
    settings = {**setting.of_brokers, **REPAIR, "fsync": False}
    net = topology("links", ["b1", "b2", "b3", "b4", "b5"], links=links, settings=settings, data=data)
    async with asyncio.timeout(PATIENCE_SECONDS), started(net) as (network, _):
        run, arrived = Run(setting, network), asyncio.Event()
        await run.begin(moves=True)
        try:
            await run.live(100)
            await run.rest()
            async with sluice.connect(str(network.addresses["b1"])) as bus, asyncio.TaskGroup() as group:
                group.create_task(travel(network, arrived))
                await arrived.wait()
                await kill(run, bus, lambda found: len(found) == 3 and ("b4", "b5") in found)
                await restart(network, LEAVING)
                await run.all_know_all()
                await until_linked(bus, lambda found: len(found) == 4)
                await run.live(100)
                await run.rest()
        finally:
            await run.recorder.close()
    judge(without(run.recorder.trace, TRAVELLER), DURABLE)


@pytest.mark.long
@pytest.mark.parametrize("setting", [Setting("merging", False), Setting("simple", True)], ids=str)
def test_brokers_find_other_links_by_themselves(setting: Setting) -> None:
    asyncio.run(repair(setting))


@pytest.mark.long
@pytest.mark.parametrize("setting", [Setting("covering", False), Setting("merging", True)], ids=str)
def test_the_neighbours_of_a_broker_that_is_killed_find_together_and_its_clients_move(
    setting: Setting, tmp_path: Path
) -> None:
    asyncio.run(die(setting, tmp_path))
