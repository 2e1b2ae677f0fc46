"""Tests of an attribute by name: what a filter text calls as `name(attribute, arguments...)` is looked up here.

Built-in tests (`xpath_boolean`, `instanceof`, `isnan`, `geo_within`) and those that users register are treated alike: a factory
turns the arguments into an `Atom`, and matching, covering, merging and the index only ask the atom (section 4.3.3).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from sluice.errors import SluiceError
from sluice.model.constraint import Atom

Factory = Callable[..., Atom]

_factories: dict[str, Factory] = {}

#: Functions and words that the language reads itself.
_RESERVED = frozenset(
    (
        *(
            "array",
            "array_contains",
            "arrays_overlap",
            "cast",
            "contains",
            "endswith",
            "exists",
            "forall",
            "startswith",
        ),
        *(
            "and",
            "between",
            "case",
            "date",
            "escape",
            "false",
            "if",
            "in",
            "is",
            "like",
            "not",
            "null",
            "or",
            "timestamp",
            "true",
        ),
    )
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def register(name: str, factory: Factory) -> None:
    """Makes `name(attribute, arguments...)` a test of the language; `factory(arguments...)` gives its constraint.

    The factory gets literals (bool, int, Decimal, float, str, bytes, datetime or None) and raises ValueError for
    arguments that make no sense. As in SQL, upper and lower case are the same in a name.
    """
    key = name.lower()
    if not _NAME.match(name):
        raise SluiceError(f"{name!r} cannot be called in a filter: use letters, digits and underscores")
    if key in _RESERVED or _factories.get(key, factory) is not factory:
        raise SluiceError(f"the name {name!r} is taken: register the constraint under another one")
    _factories[key] = factory


def make(name: str, *arguments: object) -> Atom:
    """The constraint that `name(attribute, arguments...)` is; ValueError says what is wrong with the call."""
    factory = _factories.get(name.lower())
    if factory is None:
        raise ValueError(f"no test is registered as {name!r}; there are {', '.join(names())}")
    try:
        signature = inspect.signature(factory)
    except ValueError:
        signature = None  # some callables written in C do not tell
    if signature is not None:
        try:
            signature.bind(*arguments)
        except TypeError:
            wanted = ", ".join(("attribute", *signature.parameters))
            raise ValueError(f"write {name}({wanted})") from None
    try:
        atom = factory(*arguments)
    except Exception as error:  # a factory is user code, and a filter text must never end in a stranger's exception
        raise ValueError(f"{name}: {error}") from error
    if not isinstance(atom, Atom):
        raise ValueError(f"the factory of {name} gave {type(atom).__name__}, and not an Atom")
    return atom


def names() -> tuple[str, ...]:
    """The registered names in alphabetical order."""
    return tuple(sorted(_factories))


def is_registered(name: str) -> bool:
    """Whether a filter can call this name."""
    return name.lower() in _factories
