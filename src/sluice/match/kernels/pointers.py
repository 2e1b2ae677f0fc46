"""Addresses as typed pointers inside compiled code.

An array argument costs a compiled function two atomic reference counts per call, and its index a test for negative numbers;
in the inner functions of the matcher that is most of the time. A pointer costs neither. Whoever passes an address keeps the
array alive, and knows that every index is inside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _cast(element: Any) -> Any:
    """An intrinsic that reads an integer as a pointer to `element`."""

    def typing(context: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.intp)  # type: ignore[no-untyped-call]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return intrinsic(typing)


int64s = _cast(types.int64)
float64s = _cast(types.float64)
int32s = _cast(types.int32)
uint8s = _cast(types.uint8)
uint16s = _cast(types.uint16)


@intrinsic
def prefetch(context: Any, pointer: Any, index: Any) -> Any:
    """Asks for the cache line of `pointer[index]` ahead of its use, so that several such waits pass at the same time."""
    signature = types.void(pointer, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer = ir.IntType(64)
        offset = builder.mul(arguments[1], integer(pointer.dtype.bitwidth // 8))
        address = builder.add(builder.ptrtoint(arguments[0], integer), offset)
        target = builder.inttoptr(address, ir.PointerType(ir.IntType(8)))
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [target.type, flag, flag, flag])
        name = "llvm.prefetch.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        builder.call(function, [target, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return signature, generate
