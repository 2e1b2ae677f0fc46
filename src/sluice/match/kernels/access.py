"""By which key is a clause found? Its rarest equality, or two of them where one is crowded, else its narrowest interval."""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.fields import OTHER_BIT, Axis
from sluice.match.kernels.heap import find, find_or_add, hash_key, largest_partition, pair_in_use, sortable
from sluice.match.kernels.layout import (
    CROWDED,
    KEY_PAIR,
    KEY_RANGE,
    KEY_SINGLE,
    LARGEST,
    LIST,
    MASK,
    MAX_PAIRS,
    PAIRS,
    RANGE,
    RESERVE,
    S_COUNT,
    TOP,
)
from sluice.match.kernels.pointers import int64s

KIND, NUMBER = int(Axis.KIND), int(Axis.NUMBER)


@njit(cache=True)
def is_equality(tests, t, axes):
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
def estimate(tests, axes, seen, shares):
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
def least(tests, used, shares):
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
        if mem[TOP] + RESERVE + largest_partition(mem) > size:
            return c
        for t in range(starts[c], starts[c + 1]):
            if is_equality(tests, t, axes):
                slot = find_or_add(mem, (tests[t, 0] >> 2) * 8 + KEY_SINGLE, tests[t, 1], 0)
                mem[slot + S_COUNT] += change
    return starts.shape[0] - 1


@njit(cache=True)
def choose(mem, tests, axes, shares, choice):
    """Picks the access tests of a clause into `choice`: one or two equalities, or an interval. Returns the kind of key."""
    best, second = -1, -1
    best_count, second_count = 0, 0
    for t in range(tests.shape[0]):
        if is_equality(tests, t, axes):
            count = mem[find(mem, (tests[t, 0] >> 2) * 8 + KEY_SINGLE, tests[t, 1], 0) + S_COUNT]
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
        if mem[PAIRS + 2] >= MAX_PAIRS and not pair_in_use(mem, tests[first, 0] >> 2, tests[last, 0] >> 2):
            return KEY_SINGLE
        choice[0], choice[1] = first, last
        return KEY_PAIR
    choice[0] = least(tests, np.zeros(tests.shape[0], np.bool_), shares)
    return KEY_RANGE


@njit(cache=True)
def bucket_key(tests, kind, choice):
    """The key of a bucket: tag, first, second."""
    word = tests[choice[0], 0]
    if kind == KEY_SINGLE:
        return (word >> 2) * 8 + KEY_SINGLE, tests[choice[0], 1], np.int64(0)
    if kind == KEY_PAIR:
        other = tests[choice[1], 0] >> 2
        return ((word >> 2) * 65536 + other) * 8 + KEY_PAIR, tests[choice[0], 1], tests[choice[1], 1]
    return (word >> 2) * 8 + KEY_RANGE, np.int64(word & 3), np.int64(0)


@njit(cache=True)
def signature_of(tests, used):
    """A hash of the fields of the tests that would be columns."""
    h = np.uint64(1)
    for t in range(tests.shape[0]):
        if not used[t] and tests[t, 0] & 3 != LIST:
            h = hash_key(tests[t, 0], np.int64(h), 7)
    return np.int64(h >> np.uint64(1)) | 1
