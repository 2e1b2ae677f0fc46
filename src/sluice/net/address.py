"""Where a broker is: `sluice://host:port`, or `memory://name` for one inside this process."""

from __future__ import annotations

from typing import NamedTuple

from sluice.errors import ConfigurationError

#: Where a broker listens unless told otherwise.
DEFAULT_PORT = 7470


class Address(NamedTuple):
    """A host and a port.

    >>> Address.of("sluice://127.0.0.1:7470"), Address.of("localhost"), str(Address.of("[::1]:9"))
    (Address(host='127.0.0.1', port=7470), Address(host='localhost', port=7470), 'sluice://[::1]:9')
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Reads `sluice://host:port`, `host:port` or `host`."""
        scheme, separator, rest = text.rpartition("://")
        if separator and scheme != "sluice":
            raise ConfigurationError(f"{text!r} is no address of a broker: write sluice://host:port")
        rest = rest.rstrip("/")
        bare = rest.startswith("[") and rest.endswith("]")
        host, colon, port = (rest, "", "") if bare else rest.rpartition(":")
        if not colon:
            host, port = rest, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{text!r} is no address of a broker: write sluice://host:port, port 0 to 65535")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"sluice://[{self.host}]:{self.port}" if ":" in self.host else f"sluice://{self.host}:{self.port}"
