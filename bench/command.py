"""What the commands of the benchmarks have in common: measure, print, write, and say how long it took."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console

R = TypeVar("R")

INTERRUPTED = 130


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def words(known: Sequence[str], what: str) -> Callable[[str], tuple[str, ...]]:
    """A parser for a comma-separated choice of known words; empty means none."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(filter(None, text.split(",")))
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"no {what} {word!r}; choose from {', '.join(known)}")
        return words

    return parse


def conduct(
    measure: Callable[[], R],
    show: Callable[[Console, R], None],
    write: Callable[[R, Path], None],
    directory: Path | None,
    fails: Callable[[R], bool],
) -> int:
    """Measures, prints, and writes the results if there is a place for them: 1 if it fails, 130 if interrupted."""
    start = time.perf_counter()
    try:
        run = measure()
    except KeyboardInterrupt:
        say("stopped; nothing was written")
        return INTERRUPTED
    show(Console(width=None if sys.stdout.isatty() else 160), run)
    if directory is not None:
        write(run, directory)
        say(f"written to {os.path.relpath(directory)}")
    say(f"took {time.perf_counter() - start:.0f} s")
    return 1 if fails(run) else 0
