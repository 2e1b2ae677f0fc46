"""How many records satisfy each row of the index? Counted without ever writing down which.

The records that lead to a group are laid out column by column, sorted by one field. The interval of a row on that field
is then a stretch of records, found by two searches; where the row tests nothing else the length of the stretch is the
answer, and else its further tests are made on the stretch, many records at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_DYNAMIC,
    G_FIELDS,
    G_LEAVES,
    G_REST,
    L_CAPACITY,
    L_ROWS,
    LEAF,
    LIST,
    MASK,
    RANGE,
)
from sluice.match.kernels.leaves import in_list
from sluice.match.kernels.pointers import int32s, int64s, uint8s
from sluice.match.kernels.scan import EVENT_BITS, end_of_run

EVENTS = (1 << EVENT_BITS) - 1


@njit(cache=True)
def survey(heap, tasks, count, often):
    """The most records that lead to one group; adds to `often` how many look-ups an order by each field would save."""
    mem, todo, times = int64s(heap), int64s(tasks), int64s(often)
    first = most = 0
    while first < count:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, count)
        most = max(most, last - first)
        for c in range(0 if mem[group + G_DYNAMIC] else mem[group + G_COLUMNS]):
            if mem[group + G_FIELDS + c] & 3 == RANGE:
                times[mem[group + G_FIELDS + c] >> 2] += last - first
        first = last
    return most


@njit(cache=True)
def rename(tasks, count, rank):
    """Calls each record of the tasks by its rank."""
    todo, new = int64s(tasks), int64s(rank)
    for task in range(count):
        todo[task] = todo[task] & ~EVENTS | new[todo[task] & EVENTS]


@njit(cache=True)
def count_slots(out, count, counts):
    """Adds one to the count of each slot that is written down."""
    slots, sums = int32s(out), int64s(counts)
    for i in range(count):
        sums[slots[i]] += 1


@njit(cache=True)
def count_groups(heap, upper, fields, sorted_by, tasks, count, keys, most, laid, flags, counts):
    """Adds to the count of each slot the records that satisfy its rows.

    Arguments are addresses and counts. Tasks are sorted by group; records are exact, and sorted by their field
    `sorted_by`. `keys` has room for every field of the most records that a group has, `laid` for a word per field,
    `flags` for a byte per record.
    """
    mem, m32, high, todo = int64s(heap), int32s(heap), int64s(upper), int64s(tasks)
    columns, ready, marks, sums = int64s(keys), int64s(laid), uint8s(flags), int64s(counts)
    first = 0
    while first < count:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, count)
        records = last - first
        for field in range(fields):
            ready[field] = 0
        for at in range(mem[group + G_LEAVES]):
            leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
            for row in range(mem[leaf + L_ROWS]):
                start, end, done = 0, records, -1
                tests = _tests(mem, group, leaf, row)
                for t in range(tests):
                    word, low, upmost = _test_of(mem, group, leaf, row, t)
                    column = _column(word >> 2, high, fields, todo, first, last, columns, most, ready)
                    if word == 4 * sorted_by + RANGE and done < 0:
                        start = _first_from(columns, column, column + records, low) - column
                        end = _first_above(columns, column + start, column + records, upmost) - column
                        done = t
                found = end - start
                if found > 0 and tests > (done >= 0):
                    found = _holding(mem, group, leaf, row, tests, done, columns, most, start, end, marks)
                sums[m32[2 * (leaf + LEAF) + row]] += found
        first = last


@njit(cache=True)
def _tests(mem, group, leaf, row):
    """How many tests a row makes."""
    columns = mem[group + G_COLUMNS]
    if mem[group + G_REST]:
        width = 1 + 2 * columns + mem[group + G_DYNAMIC]
        return columns + mem[mem[leaf + LEAF + mem[leaf + L_CAPACITY] * width + row]]
    return columns


@njit(cache=True)
def _test_of(mem, group, leaf, row, t):
    """One test of a row: its word, low and high end. First those in columns, then those in its list."""
    base, capacity, columns = leaf + LEAF + row, mem[leaf + L_CAPACITY], mem[group + G_COLUMNS]
    if t < columns:
        word = mem[base + capacity * (1 + 2 * columns)] if mem[group + G_DYNAMIC] else mem[group + G_FIELDS + t]
        return word, mem[base + capacity * (1 + 2 * t)], mem[base + capacity * (2 + 2 * t)]
    k = mem[base + capacity * (1 + 2 * columns + mem[group + G_DYNAMIC])] + 1 + 3 * (t - columns)
    return mem[k], mem[k + 1], mem[k + 2]


@njit(cache=True)
def _column(field, upper, fields, tasks, first, last, keys, most, ready):
    """Where the column of a field begins; the keys of a group's records are laid out there when they are first asked for."""
    at = field * most
    if not ready[field]:
        ready[field] = 1
        for task in range(first, last):
            keys[at + task - first] = upper[(tasks[task] & EVENTS) * fields + field]
    return at


@njit(cache=True)
def _first_from(keys, first, last, low):
    """The first place between `first` and `last` whose key is not below `low`, in sorted keys; without branches."""
    length = last - first
    while length > 0:
        half = length >> 1
        below = np.int64(keys[first + half] < low)
        first += below * (half + 1)
        length = below * (length - half - 1) + (1 - below) * half
    return first


@njit(cache=True)
def _first_above(keys, first, last, high):
    """The first place between `first` and `last` whose key is above `high`, in sorted keys; without branches."""
    length = last - first
    while length > 0:
        half = length >> 1
        inside = np.int64(keys[first + half] <= high)
        first += inside * (half + 1)
        length = inside * (length - half - 1) + (1 - inside) * half
    return first


@njit(cache=True)
def _holding(mem, group, leaf, row, tests, done, keys, most, start, end, marks):
    """How many of a stretch of records satisfy the tests of a row, but for the one that is done."""
    left = tests - (done >= 0)
    is_first = True
    for t in range(tests):
        if t == done:
            continue
        word, low, high = _test_of(mem, group, leaf, row, t)
        at, kind = (word >> 2) * most, word & 3
        if left == 1 and kind != LIST:
            if kind == MASK:
                return _count_mask(keys, at + start, at + end, low)
            return _count_range(keys, at + start, at + end, low, high)
        if is_first:
            for i in range(start, end):
                marks[i] = 1
            is_first = False
        if kind == MASK:
            _mark_mask(keys, at, start, end, low, marks)
        elif kind == LIST:
            for i in range(start, end):
                marks[i] &= np.uint8(in_list(mem, low, high, keys[at + i], keys[at + i]))
        else:
            _mark_range(keys, at, start, end, low, high, marks)
    found = np.int64(0)
    for i in range(start, end):
        found += marks[i]
    return found


@njit(cache=True)
def _mark_range(keys, at, start, end, low, high, marks):
    for i in range(start, end):
        marks[i] &= np.uint8((keys[at + i] >= low) & (keys[at + i] <= high))


@njit(cache=True)
def _mark_mask(keys, at, start, end, mask, marks):
    for i in range(start, end):
        marks[i] &= np.uint8(keys[at + i] & mask != 0)


@njit(cache=True)
def _count_range(keys, start, end, low, high):
    found = np.int64(0)
    for i in range(start, end):
        found += np.int64((keys[i] >= low) & (keys[i] <= high))
    return found


@njit(cache=True)
def _count_mask(keys, start, end, mask):
    found = np.int64(0)
    for i in range(start, end):
        found += np.int64(keys[i] & mask != 0)
    return found
