"""Rows whose tests differ, each against all records of a batch that lead to it.

Such rows have no field in common that sixteen of them could be compared on at once. But sixteen records have: the keys of the
records that lead to a bucket are laid out column by column, and one row after the other is tested on all of them. Where rows
are found by an interval, the records are sorted by its field, and a row is only tested on the stretch of them that its interval
holds. A few records are tested one by one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_FIELDS,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_TAG,
    G_WHOLE,
    KEY_RANGE,
    L_CAPACITY,
    L_ROWS,
    L_USED,
    LARGEST,
    LEAF,
    MASK,
    MISSING,
    RANGE,
    STEP,
)
from sluice.match.kernels.leaves import has_values, in_zone
from sluice.match.kernels.pointers import int32s, int64s, prefetch, uint16s
from sluice.match.kernels.scan import scan_leaf
from sluice.match.kernels.tasks import EVENT_BITS, EVENTS, end_of_run
from sluice.match.kernels.tiles import RUN
from sluice.match.kernels.vectors import at_least, at_most, between, in_common, lowest, ones, pair
from sluice.match.kernels.walk import test_of, tests_of
from sluice.match.kernels.whole import ENTRY, SHAPE, SLOT, after, test_at

#: Records that lead to a bucket, up to which they are tested one by one.
FEW = 3
#: Tasks that are announced ahead: first the group, then its first leaf, then all of that.
AHEAD = 6
#: Words of a leaf that are announced.
ANNOUNCED = 128
#: Words of a cache line.
LINE = 8
_ALL = np.uint16(0xFFFF)
_LOWER_HALF = 0xFFFFFFFF
SMALLEST_HALF, LARGEST_HALF = -(2**31), 2**31 - 1
# How the keys of a field are laid out: not yet, whole, or by half of them.
WIDE, UPPER_HALVES, LOWER_HALVES = 1, 2, 3

# What `collect` is given, one word each: addresses and counts.
HEAP, UPPER, LOWER, FIELDS, TASKS, COUNT, PICKED, BITS, ABOVE, BELOW, LAID, NAMES, MARKS, SAMPLES, MOST = range(15)
# Where it writes: matches, candidates and runs, and how much room there is for each; and whether it looks for candidates only.
EVENTS_OUT, SLOTS_OUT, ROOM, CANDIDATES_OUT, ENTRIES_OUT, CANDIDATE_ROOM = range(15, 21)
RUNS_OUT, RUN_ROOM, ONLY_PENDING = range(21, 24)
GIVEN = 24
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
                    _lay_out(mem, given, group, first, last)
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
            if has_values(mem, group, upper, row) and in_zone(mem, group, entry, upper, lower, row):
                end = scan_leaf(mem, m32, group, leaf, upper, lower, row, half, bits, picked, what, written)
                for k in range(written, end):
                    who[k] = event
                written = end
    state[CANDIDATES if pending else PAIRS] = written
    return -1


@njit(cache=True)
def _lay_out(mem, given, group, first, last):
    """Makes the records of some tasks ready to be tested many at a time; sorted, if an interval leads to the group."""
    tasks, names, laid = int64s(given[TASKS]), int32s(given[NAMES]), int64s(given[LAID])
    for field in range(given[FIELDS]):
        laid[field] = 0
    for task in range(first, last):
        names[task - first] = tasks[task] & EVENTS
    leading = _leading(mem, given, group)
    if leading >= 0:
        _sort(given, leading, last - first)


@njit(cache=True)
def _leading(mem, given, group):
    """The field by which records are sorted that lead to a group, or -1 if they are not."""
    if mem[group + G_TAG] & 7 != KEY_RANGE or mem[group + G_FIELDS] & 3 != RANGE or given[ABOVE] != given[BELOW]:
        return -1
    return mem[group + G_FIELDS] >> 2


@njit(cache=True)
def _sort(given, field, records):
    """Sorts the records by a field; its keys are laid out in full, and the last one of each step once more."""
    upper, names, samples = int64s(given[UPPER]), int32s(given[NAMES]), int64s(given[SAMPLES])
    column, start, laid = int64s(given[ABOVE]), field * given[MOST], int64s(given[LAID])
    keys = np.empty((2, records), np.int64)
    for j in range(records):
        keys[0, j], keys[1, j] = upper[names[j] * given[FIELDS] + field], names[j]
    keys = _sorted(keys)
    for j in range(records):
        column[start + j], names[j] = keys[0, j], keys[1, j]
    steps = (records + STEP - 1) // STEP
    for j in range(records, STEP * (steps + 1)):
        column[start + j] = MISSING
    for s in range((steps + STEP - 1) // STEP * STEP):
        samples[s] = column[start + min(STEP * s + STEP, records) - 1] if s < steps else LARGEST
    laid[field] = WIDE


@njit(cache=True)
def _sorted(keys):
    """Keys in rising order, with what is below them: byte by byte, but for those in which all keys are the same."""
    other, ends = np.empty_like(keys), np.empty(256, np.int64)
    count = keys.shape[1]
    alike = keys[0, 0]
    differ = np.int64(0)
    for j in range(count):
        differ |= keys[0, j] ^ alike
    for shift in range(0, 64, 8):
        if differ >> shift & 255 == 0:
            continue
        flip = 128 if shift == 56 else 0  # the sign
        ends[:] = 0
        for j in range(count):
            ends[keys[0, j] >> shift & 255 ^ flip] += 1
        total = 0
        for digit in range(256):
            total, ends[digit] = total + ends[digit], total
        for j in range(count):
            digit = keys[0, j] >> shift & 255 ^ flip
            other[0, ends[digit]], other[1, ends[digit]] = keys[0, j], keys[1, j]
            ends[digit] += 1
        keys, other = other, keys
    return keys


@njit(cache=True)
def _lay(given, field, records, in_full):
    """Lays out the keys of a field, and after them some that no test holds for; in half the width if all of them allow it.

    A key whose lower half is 0 (a whole number below a million, say) or that is small (the number of a string) is compared
    exactly by one half of it.
    """
    names, laid, fields, start = int32s(given[NAMES]), int64s(given[LAID]), given[FIELDS], field * given[MOST]
    upper, lower, above, below = int64s(given[UPPER]), int64s(given[LOWER]), int64s(given[ABOVE]), int64s(given[BELOW])
    end = (records + STEP - 1) // STEP * STEP
    lower_half, upper_half = np.int64(0), np.int64(0)
    for j in range(records):
        key = upper[names[j] * fields + field]
        above[start + j] = key
        lower_half |= key & _LOWER_HALF
        upper_half |= 0 if key == MISSING else key >> 31
    for j in range(records, end):
        above[start + j] = MISSING
    laid[field] = WIDE
    if given[ABOVE] != given[BELOW]:
        for j in range(records):
            below[start + j] = lower[names[j] * fields + field]
        for j in range(records, end):
            below[start + j] = MISSING
    elif not in_full and (lower_half == 0 or upper_half == 0):
        halves, shift = int32s(given[ABOVE]), 32 if lower_half == 0 else 0
        for j in range(end):
            key = above[start + j]
            halves[2 * start + j] = SMALLEST_HALF if key == MISSING else key >> shift
        laid[field] = UPPER_HALVES if lower_half == 0 else LOWER_HALVES
    return laid[field]


@njit(cache=True, inline="always")
def _half_low(low, how):
    """The low end of a test on halves of keys: the smallest half that is not below it, but above that of a missing value."""
    if how == UPPER_HALVES:
        return (low >> 32) + np.int64(low & _LOWER_HALF != 0)
    return max(low, SMALLEST_HALF + 1)


@njit(cache=True, inline="always")
def _half_high(high, how):
    """The high end of a test on halves of keys: the largest half that is not above it."""
    return high >> 32 if how == UPPER_HALVES else min(high, LARGEST_HALF)


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
                mem, m32, leaf, given, records, ENTRY if pending else SLOT, who, what, written
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
def _whole_rows_in_a_step(mem, m32, leaf, given, records, half, who, what, written):
    """The same for no more records than fit in a step: which of them are left is one number."""
    names, laid, row = int32s(given[NAMES]), int64s(given[LAID]), leaf + LEAF
    halves, most = int32s(given[ABOVE]), given[MOST]
    for _ in range(mem[leaf + L_ROWS]):
        shape, left = np.int64(m32[2 * row + SHAPE]), np.uint16(_ALL >> np.uint16(STEP - records))
        for t in range(shape >> 1):
            word, low, high = test_at(mem, m32, row, shape, t)
            how = _how(given, laid, word, records)
            if word & 3 == RANGE and how != WIDE:
                left &= between(halves, 2 * (word >> 2) * most, _half_low(low, how), _half_high(high, how))
            else:
                left &= _holding(mem, word, low, high, given, how, 0)
            if t > 0 and left == 0:
                break
        written += pair(names, 0, left, m32[2 * row + half], who, what, written)
        row = after(row, shape)
    return written


@njit(cache=True)
def _holding(mem, word, low, high, given, how, step):
    """The bits of the records of a step for which a test holds."""
    if word & 3 == RANGE:
        return _between(given, word >> 2, low, high, how, step)
    if word & 3 == MASK:
        return in_common(int64s(given[ABOVE]), (word >> 2) * given[MOST] + STEP * step, low)
    some = np.uint16(0)
    for k in range(low, low + 2 * high, 2):
        some |= _between(given, word >> 2, mem[k], mem[k + 1], how, step)
    return some


@njit(cache=True, inline="always")
def _between(given, field, low, high, how, step):
    """The bits of the records of a step whose keys lie in an interval."""
    column = field * given[MOST]
    if how == WIDE:
        at = column + STEP * step
        return at_least(int64s(given[ABOVE]), at, low) & at_most(int64s(given[BELOW]), at, high)
    return between(int32s(given[ABOVE]), 2 * column + STEP * step, _half_low(low, how), _half_high(high, how))


@njit(cache=True)
def _rows(mem, m32, group, leaf, given, records, pending, who, what, written):
    """Tests the rows of a leaf of columns, on the stretch of records that the first column holds if they are sorted."""
    leading, columns, rest = _leading(mem, given, group), mem[group + G_COLUMNS], mem[group + G_REST]
    capacity, base = mem[leaf + L_CAPACITY], leaf + LEAF
    lists, done = base + capacity * (1 + 2 * columns), np.int64(leading >= 0)
    for i in range(mem[leaf + L_ROWS]):
        if rest:
            further = mem[lists + min(i + 2 * AHEAD, mem[leaf + L_ROWS] - 1)]
            prefetch(mem, further)
            prefetch(mem, further + LINE)
        start, stop = 0, records
        if leading >= 0:
            start = _below(given, leading, records, mem[base + capacity + i])
            stop = _up_to(given, leading, records, mem[base + 2 * capacity + i])
            if start >= stop:
                continue
        name = m32[2 * base + pending * capacity + i]
        written = _match(mem, m32, group, leaf, i, done, given, records, start, stop, name, who, what, written)
    return written


@njit(cache=True, inline="always")
def _match(mem, m32, group, leaf, row, t, given, records, start, stop, name, who, what, written):
    """Tests a row, from test t on, on the records from `start` on, up to `stop`, and writes which of them satisfy it.

    Two tests are made at once if halves of keys are enough for them. Mostly that is so, and they are the last ones.
    """
    names, marks, laid = int32s(given[NAMES]), uint16s(given[MARKS]), int64s(given[LAID])
    halves, most, tests = int32s(given[ABOVE]), given[MOST], tests_of(mem, m32, group, leaf, row)
    left, is_marked = True, False
    if tests > t + 1:
        a, a_low, a_high = test_of(mem, m32, group, leaf, row, t)
        b, b_low, b_high = test_of(mem, m32, group, leaf, row, t + 1)
        a_how, b_how = _how(given, laid, a, records), _how(given, laid, b, records)
        if (a | b) & 3 == RANGE and a_how != WIDE and b_how != WIDE:
            a_low, a_high, a = _half_low(a_low, a_how), _half_high(a_high, a_how), 2 * (a >> 2) * most
            b_low, b_high, b = _half_low(b_low, b_how), _half_high(b_high, b_how), 2 * (b >> 2) * most
            if tests == t + 2:
                return _tell_both(
                    halves, a, a_low, a_high, b, b_low, b_high, start, stop, names, name, who, what, written
                )
            left, is_marked = _mark_both(halves, a, a_low, a_high, b, b_low, b_high, start, stop, marks), True
            t += 2
    if not is_marked:
        _mark(marks, start, stop)
    step, steps = start // STEP, (stop + STEP - 1) // STEP
    while left and t < tests:
        word, low, high = test_of(mem, m32, group, leaf, row, t)
        left = _narrow(mem, given, laid, halves, most, records, word, low, high, marks, step, steps)
        t += 1
    return _tell(names, marks, step, steps, name, who, what, written) if left else written


@njit(cache=True, inline="always")
def _how(given, laid, word, records):
    """How the field of a test is laid out; it is, afterwards."""
    how = laid[word >> 2]
    return how if how else _lay(given, word >> 2, records, word & 3 == MASK)


@njit(cache=True)
def _tell_both(halves, a, a_low, a_high, b, b_low, b_high, start, stop, names, name, who, what, written):
    """Writes pairs of a record for which two tests hold and a name."""
    first, last = start // STEP, (stop - 1) // STEP
    for step in range(first, last + 1):
        at = STEP * step
        left = between(halves, a + at, a_low, a_high) & between(halves, b + at, b_low, b_high)
        if step == first:
            left &= np.uint16(_ALL << np.uint16(start - at))
        if step == last:
            left &= np.uint16(_ALL >> np.uint16(at + STEP - stop))
        written += pair(names, at, left, name, who, what, written)
    return written


@njit(cache=True)
def _mark_both(halves, a, a_low, a_high, b, b_low, b_high, start, stop, marks):
    """Sets the bits of the records for which two tests hold; returns whether there are any."""
    first, last, any_left = start // STEP, (stop - 1) // STEP, np.uint16(0)
    for step in range(first, last + 1):
        at = STEP * step
        left = between(halves, a + at, a_low, a_high) & between(halves, b + at, b_low, b_high)
        if step == first:
            left &= np.uint16(_ALL << np.uint16(start - at))
        if step == last:
            left &= np.uint16(_ALL >> np.uint16(at + STEP - stop))
        marks[step] = left
        any_left |= left
    return any_left != 0


@njit(cache=True)
def _below(given, field, records, low):
    """How many of the sorted records are below `low`."""
    samples, column, start = int64s(given[SAMPLES]), int64s(given[ABOVE]), field * given[MOST]
    step = 0
    for s in range(0, (records + STEP - 1) // STEP, STEP):
        step += STEP - ones(at_least(samples, s, low))
    return min(records, STEP * step + lowest(at_least(column, start + STEP * step, low)))


@njit(cache=True)
def _up_to(given, field, records, high):
    """How many of the sorted records are not above `high`."""
    samples, column, start = int64s(given[SAMPLES]), int64s(given[ABOVE]), field * given[MOST]
    step = 0
    for s in range(0, (records + STEP - 1) // STEP, STEP):
        step += ones(at_most(samples, s, high))
    step = min(step, (records + STEP - 1) // STEP)
    return min(records, STEP * step + lowest(np.uint16(~at_most(column, start + STEP * step, high))))


@njit(cache=True)
def _mark(marks, start, stop):
    """Sets the bits of the records from `start` on, up to `stop`."""
    step, last = start // STEP, (stop - 1) // STEP
    for s in range(step, last + 1):
        marks[s] = _ALL
    marks[step] &= np.uint16(_ALL << np.uint16(start % STEP))
    marks[last] &= np.uint16(_ALL >> np.uint16(STEP - 1 - (stop - 1) % STEP))


@njit(cache=True, inline="always")
def _narrow(mem, given, laid, halves, most, records, word, low, high, marks, step, steps):
    """Clears the bits of the records for which a test does not hold; returns whether any is left."""
    how = _how(given, laid, word, records)
    if word & 3 == RANGE and how != WIDE:  # the most frequent case by far
        return _narrow_halves(
            halves, 2 * (word >> 2) * most, _half_low(low, how), _half_high(high, how), marks, step, steps
        )
    return _narrow_others(mem, given, word, low, high, how, marks, step, steps)


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
        marks[s] &= _holding(mem, word, low, high, given, how, s)
        left |= marks[s]
    return left != 0


@njit(cache=True)
def _tell(names, marks, step, steps, number, who, what, written):
    """Writes pairs of a record whose bit is set and a number."""
    for s in range(step, steps):
        written += pair(names, STEP * s, marks[s], number, who, what, written)
    return written


@njit(cache=True)
def below(keys, start, count, low):
    """How many of the sorted keys from `start` on are below `low`; without branches, which would mostly be guessed wrong."""
    first, length = start, count
    while length > 0:
        half = length >> 1
        is_below = keys[first + half] < low
        first = first + half + 1 if is_below else first
        length = length - half - 1 if is_below else half
    return first - start


@njit(cache=True)
def up_to(keys, start, count, high):
    """How many of the sorted keys from `start` on are not above `high`."""
    first, length = start, count
    while length > 0:
        half = length >> 1
        is_inside = keys[first + half] <= high
        first = first + half + 1 if is_inside else first
        length = length - half - 1 if is_inside else half
    return first - start


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
