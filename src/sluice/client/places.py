"""Where a client can be: at the brokers it was given the addresses of, and at those that its broker has told it of. Pure.

A client stays with its broker: when a link breaks it tries the same address for a while, since what it has published may be
there and nowhere else. Then it tries all it knows. A broker that leaves for good says where to go on: that is tried first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sluice.errors import ConfigurationError
from sluice.net.address import TLS_SCHEME, Address


class Places:
    """The addresses that a client knows, and which of them to try now.

    >>> places = Places(["sluice://a:1", "sluice://b:1"], move_seconds=5)
    >>> places.arrived("sluice://a:1"), places.told(["sluice://c:1"]), places.lost(now=100.0)
    (None, None, None)
    >>> places.candidates(now=101.0), places.candidates(now=105.0)
    (['sluice://a:1'], ['sluice://a:1', 'sluice://b:1', 'sluice://c:1'])
    """

    def __init__(self, given: Sequence[str], move_seconds: float | None) -> None:
        self.given = tuple(given)
        self._move_seconds = math.inf if move_seconds is None else move_seconds
        #: Where it is, or was last; None: it was nowhere yet.
        self.home: str | None = None
        #: Where its broker said that it could go on.
        self._told: tuple[str, ...] = ()
        self._lost_at = -math.inf
        self._was_left = False

    def __str__(self) -> str:
        return self.home or ", ".join(self.given)

    def arrived(self, address: str) -> None:
        """The broker at an address has let it in."""
        self.home, self._told, self._was_left = address, (), False

    def told(self, addresses: Iterable[str]) -> None:
        """Its broker knows of others."""
        self._told = tuple(address for address in addresses if self._may_dial(address))

    def lost(self, now: float, elsewhere: Sequence[str] = ()) -> None:
        """The link is gone; `elsewhere` is where a broker that has left for good says that others are."""
        self._lost_at = now
        if elsewhere:
            self.told(elsewhere)
            self._was_left = True

    def candidates(self, now: float) -> list[str]:
        """The addresses to try now, in order."""
        if self.home is None:
            return [*self.given]
        if self._was_left:
            others = [address for address in (*self._told, *self.given) if address != self.home]
            return [*dict.fromkeys((*others, self.home))]
        if now - self._lost_at < self._move_seconds:
            return [self.home]
        return [*dict.fromkeys((self.home, *self.given, *self._told))]

    def _may_dial(self, text: str) -> bool:
        """Whether an address is one: and where others need TLS, that it is dialled with it."""
        try:
            address = Address.of(text)
        except ConfigurationError:
            return False
        return address.is_tls or not any(given.startswith(TLS_SCHEME) for given in self.given)
