"""The setting of the paper's evaluation over real processes: a chain of core brokers, each with edge brokers around it.

Every broker is a process of its own. Links can lead through relays in this process that keep what they carry for a random time,
first in, first out: on loopback alone publications hardly ever meet on their way, and all see the same order by luck.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random

from sluice.broker.supervise import Network
from sluice.broker.topology import Topology, topology
from sluice.client.bus import Bus
from sluice.net.address import Address

#: Edge brokers of a core broker, as in section V.
EDGES = 5
LOOK_SECONDS = 0.01


def data_centres(cores: int, edges: int = EDGES, settings: Mapping[str, object] | None = None) -> Topology:
    """A chain of core brokers with so many edge brokers each.

    >>> list(data_centres(2, 1).brokers)
    ['core1', 'core2', 'edge1-1', 'edge2-1']
    """
    centres = [f"core{number}" for number in range(1, cores + 1)]
    names = edges_of(cores, edges)
    links = [*pairwise(centres), *((f"core{name[4:].partition('-')[0]}", name) for name in names)]
    return topology("links", [*centres, *names], links=links, settings={"log_level": "error", **(settings or {})})


def edges_of(cores: int, edges: int = EDGES) -> list[str]:
    """The names of all edge brokers."""
    return [f"edge{core}-{edge}" for core in range(1, cores + 1) for edge in range(1, edges + 1)]


class SlowLink:
    """A relay in the middle of a link: what has come is kept for a random time, and meanwhile what follows waits."""

    def __init__(self, target: Address, mean_seconds: float, random: Random) -> None:
        self._target, self._mean_seconds, self._random = target, mean_seconds, random
        self._server: asyncio.Server | None = None
        self._carrying: list[asyncio.Task[None]] = []
        self.address = target

    async def start(self) -> None:
        """Listens on a port that the kernel picks."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Ends when its connections do: those of brokers that are gone."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._carrying)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target[:2])
        except OSError:
            writer.close()
            return
        for ends in ((reader, far_writer), (far_reader, writer)):
            self._carrying.append(asyncio.create_task(self._carry(*ends)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self._random.expovariate(1 / self._mean_seconds))
                writer.write(data)
        except ConnectionError:
            pass  # a broker was killed: the story is over
        finally:
            writer.close()


@asynccontextmanager
async def standing(net: Topology, *, mean_seconds: float = 0.0, seed: int = 0) -> AsyncIterator[Network]:
    """The brokers of a network, all listening; with a mean delay, every link takes a random time around it."""
    network = Network(net)
    async with AsyncExitStack() as stack:
        for name, above in net.above.items() if mean_seconds else ():
            link = SlowLink(network.addresses[above[0]], mean_seconds, Random(f"{seed} {name}"))
            await link.start()
            stack.push_async_callback(link.stop)
            broker = network.brokers[name]
            broker.config = replace(broker.config, links=(str(link.address),))
        stack.callback(network.close)
        for name in network.brokers:
            network.launch(name)
        for name in network.brokers:
            await asyncio.to_thread(network.wait, name)
        yield network


async def acquainted(buses: Sequence[Bus], brokers: int) -> None:
    """Waits until the brokers of these clients know of so many brokers."""
    for bus in buses:
        while len((await bus.describe())["brokers"]) < brokers:
            await asyncio.sleep(LOOK_SECONDS)
