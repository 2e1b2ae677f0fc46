"""Sixteen rows at a time, in the words of the processor: which of them hold, and their slots packed one behind the other.

The compiler vectorises comparisons by itself, but it cannot see that writing only the hits is one instruction where the
processor has AVX-512; elsewhere that would become a branch per row, so `AVAILABLE` says whether to use this at all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

#: Rows per step.
STEP = 16


def _features() -> str:
    """The features of the processor that numba compiles for: this one, unless it was told another."""
    told: str | None = getattr(config, "CPU_FEATURES", None)
    return str(binding.get_host_cpu_features().flatten()) if told is None else told


#: Whether the processor packs vectors in one instruction.
AVAILABLE = "+avx512f" in _features().split(",")

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_WORDS, _SLOTS, _FLAGS = ir.VectorType(_I64, STEP), ir.VectorType(_I32, STEP), ir.VectorType(ir.IntType(1), STEP)


def _place(builder: Any, pointer: Any, index: Any, size: int, kind: Any) -> Any:
    """The address of an item as a pointer to `kind`."""
    address = builder.add(builder.ptrtoint(pointer, _I64), builder.mul(index, _I64(size)))
    return builder.inttoptr(address, ir.PointerType(kind))


def _load(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.load(_place(builder, pointer, index, 8, _WORDS), align=8)


def _everywhere(builder: Any, value: Any) -> Any:
    """A vector with the same value in every lane."""
    blank = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(blank, value, _I32(0))
    return builder.shuffle_vector(first, blank, ir.Constant(_SLOTS, [0] * STEP))


@intrinsic
def in_range(context: Any, mem: Any, low: Any, high: Any, upper: Any, lower: Any) -> Any:
    """Bits of the rows for which `mem[low + i] <= upper` and `lower <= mem[high + i]`."""
    signature = types.uint16(mem, types.int64, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        below = builder.icmp_signed("<=", _load(builder, given[0], given[1]), _everywhere(builder, given[3]))
        above = builder.icmp_signed(">=", _load(builder, given[0], given[2]), _everywhere(builder, given[4]))
        return builder.bitcast(builder.and_(below, above), _I16)

    return signature, generate


@intrinsic
def in_mask(context: Any, mem: Any, low: Any, upper: Any) -> Any:
    """Bits of the rows for which `mem[low + i]` and `upper` have a bit in common."""
    signature = types.uint16(mem, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        common = builder.and_(_load(builder, given[0], given[1]), _everywhere(builder, given[2]))
        return builder.bitcast(builder.icmp_unsigned("!=", common, ir.Constant(_WORDS, [0] * STEP)), _I16)

    return signature, generate


@intrinsic
def pack(context: Any, m32: Any, slots: Any, bits: Any, out: Any, k: Any) -> Any:
    """Writes the slots `m32[slots + i]` of the rows in `bits` to `out[k]` and on; returns how many."""
    signature = types.int64(m32, types.int64, types.uint16, out, types.int64)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        source = builder.load(_place(builder, given[0], given[1], 4, _SLOTS), align=4)
        target = _place(builder, given[3], given[4], 4, _I32)
        flags = builder.bitcast(given[2], _FLAGS)
        store = ir.FunctionType(ir.VoidType(), [_SLOTS, target.type, _FLAGS])
        count = ir.FunctionType(_I16, [_I16])
        declare: Any = cgutils.get_or_insert_function
        builder.call(declare(builder.module, store, f"llvm.masked.compressstore.v{STEP}i32"), [source, target, flags])
        return builder.zext(builder.call(declare(builder.module, count, "llvm.ctpop.i16"), [given[2]]), _I64)

    return signature, generate


@intrinsic
def ones(context: Any, bits: Any) -> Any:
    """How many bits are set."""
    signature = types.int64(types.uint16)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        declare: Any = cgutils.get_or_insert_function
        count = declare(builder.module, ir.FunctionType(_I16, [_I16]), "llvm.ctpop.i16")
        return builder.zext(builder.call(count, [given[0]]), _I64)

    return signature, generate
