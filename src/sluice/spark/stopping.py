"""Ctrl-C for programs that run until somebody stops them: the first one asks, the second one insists."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Something that Ctrl-C or SIGTERM sets, so that what is under way is finished; a second one interrupts that too."""
    stop = threading.Event()

    def told(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
