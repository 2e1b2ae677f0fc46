"""Which rows does one record satisfy? The inner loop of the matcher when records come one at a time.

The keys of a record lead to buckets, and what its buckets hold is tested leaf by leaf (`leaves.py`, `whole.py`). Memory is
announced before it is read. Batches go another way: see `tasks.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels import whole
from sluice.match.kernels.heap import find, hash_key, place_of, sortable
from sluice.match.kernels.layout import (
    G_DIRECTORY,
    G_INLINE,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_WHOLE,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SINGLE,
    L_CAPACITY,
    L_ROWS,
    LEAF,
    MASK,
    MISSING,
    PAIRS,
    RANGES,
    S_GROUP,
    SINGLES,
    STEP,
)
from sluice.match.kernels.leaves import leaf_bits, may_hold, steps_of
from sluice.match.kernels.pointers import int32s, int64s, prefetch, uint16s
from sluice.match.kernels.vectors import pack

# Positions in the cursor of a scan: matches and candidates written, whether there was no room, and how much room there is.
WRITTEN, PENDING, FULL, ROOM, PENDING_ROOM = range(5)


@njit(cache=True)
def scan_leaf(mem, m32, group, leaf, upper, lower, row, half, bits, picked, out, k):
    """Appends the slots of the rows of a leaf that hold for a record, or their entries; returns where the next one goes."""
    if mem[group + G_WHOLE]:
        return whole.scan(mem, m32, leaf, upper, lower, row, half, out, k)
    leaf_bits(mem, group, leaf, upper, lower, row, bits, 0, picked)
    column = 2 * (leaf + LEAF) + half * mem[leaf + L_CAPACITY]
    return pack_bits(m32, column, bits, 0, steps_of(mem, leaf), out, k)


@njit(cache=True)
def _scan_group(mem, m32, group, upper, lower, bits, picked, out, candidates, cursor):
    """Writes the rows of a group that match: slots to `out`, or entries to `candidates` if Python must look."""
    for at in range(mem[group + G_LEAVES]):
        entry = mem[group + G_DIRECTORY] + 3 * at
        if not may_hold(mem, group, entry, upper, lower, 0):
            continue
        leaf = mem[entry + 2]
        rows = mem[leaf + L_ROWS]
        if cursor[WRITTEN] + rows > cursor[ROOM] or cursor[PENDING] + rows > cursor[PENDING_ROOM]:
            cursor[FULL] = 1
            return
        if mem[group + G_PENDING]:
            cursor[PENDING] = scan_leaf(
                mem, m32, group, leaf, upper, lower, 0, whole.ENTRY, bits, picked, candidates, cursor[PENDING]
            )
        else:
            cursor[WRITTEN] = scan_leaf(
                mem, m32, group, leaf, upper, lower, 0, whole.SLOT, bits, picked, out, cursor[WRITTEN]
            )


@njit(cache=True)
def pack_bits(m32, column, bits, at, steps, out, k):
    """Appends the numbers in a column of the rows whose bits are set; returns where the next one goes."""
    for step in range(steps):
        k += pack(m32, column + STEP * step, bits[at + step], out, k)
    return k


@njit(cache=True)
def _announce_keys(mem, keys):
    """Announces all look-ups of a record before the first one is made: they are independent of each other."""
    entry = mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        prefetch(mem, place_of(mem, hash_key(mem[entry] * 8 + KEY_SINGLE, keys[mem[entry]], 0)))
        entry += 2
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        tag = (first * 65536 + second) * 8 + KEY_PAIR
        prefetch(mem, place_of(mem, hash_key(tag, keys[first], keys[second])))
        entry += 3


@njit(cache=True)
def _probe(mem, keys, found):
    """Notes the first groups of all buckets that a record leads to; returns how many."""
    count, entry = 0, mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        field = mem[entry]
        entry += 2
        if keys[field] != MISSING:
            count = _note(mem, find(mem, field * 8 + KEY_SINGLE, keys[field], 0), found, count)
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        entry += 3
        if keys[first] != MISSING and keys[second] != MISSING:
            tag = (first * 65536 + second) * 8 + KEY_PAIR
            count = _note(mem, find(mem, tag, keys[first], keys[second]), found, count)
    entry = mem[RANGES]
    for _ in range(mem[RANGES + 2]):
        word = mem[entry]
        entry += 2
        if keys[word >> 2] != (0 if word & 3 == MASK else MISSING):
            count = _note(mem, find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0), found, count)
    return count


@njit(cache=True)
def _note(mem, slot, found, count):
    """Notes the first group of a bucket, if there is one, and announces that it will be read."""
    if slot == 0 or mem[slot + S_GROUP] == 0:
        return count
    group = mem[slot + S_GROUP]
    prefetch(mem, group)
    prefetch(mem, group + G_INLINE + 2)
    found[count] = group
    return count + 1


@njit(cache=True)
def _match_buckets(mem, m32, keys, bits, picked, found, count, out, candidates, cursor):
    """All rows that one record satisfies, of the buckets in `found`."""
    for i in range(count):
        leaf = mem[mem[found[i] + G_DIRECTORY] + 2]
        prefetch(mem, leaf)
        prefetch(mem, leaf + 8)
        prefetch(mem, leaf + 16)
    for i in range(count):
        group = found[i]
        while group != 0:
            _scan_group(mem, m32, group, keys, keys, bits, picked, out, candidates, cursor)
            group = mem[group + G_NEXT]


@njit(cache=True)
def match_record(place):
    """Matches one record whose numbers are plain doubles.

    `place` is the address of one word each: heap, values, their defaults, how many, which of them are numbers, how many those
    are, and the five buffers of a scan. A single argument, because each one costs as much as a look-up in the index.
    Leaves the values blank for the next record, or as they were if there was no room for its matches. Returns how many slots
    were written, or -1 if there was no room.
    """
    given = int64s(place)
    mem, m32, keys, blank = int64s(given[0]), int32s(given[0]), int64s(given[1]), int64s(given[2])
    numbers, bits, picked, found = int64s(given[4]), uint16s(given[6]), int32s(given[7]), int64s(given[8])
    out, candidates, cursor = int32s(given[9]), int32s(given[10]), int64s(given[11])
    cursor[WRITTEN] = cursor[PENDING] = cursor[FULL] = 0
    _turn(keys, numbers, given[5])
    _announce_keys(mem, keys)
    count = _probe(mem, keys, found)
    _match_buckets(mem, m32, keys, bits, picked, found, count, out, candidates, cursor)
    if cursor[FULL]:
        _turn(keys, numbers, given[5])
        return -1
    for field in range(given[3]):
        keys[field] = blank[field]
    return cursor[WRITTEN]


@njit(cache=True)
def _turn(keys, numbers, count):
    """Turns doubles into sortable keys, or back: it is its own inverse."""
    for i in range(count):
        if keys[numbers[i]] != MISSING:
            keys[numbers[i]] = sortable(keys[numbers[i]])


@njit(cache=True)
def merge_rows(offsets, out, events, slots):
    """Joins sure matches and confirmed candidates (sorted by event) into one result of offsets and slots."""
    total = np.empty_like(offsets)
    joined = np.empty(out.shape[0] + slots.shape[0], np.int32)
    k = c = 0
    total[0] = 0
    for event in range(offsets.shape[0] - 1):
        for i in range(offsets[event], offsets[event + 1]):
            joined[k] = out[i]
            k += 1
        while c < events.shape[0] and events[c] == event:
            joined[k] = slots[c]
            k += 1
            c += 1
        total[event + 1] = k
    return total, joined
