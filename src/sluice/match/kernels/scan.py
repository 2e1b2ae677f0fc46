"""Which rows does a record satisfy? The inner loop of the matcher.

The keys of a record lead to buckets, and what its buckets hold is tested leaf by leaf (`leaves.py`). Memory is announced
before it is read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.heap import _S58, find, hash_key, sortable
from sluice.match.kernels.layout import (
    G_DIRECTORY,
    G_FIELDS,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_ROWS,
    G_SORTED,
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
    SLOT,
    STEP,
    TABLE,
)
from sluice.match.kernels.leaves import has_values, leaf_bits, steps_of
from sluice.match.kernels.pointers import int32s, int64s, prefetch, uint16s
from sluice.match.kernels.vectors import pack

# Positions in the cursor of a scan: matches and candidates written, whether there was no room, how much room there is, and
# the same for the tasks that a batch leaves for later: groups of so many rows or more.
WRITTEN, PENDING, FULL, ROOM, PENDING_ROOM, TASKS, TASK_ROOM, TASK_ROWS = range(8)
#: A task is a group and below it, in as many bits, an event.
EVENT_BITS = 28


@njit(cache=True)
def end_of_run(tasks, start, count):
    """Where the tasks of the same group end."""
    end = start
    while end < count and tasks[end] >> EVENT_BITS == tasks[start] >> EVENT_BITS:
        end += 1
    return end


@njit(cache=True)
def _scan_group(mem, m32, group, upper, lower, row, bits, picked, out, candidates, cursor, event):
    """Writes the rows of a group that match: slots to `out`, or (event, entry) to `candidates` if Python must look."""
    if not has_values(mem, group, upper, row):
        return
    is_sorted = mem[group + G_SORTED]
    first = row + (mem[group + G_FIELDS] >> 2)
    highest, lowest = upper[first], lower[first]
    entry = mem[group + G_DIRECTORY]
    for _ in range(mem[group + G_LEAVES]):
        if is_sorted:
            if mem[entry] > highest:
                break
            if mem[entry + 1] < lowest:
                entry += 3
                continue
        leaf = mem[entry + 2]
        entry += 3
        rows, slots = mem[leaf + L_ROWS], 2 * (leaf + LEAF)
        if cursor[WRITTEN] + rows > cursor[ROOM] or cursor[PENDING] + rows > cursor[PENDING_ROOM]:
            cursor[FULL] = 1
            return
        leaf_bits(mem, group, leaf, upper, lower, row, bits, 0, picked)
        if mem[group + G_PENDING]:
            count = pack_bits(m32, slots + mem[leaf + L_CAPACITY], bits, 0, steps_of(mem, leaf), picked, 0)
            for i in range(count):
                candidates[cursor[PENDING] + i] = event << 32 | np.int64(picked[i])
            cursor[PENDING] += count
        else:
            cursor[WRITTEN] = pack_bits(m32, slots, bits, 0, steps_of(mem, leaf), out, cursor[WRITTEN])


@njit(cache=True)
def pack_bits(m32, column, bits, at, steps, out, k):
    """Appends the numbers in a column of the rows whose bits are set; returns where the next one goes."""
    for step in range(steps):
        k += pack(m32, column + STEP * step, bits[at + step], out, k)
    return k


@njit(cache=True)
def _announce_keys(mem, upper, row):
    """Announces all look-ups of a record before the first one is made: they are independent of each other."""
    entry = mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        _announce(mem, mem[entry] * 8 + KEY_SINGLE, upper[row + mem[entry]], 0)
        entry += 2
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        _announce(mem, (first * 65536 + second) * 8 + KEY_PAIR, upper[row + first], upper[row + second])
        entry += 3


@njit(cache=True)
def _probe(mem, upper, lower, row, found, count):
    """Notes the first groups of all buckets that a record leads to, from `found[count]` on; returns where they end."""
    entry = mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        field = mem[entry]
        entry += 2
        value = upper[row + field]
        if value != MISSING and value == lower[row + field]:
            count = _note(mem, find(mem, field * 8 + KEY_SINGLE, value, 0), found, count)
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        entry += 3
        a, b = upper[row + first], upper[row + second]
        if a != MISSING and b != MISSING and a == lower[row + first] and b == lower[row + second]:
            count = _note(mem, find(mem, (first * 65536 + second) * 8 + KEY_PAIR, a, b), found, count)
    entry = mem[RANGES]
    for _ in range(mem[RANGES + 2]):
        word = mem[entry]
        entry += 2
        if upper[row + (word >> 2)] != (0 if word & 3 == MASK else MISSING):
            count = _note(mem, find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0), found, count)
    return count


@njit(cache=True)
def _announce(mem, tag, first, second):
    h = hash_key(tag, first, second)
    part = TABLE + 3 * np.int64(h >> _S58)
    if mem[part + 1] != 0:
        prefetch(mem, mem[part] + SLOT * np.int64(h & np.uint64(mem[part + 1] - 1)))


@njit(cache=True)
def _note(mem, slot, found, count):
    """Notes the first group of a bucket, if there is one, and announces that it will be read."""
    if slot == 0 or mem[slot + S_GROUP] == 0:
        return count
    group = mem[slot + S_GROUP]
    prefetch(mem, group)
    prefetch(mem, group + G_DIRECTORY)
    found[count] = group
    return count + 1


@njit(cache=True)
def _match_event(mem, m32, upper, lower, row, bits, picked, found, start, end, out, candidates, cursor, tasks, event):
    """All rows that one record satisfies, of the buckets in `found[start:end]`; its keys begin at `row`.

    A large group is only noted as a task, if there is room for it: see `sluice.match.kernels.tiles`.
    """
    for i in range(start, end):
        leaf = mem[mem[found[i] + G_DIRECTORY] + 2]
        prefetch(mem, leaf)
        prefetch(mem, leaf + 8)
        prefetch(mem, leaf + 16)
    for i in range(start, end):
        group = found[i]
        while group != 0:
            at = cursor[TASKS]
            if mem[group + G_ROWS] >= cursor[TASK_ROWS] and at < cursor[TASK_ROOM] and not mem[group + G_PENDING]:
                tasks[at] = group << EVENT_BITS | event
                cursor[TASKS] = at + 1
            else:
                _scan_group(mem, m32, group, upper, lower, row, bits, picked, out, candidates, cursor, event)
            group = mem[group + G_NEXT]


@njit(cache=True)
def match_record(place):
    """Matches one record whose numbers are plain doubles.

    `place` is the address of one word each: heap, values, their defaults, how many, which of them are numbers, how many those
    are, and the five buffers of a scan. A single argument, because each one costs as much as a look-up in the index.
    Leaves the values blank for the next record, or as they were if there was no room for its matches.
    """
    given = int64s(place)
    mem, m32, keys, blank = int64s(given[0]), int32s(given[0]), int64s(given[1]), int64s(given[2])
    numbers, bits, picked, found = int64s(given[4]), uint16s(given[6]), int32s(given[7]), int64s(given[8])
    out, candidates, cursor = int32s(given[9]), int64s(given[10]), int64s(given[11])
    cursor[WRITTEN] = cursor[PENDING] = cursor[FULL] = 0
    _turn(keys, numbers, given[5])
    _announce_keys(mem, keys, 0)
    end = _probe(mem, keys, keys, 0, found, 0)
    _match_event(mem, m32, keys, keys, 0, bits, picked, found, 0, end, out, candidates, cursor, candidates, 0)
    if cursor[FULL]:
        _turn(keys, numbers, given[5])
    else:
        for field in range(given[3]):
            keys[field] = blank[field]


@njit(cache=True)
def _turn(keys, numbers, count):
    """Turns doubles into sortable keys, or back: it is its own inverse."""
    for i in range(count):
        if keys[numbers[i]] != MISSING:
            keys[numbers[i]] = sortable(keys[numbers[i]])


@njit(cache=True)
def match_rows(
    heap, upper, lower, fields, bits, picked, found, half, out, candidates, cursor, tasks, offsets, count, start
):
    """Matches records of `fields` keys each, from `start` on; returns the first one not done for want of room.

    All arguments but the counts are addresses. Buckets are looked up one record ahead, and keys announced two ahead, so that
    what they lead to has arrived in the cache when it is its turn. `found` has room for the buckets of two records.
    """
    mem, m32, state, ends = int64s(heap), int32s(heap), int64s(cursor), int64s(offsets)
    high, low, slots, pending = int64s(upper), int64s(lower), int32s(out), int64s(candidates)
    words, rows, groups, later = uint16s(bits), int32s(picked), int64s(found), int64s(tasks)
    first, last = 0, _probe(mem, high, low, start * fields, groups, 0)
    for event in range(start, count):
        written, waiting, left = state[WRITTEN], state[PENDING], state[TASKS]
        row, ahead = event * fields, (event + 1) * fields
        if event + 2 < count:
            _announce_keys(mem, high, ahead + fields)
        next_first = next_last = half - first
        if event + 1 < count:
            next_last = _probe(mem, high, low, ahead, groups, next_first)
        _match_event(mem, m32, high, low, row, words, rows, groups, first, last, slots, pending, state, later, event)
        first, last = next_first, next_last
        if state[FULL]:
            state[WRITTEN], state[PENDING], state[TASKS], state[FULL] = written, waiting, left, 0
            return event
        ends[event + 1] = state[WRITTEN]
    return count


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


@njit(cache=True)
def move_rows(offsets, out, slots, places):
    """Copies the matches of each record to where `places` says, and moves `places` behind them."""
    for event in range(places.shape[0]):
        for i in range(offsets[event], offsets[event + 1]):
            slots[places[event]] = out[i]
            places[event] += 1
