"""`sluice.connect`: where a program meets the network. What it returns is used with `async with`, or with a plain `with`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
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
from sluice.net.address import IN_PROCESS, TLS_SCHEME, Address, default_address
from sluice.net.connection import Connection
from sluice.net.tls import dial, trust

if TYPE_CHECKING:
    from sluice.client.memory import Embedded

logger = logging.getLogger("sluice.client")


def connect(
    address: str | Sequence[str] | None = None,
    name: str | None = None,
    *,
    policy: str = "drop-oldest",
    prefetch: int = 65_536,
    on_gap: Callable[[Gap], None] | None = None,
    reconnect: bool = True,
    connect_seconds: float = 5.0,
    give_up_seconds: float | None = None,
    move_seconds: float | None = 10.0,
    close_seconds: float = 5.0,
    token: str | None = None,
    tls_authority: str | os.PathLike[str] | None = None,
) -> Connector:
    """A connection to a broker, once it is entered: `async with sluice.connect(...) as bus`.

    Without an address it is that in the environment variable `SLUICE_ADDRESS`, or `sluice://127.0.0.1:7470`; with
    `sluices://` it is dialled with TLS. Of several, in a list or with commas between them, the first that answers is taken;
    when it is gone for long the client goes on at another, or at one that its broker has told it of. `token` and
    `tls_authority` are by default those in `SLUICE_TOKEN` and `SLUICE_TLS_AUTHORITY`. The fields of
    `sluice.client.options.Options` say what the options mean.
    """
    addresses = addresses_of(default_address() if address in (None, "") else address)
    is_remote = not addresses[0].startswith(IN_PROCESS)
    if tls_authority is not None and is_remote and not any(Address.of(each).is_tls for each in addresses):
        raise ConfigurationError(
            f"tls_authority is given, but {', '.join(addresses)} is dialled without TLS: write {TLS_SCHEME}://, or leave it out"
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
        move_seconds=move_seconds,
        close_seconds=close_seconds,
        token=os.environ.get("SLUICE_TOKEN") or None if token is None else token,
        tls_authority=Path(authority) if authority else None,
    )
    return Connector(addresses, options)


def addresses_of(said: str | Sequence[str]) -> list[str]:
    """The addresses in a list, or in a text with commas between them.

    >>> addresses_of("a:7470, sluices://b"), addresses_of(["memory://tests"])
    (['sluice://a:7470', 'sluices://b:7470'], ['memory://tests'])
    """
    texts = [part.strip() for part in said.split(",")] if isinstance(said, str) else [*said]
    if not texts:
        raise ConfigurationError("no broker is named: give the address of one at least, as in sluice://127.0.0.1:7470")
    if any(text.startswith(IN_PROCESS) for text in texts):
        if len(texts) > 1:
            raise ConfigurationError(f"{', '.join(texts)}: a broker in this process is never gone, so name it alone")
        return texts
    return [str(Address.of(text)) for text in texts]


class Connector:
    """A connection that is not open yet."""

    def __init__(self, addresses: Sequence[str], options: Options) -> None:
        self._addresses = addresses
        self._options = options
        #: Whether the broker is not in this process.
        self._is_remote = not addresses[0].startswith(IN_PROCESS)
        # What is wrong with a certificate is said at once.
        is_tls = self._is_remote and any(Address.of(address).is_tls for address in addresses)
        self._trusted = trust(options.tls_authority) if is_tls else None
        self._warned: set[Address] = set()
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
            self._engine = Engine(self._addresses, await self._dial(), self._options)
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
        if self._is_remote:
            return self._dial_remote
        from sluice.client.memory import Embedded

        self._embedded = Embedded.of(self._addresses[0])
        await self._embedded.started()
        return self._embedded.dial

    async def _dial_remote(self, make: Callable[[], Connection], text: str) -> None:
        address = Address.of(text)
        if self._options.token is not None and not address.is_tls and not address.is_loopback:
            self._warn_of_plain(address)
        if address.is_tls and self._trusted is None:  # its broker has told it of this one
            self._trusted = trust(self._options.tls_authority)
        await dial(make, address, self._trusted)

    def _warn_of_plain(self, address: Address) -> None:
        """Tells once where the token goes that others can read on its way."""
        if address not in self._warned:
            self._warned.add(address)
            logger.warning("the token goes to %s without TLS, and others may read it: use TLS", address)

    async def _release(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.release)
