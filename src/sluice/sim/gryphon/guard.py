"""The choices of the algorithm, each with a name: which changes a broker may apply, and what it may add to a message.

`REPAIRED` is the reference. `LITERAL` is the text of sections 3 to 5 where the text fails; `SINGLE_PATH` (6.1) and
`EQUAL_VECTORS` (6.2) are the special cases that the paper derives.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The types of constraints of section 5.1."""

    COVERED = "I"
    NOBODY_UNKNOWN = "II"
    STILL_COVERED = "III"
    BACKED = "IV"


class Raises(Enum):
    """To which messages a broker adds subscriptions of its own that those in S(m) cover (section 3.3)."""

    NOTHING = "nothing"
    DATA = "data"
    #: Also to silences, for those that were kept back here because of somebody in S(m); right on a single path (section 6.1).
    WITHHELD = "withheld"
    #: Also to silences, whatever is in S(m), as section 3.3 has it.
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Constraints:
    """The generic algorithm: a broker applies a change if the constraints that came with it hold."""

    #: The types that are made and checked.
    kinds: frozenset[Kind] = frozenset(Kind)
    #: Type III for every root that stays and overlaps a removed one; the paper asks only for those above its direct children.
    every_root: bool = True
    #: Type IV for every conjunction that is added; the paper asks only for those that a removal brings back.
    every_addition: bool = True
    #: Keeps back what changes no root until something does ("the option not to propagate", 4.1).
    withholds: bool = False
    raises: Raises = Raises.DATA


@dataclass(frozen=True, slots=True)
class Vectors:
    """Virtual time vectors: a broker applies a change if its vector is the one that the change starts from."""

    #: Takes a snapshot that is neither older nor newer as well: all conjunctions of both, and the larger times.
    merges: bool = False


Guard = Constraints | Vectors

REPAIRED = Constraints()
LITERAL = Constraints(every_root=False, every_addition=False, raises=Raises.EVERYTHING)
SINGLE_PATH = Constraints(kinds=frozenset(), withholds=True, raises=Raises.WITHHELD)
EQUAL_VECTORS = Vectors()
