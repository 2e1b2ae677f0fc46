"""The rows of a leaf one after the other, with all their tests, however they are stored.

A row is called by its address where rows are stored whole, and by its number where they are columns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels import whole
from sluice.match.kernels.layout import G_COLUMNS, G_FIELDS, G_REST, G_WHOLE, L_CAPACITY, LEAF


@njit(cache=True)
def first_row(mem, group, leaf):
    return leaf + LEAF if mem[group + G_WHOLE] else 0


@njit(cache=True)
def next_row(mem, m32, group, row):
    return whole.after(row, m32[2 * row + whole.SHAPE]) if mem[group + G_WHOLE] else row + 1


@njit(cache=True)
def slot_of(mem, m32, group, leaf, row):
    return m32[2 * row + whole.SLOT] if mem[group + G_WHOLE] else m32[2 * (leaf + LEAF) + row]


@njit(cache=True)
def entry_of(mem, m32, group, leaf, row):
    if mem[group + G_WHOLE]:
        return m32[2 * row + whole.ENTRY]
    return m32[2 * (leaf + LEAF) + mem[leaf + L_CAPACITY] + row]


@njit(cache=True)
def tests_of(mem, m32, group, leaf, row):
    """How many tests a row makes."""
    if mem[group + G_WHOLE]:
        return np.int64(m32[2 * row + whole.SHAPE]) >> 1
    columns = mem[group + G_COLUMNS]
    if mem[group + G_REST]:
        return columns + mem[mem[leaf + LEAF + mem[leaf + L_CAPACITY] * (1 + 2 * columns) + row]]
    return columns


@njit(cache=True)
def test_of(mem, m32, group, leaf, row, t):
    """One test of a row: its word, low and high end. Of columns first those, then those in its list."""
    if mem[group + G_WHOLE]:
        return whole.test_at(mem, m32, row, np.int64(m32[2 * row + whole.SHAPE]), t)
    base, capacity, columns = leaf + LEAF + row, mem[leaf + L_CAPACITY], mem[group + G_COLUMNS]
    if t < columns:
        at = base + capacity * (1 + 2 * t)
        return mem[group + G_FIELDS + t], mem[at], mem[at + capacity]
    k = mem[base + capacity * (1 + 2 * columns)] + 1 + 3 * (t - columns)
    return mem[k], mem[k + 1], mem[k + 2]
