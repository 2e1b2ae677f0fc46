"""The columns that the index can test: an attribute seen along one axis, and the strings that subscriptions mention.

An attribute may hold values of any kind, so each way of looking at it is a *field* of its own: which kind it is, its number,
its place among strings, which mentioned string it equals, and so on. Fields come into being when a filter first needs them;
a record only pays for the fields of the attributes it has.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from sluice.match.kernels.layout import MISSING
from sluice.model.values import Kind


class Axis(IntEnum):
    """A way of looking at an attribute."""

    KIND = 0
    NUMBER = 1
    STRING = 2
    SYMBOL = 3
    MASK = 4
    BYTES = 5
    TIME = 6


#: The code of each kind on the axis of kinds; false and true have codes of their own, so that no further axis is needed.
KIND_CODES: dict[Kind, int] = {
    Kind.NULL: 0,
    Kind.BOOL: 1,
    Kind.NUMBER: 3,
    Kind.STRING: 4,
    Kind.BYTES: 5,
    Kind.TIMESTAMP: 6,
    Kind.NAN: 7,
    Kind.MULTI: 8,
    Kind.RECORD: 9,
}
FALSE_CODE, TRUE_CODE, NAN_CODE = 1, 2, 7

#: Strings of one attribute that have a bit of their own in its masks; all others share the next one.
MASK_BITS = 62
OTHER_BIT = 1 << MASK_BITS
ALL_BITS = (1 << (MASK_BITS + 1)) - 1

#: Numbers as they stand in a file: of slots, entries, strings and uses, and of bits.
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Bit = Annotated[int, msgspec.Meta(ge=0, le=MASK_BITS)]


class FieldsState(TypedDict):
    """All fields as plain data: what `to_dict` writes and, checked against this, `from_dict` reads back."""

    fields: list[tuple[str, Axis]]
    symbols: list[tuple[str, Number]]
    uses: list[tuple[Number, Number]]
    free_symbols: list[Number]
    implied: NotRequired[list[str]]
    columns: NotRequired[list[str]]
    bits: list[tuple[str, list[tuple[Number, _Bit]], list[_Bit]]]


class NameFields:
    """The fields of one attribute, 0 where there is none, and the bits of the strings in its masks."""

    __slots__ = ("bits", "bytes", "fields", "free_bits", "kind", "mask", "number", "string", "symbol", "time")

    def __init__(self) -> None:
        self.fields = [0] * len(Axis)
        self.kind = self.number = self.string = self.symbol = self.mask = self.bytes = self.time = 0
        self.bits: dict[int | None, int] = {}
        self.free_bits = list(range(MASK_BITS - 1, -1, -1))


class Fields:
    """All fields of one index. Field 0 is the constant 0: a test on it holds for every record."""

    def __init__(self) -> None:
        self.by_name: dict[str, NameFields] = {}
        self.list: list[tuple[str, Axis]] = [("", Axis.KIND)]
        self.defaults: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self.axes: npt.NDArray[np.int64] = np.array([-1])
        self.numbers: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.symbols: dict[str, int] = {}
        #: Attributes on which a clause may test more than the algebra compares: what a constraint implies beyond its hull.
        self.implied: dict[str, None] = {}
        #: Attributes that filters look at, and the records around them (`a.b` and `a` for `a.b.c`); None where any may be.
        self.columns: dict[str, None] | None = {}
        self._uses: dict[int, int] = {}
        self._free_symbols: list[int] = []

    def __len__(self) -> int:
        return len(self.list)

    def mention(self, name: str) -> None:
        """Some filter looks at this attribute."""
        while self.columns is not None and name not in self.columns:
            self.columns[name] = None
            name = name.rpartition(".")[0]

    def number(self, name: str, axis: Axis) -> int:
        """The number of a field, made if it is new."""
        entry = self.by_name.get(name)
        if entry is None:
            entry = self.by_name[name] = NameFields()
            self.mention(name)
        field = entry.fields[axis]
        if field == 0:
            field = entry.fields[axis] = len(self.list)
            setattr(entry, axis.name.lower(), field)
            self.list.append((name, axis))
            default = {Axis.KIND: 0, Axis.MASK: 0}.get(axis, MISSING)
            self.defaults = np.append(self.defaults, np.int64(default))
            self.axes = np.append(self.axes, np.int64(axis))
            if axis == Axis.NUMBER:
                self.numbers = np.append(self.numbers, np.int64(field))
        return field

    def symbol(self, text: str) -> int:
        """The number of a string that a filter mentions."""
        number = self.symbols.get(text)
        if number is None:
            number = self._free_symbols.pop() if self._free_symbols else len(self.symbols)
            self.symbols[text] = number
        return number

    def hold(self, text: str) -> None:
        """One more clause mentions this string."""
        number = self.symbols[text]
        self._uses[number] = self._uses.get(number, 0) + 1

    def release(self, text: str) -> None:
        """One clause less mentions this string; the last one frees its number and its bits."""
        number = self.symbols[text]
        self._uses[number] -= 1
        if self._uses[number] == 0:
            del self._uses[number], self.symbols[text]
            self._free_symbols.append(number)
            for entry in self.by_name.values():
                bit = entry.bits.pop(number, MASK_BITS)
                if bit != MASK_BITS:
                    entry.free_bits.append(bit)

    def mask(self, name: str, texts: tuple[str, ...]) -> tuple[int, bool]:
        """The mask of a set of strings of an attribute, and whether each of them has a bit of its own."""
        entry = self.by_name[name]
        mask, exact = 0, True
        for text in texts:
            number = self.symbol(text)
            bit = entry.bits.get(number)
            if bit is None:
                # What begins with the shared bit keeps it, also when others become free: rows that have it say so.
                bit = entry.bits[number] = entry.free_bits.pop() if entry.free_bits else MASK_BITS
            mask |= 1 << bit
            exact = exact and bit != MASK_BITS
        return mask, exact

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data that `from_dict` reads back."""
        return {
            "fields": [[name, int(axis)] for name, axis in self.list[1:]],
            "symbols": list(self.symbols.items()),
            "uses": list(self._uses.items()),
            "free_symbols": self._free_symbols,
            "implied": list(self.implied),
            **({} if self.columns is None else {"columns": list(self.columns)}),
            "bits": [
                [name, list(entry.bits.items()), entry.free_bits] for name, entry in self.by_name.items() if entry.bits
            ],
        }

    @classmethod
    def from_dict(cls, data: FieldsState) -> Fields:
        """What `to_dict` wrote."""
        fields = cls()
        for name, axis in data["fields"]:
            fields.number(name, axis)
        fields.symbols = dict(data["symbols"])
        fields._uses = dict(data["uses"])
        fields._free_symbols = list(data["free_symbols"])
        fields.implied = dict.fromkeys(data.get("implied", fields.by_name))  # not told: any of them may be
        columns = data.get("columns")
        fields.columns = None if columns is None else dict.fromkeys(columns)
        for name, bits, free in data["bits"]:
            entry = fields.by_name[name]
            entry.bits, entry.free_bits = dict(bits), list(free)
        return fields
