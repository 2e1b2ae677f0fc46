"""A WHERE as data: the closed set of predicates and expressions that the language can say.

`sluice.model.language` makes these nodes from a text, `sluice.model.compile` turns them into boxes, and
`sluice.model.expression` evaluates the ones that no box can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute; inside an element test, `""` is the element itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. A Decimal stands for a SQL decimal, and None for NULL."""

    value: object


@dataclass(frozen=True, slots=True)
class Parameter:
    """A literal that the shape cache cut out: the constant with this number, of those given to `compile_filters`."""

    index: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` with op one of + - * / %."""

    op: Literal["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Minus:
    """`-operand`."""

    operand: Expression


Expression = Attribute | Constant | Parameter | Arithmetic | Minus
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True, slots=True)
class And:
    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    item: Predicate


@dataclass(frozen=True, slots=True)
class Comparison:
    op: Operator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean value used as a predicate: a column by itself, or TRUE, FALSE, NULL."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Among:
    """`operand IN (items)`, every item a literal."""

    operand: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`operand LIKE pattern ESCAPE escape`."""

    operand: Expression
    pattern: Expression
    escape: str


@dataclass(frozen=True, slots=True)
class StringTest:
    """startswith, endswith or contains with a literal."""

    how: Literal["startswith", "endswith", "contains"]
    operand: Expression
    text: Expression


@dataclass(frozen=True, slots=True)
class ElementTest:
    """exists/forall over the elements of an array; `body` sees the element's fields as attributes and the element as `""`."""

    quantifier: Literal["any", "all"]
    operand: Attribute
    body: Predicate


@dataclass(frozen=True, slots=True)
class AtomTest:
    """A test that is a constraint of its own on one attribute: xpath_boolean, instanceof, registered ones."""

    function: str
    operand: Attribute
    arguments: tuple[Expression, ...]


Predicate = And | Or | Not | Comparison | Truth | IsNull | Among | Like | StringTest | ElementTest | AtomTest
Constants = Sequence[Scalar | None]
