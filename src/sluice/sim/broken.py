"""What the checks of the labs say: each of them has its own promises, and says in the same way that one was not kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broken:
    """A check that failed, and what it says.

    >>> str(Broken("locality", "d is not on the path and is told something"))
    'locality: d is not on the path and is told something'
    """

    check: str
    says: str

    def __str__(self) -> str:
        return f"{self.check}: {self.says}"
