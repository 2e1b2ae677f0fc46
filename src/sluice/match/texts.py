"""The texts of the subscriptions by slot: packed in Arrow arrays once they are loaded, in a dictionary while they change."""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa

from sluice.match.keys import utf8


class Texts:
    """A mapping from slots to texts that takes little more memory than the texts themselves.

    >>> texts = Texts()
    >>> texts[0] = "price > 3"
    >>> texts.settle()
    >>> texts[0]
    'price > 3'
    """

    def __init__(self, packed: pa.Array | None = None) -> None:
        self._chunks: list[pa.Array] = [] if packed is None else [packed]
        self._starts: list[int] = [] if packed is None else [0]
        self._end = 0 if packed is None else len(packed)
        self._own: dict[int, str | None] = {}

    def __setitem__(self, slot: int, text: str) -> None:
        self._own[slot] = text

    def __getitem__(self, slot: int) -> str:
        text = self._own.get(slot)
        if text is not None:
            return text
        at = bisect_right(self._starts, slot) - 1
        packed: bytes = self._chunks[at][slot - self._starts[at]].as_py()
        return packed.decode("utf-8", "surrogatepass")

    def __delitem__(self, slot: int) -> None:
        self._own.pop(slot, None)

    def settle(self) -> None:
        """Packs the texts of the newest slots."""
        found: list[bytes] = []
        slot = self._end
        while (text := self._own.get(slot)) is not None:
            found.append(utf8(text))
            slot += 1
        if found:
            self._chunks.append(pa.array(found, pa.large_binary()))
            self._starts.append(self._end)
            for done in range(self._end, slot):
                del self._own[done]
            self._end = slot

    def to_array(self) -> pa.Array:
        """All texts in the order of their slots; those of free slots are whatever was there."""
        top = max([self._end, *(slot + 1 for slot in self._own)])
        packed = pa.concat_arrays([*self._chunks, pa.nulls(top - self._end, pa.large_binary())])
        if not self._own:
            return packed
        values = packed.to_pylist()
        for slot, text in self._own.items():
            values[slot] = utf8(text) if text is not None else None
        return pa.array(values, pa.large_binary())
