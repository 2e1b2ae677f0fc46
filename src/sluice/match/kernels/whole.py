"""Rows that are stored whole, one behind the other: those of a bucket whose tests lie on fields of their own.

A row is its slot, its entry, its shape and its test words, as 32-bit numbers, and then the low and the high end of each test,
the most selective first. So whoever looks at a row finds everything about it side by side. The shape is twice the number of
its tests, and one more if it is *short*: then every test is an interval whose ends are known from one half of them, the other
being 0 (whole numbers below a million, say) or both being small (numbers of strings), and only that half is stored: most rows
of a large index are in no cache, and what is shorter is fetched sooner.

Rows of a leaf are in the order of their shapes: then the processor guesses right when a row is done, nearly always. Those
behind one that comes or goes are moved, at most a page of them.
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
    RANGE,
)
from sluice.match.kernels.leaves import holds

#: Where a row has its slot, its entry, its shape and its test words, counted in halves of words.
SLOT, ENTRY, SHAPE, WORDS = 0, 1, 2, 3
#: In place of the kind of a test of a short row: its ends are as they are stored, not shifted.
SMALL = 3
_HALF = 0xFFFFFFFF


@njit(cache=True, inline="always")
def after(row, shape):
    """Where the next row begins."""
    tests = np.int64(shape) >> 1
    if shape & 1:
        return row + (WORDS + 3 * tests + 1) // 2
    return row + (WORDS + tests + 1) // 2 + 2 * tests


@njit(cache=True, inline="always")
def test_at(mem, m32, row, shape, t):
    """A test of a row: its word, low and high end."""
    tests = np.int64(shape) >> 1
    word = np.int64(m32[2 * row + WORDS + t])
    if shape & 1:
        at = 2 * row + WORDS + tests + 2 * t
        shift = 0 if word & 3 == SMALL else 32
        return word & ~3, np.int64(m32[at]) << shift, np.int64(m32[at + 1]) << shift
    end = row + (WORDS + tests + 1) // 2 + 2 * t
    return word, mem[end], mem[end + 1]


@njit(cache=True)
def _shape_of(tests, used):
    """The shape of the row for the tests of a clause that its key leaves open."""
    count, is_short = 0, True
    for t in range(tests.shape[0]):
        if not used[t]:
            count += 1
            is_short &= tests[t, 0] & 3 == RANGE and (_is_shifted(tests, t) or _is_small(tests, t))
    return 2 * count + is_short


@njit(cache=True)
def _is_shifted(tests, t):
    return (tests[t, 1] | tests[t, 2]) & _HALF == 0


@njit(cache=True)
def _is_small(tests, t):
    return min(tests[t, 1], tests[t, 2]) > -(2**31) and max(tests[t, 1], tests[t, 2]) < 2**31


@njit(cache=True)
def put_in(mem, m32, group, slot, entry, tests, used, shares, pairs, places):
    """Stores the tests of a clause that its key leaves open."""
    shape = _shape_of(tests, used)
    words = after(0, shape)
    leaf = _leaf_for(mem, m32, group, words, places)
    row, stop = leaf + LEAF, leaf + LEAF + mem[leaf + L_USED]
    while row < stop and m32[2 * row + SHAPE] <= shape:
        row = after(row, m32[2 * row + SHAPE])
    _shift(mem, m32, leaf, row, words, places)
    m32[2 * row + SLOT], m32[2 * row + ENTRY], m32[2 * row + SHAPE] = slot, entry, shape
    count = shape >> 1
    halves, end = 2 * row + WORDS + count, row + (WORDS + count + 1) // 2
    for k in range(count):
        t = -1
        for other in range(tests.shape[0]):
            if not used[other] and (t < 0 or shares[other] < shares[t]):
                t = other
        used[t] = True
        m32[2 * row + WORDS + k] = tests[t, 0]
        if not shape & 1:
            mem[end + 2 * k], mem[end + 2 * k + 1] = low_of(mem, tests, t, pairs), tests[t, 2]
        elif _is_shifted(tests, t):
            m32[halves + 2 * k], m32[halves + 2 * k + 1] = tests[t, 1] >> 32, tests[t, 2] >> 32
        else:
            m32[2 * row + WORDS + k] = tests[t, 0] | SMALL
            m32[halves + 2 * k], m32[halves + 2 * k + 1] = tests[t, 1], tests[t, 2]
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
        row = after(row, m32[2 * row + SHAPE])


@njit(cache=True)
def take_out(mem, m32, leaf, place, places):
    """Removes a row, with the lists it has."""
    row = leaf + LEAF + place
    shape = m32[2 * row + SHAPE]
    next_row = after(row, shape)
    for t in range(0 if shape & 1 else shape >> 1):
        word, low, high = test_at(mem, m32, row, shape, t)
        if word & 3 == LIST:
            give(mem, low, 2 * high)
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
        shape, t, is_match = np.int64(m32[2 * row + SHAPE]), 0, 1
        while is_match and t < shape >> 1:
            word, low, high = test_at(mem, m32, row, shape, t)
            is_match = holds(mem, word, low, high, upper, lower, keys)
            t += 1
        out[k] = m32[2 * row + half]
        k += is_match
        row = after(row, shape)
    return k
