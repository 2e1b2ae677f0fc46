"""Large groups, leaf by leaf for all records of a batch that lead to them.

Record by record, the rows of a large group would be read from memory again for each record. So a batch first only notes
which record leads to which large group; sorted by group, each leaf is then read once and stays in the cache while every
record of the batch is tested against it. The first pass collects which rows hold, a bit each; once it is known how many
matches each record has, the second one writes their slots straight to where they belong.
"""

from __future__ import annotations

from numba import njit

from sluice.match.kernels.layout import G_DIRECTORY, G_FIELDS, G_LEAVES, G_ROWS, G_SORTED, LEAF
from sluice.match.kernels.leaves import count_bits, has_values, leaf_bits, steps_of
from sluice.match.kernels.pointers import int32s, int64s, uint16s
from sluice.match.kernels.scan import EVENT_BITS, end_of_run, pack_bits

EVENTS = (1 << EVENT_BITS) - 1


@njit(cache=True)
def bounds(heap, tasks, start, count, most):
    """How many tasks from `start` on have at most `most` rows in all (at least one), their rows, and their leaves."""
    mem, todo = int64s(heap), int64s(tasks)
    rows = leaves = 0
    for task in range(start, count):
        group = todo[task] >> EVENT_BITS
        if rows + mem[group + G_ROWS] > most and task > start:
            return task, rows, leaves
        rows += mem[group + G_ROWS]
        leaves += mem[group + G_LEAVES]
    return count, rows, leaves


@njit(cache=True)
def collect(heap, upper, lower, fields, picked, tasks, start, stop, sizes, bits, counts):
    """Which rows hold, for each leaf and each record that leads to it, sixteen rows to a word, and how many those are.

    Arguments are addresses and counts. Adds the matches of each record to `sizes`; a count of -1 stands for no words.
    """
    mem, high, low, rows = int64s(heap), int64s(upper), int64s(lower), int32s(picked)
    todo, found, out, count = int64s(tasks), int64s(sizes), uint16s(bits), int64s(counts)
    written = segment = 0
    first = start
    while first < stop:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, stop)
        for at in range(mem[group + G_LEAVES]):
            entry = mem[group + G_DIRECTORY] + 3 * at
            leaf = mem[entry + 2]
            steps = steps_of(mem, leaf)
            for task in range(first, last):
                event = todo[task] & EVENTS
                count[segment] = -1
                if _may_match(mem, group, entry, high, low, event * fields):
                    leaf_bits(mem, group, leaf, high, low, event * fields, out, written, rows)
                    count[segment] = count_bits(out, written, steps)
                    found[event] += count[segment]
                    written += steps
                segment += 1
        first = last


@njit(cache=True)
def place(heap, tasks, start, stop, bits, counts, places, slots):
    """Writes the slots of the rows collected for the same tasks; `places` is where the next match of each record goes."""
    mem, m32, todo = int64s(heap), int32s(heap), int64s(tasks)
    source, count, target, out = uint16s(bits), int64s(counts), int64s(places), int32s(slots)
    read = segment = 0
    first = start
    while first < stop:
        group, last = todo[first] >> EVENT_BITS, end_of_run(todo, first, stop)
        for at in range(mem[group + G_LEAVES]):
            leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
            column, steps = 2 * (leaf + LEAF), steps_of(mem, leaf)
            for task in range(first, last):
                if count[segment] >= 0:
                    event = todo[task] & EVENTS
                    target[event] = pack_bits(m32, column, source, read, steps, out, target[event])
                    read += steps
                segment += 1
        first = last


@njit(cache=True)
def _may_match(mem, group, entry, upper, lower, row):
    """Whether a record has the values of a group, and lies in the zone of one of its leaves."""
    if not has_values(mem, group, upper, row):
        return False
    first = row + (mem[group + G_FIELDS] >> 2)
    return not mem[group + G_SORTED] or (mem[entry] <= upper[first] and mem[entry + 1] >= lower[first])
