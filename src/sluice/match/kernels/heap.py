"""The memory of the index: pieces taken and given back, the hash table of access keys, and the lists of fields in use.

Everything lies in one array of words (see `layout.py`), and functions here take a pointer to it. They never ask for more
room: whoever changes the heap makes sure beforehand that there is enough.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.layout import (
    FREE,
    PAIRS,
    PARTITIONS,
    S_COUNT,
    S_FIRST,
    S_GROUP,
    S_SECOND,
    S_TAG,
    SLOT,
    TABLE,
    TOP,
)

_C1 = np.uint64(0x9E3779B97F4A7C15)
_C2 = np.uint64(0xC2B2AE3D27D4EB4F)
_C3 = np.uint64(0x165667B19E3779F9)
_S29, _S32, _S47, _S58 = np.uint64(29), np.uint64(32), np.uint64(47), np.uint64(58)


@njit(cache=True, inline="always")
def hash_key(tag, first, second):
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
def rounded(words):
    """How many words a piece of so many really has."""
    return _size_class(words)[1]


@njit(cache=True)
def take(mem, words):
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
def give(mem, address, words):
    """Puts a piece back on the free list of its size."""
    number, _ = _size_class(words)
    mem[address] = mem[FREE + number]
    mem[FREE + number] = address


# --- the hash table ---


@njit(cache=True)
def place_of(mem, h):
    """Where the search for a key with this hash begins, or 0."""
    part = TABLE + 3 * np.int64(h >> _S58)
    return mem[part] + SLOT * np.int64(h & np.uint64(mem[part + 1] - 1)) if mem[part + 1] else 0


@njit(cache=True)
def find(mem, tag, first, second):
    """The slot of a key, or 0."""
    return find_from(mem, hash_key(tag, first, second), tag, first, second)


@njit(cache=True)
def find_from(mem, h, tag, first, second):
    """The slot of a key whose hash is known, or 0."""
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
    new = take(mem, SLOT * larger)
    for i in range(capacity):
        slot = old + SLOT * i
        if mem[slot + S_TAG] != 0 and (mem[slot + S_GROUP] != 0 or mem[slot + S_COUNT] != 0):
            h = hash_key(mem[slot + S_TAG], mem[slot + S_FIRST], mem[slot + S_SECOND])
            j = np.int64(h & np.uint64(larger - 1))
            while mem[new + SLOT * j + S_TAG] != 0:
                j = (j + 1) & (larger - 1)
            for k in range(SLOT):
                mem[new + SLOT * j + k] = mem[slot + k]
    if capacity:
        give(mem, old, SLOT * capacity)
    mem[part], mem[part + 1], mem[part + 2] = new, larger, live


@njit(cache=True)
def find_or_add(mem, tag, first, second):
    """The slot of a key, made if it is new."""
    slot = find(mem, tag, first, second)
    if slot != 0:
        return slot
    h = hash_key(tag, first, second)
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
def largest_partition(mem):
    """Words that the next doubling of a partition may need."""
    capacity = 8
    for p in range(PARTITIONS):
        capacity = max(capacity, mem[TABLE + 3 * p + 1])
    return SLOT * capacity * 4


# --- lists of the fields that keys use ---


@njit(cache=True)
def count_in_list(mem, head, width, first, second, change):
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
        new = take(mem, larger * width)
        for k in range(length * width):
            mem[new + k] = mem[address + k]
        if capacity:
            give(mem, address, capacity * width)
        mem[head], mem[head + 1] = new, larger
        address = new
    entry = address + length * width
    mem[entry] = first
    if width == 3:
        mem[entry + 1] = second
    mem[entry + width - 1] = change
    mem[head + 2] = length + 1


@njit(cache=True)
def pair_in_use(mem, first, second):
    for i in range(mem[PAIRS + 2]):
        entry = mem[PAIRS] + 3 * i
        if mem[entry] == first and mem[entry + 1] == second:
            return True
    return False
