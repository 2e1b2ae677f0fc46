"""`sluice.connect`: where a program meets the network. What it returns is used with `async with`, or with a plain `with`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from sluice.client.bus import Bus
from sluice.client.engine import Engine
from sluice.client.gap import Gap
from sluice.client.link import Dial
from sluice.client.options import Options
from sluice.net.address import Address
from sluice.net.connection import Connection


def connect(
    address: str = "sluice://127.0.0.1:7470",
    name: str | None = None,
    *,
    policy: str = "drop-oldest",
    prefetch: int = 65_536,
    on_gap: Callable[[Gap], None] | None = None,
    reconnect: bool = True,
    connect_seconds: float = 5.0,
    give_up_seconds: float | None = None,
    close_seconds: float = 5.0,
) -> Connector:
    """A connection to a broker, once it is entered: `async with sluice.connect(...) as bus`.

    The fields of `sluice.client.options.Options` say what the options mean.
    """
    options = Options(
        name=name,
        policy=policy,
        prefetch=prefetch,
        on_gap=on_gap,
        reconnect=reconnect,
        connect_seconds=connect_seconds,
        give_up_seconds=give_up_seconds,
        close_seconds=close_seconds,
    )
    return Connector(address, options)


class Connector:
    """A connection that is not open yet."""

    def __init__(self, address: str, options: Options) -> None:
        self._address = address
        self._options = options
        self._dial = _dial(Address.of(address))
        self._engine: Engine | None = None

    async def __aenter__(self) -> Bus:
        self._engine = Engine(self._address, self._dial, self._options)
        await self._engine.open()
        return Bus(self._engine)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._engine is not None
        await self._engine.close(flush=error is None)


def _dial(address: Address) -> Dial:
    async def dial(make: Callable[[], Connection]) -> None:
        await asyncio.get_running_loop().create_connection(make, address.host, address.port)

    return dial
