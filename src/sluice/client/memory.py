"""`memory://name`: a broker in this process, for tests and for programs that are a network of their own.

It runs in a thread of its own and speaks the usual protocol over pairs of sockets, so it is shared by all connections with the
same name, whatever loops and threads they are in. It is gone, with all it held, when the last of them closes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import ClassVar

from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.client.background import Background
from sluice.net.address import IN_PROCESS
from sluice.net.connection import Connection


class Embedded:
    """The broker behind one name."""

    _all: ClassVar[dict[str, Embedded]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str) -> None:
        self._name = name
        self._users = 0
        self._server = Server(ServerConfig(name=name))
        self._background = Background(f"sluice-memory-{name}")
        self._started = self._background.start(self._server.start(listens=False))

    @classmethod
    def of(cls, address: str) -> Embedded:
        """The broker at an address, with one user more; it is started if there is none."""
        name = address.removeprefix(IN_PROCESS).rstrip("/") or "memory"
        with cls._lock:
            if name not in cls._all:
                cls._all[name] = cls(name)
            cls._all[name]._users += 1
            return cls._all[name]

    async def started(self) -> None:
        """Returns when it can be used; the first of a machine compiles its kernels."""
        await asyncio.shield(asyncio.wrap_future(self._started))

    async def dial(self, make: Callable[[], Connection], _: str) -> None:
        """Connects to it."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._background.start(self._server.attach(theirs))
        await asyncio.get_running_loop().create_connection(make, sock=ours)

    def release(self) -> None:
        """One user less; the last one stops it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            del self._all[self._name]
        self._background.run(self._stop())
        self._background.stop()

    async def _stop(self) -> None:
        await asyncio.wrap_future(self._started)
        await self._server.stop()
