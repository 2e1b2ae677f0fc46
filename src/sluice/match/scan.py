"""Which rows does a record satisfy? The inner loop of the matcher.

A record is two words per field, `upper` and `lower`: a test holds if `low <= upper and lower <= high`. For a plain value both
are its key; with the ends of a box the same code finds what covers it (figures 4.6 and 4.7). Columns are scanned without
branches, so that the compiler can do many rows at a time, and memory is announced before it is read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.heap import _S58, find, hash_key, sortable
from sluice.match.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_DYNAMIC,
    G_FIELDS,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_ROWS,
    G_SORTED,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SINGLE,
    L_CAPACITY,
    L_ROWS,
    LARGE,
    LEAF,
    LIST,
    MASK,
    MISSING,
    PAIRS,
    RANGES,
    S_GROUP,
    SINGLES,
    SLOT,
    TABLE,
)
from sluice.match.pointers import int32s, int64s, prefetch, uint8s
from sluice.match.vectors import AVAILABLE, STEP, in_mask, in_range, pack

# Positions in the cursor of a scan: matches and candidates written, whether there was no room, how much room there is, and
# the same for the tasks that a batch leaves for later.
WRITTEN, PENDING, FULL, ROOM, PENDING_ROOM, TASKS, TASK_ROOM = range(7)


@njit(cache=True)
def _in_list(mem, address, count, upper, lower):
    """Whether a value lies in one of the sorted intervals of a list."""
    first, last = 0, count - 1
    while first < last:
        middle = (first + last + 1) // 2
        if mem[address + 2 * middle] <= upper:
            first = middle
        else:
            last = middle - 1
    return mem[address + 2 * first] <= upper and lower <= mem[address + 2 * first + 1]


@njit(cache=True)
def _test(mem, k, upper, lower, row):
    """Whether the test at address k holds for the record whose keys begin at `row`; no branch but for lists."""
    word, low, high = mem[k], mem[k + 1], mem[k + 2]
    at = row + (word >> 2)
    if word & 3 == LIST:
        return np.int64(_in_list(mem, low, high, upper[at], lower[at]))
    inside = (low <= upper[at]) & (lower[at] <= high)
    return np.int64(low & upper[at] != 0) if word & 3 == MASK else np.int64(inside)


@njit(cache=True)
def _scan_rest(mem, lists, rows, upper, lower, row, hit, picked):
    """The further tests of the rows that were hit. Rows are picked first: a branch per row would mostly be guessed wrong."""
    count = 0
    for i in range(rows):
        picked[count] = i
        count += np.int64(hit[i])
    for j in range(count):
        prefetch(mem, mem[lists + picked[j]])
    left = 0
    for j in range(count):
        i = picked[j]
        holds = _test(mem, mem[lists + i] + 1, upper, lower, row)
        hit[i] = holds
        picked[left] = i
        left += holds
    for j in range(left):
        address = mem[lists + picked[j]]
        holds = np.int64(1)
        k = address + 4
        for _ in range(mem[address] - 1):
            holds &= _test(mem, k, upper, lower, row)
            k += 3
        hit[picked[j]] = holds


@njit(cache=True)
def _scan_group(mem, m32, group, upper, lower, row, hit, picked, out, candidates, cursor, event):
    """Writes the rows of a group that match: slots to `out`, or (event, entry) to `candidates` if Python must look."""
    if not has_values(mem, group, upper, row):
        return
    packed = AVAILABLE and not (mem[group + G_DYNAMIC] or mem[group + G_REST] or mem[group + G_PENDING])
    is_sorted = mem[group + G_SORTED]
    first = row + (mem[group + G_FIELDS] >> 2)
    highest, lowest = upper[first], lower[first]
    entry = mem[group + G_DIRECTORY]
    for _ in range(mem[group + G_LEAVES]):
        if is_sorted:
            if mem[entry] > highest:
                break
            if mem[entry + 1] < lowest:
                entry += 3
                continue
        leaf = mem[entry + 2]
        entry += 3
        rows, capacity, base = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY], leaf + LEAF
        if cursor[WRITTEN] + rows > cursor[ROOM] or cursor[PENDING] + rows > cursor[PENDING_ROOM]:
            cursor[FULL] = 1
            return
        if packed:
            cursor[WRITTEN] = _pack_leaf(mem, m32, group, leaf, upper, lower, row, out, cursor[WRITTEN])
            continue
        scan_leaf(mem, group, leaf, upper, lower, row, hit, picked)
        if mem[group + G_PENDING]:
            k, entries = cursor[PENDING], 2 * base + capacity
            for i in range(rows):
                candidates[k] = event << 32 | np.int64(m32[entries + i])
                k += hit[i]
            cursor[PENDING] = k
        else:
            cursor[WRITTEN] = write_hits(m32, 2 * base, rows, hit, out, cursor[WRITTEN])


@njit(cache=True)
def has_values(mem, group, upper, row):
    """Whether a record has a value for every column of a group."""
    for c in range(0 if mem[group + G_DYNAMIC] else mem[group + G_COLUMNS]):
        word = mem[group + G_FIELDS + c]
        if upper[row + (word >> 2)] == (0 if word & 3 == MASK else MISSING):
            return False
    return True


@njit(cache=True)
def scan_leaf(mem, group, leaf, upper, lower, row, hit, picked):
    """Which rows of a leaf hold for a record: `hit` is 1 for those and 0 for the others."""
    columns, dynamic = mem[group + G_COLUMNS], mem[group + G_DYNAMIC]
    rows, capacity, base = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY], leaf + LEAF
    if dynamic:
        _scan_mixed(mem, base, capacity, rows, upper, lower, row, hit)
    else:
        for c in range(columns):
            word = mem[group + G_FIELDS + c]
            at, start = row + (word >> 2), base + capacity * (1 + 2 * c)
            _scan_column(mem, start, capacity, rows, word & 3, upper[at], lower[at], hit, c == 0)
    if mem[group + G_REST]:
        lists = base + capacity * (1 + 2 * columns + dynamic)
        _scan_rest(mem, lists, rows, upper, lower, row, hit, picked)


@njit(cache=True)
def _pack_leaf(mem, m32, group, leaf, upper, lower, row, out, written):
    """Appends the slots of the rows of a leaf that hold, many rows in one step. For groups of nothing but columns."""
    rows, base = mem[leaf + L_ROWS], leaf + LEAF
    whole = rows - rows % STEP
    for i in range(0, whole, STEP):
        written += pack(m32, 2 * base + i, step_bits(mem, group, leaf, i, upper, lower, row), out, written)
    for i in range(whole, rows):
        out[written] = m32[2 * base + i]
        written += row_bit(mem, group, leaf, i, upper, lower, row)
    return written


@njit(cache=True)
def step_bits(mem, group, leaf, i, upper, lower, row):
    """Which of the rows of a step that begins with row i hold. For groups of nothing but columns."""
    capacity, base = mem[leaf + L_CAPACITY], leaf + LEAF
    bits = np.uint16(0xFFFF)
    for c in range(mem[group + G_COLUMNS]):
        word, low = mem[group + G_FIELDS + c], base + capacity * (1 + 2 * c) + i
        at = row + (word >> 2)
        if word & 3 == MASK:
            bits &= in_mask(mem, low, upper[at])
        else:
            bits &= in_range(mem, low, low + capacity, upper[at], lower[at])
    return bits


@njit(cache=True)
def row_bit(mem, group, leaf, i, upper, lower, row):
    """Whether row i holds, as 1 or 0. For groups of nothing but columns."""
    capacity, base = mem[leaf + L_CAPACITY], leaf + LEAF
    holds = np.int64(1)
    for c in range(mem[group + G_COLUMNS]):
        word, low = mem[group + G_FIELDS + c], base + capacity * (1 + 2 * c) + i
        at = row + (word >> 2)
        inside = np.int64((mem[low] <= upper[at]) & (lower[at] <= mem[low + capacity]))
        holds &= np.int64(mem[low] & upper[at] != 0) if word & 3 == MASK else inside
    return holds


@njit(cache=True)
def _scan_mixed(mem, base, capacity, rows, upper, lower, row, hit):
    """The first test of each row of a leaf, whatever its field."""
    low, high, words = np.uint64(base + capacity), np.uint64(base + 2 * capacity), np.uint64(base + 3 * capacity)
    for i in range(np.uint64(rows)):
        word, first = mem[words + i], mem[low + i]
        at = np.uint64(row + (word >> 2))
        inside = (first <= upper[at]) & (lower[at] <= mem[high + i])
        common = first & upper[at] != 0
        hit[i] = common if word & 3 == MASK else inside


@njit(cache=True)
def _scan_column(mem, start, capacity, rows, kind, upper, lower, hit, first):
    """One column of a leaf against one value, without branches so that it runs many rows at a time."""
    low, high = np.uint64(start), np.uint64(start + capacity)
    count = np.uint64(rows)  # unsigned, so that no index can be negative and the loops vectorise
    if kind == MASK:
        if first:
            for i in range(count):
                hit[i] = mem[low + i] & upper != 0
        else:
            for i in range(count):
                hit[i] &= mem[low + i] & upper != 0
    elif first:
        for i in range(count):
            hit[i] = (mem[low + i] <= upper) & (lower <= mem[high + i])
    else:
        for i in range(count):
            hit[i] &= (mem[low + i] <= upper) & (lower <= mem[high + i])


@njit(cache=True)
def write_hits(m32, slots, rows, hit, out, written):
    """Appends the slots of the rows that were hit: each is written, and stays if the next one does not overwrite it."""
    source, k = np.uint64(slots), np.uint64(written)
    for i in range(np.uint64(rows)):
        out[k] = m32[source + i]
        k += np.uint64(hit[i])
    return np.int64(k)


@njit(cache=True)
def _probe(mem, upper, lower, row, found):
    """The first groups of all buckets that a record leads to; returns how many.

    The look-ups are independent of each other, so all of them are announced before the first one is made.
    """
    entry = mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        _announce(mem, mem[entry] * 8 + KEY_SINGLE, upper[row + mem[entry]], 0)
        entry += 2
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        _announce(mem, (first * 65536 + second) * 8 + KEY_PAIR, upper[row + first], upper[row + second])
        entry += 3
    count = 0
    entry = mem[SINGLES]
    for _ in range(mem[SINGLES + 2]):
        field = mem[entry]
        entry += 2
        value = upper[row + field]
        if value != MISSING and value == lower[row + field]:
            count = _note(mem, find(mem, field * 8 + KEY_SINGLE, value, 0), found, count)
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        entry += 3
        a, b = upper[row + first], upper[row + second]
        if a != MISSING and b != MISSING and a == lower[row + first] and b == lower[row + second]:
            count = _note(mem, find(mem, (first * 65536 + second) * 8 + KEY_PAIR, a, b), found, count)
    entry = mem[RANGES]
    for _ in range(mem[RANGES + 2]):
        word = mem[entry]
        entry += 2
        if upper[row + (word >> 2)] != (0 if word & 3 == MASK else MISSING):
            count = _note(mem, find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0), found, count)
    return count


@njit(cache=True)
def _announce(mem, tag, first, second):
    h = hash_key(tag, first, second)
    part = TABLE + 3 * np.int64(h >> _S58)
    if mem[part + 1] != 0:
        prefetch(mem, mem[part] + SLOT * np.int64(h & np.uint64(mem[part + 1] - 1)))


@njit(cache=True)
def _note(mem, slot, found, count):
    """Notes the first group of a bucket, if there is one, and announces that it will be read."""
    if slot == 0 or mem[slot + S_GROUP] == 0:
        return count
    group = mem[slot + S_GROUP]
    prefetch(mem, group)
    prefetch(mem, group + G_DIRECTORY)
    found[count] = group
    return count + 1


@njit(cache=True)
def _match_event(mem, m32, upper, lower, row, hit, picked, found, out, candidates, cursor, tasks, event):
    """All rows that one record satisfies; its keys begin at `row` of `upper` and `lower`.

    A large group is only noted as a task, if there is room for it: see `sluice.match.tiles`.
    """
    count = _probe(mem, upper, lower, row, found)
    for i in range(count):
        leaf = mem[mem[found[i] + G_DIRECTORY] + 2]
        prefetch(mem, leaf)
        prefetch(mem, leaf + 8)
        prefetch(mem, leaf + 16)
    for i in range(count):
        group = found[i]
        while group != 0:
            at = cursor[TASKS]
            if mem[group + G_ROWS] >= LARGE and at < cursor[TASK_ROOM] and not mem[group + G_PENDING]:
                tasks[2 * at], tasks[2 * at + 1] = group, event
                cursor[TASKS] = at + 1
            else:
                _scan_group(mem, m32, group, upper, lower, row, hit, picked, out, candidates, cursor, event)
            group = mem[group + G_NEXT]


@njit(cache=True)
def match_record(place):
    """Matches one record whose numbers are plain doubles.

    `place` is the address of one word each: heap, values, their defaults, how many, which of them are numbers, how many those
    are, and the five buffers of a scan. A single argument, because each one costs as much as a look-up in the index.
    Leaves the values blank for the next record, or as they were if there was no room for its matches.
    """
    given = int64s(place)
    mem, m32, keys, blank = int64s(given[0]), int32s(given[0]), int64s(given[1]), int64s(given[2])
    numbers, hit, picked, found = int64s(given[4]), uint8s(given[6]), int64s(given[7]), int64s(given[8])
    out, candidates, cursor = int32s(given[9]), int64s(given[10]), int64s(given[11])
    cursor[WRITTEN] = cursor[PENDING] = cursor[FULL] = 0
    _turn(keys, numbers, given[5])
    _match_event(mem, m32, keys, keys, 0, hit, picked, found, out, candidates, cursor, candidates, 0)
    if cursor[FULL]:
        _turn(keys, numbers, given[5])
    else:
        for field in range(given[3]):
            keys[field] = blank[field]


@njit(cache=True)
def _turn(keys, numbers, count):
    """Turns doubles into sortable keys, or back: it is its own inverse."""
    for i in range(count):
        if keys[numbers[i]] != MISSING:
            keys[numbers[i]] = sortable(keys[numbers[i]])


@njit(cache=True)
def match_rows(heap, upper, lower, fields, hit, picked, found, out, candidates, cursor, tasks, offsets, count, start):
    """Matches records of `fields` keys each, from `start` on; returns the first one not done for want of room.

    All arguments but the counts are addresses.
    """
    mem, m32, state, ends = int64s(heap), int32s(heap), int64s(cursor), int64s(offsets)
    high, low, slots, pending = int64s(upper), int64s(lower), int32s(out), int64s(candidates)
    hits, rows, groups, later = uint8s(hit), int64s(picked), int64s(found), int64s(tasks)
    for event in range(start, count):
        written, waiting, left = state[WRITTEN], state[PENDING], state[TASKS]
        _match_event(mem, m32, high, low, event * fields, hits, rows, groups, slots, pending, state, later, event)
        if state[FULL]:
            state[WRITTEN], state[PENDING], state[TASKS], state[FULL] = written, waiting, left, 0
            return event
        ends[event + 1] = state[WRITTEN]
    return count


@njit(cache=True)
def merge_rows(offsets, out, events, slots):
    """Joins sure matches and confirmed candidates (sorted by event) into one result of offsets and slots."""
    total = np.empty_like(offsets)
    joined = np.empty(out.shape[0] + slots.shape[0], np.int32)
    k = c = 0
    total[0] = 0
    for event in range(offsets.shape[0] - 1):
        for i in range(offsets[event], offsets[event + 1]):
            joined[k] = out[i]
            k += 1
        while c < events.shape[0] and events[c] == event:
            joined[k] = slots[c]
            k += 1
            c += 1
        total[event + 1] = k
    return total, joined


@njit(cache=True)
def move_rows(offsets, out, slots, places):
    """Copies the matches of each record to where `places` says, and moves `places` behind them."""
    for event in range(places.shape[0]):
        for i in range(offsets[event], offsets[event + 1]):
            slots[places[event]] = out[i]
            places[event] += 1
