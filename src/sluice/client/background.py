"""An event loop in a thread of its own, for programs that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """A thread that runs an event loop until it is stopped."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_finish())
        finally:
            self.loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts work in the loop; may be called in any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Does work in the loop and returns what it returns; raises `TimeoutError` if it takes longer."""
        future = self.start(within(work, timeout))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Calls a function in the loop, for what is not to be touched from another thread."""

        async def work() -> T:
            return function()

        return self.run(work())

    def stop(self) -> None:
        """Ends the loop and the thread; what still runs is cancelled."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


async def within(work: Coroutine[Any, Any, T], timeout: float | None) -> T:
    """Work that is given up when it takes longer than so many seconds."""
    # The loop itself ends what takes too long, so that nothing is done and its result lost.
    async with asyncio.timeout(timeout):
        return await work


async def _finish() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
