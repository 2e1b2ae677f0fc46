"""The compiled heart of the matcher: inserting, removing and finding rows in the heap that `sluice.match.layout` describes.

A row is one clause of a subscription: a conjunction of tests `low <= value <= high` (or a bit mask) over fields. It lives in
the bucket of its *access key*, its most selective equality or pair of equalities, else one of its intervals. Rows of a
bucket that test the same fields are stored column by column and scanned without branches; the rest row by row with early
exit. A record is two words per field, `upper` and `lower`: a test holds if `low <= upper and lower <= high`. For a plain
value both are its key; with the ends of an interval the same code finds what covers or overlaps it (figures 4.6 to 4.8).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.fields import OTHER_BIT, Axis
from sluice.match.layout import (
    CROWDED,
    FIRST_ROWS,
    FREE,
    G_CAPACITY,
    G_COLUMNS,
    G_DIRECTORY,
    G_DYNAMIC,
    G_FIELDS,
    G_FIRST,
    G_INLINE,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_ROWS,
    G_SECOND,
    G_SIGNATURE,
    G_SORTED,
    G_TAG,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SIGNATURE,
    KEY_SINGLE,
    L_CAPACITY,
    L_GROUP,
    L_ROWS,
    LARGEST,
    LEAF,
    LEAF_ROWS,
    LIST,
    MASK,
    MAX_PAIRS,
    MISSING,
    MIXED_ROWS,
    PAIRS,
    PARTITIONS,
    RANGE,
    RANGES,
    RESERVE,
    ROWS,
    S_COUNT,
    S_FIRST,
    S_GROUP,
    S_SECOND,
    S_TAG,
    SINGLES,
    SLOT,
    TABLE,
    TOP,
)
from sluice.match.pointers import int32s, int64s, prefetch, uint8s

KIND, NUMBER = int(Axis.KIND), int(Axis.NUMBER)
_C1 = np.uint64(0x9E3779B97F4A7C15)
_C2 = np.uint64(0xC2B2AE3D27D4EB4F)
_C3 = np.uint64(0x165667B19E3779F9)
_S29, _S32, _S47, _S58 = np.uint64(29), np.uint64(32), np.uint64(47), np.uint64(58)


@njit(cache=True, inline="always")
def _hash(tag, first, second):
    h = np.uint64(tag) * _C1 ^ np.uint64(first) * _C2 ^ (np.uint64(second) + _C1) * _C3
    h ^= h >> _S29
    h *= _C1
    h ^= h >> _S32
    h *= _C2
    h ^= h >> _S47
    return h


@njit(cache=True, inline="always")
def sortable(bits):
    """The bits of a double as an integer with the order of the doubles."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


# --- memory ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _size_class(words):
    """The class of a size: four steps per power of two. Returns the class and the rounded size."""
    size, step, number = 4, 1, 0
    while size < words:
        for _ in range(4):
            number += 1
            size += step
            if size >= words:
                break
        if size & (size - 1) == 0:
            step = size // 4
    return number, size


@njit(cache=True)
def _take(mem, words):
    """The address of a zeroed piece of the heap. The caller has made sure that there is room."""
    number, size = _size_class(words)
    address = mem[FREE + number]
    if address != 0:
        mem[FREE + number] = mem[address]
    else:
        address = mem[TOP]
        mem[TOP] += size
    for i in range(address, address + size):
        mem[i] = 0
    return address


@njit(cache=True)
def _give(mem, address, words):
    """Puts a piece back on the free list of its size."""
    number, _ = _size_class(words)
    mem[address] = mem[FREE + number]
    mem[FREE + number] = address


# --- the hash table -------------------------------------------------------------------------------------------------


@njit(cache=True)
def _find(mem, tag, first, second):
    """The slot of a key, or 0."""
    h = _hash(tag, first, second)
    part = TABLE + 3 * np.int64(h >> _S58)
    capacity = mem[part + 1]
    if capacity == 0:
        return 0
    base = mem[part]
    i = np.int64(h & np.uint64(capacity - 1))
    while True:
        slot = base + SLOT * i
        if mem[slot + S_TAG] == tag and mem[slot + S_FIRST] == first and mem[slot + S_SECOND] == second:
            return slot
        if mem[slot + S_TAG] == 0:
            return 0
        i = (i + 1) & (capacity - 1)


@njit(cache=True)
def _enlarge(mem, part):
    """Doubles one partition of the table, leaving out keys that nothing uses any more."""
    old, capacity = mem[part], mem[part + 1]
    live = 0
    for i in range(capacity):
        slot = old + SLOT * i
        if mem[slot + S_TAG] != 0 and (mem[slot + S_GROUP] != 0 or mem[slot + S_COUNT] != 0):
            live += 1
    larger = 8
    while larger < 3 * live:
        larger *= 2
    new = _take(mem, SLOT * larger)
    for i in range(capacity):
        slot = old + SLOT * i
        if mem[slot + S_TAG] != 0 and (mem[slot + S_GROUP] != 0 or mem[slot + S_COUNT] != 0):
            h = _hash(mem[slot + S_TAG], mem[slot + S_FIRST], mem[slot + S_SECOND])
            j = np.int64(h & np.uint64(larger - 1))
            while mem[new + SLOT * j + S_TAG] != 0:
                j = (j + 1) & (larger - 1)
            for k in range(SLOT):
                mem[new + SLOT * j + k] = mem[slot + k]
    if capacity:
        _give(mem, old, SLOT * capacity)
    mem[part], mem[part + 1], mem[part + 2] = new, larger, live


@njit(cache=True)
def _find_or_add(mem, tag, first, second):
    """The slot of a key, made if it is new."""
    slot = _find(mem, tag, first, second)
    if slot != 0:
        return slot
    h = _hash(tag, first, second)
    part = TABLE + 3 * np.int64(h >> _S58)
    if 3 * (mem[part + 2] + 1) > 2 * mem[part + 1]:
        _enlarge(mem, part)
    base, capacity = mem[part], mem[part + 1]
    i = np.int64(h & np.uint64(capacity - 1))
    while mem[base + SLOT * i + S_TAG] != 0:
        i = (i + 1) & (capacity - 1)
    slot = base + SLOT * i
    mem[slot + S_TAG], mem[slot + S_FIRST], mem[slot + S_SECOND] = tag, first, second
    mem[part + 2] += 1
    return slot


@njit(cache=True)
def _largest_partition(mem):
    """Words that the next doubling of a partition may need."""
    capacity = 8
    for p in range(PARTITIONS):
        capacity = max(capacity, mem[TABLE + 3 * p + 1])
    return SLOT * capacity * 4


# --- lists of the fields that keys use ------------------------------------------------------------------------------


@njit(cache=True)
def _count_in_list(mem, head, width, first, second, change):
    """Adds `change` to the counter of a field (or pair) in one of the three lists; entries come and go with their count."""
    address, capacity, length = mem[head], mem[head + 1], mem[head + 2]
    for i in range(length):
        entry = address + i * width
        if mem[entry] == first and (width == 2 or mem[entry + 1] == second):
            mem[entry + width - 1] += change
            if mem[entry + width - 1] == 0:
                last = address + (length - 1) * width
                for k in range(width):
                    mem[entry + k] = mem[last + k]
                mem[head + 2] = length - 1
            return
    if length == capacity:
        larger = max(8, 2 * capacity)
        new = _take(mem, larger * width)
        for k in range(length * width):
            mem[new + k] = mem[address + k]
        if capacity:
            _give(mem, address, capacity * width)
        mem[head], mem[head + 1] = new, larger
        address = new
    entry = address + length * width
    mem[entry] = first
    if width == 3:
        mem[entry + 1] = second
    mem[entry + width - 1] = change
    mem[head + 2] = length + 1


@njit(cache=True)
def _pair_in_use(mem, first, second):
    for i in range(mem[PAIRS + 2]):
        entry = mem[PAIRS] + 3 * i
        if mem[entry] == first and mem[entry + 1] == second:
            return True
    return False


# --- leaves and groups ----------------------------------------------------------------------------------------------


@njit(cache=True)
def _width(mem, group):
    """Words per row of a group's leaves."""
    return 1 + 2 * mem[group + G_COLUMNS] + mem[group + G_DYNAMIC] + mem[group + G_REST]


@njit(cache=True)
def _new_leaf(mem, group, capacity):
    leaf = _take(mem, LEAF + capacity * _width(mem, group))
    mem[leaf + L_GROUP], mem[leaf + L_ROWS], mem[leaf + L_CAPACITY] = group, 0, capacity
    return leaf


@njit(cache=True)
def _copy_row(mem, m32, group, source, i, target, j, places):
    """Copies row i of one leaf to row j of another (or the same) and notes where its entry is now."""
    old, new = source + LEAF, target + LEAF
    old_capacity, new_capacity = mem[source + L_CAPACITY], mem[target + L_CAPACITY]
    entry = m32[2 * old + old_capacity + i]
    m32[2 * new + j] = m32[2 * old + i]
    m32[2 * new + new_capacity + j] = entry
    for c in range(1, _width(mem, group)):
        mem[new + new_capacity * c + j] = mem[old + old_capacity * c + i]
    places[entry] = target * 2048 + j


@njit(cache=True)
def _directory_insert(mem, group, at, low, high, leaf):
    count, capacity, directory = mem[group + G_LEAVES], mem[group + G_CAPACITY], mem[group + G_DIRECTORY]
    if count == capacity:
        larger = 2 * capacity
        new = _take(mem, 3 * larger)
        for k in range(3 * count):
            mem[new + k] = mem[directory + k]
        if capacity > 1:
            _give(mem, directory, 3 * capacity)
        mem[group + G_CAPACITY], mem[group + G_DIRECTORY] = larger, new
        directory = new
    for k in range(3 * count - 1, 3 * at - 1, -1):
        mem[directory + k + 3] = mem[directory + k]
    mem[directory + 3 * at], mem[directory + 3 * at + 1], mem[directory + 3 * at + 2] = low, high, leaf
    mem[group + G_LEAVES] = count + 1


@njit(cache=True)
def _split(mem, m32, group, at, places):
    """Divides a full leaf of a sorted group in two at the median of its low ends."""
    directory = mem[group + G_DIRECTORY]
    leaf = mem[directory + 3 * at + 2]
    rows, capacity = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY]
    base = leaf + LEAF
    lows = np.empty(rows, np.int64)
    for i in range(rows):
        lows[i] = mem[base + capacity + i]
    order = np.argsort(lows, kind="mergesort")
    half = rows // 2
    left, right = _new_leaf(mem, group, LEAF_ROWS), _new_leaf(mem, group, LEAF_ROWS)
    left_high, right_high = np.int64(MISSING), np.int64(MISSING)
    for k in range(rows):
        i = order[k]
        high = mem[base + 2 * capacity + i]
        if k < half:
            _copy_row(mem, m32, group, leaf, i, left, k, places)
            left_high = max(left_high, high)
        else:
            _copy_row(mem, m32, group, leaf, i, right, k - half, places)
            right_high = max(right_high, high)
    mem[left + L_ROWS], mem[right + L_ROWS] = half, rows - half
    mem[directory + 3 * at], mem[directory + 3 * at + 1] = lows[order[0]], left_high
    mem[directory + 3 * at + 2] = left
    _directory_insert(mem, group, at + 1, lows[order[half]], right_high, right)
    _give(mem, leaf, LEAF + capacity * _width(mem, group))


@njit(cache=True)
def _leaf_for(mem, m32, group, low, places):
    """The place in the directory of the leaf that takes a row with this low end; it has room afterwards."""
    count = mem[group + G_LEAVES]
    if count == 0:
        leaf = _new_leaf(mem, group, FIRST_ROWS)
        _directory_insert(mem, group, 0, low if mem[group + G_SORTED] else MISSING, MISSING, leaf)
        return 0
    at = count - 1
    if mem[group + G_SORTED]:
        directory = mem[group + G_DIRECTORY]
        first, last = 0, count - 1
        while first < last:
            middle = (first + last + 1) // 2
            if mem[directory + 3 * middle] <= low:
                first = middle
            else:
                last = middle - 1
        at = first
    leaf = mem[mem[group + G_DIRECTORY] + 3 * at + 2]
    capacity = mem[leaf + L_CAPACITY]
    if mem[leaf + L_ROWS] < capacity:
        return at
    if capacity < LEAF_ROWS:
        larger = _new_leaf(mem, group, 2 * capacity)
        for i in range(capacity):
            _copy_row(mem, m32, group, leaf, i, larger, i, places)
        mem[larger + L_ROWS] = capacity
        mem[mem[group + G_DIRECTORY] + 3 * at + 2] = larger
        _give(mem, leaf, LEAF + capacity * _width(mem, group))
        return at
    if mem[group + G_SORTED]:
        _split(mem, m32, group, at, places)
        if mem[mem[group + G_DIRECTORY] + 3 * (at + 1)] <= low:
            at += 1
        return at
    _directory_insert(mem, group, count, MISSING, LARGEST, _new_leaf(mem, group, FIRST_ROWS))
    return count


@njit(cache=True)
def _new_group(mem, slot, signature, pending, dynamic, rest, tests, columns, count):
    """A group of a bucket, linked in front of the others. `columns` lists the tests that become its columns."""
    group = _take(mem, G_FIELDS + max(1, count))
    mem[group + G_NEXT] = mem[slot + S_GROUP]
    mem[group + G_TAG], mem[group + G_FIRST], mem[group + G_SECOND] = mem[slot], mem[slot + 1], mem[slot + 2]
    mem[group + G_SIGNATURE] = signature
    mem[group + G_PENDING], mem[group + G_DYNAMIC], mem[group + G_REST] = pending, dynamic, rest
    mem[group + G_COLUMNS] = count
    mem[group + G_CAPACITY], mem[group + G_DIRECTORY] = 1, group + G_INLINE
    if not dynamic:
        for c in range(count):
            mem[group + G_FIELDS + c] = tests[columns[c], 0]
        mem[group + G_SORTED] = tests[columns[0], 0] & 3 == RANGE
    mem[slot + S_GROUP] = group
    return group


@njit(cache=True)
def _mixed_group(mem, slot, pending, dynamic, rest, tests, primary):
    """The bucket's group for rows of any fields, made if there is none."""
    field = np.int64(-1) if dynamic else -2 - tests[primary, 0]
    group = mem[slot + S_GROUP]
    while group != 0:
        if mem[group + G_SIGNATURE] == field and mem[group + G_PENDING] == pending and mem[group + G_REST] == rest:
            return group
        group = mem[group + G_NEXT]
    columns = np.empty(1, np.int64)
    columns[0] = primary
    return _new_group(mem, slot, field, pending, dynamic, rest, tests, columns, 1)


@njit(cache=True)
def _store_rest(mem, tests, used, shares, pairs):
    """Writes the tests that are no columns as a list, most selective first: count, then (test word, low, high) each."""
    count = 0
    for t in range(tests.shape[0]):
        if not used[t]:
            count += 1
    address = _take(mem, 1 + 3 * count)
    mem[address] = count
    for k in range(address + 1, address + 1 + 3 * count, 3):
        t = -1
        for other in range(tests.shape[0]):
            if not used[other] and (t < 0 or shares[other] < shares[t]):
                t = other
        used[t] = True
        mem[k], mem[k + 1], mem[k + 2] = tests[t, 0], tests[t, 1], tests[t, 2]
        if tests[t, 0] & 3 == LIST:
            words = 2 * tests[t, 2]
            copy = _take(mem, words)
            for i in range(words):
                mem[copy + i] = pairs[2 * tests[t, 1] + i]
            mem[k + 1] = copy
    return address


@njit(cache=True)
def _free_rest(mem, address):
    for i in range(mem[address]):
        k = address + 1 + 3 * i
        if mem[k] & 3 == LIST:
            _give(mem, mem[k + 1], 2 * mem[k + 2])
    _give(mem, address, 1 + 3 * mem[address])


# --- choosing the access key ----------------------------------------------------------------------------------------


@njit(cache=True)
def _is_equality(tests, t, axes):
    """Whether a test pins its field to one value. Kinds are no keys: nearly every record has the same."""
    word = tests[t, 0]
    return word & 3 == RANGE and tests[t, 1] == tests[t, 2] and axes[word >> 2] != KIND


@njit(cache=True)
def _place(key, axis):
    """A key as a number on a scale on which distances mean something."""
    if axis == NUMBER:
        return np.int64(sortable(key)).view(np.float64)
    return np.float64(key)


@njit(cache=True)
def _estimate(tests, axes, seen, shares):
    """Guesses which share of the values of its field each test lets through, from the ends of intervals seen so far."""
    for t in range(tests.shape[0]):
        word = tests[t, 0]
        field = word >> 2
        axis = axes[field]
        if word & 3 == LIST:
            shares[t] = 2.0
        elif word & 3 == MASK:
            shares[t] = 0.9 if tests[t, 1] & OTHER_BIT else 0.3
        elif axis == KIND:
            shares[t] = 0.95
        else:
            low, high = _place(tests[t, 1], axis), _place(tests[t, 2], axis)
            if abs(low) < 1e300 and tests[t, 1] > -LARGEST:
                seen[field, 0], seen[field, 1] = min(seen[field, 0], low), max(seen[field, 1], low)
            if abs(high) < 1e300 and tests[t, 2] < LARGEST:
                seen[field, 0], seen[field, 1] = min(seen[field, 0], high), max(seen[field, 1], high)
            span = seen[field, 1] - seen[field, 0]
            inside = min(high, seen[field, 1]) - max(low, seen[field, 0])
            shares[t] = inside / span if span > 0 else 1.0


@njit(cache=True)
def _least(tests, used, shares):
    """The test that lets least through, of those that are open and can be a column; -1 if there is none."""
    chosen = -1
    for t in range(tests.shape[0]):
        if not used[t] and tests[t, 0] & 3 != LIST and (chosen < 0 or shares[t] < shares[chosen]):
            chosen = t
    return chosen


@njit(cache=True)
def count_keys(heap, size, tests, starts, axes, change):
    """Notes how many clauses have each equality, before or after they are inserted; returns how many were counted."""
    mem = int64s(heap)
    for c in range(starts.shape[0] - 1):
        if mem[TOP] + RESERVE + _largest_partition(mem) > size:
            return c
        for t in range(starts[c], starts[c + 1]):
            if _is_equality(tests, t, axes):
                slot = _find_or_add(mem, (tests[t, 0] >> 2) * 8 + KEY_SINGLE, tests[t, 1], 0)
                mem[slot + S_COUNT] += change
    return starts.shape[0] - 1


@njit(cache=True)
def _choose(mem, tests, axes, shares, choice):
    """Picks the access tests of a clause into `choice`: one or two equalities, or an interval. Returns the kind of key."""
    best, second = -1, -1
    best_count, second_count = 0, 0
    for t in range(tests.shape[0]):
        if _is_equality(tests, t, axes):
            count = mem[_find(mem, (tests[t, 0] >> 2) * 8 + KEY_SINGLE, tests[t, 1], 0) + S_COUNT]
            if best < 0 or count < best_count:
                second, second_count = best, best_count
                best, best_count = t, count
            elif second < 0 or count < second_count:
                second, second_count = t, count
    if best >= 0:
        choice[0] = best
        if second < 0 or best_count <= CROWDED:
            return KEY_SINGLE
        first, last = min(best, second), max(best, second)
        if tests[last, 0] >> 2 >= 65536:
            return KEY_SINGLE
        if mem[PAIRS + 2] >= MAX_PAIRS and not _pair_in_use(mem, tests[first, 0] >> 2, tests[last, 0] >> 2):
            return KEY_SINGLE
        choice[0], choice[1] = first, last
        return KEY_PAIR
    choice[0] = _least(tests, np.zeros(tests.shape[0], np.bool_), shares)
    return KEY_RANGE


@njit(cache=True)
def _bucket_key(tests, kind, choice):
    """The key of a bucket: tag, first, second."""
    word = tests[choice[0], 0]
    if kind == KEY_SINGLE:
        return (word >> 2) * 8 + KEY_SINGLE, tests[choice[0], 1], np.int64(0)
    if kind == KEY_PAIR:
        other = tests[choice[1], 0] >> 2
        return ((word >> 2) * 65536 + other) * 8 + KEY_PAIR, tests[choice[0], 1], tests[choice[1], 1]
    return (word >> 2) * 8 + KEY_RANGE, np.int64(word & 3), np.int64(0)


@njit(cache=True)
def _signature(tests, used):
    """A hash of the fields of the tests that would be columns."""
    h = np.uint64(1)
    for t in range(tests.shape[0]):
        if not used[t] and tests[t, 0] & 3 != LIST:
            h = _hash(tests[t, 0], np.int64(h), 7)
    return np.int64(h >> np.uint64(1)) | 1


# --- inserting and removing -----------------------------------------------------------------------------------------


@njit(cache=True)
def insert(heap, size, places, tests, starts, pairs, slots, entries, pending, axes, seen):
    """Adds clauses; returns how many were added, fewer than given when the heap must grow first."""
    mem, m32, where = int64s(heap), int32s(heap), int64s(places)
    choice = np.zeros(2, np.int64)
    for c in range(slots.shape[0]):
        leaves = 8 * LEAF_ROWS * (starts[c + 1] - starts[c] + 1)
        if mem[TOP] + RESERVE + leaves + 4 * pairs.shape[0] + _largest_partition(mem) > size:
            return c
        mine = tests[starts[c] : starts[c + 1]]
        _insert_one(mem, m32, where, mine, pairs, slots[c], entries[c], pending[c], axes, seen, choice)
    return slots.shape[0]


@njit(cache=True)
def _insert_one(mem, m32, places, tests, pairs, number, entry, pending, axes, seen, choice):
    shares = np.empty(tests.shape[0], np.float64)
    _estimate(tests, axes, seen, shares)
    kind = _choose(mem, tests, axes, shares, choice)
    tag, first, second = _bucket_key(tests, kind, choice)
    slot = _find_or_add(mem, tag, first, second)
    used = np.zeros(tests.shape[0], np.bool_)
    if kind == KEY_RANGE:
        _count_in_list(mem, RANGES, 2, tests[choice[0], 0], 0, 1)
    else:
        used[choice[0]] = True
        if kind == KEY_SINGLE:
            _count_in_list(mem, SINGLES, 2, tests[choice[0], 0] >> 2, 0, 1)
        else:
            used[choice[1]] = True
            _count_in_list(mem, PAIRS, 3, tests[choice[0], 0] >> 2, tests[choice[1], 0] >> 2, 1)
    group, columns = _group_for(mem, slot, kind, tests, used, shares, pending, choice)
    low = tests[columns[0], 1] if columns.shape[0] else np.int64(0)
    at = _leaf_for(mem, m32, group, low, places)
    directory = mem[group + G_DIRECTORY]
    leaf = mem[directory + 3 * at + 2]
    row, capacity, base = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY], leaf + LEAF
    m32[2 * base + row] = number
    m32[2 * base + capacity + row] = entry
    for c in range(columns.shape[0]):
        mem[base + capacity * (1 + 2 * c) + row] = tests[columns[c], 1]
        mem[base + capacity * (2 + 2 * c) + row] = tests[columns[c], 2]
    width = 1 + 2 * mem[group + G_COLUMNS]
    if mem[group + G_DYNAMIC]:
        if columns.shape[0] == 0:  # nothing left to test: field 0 is 0 in every record
            mem[base + capacity + row], mem[base + 2 * capacity + row] = 0, 0
        mem[base + capacity * width + row] = tests[columns[0], 0] if columns.shape[0] else 0
        width += 1
    if mem[group + G_REST]:
        for c in range(columns.shape[0]):
            used[columns[c]] = True
        mem[base + capacity * width + row] = _store_rest(mem, tests, used, shares, pairs)
    if mem[group + G_SORTED]:
        mem[directory + 3 * at] = min(mem[directory + 3 * at], low)
        mem[directory + 3 * at + 1] = max(mem[directory + 3 * at + 1], tests[columns[0], 2])
    mem[leaf + L_ROWS] += 1
    mem[group + G_ROWS] += 1
    mem[ROWS] += 1
    places[entry] = leaf * 2048 + row


@njit(cache=True)
def _group_for(mem, slot, kind, tests, used, shares, pending, choice):
    """The group of a bucket that a clause belongs to, and the tests that are its columns there."""
    open_tests, lists = 0, 0
    for t in range(tests.shape[0]):
        if not used[t]:
            open_tests += 1
            if tests[t, 0] & 3 == LIST:
                lists += 1
    primary = choice[0] if kind == KEY_RANGE else _least(tests, used, shares)
    tag, first, second = mem[slot + S_TAG], mem[slot + S_FIRST], mem[slot + S_SECOND]
    if open_tests > 0 and lists == 0 and _rows_in_mixed(mem, slot) >= MIXED_ROWS:
        signature = _signature(tests, used)
        own = _find_or_add(mem, tag * 16 + pending * 8 + KEY_SIGNATURE, first, _with(second, signature))
        mem[own + S_COUNT] += 1
        if mem[own + S_GROUP] == 0 and mem[own + S_COUNT] >= MIXED_ROWS:
            slot = _find(mem, tag, first, second)  # the table may have grown, and its slots moved
            columns = np.empty(open_tests, np.int64)
            columns[0] = primary
            k = 1
            for t in range(tests.shape[0]):
                if not used[t] and t != primary:
                    columns[k] = t
                    k += 1
            mem[own + S_GROUP] = _new_group(mem, slot, signature, pending, 0, 0, tests, columns, open_tests)
        if mem[own + S_GROUP] != 0:
            columns = _columns_of(mem, mem[own + S_GROUP], tests)
            if columns.shape[0] == open_tests:
                return mem[own + S_GROUP], columns
        slot = _find(mem, tag, first, second)
    dynamic = 0 if kind == KEY_RANGE else 1
    columns = np.empty(0, np.int64)
    rest = 1 if open_tests > 0 else 0
    if open_tests > lists:
        columns = np.empty(1, np.int64)
        columns[0] = primary
        rest = 1 if open_tests > 1 else 0
    return _mixed_group(mem, slot, pending, dynamic, rest, tests, primary), columns


@njit(cache=True, inline="always")
def _with(second, signature):
    return np.int64(np.uint64(second) * _C3 ^ np.uint64(signature))


@njit(cache=True)
def _columns_of(mem, group, tests):
    """The tests of a clause in the order of a group's columns; shorter than that if one is not there."""
    count = mem[group + G_COLUMNS]
    columns = np.empty(count, np.int64)
    for c in range(count):
        columns[c] = -1
        for t in range(tests.shape[0]):
            if tests[t, 0] == mem[group + G_FIELDS + c]:
                columns[c] = t
        if columns[c] < 0:
            return columns[:0]
    return columns


@njit(cache=True)
def _rows_in_mixed(mem, slot):
    rows, group = 0, mem[slot + S_GROUP]
    while group != 0:
        if mem[group + G_SIGNATURE] < 0:
            rows += mem[group + G_ROWS]
        group = mem[group + G_NEXT]
    return rows


@njit(cache=True)
def remove(heap, places, entries):
    """Takes rows out, each by moving the last row of its leaf into its place."""
    mem, m32, where = int64s(heap), int32s(heap), int64s(places)
    for entry in entries:
        leaf, row = where[entry] >> 11, where[entry] & 2047
        group, base, capacity = mem[leaf + L_GROUP], leaf + LEAF, mem[leaf + L_CAPACITY]
        if mem[group + G_REST]:
            column = 1 + 2 * mem[group + G_COLUMNS] + mem[group + G_DYNAMIC]
            _free_rest(mem, mem[base + capacity * column + row])
        last = mem[leaf + L_ROWS] - 1
        if row != last:
            _copy_row(mem, m32, group, leaf, last, leaf, row, where)
        mem[leaf + L_ROWS] = last
        mem[group + G_ROWS] -= 1
        mem[ROWS] -= 1
        where[entry] = 0
        _uncount(mem, group)
        if last == 0:
            _drop_leaf(mem, group, leaf)
        if mem[group + G_ROWS] == 0:
            _drop_group(mem, group)


@njit(cache=True)
def _uncount(mem, group):
    """One row less behind the group's access key and signature."""
    tag = mem[group + G_TAG]
    if tag & 7 == KEY_SINGLE:
        _count_in_list(mem, SINGLES, 2, tag >> 3, 0, -1)
    elif tag & 7 == KEY_PAIR:
        _count_in_list(mem, PAIRS, 3, (tag >> 3) // 65536, (tag >> 3) % 65536, -1)
    else:
        _count_in_list(mem, RANGES, 2, (tag >> 3) * 4 + mem[group + G_FIRST], 0, -1)
    if mem[group + G_SIGNATURE] > 0:
        own = _own_slot(mem, group)
        mem[own + S_COUNT] -= 1


@njit(cache=True)
def _own_slot(mem, group):
    tag = mem[group + G_TAG] * 16 + mem[group + G_PENDING] * 8 + KEY_SIGNATURE
    return _find(mem, tag, mem[group + G_FIRST], _with(mem[group + G_SECOND], mem[group + G_SIGNATURE]))


@njit(cache=True)
def _drop_leaf(mem, group, leaf):
    count, directory = mem[group + G_LEAVES], mem[group + G_DIRECTORY]
    at = 0
    while mem[directory + 3 * at + 2] != leaf:
        at += 1
    for k in range(3 * at, 3 * (count - 1)):
        mem[directory + k] = mem[directory + k + 3]
    mem[group + G_LEAVES] = count - 1
    _give(mem, leaf, LEAF + mem[leaf + L_CAPACITY] * _width(mem, group))


@njit(cache=True)
def _drop_group(mem, group):
    if mem[group + G_SIGNATURE] > 0:
        mem[_own_slot(mem, group) + S_GROUP] = 0
    slot = _find(mem, mem[group + G_TAG], mem[group + G_FIRST], mem[group + G_SECOND])
    if mem[slot + S_GROUP] == group:
        mem[slot + S_GROUP] = mem[group + G_NEXT]
    else:
        before = mem[slot + S_GROUP]
        while mem[before + G_NEXT] != group:
            before = mem[before + G_NEXT]
        mem[before + G_NEXT] = mem[group + G_NEXT]
    if mem[group + G_CAPACITY] > 1:
        _give(mem, mem[group + G_DIRECTORY], 3 * mem[group + G_CAPACITY])
    _give(mem, group, G_FIELDS + max(1, mem[group + G_COLUMNS]))


# --- matching -------------------------------------------------------------------------------------------------------

# Positions in the cursor of a scan: matches and candidates written, whether there was no room, and how much room there is.
WRITTEN, PENDING, FULL, ROOM, PENDING_ROOM = range(5)


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
    columns, dynamic = mem[group + G_COLUMNS], mem[group + G_DYNAMIC]
    rest = 1 + 2 * columns + dynamic if mem[group + G_REST] else 0
    is_sorted = mem[group + G_SORTED]
    highest, lowest = np.int64(0), np.int64(0)
    if not dynamic:
        for c in range(columns):
            word = mem[group + G_FIELDS + c]
            if upper[row + (word >> 2)] == (0 if word & 3 == MASK else MISSING):
                return
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
        if dynamic:
            _scan_mixed(mem, base, capacity, rows, upper, lower, row, hit)
        else:
            for c in range(columns):
                word = mem[group + G_FIELDS + c]
                at = row + (word >> 2)
                _scan_column(mem, base + capacity * (1 + 2 * c), capacity, rows, word & 3, upper[at], lower[at], hit, c == 0)
        if rest:
            _scan_rest(mem, base + capacity * rest, rows, upper, lower, row, hit, picked)
        if mem[group + G_PENDING]:
            k, entries = cursor[PENDING], 2 * base + capacity
            for i in range(rows):
                candidates[k] = event << 32 | np.int64(m32[entries + i])
                k += hit[i]
            cursor[PENDING] = k
        else:
            cursor[WRITTEN] = _write_hits(m32, 2 * base, rows, hit, out, cursor[WRITTEN])


@njit(cache=True)
def _scan_mixed(mem, base, capacity, rows, upper, lower, row, hit):
    """The first test of each row of a leaf, whatever its field."""
    low, high, words = np.uint64(base + capacity), np.uint64(base + 2 * capacity), np.uint64(base + 3 * capacity)
    for i in range(np.uint64(rows)):
        word = mem[words + i]
        at = np.uint64(row + (word >> 2))
        if word & 3 == RANGE:
            hit[i] = (mem[low + i] <= upper[at]) & (lower[at] <= mem[high + i])
        else:
            hit[i] = mem[low + i] & upper[at] != 0


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
def _write_hits(m32, slots, rows, hit, out, written):
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
            count = _note(mem, _find(mem, field * 8 + KEY_SINGLE, value, 0), found, count)
    entry = mem[PAIRS]
    for _ in range(mem[PAIRS + 2]):
        first, second = mem[entry], mem[entry + 1]
        entry += 3
        a, b = upper[row + first], upper[row + second]
        if a != MISSING and b != MISSING and a == lower[row + first] and b == lower[row + second]:
            count = _note(mem, _find(mem, (first * 65536 + second) * 8 + KEY_PAIR, a, b), found, count)
    entry = mem[RANGES]
    for _ in range(mem[RANGES + 2]):
        word = mem[entry]
        entry += 2
        if upper[row + (word >> 2)] != (0 if word & 3 == MASK else MISSING):
            count = _note(mem, _find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0), found, count)
    return count


@njit(cache=True)
def _announce(mem, tag, first, second):
    h = _hash(tag, first, second)
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
def _match_event(mem, m32, upper, lower, row, hit, picked, found, out, candidates, cursor, event):
    """All rows that one record satisfies; its keys begin at `row` of `upper` and `lower`."""
    count = _probe(mem, upper, lower, row, found)
    for i in range(count):
        leaf = mem[mem[found[i] + G_DIRECTORY] + 2]
        prefetch(mem, leaf)
        prefetch(mem, leaf + 8)
        prefetch(mem, leaf + 16)
    for i in range(count):
        group = found[i]
        while group != 0:
            _scan_group(mem, m32, group, upper, lower, row, hit, picked, out, candidates, cursor, event)
            group = mem[group + G_NEXT]


@njit(cache=True)
def match_record(heap, values, defaults, fields, numbers, count, hit, picked, found, out, candidates, cursor):
    """Matches one record whose `count` fields `numbers` are plain doubles. All arguments are addresses.

    Leaves the values blank for the next record, or as they were if there was no room for its matches.
    """
    keys, plain, doubles, state = int64s(values), int64s(defaults), int64s(numbers), int64s(cursor)
    state[WRITTEN] = state[PENDING] = state[FULL] = 0
    _turn(keys, doubles, count)
    mem, m32, hits, rows, groups = int64s(heap), int32s(heap), uint8s(hit), int64s(picked), int64s(found)
    _match_event(mem, m32, keys, keys, 0, hits, rows, groups, int32s(out), int64s(candidates), state, 0)
    if state[FULL]:
        _turn(keys, doubles, count)
    else:
        for field in range(fields):
            keys[field] = plain[field]


@njit(cache=True)
def _turn(keys, numbers, count):
    """Turns doubles into sortable keys, or back: it is its own inverse."""
    for i in range(count):
        if keys[numbers[i]] != MISSING:
            keys[numbers[i]] = sortable(keys[numbers[i]])


@njit(cache=True)
def match_rows(heap, upper, lower, fields, hit, picked, found, out, candidates, cursor, offsets, count, start):
    """Matches records of `fields` keys each, from `start` on; returns the first one not done for want of room.

    All arguments but the counts are addresses.
    """
    mem, m32, state, ends = int64s(heap), int32s(heap), int64s(cursor), int64s(offsets)
    high, low, slots, pending = int64s(upper), int64s(lower), int32s(out), int64s(candidates)
    hits, rows, groups = uint8s(hit), int64s(picked), int64s(found)
    for event in range(start, count):
        written, waiting = state[WRITTEN], state[PENDING]
        _match_event(mem, m32, high, low, event * fields, hits, rows, groups, slots, pending, state, event)
        if state[FULL]:
            state[WRITTEN], state[PENDING], state[FULL] = written, waiting, 0
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


# --- what a filter covers -------------------------------------------------------------------------------------------


@njit(cache=True)
def covered(heap, low, high, given, needed, out):
    """Entries whose every match lies in the box low..high of the `given` fields; `needed` is how many those are.

    Returns how many there are, or -1 if `out` is too small. Masks and lists are left to the caller to check.
    """
    mem, m32 = int64s(heap), int32s(heap)
    found = 0
    for p in range(PARTITIONS):
        table, capacity = mem[TABLE + 3 * p], mem[TABLE + 3 * p + 1]
        for i in range(capacity):
            slot = table + SLOT * i
            tag = mem[slot + S_TAG]
            if tag == 0 or tag & 7 == KEY_SIGNATURE or mem[slot + S_GROUP] == 0:
                continue
            inside = _inside_key(tag, mem[slot + S_FIRST], mem[slot + S_SECOND], low, high, given)
            if inside < 0:
                continue
            group = mem[slot + S_GROUP]
            while group != 0:
                found = _covered_in_group(mem, m32, group, low, high, given, needed - inside, out, found)
                if found < 0:
                    return -1
                group = mem[group + G_NEXT]
    return found


@njit(cache=True)
def _inside_key(tag, first, second, low, high, given):
    """How many given fields an equality key settles; -1 if it lies outside of one."""
    if tag & 7 == KEY_RANGE:
        return 0
    count = 0
    field = tag >> 3
    other = np.int64(-1)
    if tag & 7 == KEY_PAIR:
        other = field % 65536
        field = field // 65536
    if given[field]:
        if first < low[field] or first > high[field]:
            return -1
        count += 1
    if other >= 0 and given[other]:
        if second < low[other] or second > high[other]:
            return -1
        count += 1
    return count


@njit(cache=True)
def _covered_in_group(mem, m32, group, low, high, given, needed, out, found):
    columns, dynamic = mem[group + G_COLUMNS], mem[group + G_DYNAMIC]
    rest = 1 + 2 * columns + dynamic if mem[group + G_REST] else 0
    if not dynamic and not rest:
        known = 0
        for c in range(columns):
            known += given[mem[group + G_FIELDS + c] >> 2]
        if known < needed:
            return found
    directory = mem[group + G_DIRECTORY]
    for at in range(mem[group + G_LEAVES]):
        leaf = mem[directory + 3 * at + 2]
        rows, capacity, base = mem[leaf + L_ROWS], mem[leaf + L_CAPACITY], leaf + LEAF
        if found + rows > out.shape[0]:
            return -1
        for i in range(rows):
            count = 0
            for c in range(columns):
                word = mem[base + capacity * (1 + 2 * columns) + i] if dynamic else mem[group + G_FIELDS + c]
                start = base + capacity * (1 + 2 * c) + i
                count += _inside(word, mem[start], mem[start + capacity], low, high, given)
            if rest:
                address = mem[base + capacity * rest + i]
                for r in range(mem[address]):
                    k = address + 1 + 3 * r
                    count += _inside(mem[k], mem[k + 1], mem[k + 2], low, high, given)
            out[found] = m32[2 * base + capacity + i]
            found += count == needed
    return found


@njit(cache=True)
def _inside(word, low, high, box_low, box_high, given):
    """1 if a test lies in the box on its field, 0 if the box says nothing there, far below 0 if it lies outside."""
    field = word >> 2
    if word & 3 == LIST or not given[field]:
        return 0
    if word & 3 == MASK:
        return 1 if low & box_high[field] != 0 else -1000
    return 1 if box_low[field] <= low and high <= box_high[field] else -1000
