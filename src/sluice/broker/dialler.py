"""Keeps links to neighbours up: dials each of them, and again when a link breaks, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from sluice.broker.logs import log
from sluice.broker.peering import Host, Peering
from sluice.broker.security import Security
from sluice.net.address import Address
from sluice.net.tls import dial
from sluice.protocol.wire.link import Hello

#: How long a dialled broker may take to answer.
HANDSHAKE_SECONDS = 10.0
#: Between two attempts to reach a neighbour.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.05, 0.5


class Dialler:
    """The links that one broker has opened, and those that it tries to open."""

    def __init__(self, host: Host, security: Security, hello: Callable[[Peering], Hello]) -> None:
        self._host = host
        self._security = security
        self._hello = hello
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        #: Why there is no link to those that it tries to reach.
        self.problems: dict[Address, str] = {}

    def keeps(self, address: Address) -> bool:
        """Whether there is to be a link to the broker at an address."""
        return address in self._tasks

    def keep(self, address: Address, peering: Peering | None = None) -> None:
        """From now on there is to be a link to the broker at an address; there may be one already."""
        if address not in self._tasks:
            self._security.warn_of_plain(address, self._security.token)
            self._tasks[address] = asyncio.get_running_loop().create_task(self._keep(address, peering))

    def drop(self, address: Address) -> None:
        """From now on nobody is dialled there; a link that is up stays."""
        task = self._tasks.pop(address, None)
        self.problems.pop(address, None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Dials nobody any more."""
        tasks = [*self._tasks.values()]
        for address in [*self._tasks]:
            self.drop(address)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, address: Address, peering: Peering | None) -> None:
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                peering = peering or await self.open(address)
            except OSError as error:
                self.problems[address] = str(error) or "it does not answer"
                if retry == LAST_RETRY_SECONDS:
                    log("unreachable", level=logging.WARNING, address=str(address), reason=str(error))
            else:
                await peering.connection.over.wait()
                if peering.is_up:
                    retry = FIRST_RETRY_SECONDS
                self.problems[address] = peering.farewell.reason if peering.farewell else "the connection broke"
                peering = None
            await asyncio.sleep(retry * (1 + random.random()))
            retry = min(retry * 2, LAST_RETRY_SECONDS)

    async def open(self, address: Address, job: str | None = None, *, is_added: bool = False) -> Peering:
        """A connection on which hello was said, for a job or because an operator adds a link.

        An `OSError` is raised if nobody is there, or not soon enough.
        """
        peering = Peering(self._host, dialled=address, job=job)
        peering.is_added = is_added
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await dial(peering.end, address, self._security.trusted)
        peering.connection.send(self._hello(peering))
        return peering
