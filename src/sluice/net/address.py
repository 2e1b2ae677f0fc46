"""Where a broker is: `sluice://host:port`, or `sluices://host:port` for one that is dialled with TLS."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import NamedTuple

from sluice.errors import ConfigurationError

#: Where a broker listens unless told otherwise.
DEFAULT_PORT = 7470
#: How addresses begin: that of a broker that is dialled without TLS, and with it.
SCHEMES = PLAIN_SCHEME, TLS_SCHEME = "sluice", "sluices"
#: How an address begins that means a broker in this process.
IN_PROCESS = "memory://"


class Address(NamedTuple):
    """A host and a port, and whether they are dialled with TLS.

    >>> Address.of("sluice://127.0.0.1:7470"), str(Address.of("localhost")), str(Address.of("sluices://[::1]:9"))
    (Address(host='127.0.0.1', port=7470, is_tls=False), 'sluice://localhost:7470', 'sluices://[::1]:9')
    """

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def of(cls, text: str) -> Address:
        """Reads `sluice://host:port`, `sluices://host:port`, `host:port` or `host`."""
        scheme, separator, rest = text.rpartition("://")
        if separator and scheme not in SCHEMES:
            raise ConfigurationError(
                f"{text!r} is no address of a broker: write sluice://host:port, or sluices:// for TLS"
            )
        rest = rest.rstrip("/")
        bare = rest.startswith("[") and rest.endswith("]")
        host, colon, port = (rest, "", "") if bare else rest.rpartition(":")
        if not colon:
            host, port = rest, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{text!r} is no address of a broker: write sluice://host:port, port 0 to 65535")
        return cls(host, int(port), scheme == TLS_SCHEME)

    @property
    def is_loopback(self) -> bool:
        """Whether what is sent there stays on this machine.

        >>> [Address.of(text).is_loopback for text in ("localhost", "127.0.0.1", "[::1]", "0.0.0.0", "broker.example")]
        [True, True, True, False, False]
        """
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_anywhere(self) -> bool:
        """Whether it is where somebody listens at all addresses of a machine, which nobody else can dial.

        >>> [Address.of(text).is_anywhere for text in ("0.0.0.0", "[::]", "127.0.0.1", "broker.example")]
        [True, True, False, False]
        """
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS_SCHEME if self.is_tls else PLAIN_SCHEME}://{host}:{self.port}"


#: Where a broker is looked for if nobody says where it is.
DEFAULT_ADDRESS = str(Address("127.0.0.1", DEFAULT_PORT))
#: What the help says of an address that need not be given.
DEFAULT_HELP = f"(default: $SLUICE_ADDRESS, or {DEFAULT_ADDRESS})"


def default_address() -> str:
    """The address in the environment, or else the usual one."""
    return os.environ.get("SLUICE_ADDRESS") or DEFAULT_ADDRESS
