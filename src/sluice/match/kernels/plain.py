"""What takes AVX-512 to be done sixteen rows at a time, one row at a time: see `sluice.match.kernels.vectors`."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def _first(context: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; 16 if none is."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.zext(builder.cttz(given[0], ir.IntType(1)(0)), ir.IntType(64))

    return types.int64(types.uint16), generate


@njit(cache=True)
def pack(m32, at, bits, out, k):
    """Writes `m32[at + i]` of the rows i in `bits` to `out[k]` and on; returns how many."""
    count = np.int64(0)
    while bits:
        out[k + count] = m32[at + _first(bits)]
        bits &= np.uint16(bits - 1)
        count += 1
    return count


@njit(cache=True)
def number(first, bits, out, k):
    """Writes `first + i` of the rows i in `bits` to `out[k]` and on; returns how many."""
    count = np.int64(0)
    while bits:
        out[k + count] = first + _first(bits)
        bits &= np.uint16(bits - 1)
        count += 1
    return count


@njit(cache=True)
def pair(m32, at, bits, item, firsts, seconds, k):
    """Writes `m32[at + i]` of the places i in `bits` to `firsts[k]` and on, and `item` beside each; returns how many."""
    count = pack(m32, at, bits, firsts, k)
    for i in range(k, k + count):
        seconds[i] = item
    return count
