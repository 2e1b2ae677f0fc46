"""Vectors of clocks: one time for each broker with reliable subscribers; a broker that is not named has the time 0."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.protocol.messages import Clocks


def latest(vectors: Iterable[Clocks]) -> Clocks:
    """The later time of each broker: what is known if all of these are.

    >>> latest([{"a": 1, "b": 5}, {"a": 2}])
    {'a': 2, 'b': 5}
    """
    found: dict[str, int] = {}
    for vector in vectors:
        for name, time in vector.items():
            if time > found.get(name, 0):
                found[name] = time
    return found


def knows(held: Clocks, needed: Clocks) -> bool:
    """Whether nothing that is needed is later than what is held.

    >>> knows({"a": 2}, {"a": 1}), knows({"a": 2}, {"a": 1, "b": 1})
    (True, False)
    """
    return all(held.get(name, 0) >= time for name, time in needed.items())
