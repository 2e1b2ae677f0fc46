"""A virtual time vector: a clock time for each SHB, nought for those that are not named (section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vector:
    """Times of SHBs, in the order of their names.

    >>> old, new = Vector.of({"a": 1, "b": 2}), Vector.of({"b": 3})
    >>> old.at("a"), new.at("a"), old >= new, new.joined(old).entries
    (1, 0, False, (('a', 1), ('b', 3)))
    """

    entries: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, times: Mapping[str, int]) -> Vector:
        """The vector with these times."""
        return cls(tuple(sorted((shb, time) for shb, time in times.items() if time)))

    def at(self, shb: str) -> int:
        """The time of an SHB."""
        return dict(self.entries).get(shb, 0)

    def joined(self, *others: Vector) -> Vector:
        """The larger time of each SHB."""
        times: dict[str, int] = {}
        for vector in (self, *others):
            for shb, time in vector.entries:
                times[shb] = max(time, times.get(shb, 0))
        return Vector.of(times)

    def below(self, shbs: Iterable[str]) -> Vector:
        """The times of some SHBs only."""
        some = frozenset(shbs)
        return Vector(tuple(entry for entry in self.entries if entry[0] in some))

    def __ge__(self, other: Vector) -> bool:
        mine = dict(self.entries)
        return all(mine.get(shb, 0) >= time for shb, time in other.entries)


#: Nothing has happened anywhere.
ORIGIN = Vector()
