"""Groups of rows and their leaves: where in its bucket a clause is stored, and how leaves grow, split and go.

Rows of a bucket that test the same fields get a group of their own, stored column by column. The others share a mixed group:
where an equality leads to them they are stored whole (`whole.py`); where an interval does, it is their first column, and what
they test besides is a list. Leaves of columns are ordered by the low ends of the first one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.access import least, signature_of
from sluice.match.kernels.heap import _C3, find, find_or_add, give, take
from sluice.match.kernels.layout import (
    COLUMN_ROWS,
    FIRST_ROWS,
    G_CAPACITY,
    G_COLUMNS,
    G_DIRECTORY,
    G_FIELDS,
    G_FIRST,
    G_INLINE,
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
    KEY_RANGE,
    KEY_SIGNATURE,
    L_CAPACITY,
    L_GROUP,
    L_ROWS,
    LARGEST,
    LEAF,
    LEAF_ROWS,
    LIST,
    MISSING,
    MIXED_ROWS,
    PAGE,
    RANGE,
    S_COUNT,
    S_FIRST,
    S_GROUP,
    S_SECOND,
    S_TAG,
)


@njit(cache=True)
def width_of(mem, group):
    """Words per row of a group's leaves."""
    return 1 + 2 * mem[group + G_COLUMNS] + mem[group + G_REST]


@njit(cache=True)
def _new_leaf(mem, group, capacity):
    leaf = take(mem, _leaf_words(mem, group, capacity))
    mem[leaf + L_GROUP], mem[leaf + L_ROWS], mem[leaf + L_CAPACITY] = group, 0, capacity
    core = core_of(mem, group, leaf)
    for c in range(mem[group + G_COLUMNS]):
        mem[core + 2 * c], mem[core + 2 * c + 1] = MISSING, LARGEST
    return leaf


@njit(cache=True)
def _leaf_words(mem, group, capacity):
    if mem[group + G_WHOLE]:
        return LEAF + capacity
    return LEAF + capacity * width_of(mem, group) + 2 * mem[group + G_COLUMNS]


@njit(cache=True)
def core_of(mem, group, leaf):
    """The address of the cores of a leaf of columns."""
    return leaf + LEAF + mem[leaf + L_CAPACITY] * width_of(mem, group)


@njit(cache=True)
def fit_core(mem, group, leaf, row):
    """Narrows the cores of a leaf to what its new row lets through. A row that goes leaves them as they are: still true."""
    core, capacity = core_of(mem, group, leaf), mem[leaf + L_CAPACITY]
    for c in range(mem[group + G_COLUMNS]):
        low = leaf + LEAF + capacity * (1 + 2 * c) + row
        mem[core + 2 * c] = max(mem[core + 2 * c], mem[low])
        mem[core + 2 * c + 1] = min(mem[core + 2 * c + 1], mem[low + capacity])


@njit(cache=True)
def copy_row(mem, m32, group, source, i, target, j, places):
    """Copies row i of one leaf to row j of another (or the same) and notes where its entry is now."""
    old, new = source + LEAF, target + LEAF
    old_capacity, new_capacity = mem[source + L_CAPACITY], mem[target + L_CAPACITY]
    entry = m32[2 * old + old_capacity + i]
    m32[2 * new + j] = m32[2 * old + i]
    m32[2 * new + new_capacity + j] = entry
    for c in range(1, width_of(mem, group)):
        mem[new + new_capacity * c + j] = mem[old + old_capacity * c + i]
    fit_core(mem, group, target, j)
    places[entry] = target * PAGE + j


@njit(cache=True)
def directory_insert(mem, group, at, low, high, leaf):
    count, capacity, directory = mem[group + G_LEAVES], mem[group + G_CAPACITY], mem[group + G_DIRECTORY]
    if count == capacity:
        larger = 2 * capacity
        new = take(mem, 3 * larger)
        for k in range(3 * count):
            mem[new + k] = mem[directory + k]
        if capacity > 1:
            give(mem, directory, 3 * capacity)
        mem[group + G_CAPACITY], mem[group + G_DIRECTORY] = larger, new
        directory = new
    for k in range(3 * count - 1, 3 * at - 1, -1):
        mem[directory + k + 3] = mem[directory + k]
    mem[directory + 3 * at], mem[directory + 3 * at + 1], mem[directory + 3 * at + 2] = low, high, leaf
    mem[group + G_LEAVES] = count + 1


@njit(cache=True)
def _split(mem, m32, group, at, places):
    """Divides a full leaf of a sorted group in two at the median of its low ends."""
    directory = mem[group + G_DIRECTORY]
    leaf = mem[directory + 3 * at + 2]
    rows, capacity = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY]
    base = leaf + LEAF
    lows = np.empty(rows, np.int64)
    for i in range(rows):
        lows[i] = mem[base + capacity + i]
    order = np.argsort(lows, kind="mergesort")
    half = rows // 2
    left, right = _new_leaf(mem, group, LEAF_ROWS), _new_leaf(mem, group, LEAF_ROWS)
    left_high, right_high = np.int64(MISSING), np.int64(MISSING)
    for k in range(rows):
        i = order[k]
        high = mem[base + 2 * capacity + i]
        if k < half:
            copy_row(mem, m32, group, leaf, i, left, k, places)
            left_high = max(left_high, high)
        else:
            copy_row(mem, m32, group, leaf, i, right, k - half, places)
            right_high = max(right_high, high)
    mem[left + L_ROWS], mem[right + L_ROWS] = half, rows - half
    mem[directory + 3 * at], mem[directory + 3 * at + 1] = lows[order[0]], left_high
    mem[directory + 3 * at + 2] = left
    directory_insert(mem, group, at + 1, lows[order[half]], right_high, right)
    give(mem, leaf, _leaf_words(mem, group, capacity))


@njit(cache=True)
def leaf_for(mem, m32, group, low, places):
    """The place in the directory of the leaf that takes a row with this low end; it has room afterwards."""
    count = mem[group + G_LEAVES]
    if count == 0:
        leaf = _new_leaf(mem, group, FIRST_ROWS)
        directory_insert(mem, group, 0, low if mem[group + G_SORTED] else MISSING, MISSING, leaf)
        return 0
    at = count - 1
    if mem[group + G_SORTED]:
        directory = mem[group + G_DIRECTORY]
        first, last = 0, count - 1
        while first < last:
            middle = (first + last + 1) // 2
            if mem[directory + 3 * middle] <= low:
                first = middle
            else:
                last = middle - 1
        at = first
    leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
    capacity = mem[leaf + L_CAPACITY]
    if mem[leaf + L_ROWS] < capacity:
        return at
    if capacity < LEAF_ROWS:
        larger = _new_leaf(mem, group, 2 * capacity)
        for i in range(capacity):
            copy_row(mem, m32, group, leaf, i, larger, i, places)
        mem[larger + L_ROWS] = capacity
        mem[mem[group + G_DIRECTORY] + 3 * at + 2] = larger
        give(mem, leaf, _leaf_words(mem, group, capacity))
        return at
    if mem[group + G_SORTED]:
        _split(mem, m32, group, at, places)
        if mem[mem[group + G_DIRECTORY] + 3 * (at + 1)] <= low:
            at += 1
        return at
    directory_insert(mem, group, count, MISSING, LARGEST, _new_leaf(mem, group, FIRST_ROWS))
    return count


@njit(cache=True)
def new_group(mem, slot, signature, pending, whole, rest, tests, columns):
    """A group of a bucket, linked in front of the others. `columns` lists the tests that become its columns."""
    count = columns.shape[0]
    group = take(mem, G_FIELDS + max(1, count))
    mem[group + G_NEXT] = mem[slot + S_GROUP]
    mem[group + G_TAG], mem[group + G_FIRST], mem[group + G_SECOND] = mem[slot], mem[slot + 1], mem[slot + 2]
    mem[group + G_SIGNATURE] = signature
    mem[group + G_PENDING], mem[group + G_WHOLE], mem[group + G_REST] = pending, whole, rest
    mem[group + G_COLUMNS] = count
    mem[group + G_CAPACITY], mem[group + G_DIRECTORY] = 1, group + G_INLINE
    for c in range(count):
        mem[group + G_FIELDS + c] = tests[columns[c], 0]
    mem[group + G_SORTED] = count > 0 and tests[columns[0], 0] & 3 == RANGE
    mem[slot + S_GROUP] = group
    return group


@njit(cache=True)
def mixed_group(mem, slot, pending, whole, rest, tests, columns):
    """The bucket's group for rows of any fields behind the same columns, made if there is none."""
    name = np.int64(-1)
    for c in range(columns.shape[0]):
        name -= (tests[columns[c], 0] + 1) << (24 * c)
    group = mem[slot + S_GROUP]
    while group != 0:
        if mem[group + G_SIGNATURE] == name and mem[group + G_PENDING] == pending and mem[group + G_REST] == rest:
            return group
        group = mem[group + G_NEXT]
    return new_group(mem, slot, name, pending, whole, rest, tests, columns)


@njit(cache=True)
def low_of(mem, tests, t, pairs):
    """What is stored as the low end of a test: for a list the address of its intervals, which are copied."""
    if tests[t, 0] & 3 != LIST:
        return tests[t, 1]
    words = 2 * tests[t, 2]
    copy = take(mem, words)
    for i in range(words):
        mem[copy + i] = pairs[2 * tests[t, 1] + i]
    return copy


@njit(cache=True)
def store_rest(mem, tests, used, shares, pairs):
    """Writes the tests that are no columns as a list, most selective first: count, then (test word, low, high) each."""
    count = 0
    for t in range(tests.shape[0]):
        if not used[t]:
            count += 1
    address = take(mem, 1 + 3 * count)
    mem[address] = count
    for k in range(address + 1, address + 1 + 3 * count, 3):
        t = -1
        for other in range(tests.shape[0]):
            if not used[other] and (t < 0 or shares[other] < shares[t]):
                t = other
        used[t] = True
        mem[k], mem[k + 1], mem[k + 2] = tests[t, 0], low_of(mem, tests, t, pairs), tests[t, 2]
    return address


@njit(cache=True)
def free_rest(mem, address):
    for i in range(mem[address]):
        k = address + 1 + 3 * i
        if mem[k] & 3 == LIST:
            give(mem, mem[k + 1], 2 * mem[k + 2])
    give(mem, address, 1 + 3 * mem[address])


@njit(cache=True)
def group_for(mem, slot, kind, tests, used, shares, pending, choice):
    """The group of a bucket that a clause belongs to, and the tests that are its columns there."""
    open_tests, lists = 0, 0
    for t in range(tests.shape[0]):
        if not used[t]:
            open_tests += 1
            if tests[t, 0] & 3 == LIST:
                lists += 1
    primary = choice[0] if kind == KEY_RANGE else least(tests, used, shares)
    tag, first, second = mem[slot + S_TAG], mem[slot + S_FIRST], mem[slot + S_SECOND]
    if lists == 0 and _rows_in_bucket(mem, slot) >= MIXED_ROWS:
        signature = signature_of(tests, used)
        own = find_or_add(mem, tag * 16 + pending * 8 + KEY_SIGNATURE, first, with_signature(second, signature))
        mem[own + S_COUNT] += 1
        if mem[own + S_GROUP] == 0 and mem[own + S_COUNT] >= COLUMN_ROWS:
            slot = find(mem, tag, first, second)  # the table may have grown, and its slots moved
            columns = np.empty(open_tests, np.int64)
            k = 0
            for t in range(tests.shape[0]):
                if not used[t]:
                    columns[k] = t
                    if t == primary:
                        columns[0], columns[k] = t, columns[0]
                    k += 1
            mem[own + S_GROUP] = new_group(mem, slot, signature, pending, 0, 0, tests, columns)
        if mem[own + S_GROUP] != 0:
            columns = _columns_of(mem, mem[own + S_GROUP], tests)
            if columns.shape[0] == open_tests:
                return mem[own + S_GROUP], columns
        slot = find(mem, tag, first, second)
    if kind != KEY_RANGE:
        return mixed_group(mem, slot, pending, 1, 0, tests, choice[:0]), choice[:0]
    count = 1
    if open_tests - lists > 1 and _rows_in_mixed(mem, slot) >= LEAF_ROWS:
        count = 2  # intervals alone let much through, and what they let through is tested row by row
    columns = np.empty(count, np.int64)
    taken = used.copy()
    for c in range(count):
        columns[c] = primary if c == 0 else least(tests, taken, shares)
        taken[columns[c]] = True
    rest = 1 if open_tests > count else 0
    return mixed_group(mem, slot, pending, 0, rest, tests, columns), columns


@njit(cache=True)
def _columns_of(mem, group, tests):
    """The tests of a clause in the order of a group's columns; shorter than that if one is not there."""
    count = mem[group + G_COLUMNS]
    columns = np.empty(count, np.int64)
    for c in range(count):
        columns[c] = -1
        for t in range(tests.shape[0]):
            if tests[t, 0] == mem[group + G_FIELDS + c]:
                columns[c] = t
        if columns[c] < 0:
            return columns[:0]
    return columns


@njit(cache=True, inline="always")
def with_signature(second, signature):
    return np.int64(np.uint64(second) * _C3 ^ np.uint64(signature))


@njit(cache=True)
def _rows_in_bucket(mem, slot):
    rows, group = 0, mem[slot + S_GROUP]
    while group != 0:
        rows += mem[group + G_ROWS]
        group = mem[group + G_NEXT]
    return rows


@njit(cache=True)
def _rows_in_mixed(mem, slot):
    rows, group = 0, mem[slot + S_GROUP]
    while group != 0:
        if mem[group + G_SIGNATURE] < 0:
            rows += mem[group + G_ROWS]
        group = mem[group + G_NEXT]
    return rows


@njit(cache=True)
def drop_leaf(mem, group, leaf):
    count, directory = mem[group + G_LEAVES], mem[group + G_DIRECTORY]
    at = 0
    while mem[directory + 3 * at + 2] != leaf:
        at += 1
    for k in range(3 * at, 3 * (count - 1)):
        mem[directory + k] = mem[directory + k + 3]
    mem[group + G_LEAVES] = count - 1
    give(mem, leaf, _leaf_words(mem, group, mem[leaf + L_CAPACITY]))


@njit(cache=True)
def drop_group(mem, group):
    if mem[group + G_SIGNATURE] > 0:
        mem[own_slot(mem, group) + S_GROUP] = 0
    slot = find(mem, mem[group + G_TAG], mem[group + G_FIRST], mem[group + G_SECOND])
    if mem[slot + S_GROUP] == group:
        mem[slot + S_GROUP] = mem[group + G_NEXT]
    else:
        before = mem[slot + S_GROUP]
        while mem[before + G_NEXT] != group:
            before = mem[before + G_NEXT]
        mem[before + G_NEXT] = mem[group + G_NEXT]
    if mem[group + G_CAPACITY] > 1:
        give(mem, mem[group + G_DIRECTORY], 3 * mem[group + G_CAPACITY])
    give(mem, group, G_FIELDS + max(1, mem[group + G_COLUMNS]))


@njit(cache=True)
def own_slot(mem, group):
    tag = mem[group + G_TAG] * 16 + mem[group + G_PENDING] * 8 + KEY_SIGNATURE
    return find(mem, tag, mem[group + G_FIRST], with_signature(mem[group + G_SECOND], mem[group + G_SIGNATURE]))
