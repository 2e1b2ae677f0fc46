"""How many notifications the broker may send before the program takes some: the client's side of flow control.

The broker counts what it sends over a connection; the client tells it, in steps, up to which count it may go.
"""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """The credit of one client.

    >>> told = []
    >>> allowance = Allowance(8, told.append)
    >>> allowance.begin(), allowance.opened(), allowance.came(6), allowance.holds(6), allowance.taken(1), told
    (8, None, None, None, None, [])
    >>> allowance.taken(1)
    >>> told
    [10]
    """

    __slots__ = ("_came", "_grant", "_granted", "_held", "_is_open", "_prefetch", "_step")

    def __init__(self, prefetch: int, grant: Callable[[int], None]) -> None:
        self._prefetch = prefetch
        self._grant = grant
        self._step = max(1, prefetch // 4)
        #: What came over this connection, and what of it and of earlier ones the program has not taken.
        self._came = 0
        self._held = 0
        self._granted = 0
        #: Whether the broker can be told: not while a handshake goes on.
        self._is_open = False

    def begin(self) -> int:
        """A new connection: what the broker may send to begin with."""
        self._came = 0
        self._is_open = False
        self._granted = max(0, self._prefetch - self._held)
        return self._granted

    def opened(self) -> None:
        """The handshake is over: tells the broker of what the program has taken meanwhile."""
        self._is_open = True
        self.renew()

    def came(self, count: int) -> None:
        """So many notifications came."""
        self._came += count

    def holds(self, count: int) -> None:
        """So many of them wait for the program."""
        self._held += count

    def taken(self, count: int) -> None:
        """The program has taken so many."""
        self._held -= count
        self.renew()

    def renew(self) -> None:
        """Tells the broker how far it may go, if that is worth a message."""
        total = self._came - self._held + self._prefetch
        if self._is_open and total - self._granted >= self._step:
            self._granted = total
            self._grant(total)
