"""How long does it take? Passes over the notifications, the best of them, and latencies.

A pass goes through all notifications, or as many as fit in its time limit: slow systems are measured on a sample, and
the figures say so. Results are checked while they are measured: a wrong answer fast is no answer.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PASSES = 3
#: Short passes are repeated more often, for about this long, because a short one is easily disturbed.
REPEAT_SECONDS = 1.0
MOST_PASSES = 20
#: Records between two looks at the clock: looking must not cost a fast system anything.
_STRIDE = 16


@dataclass(frozen=True, slots=True)
class Runner:
    """A system with its subscriptions loaded: plain callables, so that measuring adds nothing to them."""

    match: Callable[[Any], Any]
    """From a record batch (or one record) to the system's own kind of result, which holds all the ids."""
    count: Callable[[Any], int]
    """How many ids a result holds."""
    ids: Callable[[Any, int], list[list[int]]]
    """The ids of a result by notification, given the number of notifications; for checking, never timed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk through the notifications."""

    events: int
    ids: int
    seconds: float
    """Processor time: on one core with one thread the time it takes, whatever else the machine is doing."""
    elapsed_seconds: float

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


@dataclass(frozen=True, slots=True)
class Timing:
    """The best pass, whether it saw all notifications, and how many passes were made."""

    best: Pass
    complete: bool
    passes: int


def measure(runner: Runner, items: Sequence[Any], limit_seconds: float) -> Timing:
    """A warm-up pass and then the best of three or more; of one, where a pass is cut short by its limit."""
    gc.collect()
    # What was loaded stays: no collection should walk it again in the middle of a pass.
    gc.freeze()
    try:
        total = sum(_weight(item) for item in items)
        warm = _walk(runner, items, limit_seconds)
        repeats = 1
        if warm.events == total:
            repeats = min(MOST_PASSES, max(PASSES, int(REPEAT_SECONDS / warm.elapsed_seconds)))
        passes = [_walk(runner, items, limit_seconds) for _ in range(repeats)]
    finally:
        gc.unfreeze()
    best = max(passes, key=lambda one: (one.events == total, one.rate))
    return Timing(best, best.events == total, len(passes))


def _weight(item: Any) -> int:
    """The number of notifications in a batch; a single record is a dict."""
    return 1 if isinstance(item, dict) else int(item.num_rows)


def _walk(runner: Runner, items: Sequence[Any], limit_seconds: float) -> Pass:
    match, count = runner.match, runner.count
    stride = _STRIDE if items and isinstance(items[0], dict) else 1
    done = ids = 0
    processor, start = time.process_time(), time.perf_counter()
    for first in range(0, len(items), stride):
        for item in items[first : first + stride]:
            ids += count(match(item))
            done += 1
        if time.process_time() - processor > limit_seconds:
            break
    seconds, elapsed = time.process_time() - processor, time.perf_counter() - start
    return Pass(sum(_weight(item) for item in items[:done]), ids, seconds, elapsed)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and worst, in microseconds."""
    values = np.asarray(seconds) * 1e6
    return {
        "p50": float(np.percentile(values, 50)),
        "p99": float(np.percentile(values, 99)),
        "max": float(values.max()),
    }
