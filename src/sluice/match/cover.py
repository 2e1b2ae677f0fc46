"""Which rows lie inside a box? The scan behind `Matcher.covered` (figure 4.8)."""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.layout import (
    G_COLUMNS,
    G_DIRECTORY,
    G_DYNAMIC,
    G_FIELDS,
    G_LEAVES,
    G_NEXT,
    G_REST,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SIGNATURE,
    L_CAPACITY,
    L_ROWS,
    LEAF,
    LIST,
    MASK,
    PARTITIONS,
    S_FIRST,
    S_GROUP,
    S_SECOND,
    S_TAG,
    SLOT,
    TABLE,
)
from sluice.match.pointers import int32s, int64s


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
