"""Rows whose tests differ, each against all records of a batch that lead to it.

Such rows have no field in common that sixteen of them could be compared on at once. But sixteen records have: the keys of the
records that lead to a bucket are laid out column by column (`laying.py`), and one row after the other is tested on all of them.
Where rows are found by an interval, a row is only tested on the stretch of records that its interval holds. A few records are
tested one by one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.laying import (
    ABOVE,
    BITS,
    COUNT,
    FIELDS,
    HEAP,
    LAID,
    LOWER,
    MARKS,
    MOST,
    NAMES,
    PICKED,
    TASKS,
    UPPER,
    UPPER_HALVES,
    WIDE,
    below,
    half_high,
    half_low,
    holding,
    how_laid,
    lay_out,
    leading_field,
    up_to,
)
from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_WHOLE,
    L_CAPACITY,
    L_ROWS,
    L_USED,
    LEAF,
    RANGE,
    STEP,
)
from sluice.match.kernels.leaves import may_hold
from sluice.match.kernels.pointers import int32s, int64s, prefetch, uint16s
from sluice.match.kernels.scan import scan_leaf
from sluice.match.kernels.tasks import EVENT_BITS, EVENTS, end_of_run
from sluice.match.kernels.tiles import RUN
from sluice.match.kernels.vectors import between, pair
from sluice.match.kernels.walk import test_of, tests_of
from sluice.match.kernels.whole import ENTRY, SHAPE, SLOT, WORDS, after

#: Records that lead to a bucket, up to which they are tested one by one.
FEW = 2
#: Tasks that are announced ahead: first the group, then its first leaf, then all of that.
AHEAD = 6
#: Words of a leaf that are announced.
ANNOUNCED = 128
#: Words of a cache line.
LINE = 8
_ALL = np.uint16(0xFFFF)

# What `collect` is given beyond what `laying.py` says: where it writes matches, candidates and runs, how much room there is for
# each, and whether it looks for candidates only.
EVENTS_OUT, SLOTS_OUT, ROOM, CANDIDATES_OUT, ENTRIES_OUT, CANDIDATE_ROOM = range(19, 25)
RUNS_OUT, RUN_ROOM, ONLY_PENDING = range(25, 28)
GIVEN = 28
# How far it came: the first task of the bucket that is not done, the group and the leaf there, and how much is written.
TASK, GROUP, AT, PAIRS, CANDIDATES, RUNS = range(6)
STATE = 6


@njit(cache=True)
def collect(place, progress):
    """Writes which record satisfies which row, as pairs of an event and a slot, or an entry if Python must look.

    Groups of rows that test the same fields are only noted, as runs (see `tiles.py`). Returns whether it came to the end:
    otherwise there was no room, and it goes on from where it was when it is called again.
    """
    given, state = int64s(place), int64s(progress)
    mem, m32, tasks, count = int64s(given[HEAP]), int32s(given[HEAP]), int64s(given[TASKS]), given[COUNT]
    runs = int64s(given[RUNS_OUT])
    first, group, at = state[TASK], state[GROUP], state[AT]
    while first < count:
        last = end_of_run(tasks, first, count)
        _announce(mem, tasks, first, last, count)
        if group == 0:
            group = tasks[first] >> EVENT_BITS
        is_laid = False
        while group != 0:
            pending, done = mem[group + G_PENDING], True
            if given[ONLY_PENDING] and not pending:
                pass
            elif not (mem[group + G_WHOLE] | mem[group + G_REST] | pending):
                done = state[RUNS] < given[RUN_ROOM]
                if done:
                    run = RUN * state[RUNS]
                    runs[run], runs[run + 1], runs[run + 2] = group, first, last
                    state[RUNS] += 1
            elif last - first <= FEW:
                at = _few(mem, m32, group, at, given, state, first, last)
                done = at < 0
            else:
                if not is_laid:
                    lay_out(mem, given, group, first, last)
                    is_laid = True
                at = _many(mem, m32, group, at, given, state, last - first)
                done = at < 0
            if not done:
                state[TASK], state[GROUP], state[AT] = first, group, at
                return False
            group, at = mem[group + G_NEXT], 0
        first = last
    return True


@njit(cache=True)
def _announce(mem, tasks, first, last, count):
    """Asks for what the next tasks will read, step by step: where it is, is known only from what was read before."""
    for task in range(first + 3 * AHEAD, min(last + 3 * AHEAD, count)):
        group = tasks[task] >> EVENT_BITS
        prefetch(mem, group)
        prefetch(mem, group + LINE)
    for task in range(first + 2 * AHEAD, min(last + 2 * AHEAD, count)):
        prefetch(mem, mem[mem[(tasks[task] >> EVENT_BITS) + G_DIRECTORY] + 2])
    for task in range(first + AHEAD, min(last + AHEAD, count)):
        if tasks[task] >> EVENT_BITS != tasks[task - 1] >> EVENT_BITS:
            group = tasks[task] >> EVENT_BITS
            leaf = mem[mem[group + G_DIRECTORY] + 2]
            for k in range(LINE, min(ANNOUNCED, LEAF + mem[leaf + L_USED]), LINE):
                prefetch(mem, leaf + k)


@njit(cache=True)
def _few(mem, m32, group, at, given, state, first, last):
    """Tests the rows of a group on a few records, one by one. Returns the leaf that there was no room for, or -1."""
    upper, lower, tasks = int64s(given[UPPER]), int64s(given[LOWER]), int64s(given[TASKS])
    bits, picked = uint16s(given[BITS]), int32s(given[PICKED])
    pending = mem[group + G_PENDING]
    half = ENTRY if pending else SLOT
    who = int32s(given[CANDIDATES_OUT] if pending else given[EVENTS_OUT])
    what = int32s(given[ENTRIES_OUT] if pending else given[SLOTS_OUT])
    room = given[CANDIDATE_ROOM] if pending else given[ROOM]
    written = state[CANDIDATES] if pending else state[PAIRS]
    for number in range(at, mem[group + G_LEAVES]):
        entry = mem[group + G_DIRECTORY] + 3 * number
        leaf = mem[entry + 2]
        if written + mem[leaf + L_ROWS] * (last - first) > room:
            state[CANDIDATES if pending else PAIRS] = written
            return number
        for task in range(first, last):
            event = tasks[task] & EVENTS
            row = event * given[FIELDS]
            if may_hold(mem, group, entry, upper, lower, row):
                end = scan_leaf(mem, m32, group, leaf, upper, lower, row, half, bits, picked, what, written)
                for k in range(written, end):
                    who[k] = event
                written = end
    state[CANDIDATES if pending else PAIRS] = written
    return -1


@njit(cache=True)
def _many(mem, m32, group, at, given, state, records):
    """Tests the rows of a group on the records laid out. Returns the leaf that there was no room for, or -1."""
    pending = mem[group + G_PENDING]
    who = int32s(given[CANDIDATES_OUT] if pending else given[EVENTS_OUT])
    what = int32s(given[ENTRIES_OUT] if pending else given[SLOTS_OUT])
    room = given[CANDIDATE_ROOM] if pending else given[ROOM]
    written = state[CANDIDATES] if pending else state[PAIRS]
    for number in range(at, mem[group + G_LEAVES]):
        leaf = mem[mem[group + G_DIRECTORY] + 3 * number + 2]
        if written + mem[leaf + L_ROWS] * records + STEP > room:
            state[CANDIDATES if pending else PAIRS] = written
            return number
        if mem[group + G_WHOLE] and records <= STEP:
            written = _whole_rows_in_a_step(
                mem, m32, group, leaf, given, records, ENTRY if pending else SLOT, who, what, written
            )
        elif mem[group + G_WHOLE]:
            written = _whole_rows(mem, m32, group, leaf, given, records, ENTRY if pending else SLOT, who, what, written)
        else:
            written = _rows(mem, m32, group, leaf, given, records, pending, who, what, written)
    state[CANDIDATES if pending else PAIRS] = written
    return -1


@njit(cache=True)
def _whole_rows(mem, m32, group, leaf, given, records, half, who, what, written):
    """Tests the rows of a leaf of whole rows on all records."""
    row = leaf + LEAF
    for _ in range(mem[leaf + L_ROWS]):
        name = m32[2 * row + half]
        written = _match(mem, m32, group, leaf, row, 0, given, records, 0, records, name, who, what, written)
        row = after(row, m32[2 * row + SHAPE])
    return written


@njit(cache=True)
def _whole_rows_in_a_step(mem, m32, group, leaf, given, records, half, who, what, written):
    """The same for no more records than fit in a step: which of them are left is one number."""
    names, laid, row = int32s(given[NAMES]), int64s(given[LAID]), leaf + LEAF
    halves, most = int32s(given[ABOVE]), given[MOST]
    for _ in range(mem[leaf + L_ROWS]):
        shape, left = np.int64(m32[2 * row + SHAPE]), np.uint16(_ALL >> np.uint16(STEP - records))
        for t in range(shape >> 1):
            column, low, high, word = _half_test(mem, m32, group, leaf, row, t, given, laid, most, records)
            if column >= 0:
                left &= between(halves, column, low, high)
            else:
                left &= holding(mem, word, low, high, given, laid[word >> 2], 0)
            if t == 1 and left == 0:  # one look: a second one would be guessed wrong as often as it saves a test
                break
        written += pair(names, 0, left, m32[2 * row + half], who, what, written)
        row = after(row, shape)
    return written


@njit(cache=True, inline="always")
def _half_test(mem, m32, group, leaf, row, t, given, laid, most, records):
    """A test on halves of keys: where their column begins, the low and the high end, and its word.

    Short rows mostly say it as it is needed. If halves are not enough, the column is -1 and the ends are whole. The field is
    laid out afterwards.
    """
    if mem[group + G_WHOLE]:
        shape = np.int64(m32[2 * row + SHAPE])
        if shape & 1:
            word, end = np.int64(m32[2 * row + WORDS + t]), 2 * row + WORDS + (shape >> 1) + 2 * t
            if how_laid(given, laid, word, records) == word & 3 | UPPER_HALVES:
                return 2 * (word >> 2) * most, np.int64(m32[end]), np.int64(m32[end + 1]), word
    word, low, high = test_of(mem, m32, group, leaf, row, t)
    how = how_laid(given, laid, word, records)
    if word & 3 == RANGE and how != WIDE:
        return 2 * (word >> 2) * most, half_low(low, how), half_high(high, how), word
    return -1, low, high, word


@njit(cache=True)
def _rows(mem, m32, group, leaf, given, records, pending, who, what, written):
    """Tests the rows of a leaf of columns, on the stretch of records that the first column holds if they are sorted."""
    leading, columns, rest = leading_field(mem, given, group), mem[group + G_COLUMNS], mem[group + G_REST]
    capacity, base = mem[leaf + L_CAPACITY], leaf + LEAF
    lists, done = base + capacity * (1 + 2 * columns), np.int64(leading >= 0)
    for i in range(mem[leaf + L_ROWS]):
        if rest:
            further = mem[lists + min(i + 2 * AHEAD, mem[leaf + L_ROWS] - 1)]
            prefetch(mem, further)
            prefetch(mem, further + LINE)
        start, stop = 0, records
        if leading >= 0:
            start = below(given, leading, records, mem[base + capacity + i])
            stop = up_to(given, leading, records, mem[base + 2 * capacity + i])
            if start >= stop:
                continue
        name = m32[2 * base + pending * capacity + i]
        written = _match(mem, m32, group, leaf, i, done, given, records, start, stop, name, who, what, written)
    return written


@njit(cache=True, inline="always")
def _match(mem, m32, group, leaf, row, t, given, records, start, stop, name, who, what, written):
    """Tests a row, from test t on, on the records from `start` on, up to `stop`, and writes which of them satisfy it.

    Three tests are made at once if halves of keys are enough for them, and mostly those are all. Where there are fewer, one is
    made again: that costs less than to guess how many there are.
    """
    names, marks, laid = int32s(given[NAMES]), uint16s(given[MARKS]), int64s(given[LAID])
    halves, most, tests = int32s(given[ABOVE]), given[MOST], tests_of(mem, m32, group, leaf, row)
    left, a, a_low, a_high = True, np.int64(-1), np.int64(0), np.int64(0)
    if t < tests:
        a, a_low, a_high, _ = _half_test(mem, m32, group, leaf, row, t, given, laid, most, records)
    b, b_low, b_high = a, a_low, a_high
    if t + 1 < tests and a >= 0:
        b, b_low, b_high, _ = _half_test(mem, m32, group, leaf, row, t + 1, given, laid, most, records)
    c, c_low, c_high = b, b_low, b_high
    if t + 2 < tests and b >= 0:
        c, c_low, c_high, _ = _half_test(mem, m32, group, leaf, row, t + 2, given, laid, most, records)
    if c >= 0:
        three = (a, a_low, a_high, b, b_low, b_high, c, c_low, c_high)
        if tests <= t + 3:
            return _tell_three(halves, three, start, stop, names, name, who, what, written)
        left = _mark_three(halves, three, start, stop, marks)
        t += 3
    else:
        _mark(marks, start, stop)
    step, steps = start // STEP, (stop + STEP - 1) // STEP
    while left and t < tests:
        column, low, high, word = _half_test(mem, m32, group, leaf, row, t, given, laid, most, records)
        if column >= 0:
            left = _narrow_halves(halves, column, low, high, marks, step, steps)
        else:
            left = _narrow_others(mem, given, word, low, high, laid[word >> 2], marks, step, steps)
        t += 1
    return _tell(names, marks, step, steps, name, who, what, written) if left else written


@njit(cache=True)
def _tell_three(halves, three, start, stop, names, name, who, what, written):
    """Writes pairs of a record for which three tests hold and a name."""
    for step in range(start // STEP, (stop + STEP - 1) // STEP):
        left = _all_three(halves, three, start, stop, step)
        written += pair(names, STEP * step, left, name, who, what, written)
    return written


@njit(cache=True)
def _mark_three(halves, three, start, stop, marks):
    """Sets the bits of the records for which three tests hold; returns whether there are any."""
    any_left = np.uint16(0)
    for step in range(start // STEP, (stop + STEP - 1) // STEP):
        marks[step] = _all_three(halves, three, start, stop, step)
        any_left |= marks[step]
    return any_left != 0


@njit(cache=True, inline="always")
def _all_three(halves, three, start, stop, step):
    """The bits of the records of a step for which three tests hold, of those from `start` on, up to `stop`."""
    a, a_low, a_high, b, b_low, b_high, c, c_low, c_high = three
    at = STEP * step
    left = between(halves, a + at, a_low, a_high) & between(halves, b + at, b_low, b_high)
    left &= between(halves, c + at, c_low, c_high)
    if start > at:
        left &= np.uint16(_ALL << np.uint16(start - at))
    if stop < at + STEP:
        left &= np.uint16(_ALL >> np.uint16(at + STEP - stop))
    return left


@njit(cache=True)
def _mark(marks, start, stop):
    """Sets the bits of the records from `start` on, up to `stop`."""
    step, last = start // STEP, (stop - 1) // STEP
    for s in range(step, last + 1):
        marks[s] = _ALL
    marks[step] &= np.uint16(_ALL << np.uint16(start % STEP))
    marks[last] &= np.uint16(_ALL >> np.uint16(STEP - 1 - (stop - 1) % STEP))


@njit(cache=True)
def _narrow_halves(halves, column, low, high, marks, step, steps):
    left = np.uint16(0)
    for s in range(step, steps):
        marks[s] &= between(halves, column + STEP * s, low, high)
        left |= marks[s]
    return left != 0


@njit(cache=True)
def _narrow_others(mem, given, word, low, high, how, marks, step, steps):
    left = np.uint16(0)
    for s in range(step, steps):
        marks[s] &= holding(mem, word, low, high, given, how, s)
        left |= marks[s]
    return left != 0


@njit(cache=True)
def _tell(names, marks, step, steps, number, who, what, written):
    """Writes pairs of a record whose bit is set and a number."""
    for s in range(step, steps):
        written += pair(names, STEP * s, marks[s], number, who, what, written)
    return written


@njit(cache=True)
def count_pairs(events, count, sizes):
    """Adds to the size of each record how many pairs it has."""
    who, sums = int32s(events), int64s(sizes)
    for i in range(count):
        sums[who[i]] += 1


@njit(cache=True)
def place_pairs(events, slots, count, places, out):
    """Writes the slot of each pair to where the next match of its record goes."""
    who, what, target, result = int32s(events), int32s(slots), int64s(places), int32s(out)
    for i in range(count):
        result[target[who[i]]] = what[i]
        target[who[i]] += 1
