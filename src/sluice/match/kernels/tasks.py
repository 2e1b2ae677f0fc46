"""Which records of a batch lead to which buckets? Noted for all of them first, so that a bucket is read once for a batch.

A task is the first group of a bucket and, below it, a record of the batch. Tasks of the same bucket stand together. Records are
taken one behind the other for each key that there is, and what the next ones look up is announced meanwhile.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.heap import find, find_from, hash_key, place_of
from sluice.match.kernels.layout import (
    KEY_PAIR,
    KEY_RANGE,
    KEY_SINGLE,
    MASK,
    MISSING,
    PAIRS,
    RANGES,
    S_GROUP,
    SINGLES,
    TOP,
)
from sluice.match.kernels.pointers import int64s, prefetch

#: A task is a bucket and below it, in as many bits, an event.
EVENT_BITS = 28
EVENTS = (1 << EVENT_BITS) - 1
#: Records whose look-ups are announced before the first of them is made.
AHEAD = 128
#: Bits by which tasks are sorted at a time.
DIGIT = 8


@njit(cache=True)
def end_of_run(tasks, start, count):
    """Where the tasks of the same bucket end."""
    end = start
    while end < count and tasks[end] >> EVENT_BITS == tasks[start] >> EVENT_BITS:
        end += 1
    return end


@njit(cache=True)
def note(heap, upper, lower, fields, count, tasks, spare):
    """Writes the tasks of a batch of `count` records, those of each bucket side by side; returns how many.

    Arguments are addresses and counts. `tasks` and `spare` have room for a task per record and key.
    """
    mem, high, low, todo, other = int64s(heap), int64s(upper), int64s(lower), int64s(tasks), int64s(spare)
    noted = 0
    for i in range(mem[SINGLES + 2]):
        field = mem[mem[SINGLES] + 2 * i]
        noted = _look_up(mem, field * 8 + KEY_SINGLE, field, 0, high, low, fields, count, todo, noted)
    for i in range(mem[PAIRS + 2]):
        first, second = mem[mem[PAIRS] + 3 * i], mem[mem[PAIRS] + 3 * i + 1]
        tag = (first * 65536 + second) * 8 + KEY_PAIR
        noted = _look_up(mem, tag, first, second, high, low, fields, count, todo, noted)
    _sort(mem, todo, other, noted)
    # Whoever has a value leads to the intervals of its field, so those are together as they are.
    for i in range(mem[RANGES + 2]):
        word = mem[mem[RANGES] + 2 * i]
        slot = find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0)
        nothing = 0 if word & 3 == MASK else MISSING
        for event in range(count):
            todo[noted] = mem[slot + S_GROUP] << EVENT_BITS | event
            noted += np.int64(high[event * fields + (word >> 2)] != nothing)
    return noted


@njit(cache=True)
def _look_up(mem, tag, first, second, upper, lower, fields, count, tasks, noted):
    """Notes the buckets of all records under the keys of two fields, or of one and the constant."""
    hashes, events = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int64)
    for start in range(0, count, AHEAD):
        asked = 0
        for event in range(start, min(start + AHEAD, count)):
            at, other = event * fields + first, event * fields + second
            events[asked], hashes[asked] = event, hash_key(tag, upper[at], upper[other])
            is_one = (upper[at] == lower[at]) & (upper[other] == lower[other])
            asked += np.int64(is_one & (upper[at] != MISSING) & (upper[other] != MISSING))
        for i in range(asked):
            place = place_of(mem, hashes[i])
            prefetch(mem, place)
            prefetch(mem, place + S_GROUP)  # a slot may lie on two lines
        for i in range(asked):
            row = events[i] * fields
            slot = find_from(mem, hashes[i], tag, upper[row + first], upper[row + second])
            if slot != 0 and mem[slot + S_GROUP] != 0:
                tasks[noted] = mem[slot + S_GROUP] << EVENT_BITS | events[i]
                noted += 1
    return noted


@njit(cache=True)
def _sort(mem, tasks, spare, count):
    """Sorts tasks by their buckets, and leaves those of the same one as they are."""
    ends = np.empty(1 << DIGIT, np.int64)
    shift, mask, swapped = EVENT_BITS, (1 << DIGIT) - 1, False
    while mem[TOP] >> (shift - EVENT_BITS) != 0:
        source, target = (spare, tasks) if swapped else (tasks, spare)
        ends[:] = 0
        for i in range(count):
            ends[source[i] >> shift & mask] += 1
        total = 0
        for digit in range(1 << DIGIT):
            total, ends[digit] = total + ends[digit], total
        for i in range(count):
            digit = source[i] >> shift & mask
            target[ends[digit]] = source[i]
            ends[digit] += 1
        shift += DIGIT
        swapped = not swapped
    if swapped:
        for i in range(count):
            tasks[i] = spare[i]
