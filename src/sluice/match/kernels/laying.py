"""The records that lead to a bucket, laid out column by column, so that one test is made on sixteen of them at a time.

A field is laid out when it is first asked for. Where an interval leads to the bucket, the records are sorted by its field, and
the stretch of them that an interval holds is found by two searches. Bits of a 16-bit number stand for the records of a step.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.fields import Axis
from sluice.match.kernels.layout import G_FIELDS, G_TAG, KEY_RANGE, LARGEST, MASK, MISSING, RANGE, STEP
from sluice.match.kernels.pointers import int32s, int64s
from sluice.match.kernels.tasks import EVENTS
from sluice.match.kernels.vectors import at_least, at_most, between, in_common, lowest, ones

# What is given, one word each, addresses and counts: the index, the rows of keys and how many, the axis of each field, room for
# halves of the keys and for how each field is halved (nothing yet: 0), the tasks, room for one leaf, and room for what is laid
# out here: upper and lower keys (in the same place if they are the same), how each field is laid out, the numbers of the
# records, which of them are left, the last key of each step, and how many words there are for a field.
HEAP, UPPER, LOWER, FIELDS, RECORDS, AXES, HALVES, HALVED, TASKS, COUNT, PICKED, BITS = range(12)
ABOVE, BELOW, LAID, NAMES, MARKS, SAMPLES, MOST = range(12, 19)
# How the keys of a field are laid out: not yet if 0, whole, or by half of them, in the same form as in short rows (`whole.py`).
WIDE, UPPER_HALVES, LOWER_HALVES = 1, 2, 3

_MASK = int(Axis.MASK)
_LOWER_HALF = 0xFFFFFFFF
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
#: Keys up to here are laid out by their lower halves.
_SMALL_BITS = 30


@njit(cache=True)
def lay_out(mem, given, group, first, last):
    """Makes the records of some tasks ready to be tested many at a time; sorted, if an interval leads to the group."""
    tasks, names, laid = int64s(given[TASKS]), int32s(given[NAMES]), int64s(given[LAID])
    if int64s(given[HALVED])[0] == 0:
        _halve(given)
    for field in range(given[FIELDS]):
        laid[field] = 0
    for task in range(first, last):
        names[task - first] = tasks[task] & EVENTS
    leading = leading_field(mem, given, group)
    if leading >= 0:
        _sort(given, leading, last - first)


@njit(cache=True)
def _halve(given):
    """Decides for each field whether half of each key is enough to compare the keys of a batch, and notes those halves.

    A key whose lower half is 0 (a whole number below a million, say) or that is small (the number of a string) is compared
    exactly by one half of it. The smallest half stands for a missing value, and the largest for the end of a test that is above
    all keys: no key has either, the halves of infinity lie between them.
    """
    keys, halves, halved, axes = int64s(given[UPPER]), int32s(given[HALVES]), int64s(given[HALVED]), int64s(given[AXES])
    fields, records = given[FIELDS], given[RECORDS]
    lower_half, upper_half, shift = np.zeros(fields, np.int64), np.zeros(fields, np.int64), np.zeros(fields, np.int64)
    for record in range(records):
        for field in range(fields):
            key = keys[record * fields + field]
            lower_half[field] |= key & _LOWER_HALF
            upper_half[field] |= 0 if key == MISSING else key >> _SMALL_BITS
    for field in range(fields):
        halved[field] = WIDE
        if axes[field] != _MASK and given[UPPER] == given[LOWER]:
            if lower_half[field] == 0:
                halved[field], shift[field] = UPPER_HALVES, 32
            elif upper_half[field] == 0:
                halved[field] = LOWER_HALVES
    for record in range(records):
        for field in range(fields):
            key = keys[record * fields + field]
            halves[record * fields + field] = _SMALLEST if key == MISSING else key >> shift[field]


@njit(cache=True)
def leading_field(mem, given, group):
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


@njit(cache=True, inline="always")
def how_laid(given, laid, word, records):
    """How the field of a test is laid out; it is, afterwards."""
    how = laid[word >> 2]
    return how if how else _lay(given, word >> 2, records)


@njit(cache=True)
def _lay(given, field, records):
    """Lays out the keys of a field, or half of each. What follows them in their last step is left to chance."""
    names, laid, fields, start = int32s(given[NAMES]), int64s(given[LAID]), given[FIELDS], field * given[MOST]
    laid[field] = int64s(given[HALVED])[field]
    if laid[field] == WIDE:
        _copy(int64s(given[UPPER]), int64s(given[ABOVE]), start, names, fields, field, records)
        if given[ABOVE] != given[BELOW]:
            _copy(int64s(given[LOWER]), int64s(given[BELOW]), start, names, fields, field, records)
    else:
        _copy(int32s(given[HALVES]), int32s(given[ABOVE]), 2 * start, names, fields, field, records)
    return laid[field]


@njit(cache=True, inline="always")
def _copy(keys, column, start, names, fields, field, records):
    for j in range(records):
        column[start + j] = keys[names[j] * fields + field]


@njit(cache=True, inline="always")
def half_low(low, how):
    """The low end of a test on halves of keys: the smallest half that is not below it, but above that of a missing value."""
    if how == UPPER_HALVES:
        return min((low >> 32) + np.int64(low & _LOWER_HALF != 0), _LARGEST)
    return min(max(low, _SMALLEST + 1), _LARGEST)


@njit(cache=True, inline="always")
def half_high(high, how):
    """The high end of a test on halves of keys: the largest half that is not above it."""
    return high >> 32 if how == UPPER_HALVES else max(min(high, _LARGEST), _SMALLEST)


@njit(cache=True)
def holding(mem, word, low, high, given, how, step):
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
    return between(int32s(given[ABOVE]), 2 * column + STEP * step, half_low(low, how), half_high(high, how))


@njit(cache=True)
def below(given, field, records, low):
    """How many of the sorted records are below `low`."""
    samples, column, start = int64s(given[SAMPLES]), int64s(given[ABOVE]), field * given[MOST]
    step = 0
    for s in range(0, (records + STEP - 1) // STEP, STEP):
        step += STEP - ones(at_least(samples, s, low))
    return min(records, STEP * step + lowest(at_least(column, start + STEP * step, low)))


@njit(cache=True)
def up_to(given, field, records, high):
    """How many of the sorted records are not above `high`."""
    samples, column, start = int64s(given[SAMPLES]), int64s(given[ABOVE]), field * given[MOST]
    step = 0
    for s in range(0, (records + STEP - 1) // STEP, STEP):
        step += ones(at_most(samples, s, high))
    step = min(step, (records + STEP - 1) // STEP)
    return min(records, STEP * step + lowest(np.uint16(~at_most(column, start + STEP * step, high))))
