"""Columns of Arrow as keys: values are read where Arrow has them, and written to the rows of a batch.

Arguments are addresses and counts. `valid` is the address of a bit for each value, or 0 if all are there, and `offset` where
the column begins in its buffers. Keys go to place `field` of rows of `fields` words; what is missing is left as it was.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluice.match.kernels.heap import sortable
from sluice.match.kernels.pointers import float64s, int32s, int64s, uint8s
from sluice.match.keys import EXACT


@njit(cache=True, inline="always")
def _is_there(bits, valid, place):
    return valid == 0 or bits[place >> 3] >> (place & 7) & 1


@njit(cache=True)
def put_doubles(values, valid, offset, count, rows, field, fields):
    """Writes the keys of doubles. What is not a number has none."""
    numbers, bits, out = float64s(values), uint8s(valid), int64s(rows)
    for i in range(count):
        number = numbers[offset + i]
        if _is_there(bits, valid, offset + i) and number == number:
            out[i * fields + field] = sortable(np.float64(number + 0.0).view(np.int64))


@njit(cache=True)
def put_integers(values, valid, offset, count, rows, field, fields):
    """Writes the keys of integers; returns whether one is so large that no double may equal it."""
    numbers, bits, out = int64s(values), uint8s(valid), int64s(rows)
    is_large = False
    for i in range(count):
        number = numbers[offset + i]
        if _is_there(bits, valid, offset + i):
            out[i * fields + field] = sortable(np.float64(number).view(np.int64))
            is_large |= number > EXACT or number < -EXACT
    return is_large


@njit(cache=True)
def put_coded(codes, valid, offset, count, keys, rows, field, fields):
    """Writes the key that each code stands for."""
    numbers, bits, table, out = int32s(codes), uint8s(valid), int64s(keys), int64s(rows)
    for i in range(count):
        if _is_there(bits, valid, offset + i):
            out[i * fields + field] = table[numbers[offset + i]]
