"""`sluice.connect`: where a program meets the network. What it returns is used with `async with`, or with a plain `with`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.client.background import Background
from sluice.client.blocking import BlockingBus
from sluice.client.bus import Bus
from sluice.client.engine import Engine
from sluice.client.gap import Gap
from sluice.client.link import Dial
from sluice.client.options import Options
from sluice.errors import ConfigurationError
from sluice.net.address import DEFAULT_PORT, TLS_SCHEME, Address
from sluice.net.connection import Connection
from sluice.net.tls import dial, trust

if TYPE_CHECKING:
    from sluice.client.memory import Embedded

logger = logging.getLogger("sluice.client")

#: How an address begins that means a broker in this process.
SCHEME = "memory://"


def connect(
    address: str | None = None,
    name: str | None = None,
    *,
    policy: str = "drop-oldest",
    prefetch: int = 65_536,
    on_gap: Callable[[Gap], None] | None = None,
    reconnect: bool = True,
    connect_seconds: float = 5.0,
    give_up_seconds: float | None = None,
    close_seconds: float = 5.0,
    token: str | None = None,
    tls_authority: str | os.PathLike[str] | None = None,
) -> Connector:
    """A connection to a broker, once it is entered: `async with sluice.connect(...) as bus`.

    Without an address it is that in the environment variable `SLUICE_ADDRESS`, or `sluice://127.0.0.1:7470`; with
    `sluices://` it is dialled with TLS. `token` and `tls_authority` are by default those in `SLUICE_TOKEN` and
    `SLUICE_TLS_AUTHORITY`. The fields of `sluice.client.options.Options` say what the options mean.
    """
    address = address or default_address()
    remote = None if address.startswith(SCHEME) else Address.of(address)
    if tls_authority is not None and remote is not None and not remote.is_tls:
        raise ConfigurationError(
            f"tls_authority is given, but {remote} is dialled without TLS: write {TLS_SCHEME}://, or leave it out"
        )
    authority = tls_authority or os.environ.get("SLUICE_TLS_AUTHORITY")
    options = Options(
        name=name,
        policy=policy,
        prefetch=prefetch,
        on_gap=on_gap,
        reconnect=reconnect,
        connect_seconds=connect_seconds,
        give_up_seconds=give_up_seconds,
        close_seconds=close_seconds,
        token=os.environ.get("SLUICE_TOKEN") or None if token is None else token,
        tls_authority=Path(authority) if authority else None,
    )
    return Connector(address if remote is None else remote, options)


def default_address() -> str:
    """Where a broker is looked for if nobody says where it is."""
    return os.environ.get("SLUICE_ADDRESS") or str(Address("127.0.0.1", DEFAULT_PORT))


class Connector:
    """A connection that is not open yet."""

    def __init__(self, address: str | Address, options: Options) -> None:
        self._address = str(address)
        self._options = options
        #: Where the broker is, if it is not in this process.
        self._remote = address if isinstance(address, Address) else None
        # What is wrong with a certificate is said at once.
        self._trusted = trust(options.tls_authority) if self._remote is not None and self._remote.is_tls else None
        self._embedded: Embedded | None = None
        self._engine: Engine | None = None
        self._blocking: BlockingBus | None = None

    async def __aenter__(self) -> Bus:
        return Bus(await self._open())

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._close(flush=error is None)

    def __enter__(self) -> BlockingBus:
        background = Background("sluice-client")
        try:
            self._blocking = BlockingBus(background.run(self._open()), background)
            return self._blocking
        except BaseException:
            background.stop()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._blocking is not None
        flush = False
        try:
            if error is None:
                self._blocking.hand_over(self._options.close_seconds)
                flush = True
        finally:
            self._blocking.end(self._close(flush=flush))

    async def _open(self) -> Engine:
        if self._engine is not None:
            raise ConfigurationError("this connection was opened before: call sluice.connect again")
        try:
            self._engine = Engine(self._address, await self._dial(), self._options)
            await self._engine.open()
            return self._engine
        except BaseException:
            await self._release()
            raise

    async def _close(self, *, flush: bool) -> None:
        assert self._engine is not None
        try:
            await self._engine.close(flush=flush)
        finally:
            await self._release()

    async def _dial(self) -> Dial:
        if self._remote is not None:
            if self._options.token is not None and not self._remote.is_tls and not self._remote.is_loopback:
                logger.warning("the token goes to %s without TLS, and others may read it: use TLS", self._remote)
            return self._dial_remote
        from sluice.client.memory import Embedded

        self._embedded = Embedded.of(self._address)
        await self._embedded.started()
        return self._embedded.dial

    async def _dial_remote(self, make: Callable[[], Connection]) -> None:
        assert self._remote is not None
        await dial(make, self._remote, self._trusted)

    async def _release(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.release)
