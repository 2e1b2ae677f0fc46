"""Large groups, leaf by leaf for all records of a batch that lead to them.

Record by record, the rows of a large group would be read from memory again for each record. So a batch first only notes
which record leads to which large group; sorted by group, each leaf is then read once and stays in the cache while every
record of the batch is tested against it. The first pass collects which rows hold, a bit each; once it is known how many
matches each record has, the second one writes their slots straight to where they belong.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.layout import G_DIRECTORY, G_DYNAMIC, G_FIELDS, G_LEAVES, G_REST, G_ROWS, G_SORTED, L_ROWS, LEAF
from sluice.match.pointers import int32s, int64s, uint8s, uint16s
from sluice.match.scan import has_values, row_bit, scan_leaf, step_bits
from sluice.match.vectors import AVAILABLE, STEP, ones, pack


@njit(cache=True)
def bounds(heap, tasks, start, count, most):
    """How many tasks from `start` on have at most `most` rows in all (at least one), their rows, and their leaves."""
    mem, todo = int64s(heap), int64s(tasks)
    rows = leaves = 0
    for task in range(start, count):
        group = todo[2 * task]
        if rows + mem[group + G_ROWS] > most and task > start:
            return task, rows, leaves
        rows += mem[group + G_ROWS]
        leaves += mem[group + G_LEAVES]
    return count, rows, leaves


@njit(cache=True)
def collect(heap, upper, lower, fields, hit, picked, tasks, start, stop, sizes, bits, counts):
    """Which rows hold, for each leaf and each record that leads to it, sixteen rows to a word, and how many those are.

    Arguments are addresses and counts. Adds the matches of each record to `sizes`; a count of -1 stands for no words.
    """
    mem, high, low, hits, rows = int64s(heap), int64s(upper), int64s(lower), uint8s(hit), int64s(picked)
    todo, found, out, count = int64s(tasks), int64s(sizes), uint16s(bits), int64s(counts)
    written = segment = 0
    first = start
    while first < stop:
        group, last = todo[2 * first], _end_of_run(todo, first, stop)
        packed = AVAILABLE and not (mem[group + G_DYNAMIC] or mem[group + G_REST])
        for at in range(mem[group + G_LEAVES]):
            entry = mem[group + G_DIRECTORY] + 3 * at
            leaf = mem[entry + 2]
            for task in range(first, last):
                event = todo[2 * task + 1]
                count[segment] = -1
                if _may_match(mem, group, entry, high, low, event * fields):
                    if packed:
                        count[segment] = _collect_steps(mem, group, leaf, high, low, event * fields, out, written)
                    else:
                        scan_leaf(mem, group, leaf, high, low, event * fields, hits, rows)
                        count[segment] = _collect_hits(mem[leaf + L_ROWS], hits, out, written)
                    found[event] += count[segment]
                    written += (mem[leaf + L_ROWS] + STEP - 1) // STEP
                segment += 1
        first = last


@njit(cache=True)
def _collect_steps(mem, group, leaf, upper, lower, row, out, written):
    """The bits of a leaf of nothing but columns, a step at a time; returns how many are set."""
    rows = mem[leaf + L_ROWS]
    whole = rows - rows % STEP
    total = np.int64(0)
    for i in range(0, whole, STEP):
        bits = step_bits(mem, group, leaf, i, upper, lower, row)
        out[written] = bits
        written += 1
        total += ones(bits)
    if whole < rows:
        last = np.int64(0)
        for i in range(whole, rows):
            last |= row_bit(mem, group, leaf, i, upper, lower, row) << (i - whole)
        out[written] = last
        total += ones(np.uint16(last))
    return total


@njit(cache=True)
def _collect_hits(rows, hit, out, written):
    """The bits of a leaf whose hits are known row by row; returns how many are set."""
    total = np.int64(0)
    for i in range(0, rows, STEP):
        bits = np.int64(0)
        for j in range(i, min(i + STEP, rows)):
            bits |= np.int64(hit[j]) << (j - i)
            total += hit[j]
        out[written] = bits
        written += 1
    return total


@njit(cache=True)
def place(heap, tasks, start, stop, bits, counts, places, slots):
    """Writes the slots of the rows collected for the same tasks; `places` is where the next match of each record goes."""
    mem, m32, todo = int64s(heap), int32s(heap), int64s(tasks)
    source, count, target, out = uint16s(bits), int64s(counts), int64s(places), int32s(slots)
    read = segment = 0
    first = start
    while first < stop:
        group, last = todo[2 * first], _end_of_run(todo, first, stop)
        for at in range(mem[group + G_LEAVES]):
            leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
            column, steps = 2 * (leaf + LEAF), (mem[leaf + L_ROWS] + STEP - 1) // STEP
            for task in range(first, last):
                if count[segment] >= 0:
                    event = todo[2 * task + 1]
                    _place_steps(m32, column, steps, source, read, out, target[event])
                    target[event] += count[segment]
                    read += steps
                segment += 1
        first = last


@njit(cache=True)
def _place_steps(m32, column, steps, source, read, out, k):
    for step in range(steps):
        bits = source[read + step]
        if AVAILABLE:
            k += pack(m32, column + STEP * step, bits, out, k)
        else:
            for j in range(STEP):
                if (np.int64(bits) >> j) & 1:
                    out[k] = m32[column + STEP * step + j]
                    k += 1


@njit(cache=True)
def _end_of_run(tasks, start, count):
    """Where the tasks of the same group end."""
    end = start
    while end < count and tasks[2 * end] == tasks[2 * start]:
        end += 1
    return end


@njit(cache=True)
def _may_match(mem, group, entry, upper, lower, row):
    """Whether a record has the values of a group, and lies in the zone of one of its leaves."""
    if not has_values(mem, group, upper, row):
        return False
    first = row + (mem[group + G_FIELDS] >> 2)
    return not mem[group + G_SORTED] or (mem[entry] <= upper[first] and mem[entry + 1] >= lower[first])
