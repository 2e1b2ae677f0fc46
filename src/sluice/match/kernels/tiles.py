"""Groups of rows that test the same fields, leaf by leaf for all records of a batch that lead to them.

Record by record, the rows of a large group would be read from memory again for each record. So each leaf is read once and stays
in the cache while every record of the batch is tested against it. The first pass collects which rows hold, a bit each; once it
is known how many matches each record has, the second one writes their slots straight to where they belong.

A *run* is a group and the tasks that lead to it: address, first task, and the task after the last.
"""

from __future__ import annotations

from numba import njit

from sluice.match.kernels.layout import G_DIRECTORY, G_LEAVES, G_ROWS, LEAF
from sluice.match.kernels.leaves import count_bits, leaf_bits, may_hold, steps_of
from sluice.match.kernels.pointers import int32s, int64s, uint16s
from sluice.match.kernels.scan import pack_bits
from sluice.match.kernels.tasks import EVENTS

#: Words of a run.
RUN = 3


@njit(cache=True)
def bounds(heap, runs, start, count, most):
    """How many runs from `start` on have at most `most` rows to test in all (at least one), those rows, and their leaves."""
    mem, todo = int64s(heap), int64s(runs)
    rows = leaves = 0
    for run in range(start, count):
        group, records = todo[RUN * run], todo[RUN * run + 2] - todo[RUN * run + 1]
        if rows + records * mem[group + G_ROWS] > most and run > start:
            return run, rows, leaves
        rows += records * mem[group + G_ROWS]
        leaves += records * mem[group + G_LEAVES]
    return count, rows, leaves


@njit(cache=True)
def collect(heap, upper, lower, fields, picked, tasks, runs, start, stop, sizes, bits, counts):
    """Which rows hold, for each leaf and each record that leads to it, sixteen rows to a word, and how many those are.

    Arguments are addresses and counts. Adds the matches of each record to `sizes`; a count of -1 stands for no words.
    """
    mem, high, low, rows = int64s(heap), int64s(upper), int64s(lower), int32s(picked)
    todo, these, found, out, count = int64s(tasks), int64s(runs), int64s(sizes), uint16s(bits), int64s(counts)
    written = segment = 0
    for run in range(start, stop):
        group, first, last = these[RUN * run], these[RUN * run + 1], these[RUN * run + 2]
        for at in range(mem[group + G_LEAVES]):
            entry = mem[group + G_DIRECTORY] + 3 * at
            leaf = mem[entry + 2]
            steps = steps_of(mem, leaf)
            for task in range(first, last):
                event = todo[task] & EVENTS
                row = event * fields
                count[segment] = -1
                if may_hold(mem, group, entry, high, low, row):
                    leaf_bits(mem, group, leaf, high, low, row, out, written, rows)
                    count[segment] = count_bits(out, written, steps)
                    found[event] += count[segment]
                    written += steps
                segment += 1


@njit(cache=True)
def place(heap, tasks, runs, start, stop, bits, counts, places, slots):
    """Writes the slots of the rows collected for the same runs; `places` is where the next match of each record goes."""
    mem, m32, todo, these = int64s(heap), int32s(heap), int64s(tasks), int64s(runs)
    source, count, target, out = uint16s(bits), int64s(counts), int64s(places), int32s(slots)
    read = segment = 0
    for run in range(start, stop):
        group, first, last = these[RUN * run], these[RUN * run + 1], these[RUN * run + 2]
        for at in range(mem[group + G_LEAVES]):
            leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
            column, steps = 2 * (leaf + LEAF), steps_of(mem, leaf)
            for task in range(first, last):
                if count[segment] >= 0:
                    event = todo[task] & EVENTS
                    target[event] = pack_bits(m32, column, source, read, steps, out, target[event])
                    read += steps
                segment += 1
