"""Sixteen rows at a time, in the words of the processor: which of them hold, and their slots packed one behind the other.

Rows that hold are bits of a 16-bit number. Comparisons are fast on any processor. Picking only the rows that hold is a single
instruction where the processor has AVX-512; elsewhere the compiler would make a branch per row of it, so there
`sluice.match.kernels.plain` is used instead. The same goes for sixteen records at a time, against one row.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from sluice.match.kernels import plain
from sluice.match.kernels.layout import STEP


def _features() -> str:
    """The features of the processor that numba compiles for: this one, unless it was told another."""
    told: str | None = getattr(config, "CPU_FEATURES", None)
    return str(binding.get_host_cpu_features().flatten()) if told is None else told


#: Whether the processor packs vectors in one instruction.
AVAILABLE = "+avx512f" in _features().split(",")

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_WORDS, _SLOTS, _FLAGS = ir.VectorType(_I64, STEP), ir.VectorType(_I32, STEP), ir.VectorType(ir.IntType(1), STEP)
_ZEROS = ir.Constant(_WORDS, [0] * STEP)


def _address(builder: Any, pointer: Any, index: Any, size: int, kind: Any) -> Any:
    """The address of an item as a pointer to `kind`."""
    address = builder.add(builder.ptrtoint(pointer, _I64), builder.mul(index, _I64(size)))
    return builder.inttoptr(address, ir.PointerType(kind))


def _load(builder: Any, pointer: Any, index: Any, kind: Any = _WORDS) -> Any:
    """The items of a step."""
    size = kind.element.width // 8
    return builder.load(_address(builder, pointer, index, size, kind), align=size)


def _everywhere(builder: Any, value: Any, kind: Any = _WORDS) -> Any:
    """A vector with the same value in every lane."""
    blank = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(blank, value, _I32(0))
    return builder.shuffle_vector(first, blank, ir.Constant(_SLOTS, [0] * STEP))


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Calls a function of the compiler by its name."""
    declare: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(declare(builder.module, kind, name), arguments)


def _ones(builder: Any, bits: Any) -> Any:
    return builder.zext(_call(builder, "llvm.ctpop.i16", _I16, bits), _I64)


def _packed(builder: Any, items: Any, bits: Any) -> tuple[Any, Any]:
    """How many rows are in `bits`, and their items one behind the other."""
    nothing, flags = ir.Constant(_SLOTS, [0] * STEP), builder.bitcast(bits, _FLAGS)
    name = f"llvm.x86.avx512.mask.compress.v{STEP}i32"
    return _ones(builder, bits), _call(builder, name, _SLOTS, items, nothing, flags)


def _store(builder: Any, items: Any, bits: Any, pointer: Any, index: Any) -> Any:
    """Writes the items of the rows in `bits` one behind the other, from `pointer[index]` on; how many those are.

    Packed in a register and stored from there: some processors take a hundred times as long to pack into memory.
    """
    count, packed = _packed(builder, items, bits)
    first = builder.trunc(builder.sub(builder.shl(_I64(1), count), _I64(1)), _I16)
    target = _address(builder, pointer, index, 4, _SLOTS)
    name = f"llvm.masked.store.v{STEP}i32.p0"
    _call(builder, name, ir.VoidType(), packed, target, _I32(4), builder.bitcast(first, _FLAGS))
    return count


def _comparison(operator: str) -> Any:
    """An intrinsic for the bits of the rows i whose `mem[at + i]` compares so with `bound`."""

    def typing(context: Any, mem: Any, at: Any, bound: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            words, bound = _load(builder, given[0], given[1]), _everywhere(builder, given[2])
            return builder.bitcast(builder.icmp_signed(operator, words, bound), _I16)

        return types.uint16(mem, types.int64, types.int64), generate

    return intrinsic(typing)


at_most = _comparison("<=")
at_least = _comparison(">=")


@intrinsic
def between(context: Any, halves: Any, at: Any, low: Any, high: Any) -> Any:
    """Bits of the places i for which `low <= halves[at + i] <= high`."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        items = _load(builder, given[0], given[1], _SLOTS)
        low, high = (_everywhere(builder, builder.trunc(end, _I32), _SLOTS) for end in given[2:])
        inside = builder.and_(builder.icmp_signed(">=", items, low), builder.icmp_signed("<=", items, high))
        return builder.bitcast(inside, _I16)

    return types.uint16(halves, types.int64, types.int64, types.int64), generate


@intrinsic
def in_common(context: Any, mem: Any, at: Any, mask: Any) -> Any:
    """Bits of the rows i for which `mem[at + i]` and `mask` have a bit in common."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        common = builder.and_(_load(builder, given[0], given[1]), _everywhere(builder, given[2]))
        return builder.bitcast(builder.icmp_unsigned("!=", common, _ZEROS), _I16)

    return types.uint16(mem, types.int64, types.int64), generate


@intrinsic
def _pack(context: Any, m32: Any, at: Any, bits: Any, out: Any, k: Any) -> Any:
    """Writes `m32[at + i]` of the rows i in `bits` to `out[k]` and on; returns how many."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _store(builder, _load(builder, given[0], given[1], _SLOTS), given[2], given[3], given[4])

    return types.int64(m32, types.int64, types.uint16, out, types.int64), generate


@intrinsic
def _number(context: Any, first: Any, bits: Any, out: Any, k: Any) -> Any:
    """Writes `first + i` of the rows i in `bits` to `out[k]` and on; returns how many."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        start = _everywhere(builder, builder.trunc(given[0], _I32), _SLOTS)
        items = builder.add(start, ir.Constant(_SLOTS, list(range(STEP))))
        return _store(builder, items, given[1], given[2], given[3])

    return types.int64(types.int64, types.uint16, out, types.int64), generate


@intrinsic
def _pair(context: Any, m32: Any, at: Any, bits: Any, item: Any, firsts: Any, seconds: Any, k: Any) -> Any:
    """Writes `m32[at + i]` of the places i in `bits` to `firsts[k]` and on, and `item` beside each of them; returns how many.

    There must be room for a whole step: what is behind them is overwritten.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        m32, at, bits, item, firsts, seconds, k = given
        count, packed = _packed(builder, _load(builder, m32, at, _SLOTS), bits)
        items = _everywhere(builder, item, _SLOTS)

        def store(half: int) -> None:
            lanes = ir.Constant(ir.VectorType(_I32, STEP // 2), list(range(half * STEP // 2, (half + 1) * STEP // 2)))
            start = builder.add(k, _I64(half * STEP // 2))
            for values, pointer in ((packed, firsts), (items, seconds)):
                part = builder.shuffle_vector(values, ir.Constant(_SLOTS, ir.Undefined), lanes)
                builder.store(part, _address(builder, pointer, start, 4, part.type), align=4)

        store(0)  # mostly that is enough, and half as much to write
        with builder.if_then(builder.icmp_unsigned(">", count, _I64(STEP // 2)), likely=False):
            store(1)
        return count

    whole = types.int64
    return whole(m32, whole, types.uint16, types.int32, firsts, seconds, whole), generate


@intrinsic
def lowest(context: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; 16 if none is."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.zext(builder.cttz(given[0], ir.IntType(1)(0)), _I64)

    return types.int64(types.uint16), generate


@intrinsic
def ones(context: Any, bits: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _ones(builder, given[0])

    return types.int64(types.uint16), generate


pack, number, pair = (_pack, _number, _pair) if AVAILABLE else (plain.pack, plain.number, plain.pair)
