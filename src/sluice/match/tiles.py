"""Large groups, leaf by leaf for all records of a batch that lead to them.

Record by record, the rows of a large group would be read from memory again for each record. So a batch first only notes
which record leads to which large group; sorted by group, each leaf is then read once and stays in the cache while every
record of the batch is tested against it. The first pass collects row numbers, two bytes each; once it is known how many
matches each record has, the second one writes their slots straight to where they belong.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.layout import G_DIRECTORY, G_FIELDS, G_LEAVES, G_ROWS, G_SORTED, L_ROWS, LEAF
from sluice.match.pointers import int32s, int64s, uint8s, uint16s
from sluice.match.scan import has_values, scan_leaf


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
def collect(heap, upper, lower, fields, hit, picked, tasks, start, stop, sizes, numbers, lengths):
    """The numbers of the rows that match, for each leaf and each record that leads to it, and how many those are.

    Arguments are addresses and counts. Adds the matches of each record to `sizes`.
    """
    mem, high, low, hits, rows = int64s(heap), int64s(upper), int64s(lower), uint8s(hit), int64s(picked)
    todo, found, out, length = int64s(tasks), int64s(sizes), uint16s(numbers), int64s(lengths)
    written = segment = 0
    first = start
    while first < stop:
        group, last = todo[2 * first], _end_of_run(todo, first, stop)
        for at in range(mem[group + G_LEAVES]):
            entry = mem[group + G_DIRECTORY] + 3 * at
            leaf = mem[entry + 2]
            for task in range(first, last):
                event = todo[2 * task + 1]
                length[segment] = 0
                if _may_match(mem, group, entry, high, low, event * fields):
                    scan_leaf(mem, group, leaf, high, low, event * fields, hits, rows)
                    end = _write_numbers(mem[leaf + L_ROWS], hits, out, written)
                    length[segment] = end - written
                    found[event] += end - written
                    written = end
                segment += 1
        first = last
    return written


@njit(cache=True)
def place(heap, tasks, start, stop, numbers, lengths, places, slots):
    """Writes the slots of the rows collected for the same tasks; `places` is where the next match of each record goes."""
    mem, m32, todo = int64s(heap), int32s(heap), int64s(tasks)
    source, length, target, out = uint16s(numbers), int64s(lengths), int64s(places), int32s(slots)
    read = segment = 0
    first = start
    while first < stop:
        group, last = todo[2 * first], _end_of_run(todo, first, stop)
        for at in range(mem[group + G_LEAVES]):
            column = 2 * (mem[mem[group + G_DIRECTORY] + 3 * at + 2] + LEAF)
            for task in range(first, last):
                event = todo[2 * task + 1]
                k = target[event]
                for i in range(length[segment]):
                    out[k + i] = m32[column + source[read + i]]
                target[event] = k + length[segment]
                read += length[segment]
                segment += 1
        first = last


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


@njit(cache=True)
def _write_numbers(rows, hit, out, written):
    """Appends the numbers of the rows that were hit."""
    k = np.uint64(written)
    for i in range(np.uint64(rows)):
        out[k] = i
        k += np.uint64(hit[i])
    return np.int64(k)
