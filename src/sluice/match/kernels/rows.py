"""Clauses in and out of the index: each is one row of one group, inserted and removed in place."""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.access import bucket_key, choose, estimate
from sluice.match.kernels.groups import (
    copy_row,
    drop_group,
    drop_leaf,
    fit_core,
    free_rest,
    group_for,
    leaf_for,
    own_slot,
    store_rest,
)
from sluice.match.kernels.heap import count_in_list, find, find_or_add, largest_partition
from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_FIELDS,
    G_FIRST,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_ROWS,
    G_SECOND,
    G_SIGNATURE,
    G_SORTED,
    G_TAG,
    G_WHOLE,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SINGLE,
    L_CAPACITY,
    L_GROUP,
    L_ROWS,
    LEAF,
    LEAF_ROWS,
    PAGE,
    PAIRS,
    RANGES,
    RESERVE,
    ROWS,
    S_COUNT,
    S_GROUP,
    SINGLES,
    TOP,
)
from sluice.match.kernels.pointers import int32s, int64s
from sluice.match.kernels.whole import ENTRY, SHAPE, SLOT, after, put_in, take_out, test_at


@njit(cache=True)
def insert(heap, size, places, tests, starts, pairs, slots, entries, pending, axes, seen):
    """Adds clauses; returns how many were added, fewer than given when the heap must grow first."""
    mem, m32, where = int64s(heap), int32s(heap), int64s(places)
    choice = np.zeros(2, np.int64)
    for c in range(slots.shape[0]):
        leaves = 8 * LEAF_ROWS * (starts[c + 1] - starts[c] + 1)
        if mem[TOP] + RESERVE + leaves + 4 * pairs.shape[0] + largest_partition(mem) > size:
            return c
        mine = tests[starts[c] : starts[c + 1]]
        _insert_one(mem, m32, where, mine, pairs, slots[c], entries[c], pending[c], axes, seen, choice)
    return slots.shape[0]


@njit(cache=True)
def _insert_one(mem, m32, places, tests, pairs, number, entry, pending, axes, seen, choice):
    shares = np.empty(tests.shape[0], np.float64)
    estimate(tests, axes, seen, shares)
    kind = choose(mem, tests, axes, shares, choice)
    tag, first, second = bucket_key(tests, kind, choice)
    slot = find_or_add(mem, tag, first, second)
    used = np.zeros(tests.shape[0], np.bool_)
    if kind == KEY_RANGE:
        count_in_list(mem, RANGES, 2, tests[choice[0], 0], 0, 1)
    else:
        used[choice[0]] = True
        if kind == KEY_SINGLE:
            count_in_list(mem, SINGLES, 2, tests[choice[0], 0] >> 2, 0, 1)
        else:
            used[choice[1]] = True
            count_in_list(mem, PAIRS, 3, tests[choice[0], 0] >> 2, tests[choice[1], 0] >> 2, 1)
    group, columns = group_for(mem, slot, kind, tests, used, shares, pending, choice)
    mem[group + G_ROWS] += 1
    mem[ROWS] += 1
    if mem[group + G_WHOLE]:
        put_in(mem, m32, group, number, entry, tests, used, shares, pairs, places)
        return
    _put_in_columns(mem, m32, group, number, entry, tests, columns, used, shares, pairs, places)
    if mem[group + G_SIGNATURE] > 0 and mem[group + G_ROWS] == 1:
        _fetch_alike(mem, m32, group, places)


@njit(cache=True)
def _put_in_columns(mem, m32, group, number, entry, tests, columns, used, shares, pairs, places):
    """Stores a row of a group of columns; `columns` are the tests that these are, in their order."""
    low = tests[columns[0], 1] if columns.shape[0] else np.int64(0)
    at = leaf_for(mem, m32, group, low, places)
    directory = mem[group + G_DIRECTORY]
    leaf = mem[directory + 3 * at + 2]
    row, capacity, base = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY], leaf + LEAF
    m32[2 * base + row] = number
    m32[2 * base + capacity + row] = entry
    for c in range(columns.shape[0]):
        mem[base + capacity * (1 + 2 * c) + row] = tests[columns[c], 1]
        mem[base + capacity * (2 + 2 * c) + row] = tests[columns[c], 2]
    if mem[group + G_REST]:
        for c in range(columns.shape[0]):
            used[columns[c]] = True
        mem[base + capacity * (1 + 2 * columns.shape[0]) + row] = store_rest(mem, tests, used, shares, pairs)
    fit_core(mem, group, leaf, row)
    if mem[group + G_SORTED]:
        mem[directory + 3 * at] = min(mem[directory + 3 * at], low)
        mem[directory + 3 * at + 1] = max(mem[directory + 3 * at + 1], tests[columns[0], 2])
    mem[leaf + L_ROWS] += 1
    places[entry] = leaf * PAGE + row


@njit(cache=True)
def _fetch_alike(mem, m32, group, places):
    """Brings the rows that test the same fields as those of a new group over to it, if they are stored whole.

    They came before there were enough of them. As columns they are tested sixteen at a time, also on a single record.
    """
    mixed = mem[find(mem, mem[group + G_TAG], mem[group + G_FIRST], mem[group + G_SECOND]) + S_GROUP]
    while mixed != 0 and not (mem[mixed + G_WHOLE] and mem[mixed + G_PENDING] == mem[group + G_PENDING]):
        mixed = mem[mixed + G_NEXT]
    if mixed == 0:
        return
    count = mem[group + G_COLUMNS]
    tests, columns = np.empty((count, 3), np.int64), np.arange(count)
    entries, found = np.empty(mem[mixed + G_ROWS], np.int64), 0
    for at in range(mem[mixed + G_LEAVES]):
        leaf = mem[mem[mixed + G_DIRECTORY] + 3 * at + 2]
        row = leaf + LEAF
        for _ in range(mem[leaf + L_ROWS]):
            if _has_columns(mem, m32, group, row, tests):
                entries[found] = m32[2 * row + ENTRY]
                found += 1
            row = after(row, m32[2 * row + SHAPE])
    for entry in entries[:found]:
        leaf, place = places[entry] // PAGE, places[entry] % PAGE
        row = leaf + LEAF + place
        number = m32[2 * row + SLOT]
        _has_columns(mem, m32, group, row, tests)
        take_out(mem, m32, leaf, place, places)
        if mem[leaf + L_ROWS] == 0:
            drop_leaf(mem, mixed, leaf)
        used, shares = np.zeros(count, np.bool_), np.zeros(count, np.float64)
        _put_in_columns(mem, m32, group, number, entry, tests, columns, used, shares, columns, places)
    mem[group + G_ROWS] += found
    mem[own_slot(mem, group) + S_COUNT] = mem[group + G_ROWS]
    mem[mixed + G_ROWS] -= found
    if mem[mixed + G_ROWS] == 0:
        drop_group(mem, mixed)


@njit(cache=True)
def _has_columns(mem, m32, group, row, tests):
    """Whether a row that is stored whole tests just the fields of a group; `tests` are its tests in that order then."""
    shape, count = np.int64(m32[2 * row + SHAPE]), mem[group + G_COLUMNS]
    if shape >> 1 != count:
        return False
    for t in range(count):
        word, low, high = test_at(mem, m32, row, shape, t)
        c = 0
        while c < count and mem[group + G_FIELDS + c] != word:
            c += 1
        if c == count:
            return False
        tests[c, 0], tests[c, 1], tests[c, 2] = word, low, high
    return True


@njit(cache=True)
def remove(heap, places, entries):
    """Takes rows out, in columns by moving the last row of the leaf into the place of each."""
    mem, m32, where = int64s(heap), int32s(heap), int64s(places)
    for entry in entries:
        leaf, row = where[entry] // PAGE, where[entry] % PAGE
        group = mem[leaf + L_GROUP]
        if mem[group + G_WHOLE]:
            take_out(mem, m32, leaf, row, where)
        else:
            _take_out_of_columns(mem, m32, group, leaf, row, where)
        mem[group + G_ROWS] -= 1
        mem[ROWS] -= 1
        where[entry] = 0
        _uncount(mem, group)
        if mem[leaf + L_ROWS] == 0:
            drop_leaf(mem, group, leaf)
        if mem[group + G_ROWS] == 0:
            drop_group(mem, group)


@njit(cache=True)
def _take_out_of_columns(mem, m32, group, leaf, row, places):
    if mem[group + G_REST]:
        column = 1 + 2 * mem[group + G_COLUMNS]
        free_rest(mem, mem[leaf + LEAF + mem[leaf + L_CAPACITY] * column + row])
    last = mem[leaf + L_ROWS] - 1
    if row != last:
        copy_row(mem, m32, group, leaf, last, leaf, row, places)
    mem[leaf + L_ROWS] = last


@njit(cache=True)
def _uncount(mem, group):
    """One row less behind the group's access key and signature."""
    tag = mem[group + G_TAG]
    if tag & 7 == KEY_SINGLE:
        count_in_list(mem, SINGLES, 2, tag >> 3, 0, -1)
    elif tag & 7 == KEY_PAIR:
        count_in_list(mem, PAIRS, 3, (tag >> 3) // 65536, (tag >> 3) % 65536, -1)
    else:
        count_in_list(mem, RANGES, 2, (tag >> 3) * 4 + mem[group + G_FIRST], 0, -1)
    if mem[group + G_SIGNATURE] > 0:
        own = own_slot(mem, group)
        mem[own + S_COUNT] -= 1
