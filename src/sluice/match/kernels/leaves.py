"""Which rows of a leaf of columns does a record satisfy? A bit for each, sixteen to a word.

A record is two words per field, `upper` and `lower`: a test holds if `low <= upper and lower <= high`. For a plain value both
are its key; with the ends of a box the same code finds what covers it (figures 4.6 and 4.7). Columns are compared without
branches, and an end only where the *core* of the leaf leaves it open: where every low end of a column is low enough, none of
them is read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.groups import core_of
from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_FIELDS,
    G_REST,
    G_SORTED,
    G_WHOLE,
    L_CAPACITY,
    L_ROWS,
    LEAF,
    LIST,
    MASK,
    MISSING,
    STEP,
)
from sluice.match.kernels.pointers import prefetch
from sluice.match.kernels.vectors import at_least, at_most, in_common, number, ones

_ALL = np.uint16(0xFFFF)


@njit(cache=True)
def _has_values(mem, group, upper, row):
    """Whether a record has a value for every column of a group."""
    for c in range(mem[group + G_COLUMNS]):
        word = mem[group + G_FIELDS + c]
        if upper[row + (word >> 2)] == (0 if word & 3 == MASK else MISSING):
            return False
    return True


@njit(cache=True)
def _in_zone(mem, group, entry, upper, lower, row):
    """Whether a record that has the values of a group may hold in the leaf at this place of its directory."""
    if not mem[group + G_SORTED]:
        return True
    first = row + (mem[group + G_FIELDS] >> 2)
    return mem[entry] <= upper[first] and mem[entry + 1] >= lower[first]


@njit(cache=True)
def may_hold(mem, group, entry, upper, lower, row):
    """Whether a record may satisfy rows of the leaf at this place of the directory of a group.

    Of a group of whole rows nothing more is read here: only its first lines are announced ahead.
    """
    return mem[group + G_WHOLE] or (
        _has_values(mem, group, upper, row) and _in_zone(mem, group, entry, upper, lower, row)
    )


@njit(cache=True)
def steps_of(mem, leaf):
    """Words of bits that the rows of a leaf need."""
    return (mem[leaf + L_ROWS] + STEP - 1) // STEP


@njit(cache=True)
def count_bits(bits, at, steps):
    """How many bits are set."""
    total = np.int64(0)
    for step in range(at, at + steps):
        total += ones(bits[step])
    return total


@njit(cache=True)
def leaf_bits(mem, group, leaf, upper, lower, row, bits, at, picked):
    """Writes which rows of a leaf hold, from word `at` of `bits` on. The keys of the record begin at `row`."""
    steps, base, capacity = steps_of(mem, leaf), leaf + LEAF, mem[leaf + L_CAPACITY]
    columns = mem[group + G_COLUMNS]
    for step in range(steps):
        bits[at + step] = _ALL
    bits[at + steps - 1] = _ALL >> np.uint16(STEP * steps - mem[leaf + L_ROWS])
    core = core_of(mem, group, leaf)
    for c in range(columns):
        word, low = mem[group + G_FIELDS + c], base + capacity * (1 + 2 * c)
        field = row + (word >> 2)
        if word & 3 == MASK:
            for step in range(steps):
                bits[at + step] &= in_common(mem, low + STEP * step, upper[field])
            continue
        if upper[field] < mem[core + 2 * c]:
            for step in range(steps):
                bits[at + step] &= at_most(mem, low + STEP * step, upper[field])
        if lower[field] > mem[core + 2 * c + 1]:
            for step in range(steps):
                bits[at + step] &= at_least(mem, low + capacity + STEP * step, lower[field])
    if mem[group + G_REST]:
        _test_rest(mem, base + capacity * (1 + 2 * columns), steps, upper, lower, row, bits, at, picked)


@njit(cache=True)
def _test_rest(mem, lists, steps, upper, lower, row, bits, at, picked):
    """The further tests of the rows that hold so far: the first one of each row, then the second one of those left, and so on.

    Rows are picked and kept without branches, which would mostly be guessed wrong.
    """
    count = 0
    for step in range(steps):
        count += number(STEP * step, bits[at + step], picked, count)
        bits[at + step] = 0
    for j in range(count):
        prefetch(mem, mem[lists + picked[j]])
    done = 0
    while count:
        left = 0
        for j in range(count):
            i = np.int64(picked[j])
            address = mem[lists + i]
            k = address + 1 + 3 * done
            is_match = holds(mem, mem[k], mem[k + 1], mem[k + 2], upper, lower, row)
            more = np.int64(mem[address] > done + 1)
            picked[left] = i
            left += is_match & more
            bits[at + (i >> 4)] |= (is_match & (1 - more)) << (i & 15)
        count = left
        done += 1


@njit(cache=True)
def holds(mem, word, low, high, upper, lower, row):
    """1 if a test holds for the record whose keys begin at `row`, else 0; no branch but for lists."""
    at = row + (word >> 2)
    if word & 3 == LIST:
        return np.int64(in_list(mem, low, high, upper[at], lower[at]))
    inside = (low <= upper[at]) & (lower[at] <= high)
    return np.int64(low & upper[at] != 0) if word & 3 == MASK else np.int64(inside)


@njit(cache=True)
def in_list(mem, address, count, upper, lower):
    """Whether a value lies in one of the sorted intervals of a list."""
    first, last = 0, count - 1
    while first < last:
        middle = (first + last + 1) // 2
        if mem[address + 2 * middle] <= upper:
            first = middle
        else:
            last = middle - 1
    return mem[address + 2 * first] <= upper and lower <= mem[address + 2 * first + 1]
