"""Wakes those who wait for something to change. Nothing is handed over with it: whoever wakes looks for himself.

So nothing can get lost with a waiter that is cancelled in the very moment in which it is woken.
"""

from __future__ import annotations

import asyncio


class Signal:
    """Something that can change, for the tasks of one event loop."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        #: A dictionary for its order, and because a waiter that gives up leaves at once.
        self._waiters: dict[asyncio.Future[None], None] = {}

    async def wait(self) -> None:
        """Returns after the next change."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

    def notify(self) -> None:
        """It has changed."""
        if self._waiters:
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
