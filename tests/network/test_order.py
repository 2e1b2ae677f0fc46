"""Order over real processes: edge brokers at a chain of core brokers, publishers at all edges, and subscribers that compare."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import sluice
from sluice.broker.topology import topology
from sluice.client.bus import Bus
from sluice.client.subscription import LiveSubscription
from sluice.sim.ordered import Ordered
from sluice.sim.spec import ORDER, check
from sluice.sim.trace import Notified, Published, Subscribed, Trace
from tests.network.processes import started
from tests.patience import PATIENCE_SECONDS

CORES = ("core1", "core2")
EDGES = ("edge1", "edge2", "edge3")
LINKS = [("core1", "core2"), ("core1", "edge1"), ("core1", "edge2"), ("core2", "edge3")]
#: So many by each of the publishers.
COUNT = 150


async def publish(bus: Bus, name: str, trace: Trace) -> None:
    """Publishes in small bursts, so that those of all publishers meet."""
    for n in range(COUNT):
        number = await bus.publish({"by": name, "n": n})
        trace.append(Published(time.monotonic(), name, number, {"by": name, "n": n}))
        if n % 5 == 0:
            await asyncio.sleep(0)
    await bus.flush()


async def collect(subscription: LiveSubscription, name: str, trace: Trace, total: int) -> None:
    """Writes down what comes."""
    for _ in range(total):
        event = await anext(subscription)
        trace.append(Notified(time.monotonic(), name, event["by"], event.id.number, (subscription.id,)))


async def play(**settings: str) -> tuple[Trace, dict[str, dict[str, Any]]]:
    trace = Trace()
    net = topology("links", [*CORES, *EDGES], links=LINKS, settings={"log_level": "error", **settings})
    async with asyncio.timeout(PATIENCE_SECONDS), started(net) as (network, _), AsyncExitStack() as stack:
        buses = {name: await stack.enter_async_context(sluice.connect(str(network.addresses[name]))) for name in EDGES}
        for bus in buses.values():
            while len((await bus.describe())["brokers"]) < len(network.brokers):
                await asyncio.sleep(0.01)
        subscriptions = []
        for where in ("n >= 0", "n % 2 = 0"):
            for name, bus in buses.items():
                subscription = await stack.enter_async_context(bus.subscribe(where, order="total"))
                trace.append(Subscribed(time.monotonic(), name, subscription.id, where))
                trace.append(Ordered(time.monotonic(), name, subscription.id))
                await subscription.complete()
                total = len(EDGES) * (COUNT if where == "n >= 0" else COUNT // 2)
                subscriptions.append((subscription, name, total))
        async with asyncio.TaskGroup() as group:
            for subscription, name, total in subscriptions:
                group.create_task(collect(subscription, name, trace, total))
            for name, bus in buses.items():
                group.create_task(publish(bus, name, trace))
        accounts = {name: (await buses[EDGES[0]].describe(name))["order"] for name in network.brokers}
        assert not any(subscription.gaps for subscription, _, _ in subscriptions)
    return trace, accounts


def check_all(trace: Trace, accounts: dict[str, dict[str, Any]]) -> None:
    """Everybody has got everything, in one order."""
    # What comes may be written down before what was published is.
    order = sorted(trace.events, key=lambda event: isinstance(event, Notified))
    assert check(Trace(order), ORDER) == []
    assert sum(isinstance(event, Notified) for event in order) == len(EDGES) ** 2 * (COUNT + COUNT // 2)
    assert sum(account["stamped"] for account in accounts.values()) == len(EDGES) * COUNT
    assert accounts["edge1"]["subscriptions"] == 2
    assert all(account["waiting"] == account["lost"] == 0 for account in accounts.values())


def test_all_see_the_same_order() -> None:
    trace, accounts = asyncio.run(play())
    check_all(trace, accounts)
    assert accounts["core1"]["floors"] > 0 and not any(account["root"] for account in accounts.values())


def test_all_see_the_order_of_a_root() -> None:
    trace, accounts = asyncio.run(play(order_algorithm="rooted", order_root="core2"))
    check_all(trace, accounts)
    assert [name for name, account in accounts.items() if account["stamped"]] == ["core2"]
    assert {account["root"] for account in accounts.values()} == {"core2"}
    assert not any(account["held"] or account["floors"] for account in accounts.values())
