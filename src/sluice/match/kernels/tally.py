"""How many records satisfy each row of the index? Counted without ever writing down which.

The records that lead to a bucket are laid out column by column, sorted by one field. The interval of a row on that field
is then a stretch of records, found by two searches; where the row tests nothing else the length of the stretch is the
answer, and else its further tests are made on the stretch, many records at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_FIELDS,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    L_ROWS,
    LIST,
    MASK,
    RANGE,
)
from sluice.match.kernels.leaves import in_list
from sluice.match.kernels.pointers import int32s, int64s, uint8s
from sluice.match.kernels.tasks import EVENT_BITS, EVENTS, end_of_run
from sluice.match.kernels.walk import first_row, next_row, slot_of, test_of, tests_of


@njit(cache=True)
def survey(heap, tasks, count, often):
    """The most records that lead to one bucket, and whether Python must look at some matches.

    Adds to `often` how many look-ups an order by each field would save.
    """
    mem, todo, times = int64s(heap), int64s(tasks), int64s(often)
    first = most = pending = 0
    while first < count:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, count)
        most = max(most, last - first)
        while group != 0:
            pending |= mem[group + G_PENDING]
            for c in range(mem[group + G_COLUMNS]):
                if mem[group + G_FIELDS + c] & 3 == RANGE:
                    times[mem[group + G_FIELDS + c] >> 2] += last - first
            group = mem[group + G_NEXT]
        first = last
    return most, pending


@njit(cache=True)
def rename(tasks, count, rank):
    """Calls each record of the tasks by its rank."""
    todo, new = int64s(tasks), int64s(rank)
    for task in range(count):
        todo[task] = todo[task] & ~EVENTS | new[todo[task] & EVENTS]


@njit(cache=True)
def count_groups(heap, upper, fields, sorted_by, tasks, count, keys, most, laid, flags, counts):
    """Adds to the count of each slot the records that satisfy its rows, but for rows whose matches Python must look at.

    Arguments are addresses and counts. Tasks of the same bucket are together; records are exact, and sorted by their field
    `sorted_by`. `keys` has room for every field of the most records that a bucket has, `laid` for a word per field,
    `flags` for a byte per record.
    """
    mem, m32, high, todo = int64s(heap), int32s(heap), int64s(upper), int64s(tasks)
    columns, ready, marks, sums = int64s(keys), int64s(laid), uint8s(flags), int64s(counts)
    first = 0
    while first < count:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, count)
        for field in range(fields):
            ready[field] = 0
        while group != 0:
            for at in range(0 if mem[group + G_PENDING] else mem[group + G_LEAVES]):
                leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
                row = first_row(mem, group, leaf)
                for _ in range(mem[leaf + L_ROWS]):
                    found = _count_row(
                        mem,
                        m32,
                        group,
                        leaf,
                        row,
                        high,
                        fields,
                        sorted_by,
                        todo,
                        first,
                        last,
                        columns,
                        most,
                        ready,
                        marks,
                    )
                    sums[slot_of(mem, m32, group, leaf, row)] += found
                    row = next_row(mem, m32, group, row)
            group = mem[group + G_NEXT]
        first = last


@njit(cache=True)
def _count_row(mem, m32, group, leaf, row, upper, fields, sorted_by, tasks, first, last, columns, most, ready, marks):
    """How many of the records of some tasks satisfy a row."""
    records = last - first
    start, end, done = 0, records, -1
    tests = tests_of(mem, m32, group, leaf, row)
    for t in range(tests):
        word, low, high = test_of(mem, m32, group, leaf, row, t)
        column = _column(word >> 2, upper, fields, tasks, first, last, columns, most, ready)
        if word == 4 * sorted_by + RANGE and done < 0:
            start = _below(columns, column, records, low)
            end = _up_to(columns, column, records, high)
            done = t
    if end > start and tests > (done >= 0):
        return _holding(mem, m32, group, leaf, row, tests, done, columns, most, start, end, marks)
    return max(0, end - start)


@njit(cache=True)
def _column(field, upper, fields, tasks, first, last, keys, most, ready):
    """Where the column of a field begins; the keys of a bucket's records are laid out there when they are first asked for."""
    at = field * most
    if not ready[field]:
        ready[field] = 1
        for task in range(first, last):
            keys[at + task - first] = upper[(tasks[task] & EVENTS) * fields + field]
    return at


@njit(cache=True)
def _holding(mem, m32, group, leaf, row, tests, done, keys, most, start, end, marks):
    """How many of a stretch of records satisfy the tests of a row, but for the one that is done."""
    left = tests - (done >= 0)
    is_first = True
    for t in range(tests):
        if t == done:
            continue
        word, low, high = test_of(mem, m32, group, leaf, row, t)
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


@njit(cache=True)
def _below(keys, start, count, low):
    """How many of the sorted keys from `start` on are below `low`; without branches, which would mostly be guessed wrong."""
    first, length = start, count
    while length > 0:
        half = length >> 1
        is_below = keys[first + half] < low
        first = first + half + 1 if is_below else first
        length = length - half - 1 if is_below else half
    return first - start


@njit(cache=True)
def _up_to(keys, start, count, high):
    """How many of the sorted keys from `start` on are not above `high`."""
    first, length = start, count
    while length > 0:
        half = length >> 1
        is_inside = keys[first + half] <= high
        first = first + half + 1 if is_inside else first
        length = length - half - 1 if is_inside else half
    return first - start
