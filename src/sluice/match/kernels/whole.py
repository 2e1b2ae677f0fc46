"""Rows that are stored whole, one behind the other: those of a bucket whose tests lie on fields of their own.

A row is its slot, its entry, the number of its tests and their test words, as 32-bit numbers, and then the low and the high end
of each test, the most selective first. So whoever looks at a row finds everything about it side by side. Rows of a leaf are in
the order of how many tests they have: then the processor guesses right when a row is done, nearly always. Those behind one that
comes or goes are moved, at most a page of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.groups import directory_insert, low_of
from sluice.match.kernels.heap import give, rounded, take
from sluice.match.kernels.layout import (
    G_DIRECTORY,
    G_LEAVES,
    L_CAPACITY,
    L_GROUP,
    L_ROWS,
    L_USED,
    LARGEST,
    LEAF,
    LIST,
    MISSING,
    PAGE,
)
from sluice.match.kernels.leaves import holds

#: Where a row has its slot, its entry, the number of its tests and their words, counted in halves of words.
SLOT, ENTRY, TESTS, WORDS = 0, 1, 2, 3


@njit(cache=True, inline="always")
def ends_of(row, tests):
    """Where the ends of a row's tests begin, low and high in turn."""
    return row + (WORDS + tests + 1) // 2


@njit(cache=True, inline="always")
def after(row, tests):
    """Where the next row begins."""
    return ends_of(row, tests) + 2 * tests


@njit(cache=True)
def put_in(mem, m32, group, slot, entry, tests, used, shares, pairs, places):
    """Stores the tests of a clause that its key leaves open."""
    count = 0
    for t in range(tests.shape[0]):
        if not used[t]:
            count += 1
    words = after(0, count)
    leaf = _leaf_for(mem, m32, group, words, places)
    row, stop = leaf + LEAF, leaf + LEAF + mem[leaf + L_USED]
    while row < stop and m32[2 * row + TESTS] <= count:
        row = after(row, m32[2 * row + TESTS])
    _shift(mem, m32, leaf, row, words, places)
    m32[2 * row + SLOT], m32[2 * row + ENTRY], m32[2 * row + TESTS] = slot, entry, count
    end = ends_of(row, count)
    for k in range(count):
        t = -1
        for other in range(tests.shape[0]):
            if not used[other] and (t < 0 or shares[other] < shares[t]):
                t = other
        used[t] = True
        m32[2 * row + WORDS + k] = tests[t, 0]
        mem[end + 2 * k], mem[end + 2 * k + 1] = low_of(mem, tests, t, pairs), tests[t, 2]
    places[entry] = leaf * PAGE + row - leaf - LEAF
    mem[leaf + L_ROWS] += 1


@njit(cache=True)
def _leaf_for(mem, m32, group, words, places):
    """The last leaf of a group, with room for so many words more; a full one is enlarged, or followed by a new one."""
    count = mem[group + G_LEAVES]
    if count:
        at = mem[group + G_DIRECTORY] + 3 * (count - 1) + 2
        leaf = mem[at]
        needed = mem[leaf + L_USED] + words
        if needed <= PAGE - LEAF:
            if needed > mem[leaf + L_CAPACITY]:
                words = min(PAGE - LEAF, max(needed, 2 * mem[leaf + L_CAPACITY]))
                mem[at] = _enlarge(mem, m32, leaf, words, places)
            return mem[at]
    leaf = _new_leaf(mem, group, words)
    directory_insert(mem, group, count, MISSING, LARGEST, leaf)
    return leaf


@njit(cache=True)
def _new_leaf(mem, group, words):
    size = rounded(LEAF + words)
    leaf = take(mem, size)
    mem[leaf + L_GROUP], mem[leaf + L_CAPACITY] = group, size - LEAF
    return leaf


@njit(cache=True)
def _enlarge(mem, m32, leaf, words, places):
    larger = _new_leaf(mem, mem[leaf + L_GROUP], words)
    mem[larger + L_ROWS], mem[larger + L_USED] = mem[leaf + L_ROWS], mem[leaf + L_USED]
    for k in range(LEAF, LEAF + mem[leaf + L_USED]):
        mem[larger + k] = mem[leaf + k]
    _note_places(mem, m32, larger, larger + LEAF, places)
    give(mem, leaf, LEAF + mem[leaf + L_CAPACITY])
    return larger


@njit(cache=True)
def _shift(mem, m32, leaf, row, words, places):
    """Moves the rows of a leaf from `row` on by so many words."""
    stop = leaf + LEAF + mem[leaf + L_USED]
    if words > 0:
        for k in range(stop - 1, row - 1, -1):
            mem[k + words] = mem[k]
    else:
        for k in range(row, stop):
            mem[k + words] = mem[k]
    mem[leaf + L_USED] += words
    _note_places(mem, m32, leaf, row + words, places)


@njit(cache=True)
def _note_places(mem, m32, leaf, row, places):
    """Notes where the rows of a leaf are, from `row` on."""
    while row < leaf + LEAF + mem[leaf + L_USED]:
        places[m32[2 * row + ENTRY]] = leaf * PAGE + row - leaf - LEAF
        row = after(row, m32[2 * row + TESTS])


@njit(cache=True)
def take_out(mem, m32, leaf, place, places):
    """Removes a row, with the lists it has."""
    row = leaf + LEAF + place
    tests = m32[2 * row + TESTS]
    end, next_row = ends_of(row, tests), after(row, tests)
    for t in range(tests):
        if m32[2 * row + WORDS + t] & 3 == LIST:
            give(mem, mem[end + 2 * t], 2 * mem[end + 2 * t + 1])
    _shift(mem, m32, leaf, next_row, row - next_row, places)
    mem[leaf + L_ROWS] -= 1
    group = mem[leaf + L_GROUP]
    last = mem[group + G_DIRECTORY] + 3 * (mem[group + G_LEAVES] - 1) + 2
    if mem[last] != leaf and 2 * mem[leaf + L_USED] < mem[leaf + L_CAPACITY]:
        # New rows go to the last leaf: they may as well fill this one.
        at = mem[group + G_DIRECTORY] + 2
        while mem[at] != leaf:
            at += 3
        mem[at], mem[last] = mem[last], leaf


@njit(cache=True)
def scan(mem, m32, leaf, upper, lower, keys, half, out, k):
    """Appends the slots of the rows of a leaf that a record satisfies, or their entries; returns where the next one goes.

    The keys of the record begin at `keys`; `half` is SLOT or ENTRY. There must be room for all rows.
    """
    row = leaf + LEAF
    for _ in range(mem[leaf + L_ROWS]):
        tests = np.int64(m32[2 * row + TESTS])
        end, t, is_match = ends_of(row, tests), 0, 1
        while is_match and t < tests:
            word, low, high = np.int64(m32[2 * row + WORDS + t]), mem[end + 2 * t], mem[end + 2 * t + 1]
            is_match = holds(mem, word, low, high, upper, lower, keys)
            t += 1
        out[k] = m32[2 * row + half]
        k += is_match
        row = end + 2 * tests
    return k
