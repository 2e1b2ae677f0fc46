"""Which rows lie inside a box, and which share a point with it? The scans behind `Matcher.covered` (figure 4.8) and
`Matcher.overlapping` (Cor. 4.3)."""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.heap import find
from sluice.match.kernels.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_FIELDS,
    G_FIRST,
    G_LEAVES,
    G_NEXT,
    G_PENDING,
    G_REST,
    G_SECOND,
    G_SORTED,
    G_TAG,
    G_WHOLE,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SIGNATURE,
    KEY_SINGLE,
    L_ROWS,
    LIST,
    MASK,
    PAIRS,
    PARTITIONS,
    RANGES,
    S_FIRST,
    S_GROUP,
    S_SECOND,
    S_TAG,
    SINGLES,
    SLOT,
    TABLE,
)
from sluice.match.kernels.pointers import int32s, int64s, uint8s
from sluice.match.kernels.walk import entry_of, first_row, next_row, slot_of, test_of, tests_of


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
    if not mem[group + G_WHOLE] and not mem[group + G_REST]:
        known = 0
        for c in range(mem[group + G_COLUMNS]):
            known += given[mem[group + G_FIELDS + c] >> 2]
        if known < needed:
            return found
    directory = mem[group + G_DIRECTORY]
    for at in range(mem[group + G_LEAVES]):
        leaf = mem[directory + 3 * at + 2]
        if found + mem[leaf + L_ROWS] > out.shape[0]:
            return -1
        row = first_row(mem, group, leaf)
        for _ in range(mem[leaf + L_ROWS]):
            count = 0
            for t in range(tests_of(mem, m32, group, leaf, row)):
                word, lowest, highest = test_of(mem, m32, group, leaf, row, t)
                count += _inside(word, lowest, highest, low, high, given)
            out[found] = entry_of(mem, m32, group, leaf, row)
            found += count == needed
            row = next_row(mem, m32, group, row)
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


# --- overlap ----------------------------------------------------------------------------------------------------------

# What a box says of a field, as bits: it bounds it; a row that ends one key away may still meet it, because values lie
# between two keys; a row whose matches are confirmed may test more there than the algebra compares; the bounds are wider than
# what is meant; instead of bounds, `low` is the address of a byte for each key that says whether it is meant.
GIVEN, BLURRED, IMPLIED, VAGUE, CHOSEN = 1, 2, 4, 8, 16
# What is in doubt about a row that was found, in the low bits of the answer: its group's matches are confirmed in any case;
# it may not meet the box.
PENDING, DOUBT = 1, 2
_APART = -1


@njit(cache=True)
def overlapping(heap, lows, highs, hows, first, output):
    """Writes slot * 4 + doubt of each row that may meet the box lows..highs; returns how many.

    The output has room for every row. With `first` one row without doubt is enough: it is then the last that was written.
    """
    mem, m32 = int64s(heap), int32s(heap)
    low, high, how, out = int64s(lows), int64s(highs), int64s(hows), int64s(output)
    found, walk = 0, False
    for i in range(mem[RANGES + 2]):
        word = mem[mem[RANGES] + 2 * i]
        slot = find(mem, (word >> 2) * 8 + KEY_RANGE, word & 3, 0)
        found = _in_bucket(mem, m32, slot, low, high, how, first, out, found)
        if first and _is_settled(out, found):
            return found
    for i in range(mem[SINGLES + 2]):
        field = mem[mem[SINGLES] + 2 * i]
        if not _is_pinned(field, low, high, how):
            walk = True
            continue
        slot = find(mem, field * 8 + KEY_SINGLE, low[field], 0)
        found = _in_bucket(mem, m32, slot, low, high, how, first, out, found)
        if first and _is_settled(out, found):
            return found
    for i in range(mem[PAIRS + 2]):
        field, other = mem[mem[PAIRS] + 3 * i], mem[mem[PAIRS] + 3 * i + 1]
        if not _is_pinned(field, low, high, how) or not _is_pinned(other, low, high, how):
            walk = True
            continue
        slot = find(mem, (field * 65536 + other) * 8 + KEY_PAIR, low[field], low[other])
        found = _in_bucket(mem, m32, slot, low, high, how, first, out, found)
        if first and _is_settled(out, found):
            return found
    return _walk(mem, m32, low, high, how, first, out, found) if walk else found


@njit(cache=True)
def _walk(mem, m32, low, high, how, first, out, found):
    """Visits the buckets that were not looked up."""
    for p in range(PARTITIONS):
        table, capacity = mem[TABLE + 3 * p], mem[TABLE + 3 * p + 1]
        for slot in range(table, table + SLOT * capacity, SLOT):
            tag = mem[slot + S_TAG]
            if mem[slot + S_GROUP] == 0 or (tag & 7 != KEY_SINGLE and tag & 7 != KEY_PAIR):
                continue
            field, other = _fields_of(tag)
            if _is_pinned(field, low, high, how) and (other == 0 or _is_pinned(other, low, high, how)):
                continue
            if _is_outside(mem[slot + S_FIRST], field, low, high, how):
                continue
            if other != 0 and _is_outside(mem[slot + S_SECOND], other, low, high, how):
                continue
            found = _in_bucket(mem, m32, slot, low, high, how, first, out, found)
            if first and _is_settled(out, found):
                return found
    return found


@njit(cache=True)
def _is_settled(out, found):
    return found > 0 and out[found - 1] & 3 == 0


@njit(cache=True)
def _fields_of(tag):
    """The fields of an equality key; the second is 0 if there is one only."""
    field = tag >> 3
    if tag & 7 == KEY_PAIR:
        return field // 65536, field % 65536
    return field, np.int64(0)


@njit(cache=True)
def _is_pinned(field, low, high, how):
    """Whether rows with an equality on this field meet the box under one key at most."""
    return how[field] & (GIVEN | IMPLIED | CHOSEN) == GIVEN and low[field] >= high[field]


@njit(cache=True)
def _is_outside(key, field, low, high, how):
    return how[field] & (GIVEN | IMPLIED | CHOSEN) == GIVEN and (key < low[field] or key > high[field])


@njit(cache=True)
def _in_bucket(mem, m32, slot, low, high, how, first, out, found):
    if slot == 0:
        return found
    group = mem[slot + S_GROUP]
    while group != 0:
        doubt = _key_meets(mem, group, low, high, how)
        if doubt != _APART:
            found = _in_group(mem, m32, group, low, high, how, doubt, first, out, found)
            if first and _is_settled(out, found):
                return found
        group = mem[group + G_NEXT]
    return found


@njit(cache=True)
def _key_meets(mem, group, low, high, how):
    """The doubt that the key of a group leaves. Keys are whole values, so nothing is blurred about them."""
    tag, pending = mem[group + G_TAG], mem[group + G_PENDING]
    if tag & 7 == KEY_RANGE:
        return pending * PENDING
    field, other = _fields_of(tag)
    doubt = _meets(mem[group + G_FIRST], mem[group + G_FIRST], field, low, high, how[field] & ~BLURRED, pending)
    if doubt == _APART or other == 0:
        return doubt
    more = _meets(mem[group + G_SECOND], mem[group + G_SECOND], other, low, high, how[other] & ~BLURRED, pending)
    return _APART if more == _APART else doubt | more


@njit(cache=True)
def _in_group(mem, m32, group, low, high, how, doubt, first, out, found):
    pending, directory, leading = mem[group + G_PENDING], mem[group + G_DIRECTORY], mem[group + G_FIELDS] >> 2
    for at in range(directory, directory + 3 * mem[group + G_LEAVES], 3):
        leaf = mem[at + 2]
        if mem[group + G_SORTED] and _meets(mem[at], mem[at + 1], leading, low, high, how[leading], pending) == _APART:
            continue
        row = first_row(mem, group, leaf)
        for _ in range(mem[leaf + L_ROWS]):
            mine, t, tests = doubt, 0, tests_of(mem, m32, group, leaf, row)
            while mine != _APART and t < tests:
                word, lowest, highest = test_of(mem, m32, group, leaf, row, t)
                more = _test_meets(mem, word, lowest, highest, low, high, how, pending)
                mine = _APART if more == _APART else mine | more
                t += 1
            if mine != _APART:
                out[found] = np.int64(slot_of(mem, m32, group, leaf, row)) * 4 + mine
                found += 1
                if first and mine == 0:
                    return found
            row = next_row(mem, m32, group, row)
    return found


@njit(cache=True)
def _test_meets(mem, word, lowest, highest, low, high, how, pending):
    """The doubt that one test of a row leaves."""
    field = word >> 2
    if word & 3 == LIST:
        best = _APART
        for k in range(lowest, lowest + 2 * highest, 2):
            doubt = _meets(mem[k], mem[k + 1], field, low, high, how[field], pending)
            if doubt != _APART and (best == _APART or doubt < best):
                best = doubt
        return best
    if word & 3 == MASK and how[field] & GIVEN and not (pending and how[field] & IMPLIED):
        return pending * PENDING | _doubt(how[field]) if lowest & high[field] else _APART
    return _meets(lowest, highest, field, low, high, how[field], pending)


@njit(cache=True)
def _meets(lowest, highest, field, low, high, bits, pending):
    """The doubt that an interval of a row leaves: 0 if it surely meets the box on its field, _APART if surely not."""
    if not bits & GIVEN:
        return pending * PENDING
    if pending and bits & IMPLIED:
        return PENDING | DOUBT
    if bits & CHOSEN:  # only equalities are tested by such keys
        return pending * PENDING | _doubt(bits) if uint8s(low[field])[lowest] else _APART
    if lowest <= high[field] and low[field] <= highest:
        return pending * PENDING | _doubt(bits)
    if bits & BLURRED and lowest - 1 <= high[field] and low[field] - 1 <= highest:
        return pending * PENDING | DOUBT
    return _APART


@njit(cache=True)
def _doubt(bits):
    return DOUBT if bits & VAGUE else 0
