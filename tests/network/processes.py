"""A network of real processes and sockets for tests, with a relay in the middle of a link that can be cut and healed.

Everything waits for conditions: that a broker listens, that the brokers know each other, that something was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sluice.broker.supervise import Network
from sluice.broker.topology import Topology
from sluice.net.address import Address


class Relay:
    """Passes bytes between whoever connects and a broker, until it is cut."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._transports: list[asyncio.Transport] = []
        self._is_cut = False
        self.address = target

    async def start(self) -> None:
        """Listens on a port that the kernel picks."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self, self._open), "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Breaks all connections; nobody gets through until `heal`."""
        self._is_cut = True
        for transport in self._transports:
            transport.abort()

    def heal(self) -> None:
        """Lets connections through again."""
        self._is_cut = False

    async def stop(self) -> None:
        """Ends everything."""
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def opened(self, transport: asyncio.Transport) -> None:
        """There is another end of a connection."""
        self._transports.append(transport)
        if self._is_cut:
            transport.abort()

    def closed(self, transport: asyncio.Transport) -> None:
        """There is no more."""
        self._transports.remove(transport)

    async def _open(self, near: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _End(self, None, near), *self._target[:2])
        except OSError:
            near.transport.abort()


class _End(asyncio.Protocol):
    """One end of a connection through a relay. What comes before the other end is there waits in the socket."""

    transport: asyncio.Transport

    def __init__(self, relay: Relay, open_other: Callable[[_End], Any] | None, other: _End | None = None) -> None:
        self._relay = relay
        self._open_other = open_other
        self._opening: asyncio.Task[None] | None = None
        self.other = other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._relay.opened(transport)
        if self._open_other is not None:
            transport.pause_reading()
            self._opening = asyncio.get_running_loop().create_task(self._open_other(self))
        elif self.other is not None:
            self.other.other = self
            if self.other.transport.is_closing():
                transport.abort()
            else:
                self.other.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.closed(self.transport)
        if self.other is not None:
            self.other.transport.abort()


@asynccontextmanager
async def started(topology: Topology, *relayed: str) -> AsyncIterator[tuple[Network, dict[str, Relay]]]:
    """The network of a topology, listening; the links that the `relayed` brokers dial lead through relays, by their names."""
    network = Network(topology)
    relays: dict[str, Relay] = {}
    try:
        for name in relayed:
            (above,) = topology.above[name]
            relay = relays[name] = Relay(network.addresses[above])
            await relay.start()
            broker = network.brokers[name]
            broker.config = replace(broker.config, links=(str(relay.address),))
        for name in network.brokers:
            network.launch(name)
        for name in network.brokers:
            await asyncio.to_thread(network.wait, name)
        yield network, relays
    finally:
        # Nothing of it is looked at any more: to kill is enough, and quick.
        network.close()
        for relay in relays.values():
            await relay.stop()


async def restart(network: Network, name: str) -> None:
    """Starts a broker again; the event loop goes on meanwhile."""
    await asyncio.to_thread(network.restart, name)
