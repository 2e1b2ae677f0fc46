"""Types of notifications: a declared hierarchy with multiple inheritance, and the test `instanceof`.

Python classes declare themselves the first time one of their objects is published or subscribed to; other names are
declared by hand. The hierarchy only ever grows, so what `covers` once said stays true. Covering is table 4.1, merging
is that of class filters in section 4.5.2.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sluice.errors import SluiceError
from sluice.limits import MAX_INTERVALS
from sluice.model.constraint import UNKNOWN_WASTE, Atom, Constraint
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered, of_kind
from sluice.model.values import Kind, Value, literal_sql, name_sql

#: The attribute that holds the type of a published object.
CLASS = "class"

#: Base classes from these modules (object, ABC, Generic, Protocol and so on) say nothing about what an object is.
_PLUMBING = frozenset({"builtins", "abc", "typing", "collections.abc"})


class _Declared(NamedTuple):
    supertypes: tuple[str, ...]
    abstract: bool


class Hierarchy:
    """Which type is a subtype of which. Threads may declare and ask at the same time.

    >>> zoo = Hierarchy()
    >>> zoo.declare("Pet")
    >>> zoo.declare("Bird")
    >>> zoo.declare("Parrot", "Pet", "Bird")
    >>> zoo.is_subtype("Parrot", "Bird"), zoo.is_subtype("Bird", "Pet"), zoo.is_subtype("Bird", "Bird")
    (True, False, True)
    """

    def __init__(self) -> None:
        self._declared: dict[str, _Declared] = {}
        #: All supertypes of a type, itself among them. Made anew after a declaration, so nothing stale can be written.
        self._above: dict[str, frozenset[str]] = {}
        self._names: WeakKeyDictionary[type, str] = WeakKeyDictionary()
        #: Which class a name stands for, as module and qualified name.
        self._origins: dict[str, tuple[str, str]] = {}

    def declare(self, name: str, *supertypes: str, abstract: bool = False) -> None:
        """Says that `name` is a type with these direct supertypes.

        A supertype may be declared later. An abstract type has no instances other than those of its subtypes.
        Declaring the same again does nothing; declaring something else is an error.
        """
        for supertype in supertypes:
            if self.is_subtype(supertype, name):
                raise SluiceError(f"{name!r} cannot be a subtype of {supertype!r}, which is a subtype of {name!r}")
        wanted = _Declared(tuple(sorted(set(supertypes))), abstract)
        known = self._declared.setdefault(name, wanted)
        if known != wanted:
            above = ", ".join(map(repr, known.supertypes)) or "nothing"
            sort = "abstract" if known.abstract else "concrete"
            raise SluiceError(
                f"the type {name!r} is declared already, {sort} and below {above}: declare it once, or rename one"
            )
        self._above = {}

    def declare_class(self, cls: type) -> str:
        """The name of a Python class, which is declared with its base classes if it was not.

        It is the plain class name; if another class has that already, the name with its module in front.
        """
        known = self._names.get(cls)
        if known is not None:
            return known
        bases = [self.declare_class(base) for base in cls.__bases__ if base.__module__ not in _PLUMBING]
        origin = (cls.__module__, cls.__qualname__)
        name = cls.__name__
        # A class of the same module and name is the same one defined again, as in a notebook.
        if self._origins.setdefault(name, origin) != origin:
            name = ".".join(origin)
        self.declare(name, *bases, abstract=inspect.isabstract(cls))
        self._names[cls] = name
        return name

    def is_subtype(self, name: str, supertype: str) -> bool:
        """Whether `name` is `supertype` or declared to be below it; an unknown type is only below itself."""
        return name == supertype or supertype in self.supertypes(name)

    def supertypes(self, name: str) -> frozenset[str]:
        """The type itself and all types above it."""
        cache = self._above
        found = cache.get(name)
        if found is None:
            above = {name}
            waiting = [name]
            while waiting:
                declared = self._declared.get(waiting.pop())
                new = set(declared.supertypes) - above if declared else set()
                above |= new
                waiting += new
            found = cache[name] = frozenset(above)
        return found

    def subtypes(self, name: str) -> tuple[str, ...]:
        """The direct subtypes in alphabetical order."""
        return tuple(sorted(one for one, declared in list(self._declared.items()) if name in declared.supertypes))

    def is_abstract(self, name: str) -> bool:
        """Whether the type has no instances but those of its subtypes."""
        declared = self._declared.get(name)
        return declared is not None and declared.abstract

    def reduced(self, names: Iterable[str]) -> frozenset[str]:
        """The names without those that are below another."""
        given = frozenset(names)
        return frozenset(a for a in given if not any(a != b and self.is_subtype(a, b) for b in given))

    def common_supertypes(self, names: Iterable[str]) -> tuple[str, ...]:
        """The nearest types that all of these are below, in alphabetical order."""
        shared = frozenset.intersection(*map(self.supertypes, names))
        return tuple(sorted(a for a in shared if not any(a != b and self.is_subtype(b, a) for b in shared)))


#: The hierarchy of this process, which `instanceof` asks.
HIERARCHY = Hierarchy()
declare = HIERARCHY.declare
declare_class = HIERARCHY.declare_class
is_subtype = HIERARCHY.is_subtype


@dataclass(frozen=True, slots=True)
class InstanceOf(Atom):
    """The names of types that are one of these or below.

    >>> declare("Instrument")
    >>> declare("Bond", "Instrument")
    >>> InstanceOf(frozenset({"Instrument"})).matches("Bond")
    True
    >>> InstanceOf(frozenset({"Instrument", "Bond"})) == InstanceOf(frozenset({"Instrument"}))
    True
    """

    types: frozenset[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", HIERARCHY.reduced(self.types))

    def domain(self) -> Ordered:
        return of_kind(Kind.STRING)

    @property
    def is_empty(self) -> bool:
        return not self.types

    def matches(self, value: Value) -> bool:
        return isinstance(value, str) and any(is_subtype(value, name) for name in self.types)

    def matches_ever(self, value: Value) -> bool:
        return isinstance(value, str)  # any name may be declared, or what is above it

    def covers_same(self, other: InstanceOf) -> bool:
        return all(any(is_subtype(theirs, mine) for mine in self.types) for theirs in other.types)

    def overlaps_same(self, other: InstanceOf) -> bool:
        # A type below both may be declared at any time.
        return True

    def union_same(self, other: InstanceOf) -> Constraint | None:
        both = HIERARCHY.reduced(self.types | other.types)
        return InstanceOf(both) if len(both) <= MAX_INTERVALS else None

    def widen_same(self, other: InstanceOf) -> tuple[Constraint, float] | None:
        both = HIERARCHY.reduced(self.types | other.types)
        common = HIERARCHY.common_supertypes(both) if both else ()
        if not common:
            return None
        known: dict[str, float] = {}
        wastes = {name: _waste(name, both, known) for name in common}
        best = min(common, key=lambda name: wastes[name])
        return InstanceOf(frozenset({best})), wastes[best]

    def to_sql(self, name: str) -> str:
        tests = [f"instanceof({name_sql(name)}, {literal_sql(one)})" for one in sorted(self.types)]
        if len(tests) == 1:
            return tests[0]
        return f"({' OR '.join(tests)})" if tests else "false"


def _waste(name: str, wanted: frozenset[str], known: dict[str, float]) -> float:
    """The share of the instances of `name` that are not wanted, if instances spread evenly below each type.

    `known` keeps what was worked out, since a type with several supertypes is met several times.
    """
    if name not in known:
        if any(is_subtype(name, one) for one in wanted):
            known[name] = 0.0
        elif not any(is_subtype(one, name) for one in wanted):
            known[name] = 1.0
        else:
            parts = [_waste(subtype, wanted, known) for subtype in HIERARCHY.subtypes(name)]
            if not HIERARCHY.is_abstract(name):
                parts.append(1.0)  # its own instances
            known[name] = sum(parts) / len(parts) if parts else UNKNOWN_WASTE
    return known[name]


def instanceof(type_name: Any) -> InstanceOf:
    """The test that `instanceof(attribute, 'Type')` is."""
    if not isinstance(type_name, str):
        raise ValueError("the type is a string: write instanceof(class, 'Quote')")
    return InstanceOf(frozenset({type_name}))


def class_filter(cls: type | str) -> Filter:
    """The filter for the objects of a class, or of a type by its name, and of everything below it.

    >>> class Trade: ...
    >>> class BlockTrade(Trade): ...
    >>> print(class_filter(Trade))
    instanceof(class, 'Trade')
    >>> class_filter(Trade).covers(class_filter(BlockTrade))
    True
    """
    name = cls if isinstance(cls, str) else declare_class(cls)
    return Filter.of({CLASS: InstanceOf(frozenset({name}))})
