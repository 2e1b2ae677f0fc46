"""Sluice: brokers that `sluice up` runs, with Sluice's own client; a line of several, or with logs on disk, if asked to."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import sluice
from bench.brokers.client import Arrivals, Order, Talk, latencies, paced
from bench.brokers.records import Record, batches, keyed, keys_of, plain, timed
from bench.brokers.server import SOURCES, START_SECONDS, Server, ServerError, started
from sluice.client.bus import Delivery
from sluice.client.event import Event
from sluice.client.subscription import AnySubscription

#: How `sluice up` says that a broker is up, with its address and its process.
_UP = re.compile(r"^\S+ up at (sluice://\S+), process (\d+)", re.MULTILINE)
EVERYTHING = "symbol = 'IBM'"
#: Between two looks at how much each broker has passed on.
LOOK_SECONDS = 0.2


def version() -> str:
    """Always there."""
    return sluice.__version__


@contextmanager
def serve(
    directory: Path,
    *,
    brokers: int = 1,
    brokers_per_node: int = 1,
    routing: str = "covering",
    durable: bool = False,
    fsync: bool = True,
) -> Iterator[Server]:
    """A broker, or several in a line, which know each other; with several per node there are so many instead of each inner one.

    `sluice up` starts them, and starts again what dies.
    """
    file = directory / "topology.toml"
    lines = [
        "[network]",
        'shape = "line"',
        f"brokers = {brokers}",
        f"brokers_per_node = {brokers_per_node}",
        "port = 0",
    ]
    lines += ['data = "data"'] if durable else []
    lines += ["[broker]", f'routing = "{routing}"', f"fsync = {str(fsync).lower()}"]
    file.write_text("\n".join(lines) + "\n")
    number = brokers + (brokers_per_node - 1) * max(0, brokers - 2)
    up = list[tuple[str, str]]()

    def all_up(said: str) -> bool:
        up[:] = _UP.findall(said)
        return len(up) == number

    command = [sys.executable, "-m", "sluice", "up", str(file)]
    with started(command, directory, SOURCES, all_up) as session:
        # In a line each broker is started when those before it are up.
        addresses = tuple(address for address, _ in up)
        for address in addresses:
            _wait_until_it_knows(address, number)
        yield Server(addresses, (session,), tuple(int(process) for _, process in up))


def _wait_until_it_knows(address: str, brokers: int) -> None:
    """Waits until a broker knows that there are so many."""
    deadline = time.monotonic() + START_SECONDS
    with sluice.connect(address) as bus:
        while len(bus.describe()["brokers"]) < brokers:
            if time.monotonic() > deadline:
                raise ServerError(f"{address} does not know all {brokers} brokers after {START_SECONDS:g} s")
            time.sleep(0.01)


async def carrier(server: Server) -> int:
    """The inner broker of a line through which most goes at this moment, by its number."""
    before = await _forwarded(server)
    await asyncio.sleep(LOOK_SECONDS)
    after = await _forwarded(server)
    inner = range(1, len(server.addresses) - 1)
    return max(inner, key=lambda number: after[number] - before[number])


async def _forwarded(server: Server) -> list[int]:
    found = []
    for address in server.addresses:
        async with sluice.connect(address) as bus:
            found.append((await bus.describe())["forwarded"])
    return found


async def publish(talk: Talk, *, address: str) -> None:
    """Publishes one by one."""
    await _publish_each(talk, address, plain)


async def publish_arrow(talk: Talk, *, address: str) -> None:
    """Publishes in Arrow batches."""
    async with sluice.connect(address) as bus:
        async for order in talk.orders():
            parts = batches(order.count)
            await talk.go()
            first_ns = time.perf_counter_ns()
            for batch in parts:
                await bus.publish_arrow(batch)
            await bus.flush()
            talk.found(first_ns=first_ns)


async def publish_keyed(talk: Talk, *, address: str, keys: int) -> None:
    """Publishes records that differ by their key, one by one."""
    await _publish_each(talk, address, lambda count: keyed(count, keys))


async def _publish_each(talk: Talk, address: str, records_of: Callable[[int], list[Record]]) -> None:
    async with sluice.connect(address) as bus:
        async for order in talk.orders():
            records = records_of(order.count)
            await talk.go()
            first_ns = time.perf_counter_ns()
            for record in records:
                await bus.publish(record)
            await bus.flush()
            talk.found(first_ns=first_ns)


async def publish_paced(talk: Talk, *, address: str) -> None:
    """Publishes so many a second, each with the time at which it was sent."""
    async with sluice.connect(address) as bus:
        async for order in talk.orders():
            await talk.go()
            first_ns = time.perf_counter_ns()
            async for due in paced(order):
                for number in due:
                    await bus.publish(timed(number, time.perf_counter_ns()))
            talk.found(first_ns=first_ns)


async def publish_durable(talk: Talk, *, address: str, window: int = 0) -> None:
    """Publishes one by one; done when all is acknowledged. With a window it waits for that after every so many."""
    async with sluice.connect(address) as bus:
        async for order in talk.orders():
            records = plain(order.count)
            step = window or len(records)
            await talk.go()
            first_ns = time.perf_counter_ns()
            for start in range(0, len(records), step):
                for record in records[start : start + step]:
                    await bus.publish(record)
                await bus.flush()
            talk.found(first_ns=first_ns, last_ns=time.perf_counter_ns(), missing=0)


def _complain(gap: sluice.Gap) -> None:
    sys.exit(f"the subscriber was told: {gap}")


@asynccontextmanager
async def _subscribed(
    address: str, wheres: Sequence[str], delivery: Delivery
) -> AsyncIterator[tuple[sluice.Bus, Sequence[AnySubscription]]]:
    """A connection with subscriptions from which on nothing is missed, and of which nothing is dropped."""
    async with AsyncExitStack() as stack:
        # A gap ends the client: what it says is why messages are missing.
        bus = await stack.enter_async_context(sluice.connect(address, policy="block", on_gap=_complain))
        subscriptions = [await stack.enter_async_context(bus.subscribe(where, delivery=delivery)) for where in wheres]
        for subscription in subscriptions:
            await subscription.complete()
        yield bus, subscriptions


async def receive(talk: Talk, *, address: str, delivery: Delivery = "best-effort") -> None:
    """Counts what arrives, record by record."""
    async with _subscribed(address, [EVERYTHING], delivery) as (_, (quotes,)):
        async for order in talk.orders():
            await talk.go()
            talk.found(**await _count(order, quotes))


async def receive_keyed(
    talk: Talk, *, address: str, connection: int, connections: int, keys: int, delivery: Delivery = "best-effort"
) -> None:
    """Subscribes to its keys and counts what arrives for any of them."""
    wheres = [f"key = '{key}'" for key in keys_of(connection, connections, keys)]
    async with _subscribed(address, wheres, delivery) as (bus, _):
        events = bus.events()
        async for order in talk.orders():
            await talk.go()
            talk.found(**await _count(order, events))


async def _count(order: Order, events: AsyncIterator[Event]) -> dict[str, int]:
    left = order.count
    with suppress(TimeoutError):
        async with asyncio.timeout(order.limit_seconds):
            async for _ in events:
                left -= 1
                if not left:
                    break
    return {"last_ns": time.perf_counter_ns(), "missing": left}


async def receive_arrow(talk: Talk, *, address: str) -> None:
    """Counts what arrives, in Arrow batches."""
    async with _subscribed(address, [EVERYTHING], "best-effort") as (_, (quotes,)):
        async for order in talk.orders():
            left = order.count
            await talk.go()
            with suppress(TimeoutError):
                async with asyncio.timeout(order.limit_seconds):
                    async for batch in quotes.batches():
                        left -= len(batch)
                        if not left:
                            break
            talk.found(last_ns=time.perf_counter_ns(), missing=left)


async def receive_timed(talk: Talk, *, address: str) -> None:
    """How long each message was under way."""
    async with _subscribed(address, [EVERYTHING], "best-effort") as (_, (quotes,)):
        async for order in talk.orders():
            taken = list[int]()
            await talk.go()
            with suppress(TimeoutError):
                async with asyncio.timeout(order.limit_seconds):
                    async for quote in quotes:
                        taken.append(time.perf_counter_ns() - quote["sent_ns"])
                        if len(taken) == order.count:
                            break
            last_ns = time.perf_counter_ns()
            talk.found(last_ns=last_ns, missing=order.count - len(taken), **latencies(taken))


async def receive_steady(talk: Talk, *, address: str) -> None:
    """When each record arrives, whatever dies on the way."""
    async with _subscribed(address, [EVERYTHING], "reliable") as (_, (quotes,)):
        async for order in talk.orders():
            arrivals = Arrivals(order.count)
            await talk.go()
            with suppress(TimeoutError):
                async with asyncio.timeout(order.limit_seconds):
                    async for quote in quotes:
                        if arrivals.note(quote["id"]):
                            break
            talk.found(**arrivals.found())


async def link_bytes(server: Server) -> dict[str, int]:
    """What has gone over each link between brokers so far, in both directions."""
    found = {}
    for address in server.addresses:
        async with sluice.connect(address) as bus:
            report = await bus.describe()
        for link in report["links"]:
            # A link has two ends: the one with the smaller name tells.
            if link["role"] == "broker" and report["name"] < link["peer"]:
                found[f"{report['name']}–{link['peer']}"] = link["bytes_in"] + link["bytes_out"]
    return found


ROLES = {
    "publish": publish,
    "publish_arrow": publish_arrow,
    "publish_keyed": publish_keyed,
    "publish_paced": publish_paced,
    "publish_durable": publish_durable,
    "receive": receive,
    "receive_arrow": receive_arrow,
    "receive_keyed": receive_keyed,
    "receive_timed": receive_timed,
    "receive_steady": receive_steady,
}
