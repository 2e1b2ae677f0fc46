"""Durable brokers in this process, in a thread of their own, for tests that need real ones and none that dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from sluice.broker.server import Server
from sluice.client.background import Background
from tests.broker.raw import directory, running


class Brokers:
    """A line of brokers: where they are, and what they report."""

    def __init__(self, servers: dict[str, Server], background: Background) -> None:
        self._servers = servers
        self._background = background
        #: Their addresses by name.
        self.at = {name: str(server.address) for name, server in servers.items()}

    @property
    def addresses(self) -> str:
        """All addresses, as the option `brokers` takes them."""
        return ",".join(self.at.values())

    def report(self, name: str) -> dict[str, Any]:
        """The account that a broker gives of itself."""
        return self._background.call(self._servers[name].report)


@contextmanager
def brokers(folder: Path, *names: str, **settings: Any) -> Iterator[Brokers]:
    """Brokers, each linked to the one before it, that keep their logs in a folder."""
    background = Background("brokers")
    stack = AsyncExitStack()

    async def start() -> dict[str, Server]:
        servers: dict[str, Server] = {}
        for name in names:
            links = tuple(str(server.address) for server in [*servers.values()][-1:])
            own = {**directory(folder, name), "links": links, **settings}
            servers[name] = await stack.enter_async_context(running(**own))
        for server in servers.values():
            while len(server.report()["brokers"]) < len(names):
                await asyncio.sleep(0.005)
        return servers

    try:
        yield Brokers(background.run(start()), background)
    finally:
        background.run(stack.aclose())
        background.stop()
