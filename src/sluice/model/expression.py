"""The meaning of expressions and predicates on one record, under SQL's three-valued logic, and their text as SQL.

`truth` is the plain definition that the boxes of `sluice.model.compile` must agree with. It follows Spark with ANSI
mode off: what cannot be computed or compared is NULL, and nothing ever raises (section 4.3.2, with SQL's NULL added).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, assert_never, overload

from sluice.model import registry
from sluice.model.constraint import Atom, Constraint
from sluice.model.pattern import like
from sluice.model.predicate import (
    Among,
    And,
    Arithmetic,
    AtomTest,
    Attribute,
    Comparison,
    Constant,
    Constants,
    ElementTest,
    Expression,
    IsNull,
    Like,
    Minus,
    Not,
    Or,
    Parameter,
    Predicate,
    StringTest,
    Truth,
)
from sluice.model.values import Kind, Value, as_record, is_ordered, kind_of, literal_sql, name_sql

_INT64 = 1 << 63
#: Wide enough to be exact for every literal that the language lets in; without traps, so that it never raises.
_DECIMAL = Context(prec=400, traps=[])


def evaluate(node: Expression, record: Mapping[str, Value]) -> Value:
    """The value of an expression; None is NULL.

    >>> evaluate(Arithmetic("%", Attribute("a"), Constant(3)), {"a": -5})
    -2
    """
    match node:
        case Attribute(name):
            return record.get(name)
        case Constant(value):
            return value
        case Arithmetic(op, left, right):
            return _calculate(op, evaluate(left, record), evaluate(right, record))
        case Minus(operand):
            return _negative(evaluate(operand, record))
        case Parameter():
            raise TypeError("a predicate with parameters has no value before bind")
    assert_never(node)


def truth(node: Predicate, record: Mapping[str, Value]) -> bool | None:
    """Whether a predicate is TRUE, FALSE or NULL (None) for a flat record.

    >>> price = Comparison(">", Attribute("price"), Constant(10))
    >>> truth(price, {"price": 12}), truth(price, {"price": 3}), truth(price, {}), truth(Not(price), {})
    (True, False, None, None)
    """
    match node:
        case And(items):
            return _every(truth(item, record) for item in items)
        case Or(items):
            return _some(truth(item, record) for item in items)
        case Not(item):
            return _not(truth(item, record))
        case Comparison(op, left, right):
            return compare(op, evaluate(left, record), evaluate(right, record))
        case Truth(operand):
            value = evaluate(operand, record)
            return value if isinstance(value, bool) else None
        case IsNull(operand):
            return evaluate(operand, record) is None
        case Among(operand, items):
            value = evaluate(operand, record)
            return _some(compare("=", value, evaluate(item, record)) for item in items)
        case Like(operand, pattern, escape):
            value, text = evaluate(operand, record), evaluate(pattern, record)
            return _pattern(text, escape).matches(value) if isinstance(value, str) and isinstance(text, str) else None
        case StringTest(how, operand, text_node):
            value, text = evaluate(operand, record), evaluate(text_node, record)
            if not isinstance(value, str) or not isinstance(text, str):
                return None
            if how == "contains":
                return text in value
            return value.startswith(text) if how == "startswith" else value.endswith(text)
        case ElementTest(quantifier, operand, body):
            elements = evaluate(operand, record)
            if not isinstance(elements, tuple):
                return None
            answers = (truth(body, as_record(element)) for element in elements)
            return _some(answers) if quantifier == "any" else _every(answers)
        case AtomTest(function, operand, arguments):
            value = evaluate(operand, record)
            atom = _atom(function, *(evaluate(argument, record) for argument in arguments))
            return True if atom.matches(value) else False if atom.applies(value) else None
    assert_never(node)


def compare(op: str, left: Value, right: Value) -> bool | None:
    """`left op right`: NULL unless both are ordered values of one kind; `<=>` is never NULL.

    >>> compare("<", 1, 2.5), compare("<", 1, "2"), compare("=", None, None), compare("<=>", None, None)
    (True, None, None, True)
    """
    kind = _kind(left)
    if kind != _kind(right) or not is_ordered(kind):
        return (left is None and right is None) if op == "<=>" else None
    if kind == Kind.NUMBER and type(left) is not type(right):
        # As in Spark: a decimal meets a double as a double, and an integer exactly.
        if isinstance(left, float) and isinstance(right, Decimal):
            right = float(right)
        elif isinstance(left, Decimal) and isinstance(right, float):
            left = float(left)
    answer: bool
    match op:
        case "=" | "<=>":
            answer = left == right
        case "!=":
            answer = left != right
        case "<":
            answer = left < right
        case "<=":
            answer = left <= right
        case ">":
            answer = left > right
        case _:
            answer = left >= right
    return answer


def _kind(value: Value) -> Kind:
    return Kind.NUMBER if isinstance(value, Decimal) else kind_of(value)


def _every(answers: Iterable[bool | None]) -> bool | None:
    """AND: FALSE if some are FALSE, else NULL if some are NULL, else TRUE."""
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def _some(answers: Iterable[bool | None]) -> bool | None:
    """OR: TRUE if some are TRUE, else NULL if some are NULL, else FALSE."""
    unknown = False
    for answer in answers:
        if answer:
            return True
        unknown = unknown or answer is None
    return None if unknown else False


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


@lru_cache(maxsize=4096)
def _pattern(text: str, escape: str) -> Constraint:
    return like(text, escape)


@lru_cache(maxsize=4096, typed=True)
def _atom(function: str, *arguments: Any) -> Atom:
    return registry.make(function, *arguments)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _negative(value: Value) -> Value:
    if not _is_number(value):
        return None
    if isinstance(value, Decimal):
        return value.copy_negate()
    return _fit(-value)


def _fit(value: int | float) -> Value:
    """An integer beyond 64 bits is NULL, as Spark's overflow is."""
    return None if isinstance(value, int) and not -_INT64 <= value < _INT64 else value


def _calculate(op: str, left: Value, right: Value) -> Value:
    if not _is_number(left) or not _is_number(right):
        return None
    if op in ("/", "%") and right == 0:
        return None
    try:
        if op == "/" or isinstance(left, float) or isinstance(right, float):
            return _with_floats(op, float(left), float(right))
    except OverflowError:  # an integer that no double can hold
        return None
    if isinstance(left, int) and isinstance(right, int):
        return _fit(_with_integers(op, left, right))
    result = _with_decimals(op, Decimal(left), Decimal(right))
    return result if result.is_finite() else None


def _with_floats(op: str, left: float, right: float) -> Value:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right if right else None
    # The sign of the dividend, as in Java; an infinite dividend has no remainder.
    return math.nan if math.isinf(left) else math.fmod(left, right) if right else None


def _with_integers(op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _with_decimals(op: str, left: Decimal, right: Decimal) -> Decimal:
    match op:
        case "+":
            return _DECIMAL.add(left, right)
        case "-":
            return _DECIMAL.subtract(left, right)
        case "*":
            return _DECIMAL.multiply(left, right)
    return _DECIMAL.remainder(left, right)


@overload
def bind(node: Predicate, constants: Constants) -> Predicate: ...
@overload
def bind(node: Expression, constants: Constants) -> Expression: ...
def bind(node: Predicate | Expression, constants: Constants) -> Predicate | Expression:
    """The same with each Parameter replaced by the Constant of its number.

    >>> bind(Comparison("=", Attribute("a"), Parameter(0)), [5])
    Comparison(op='=', left=Attribute(name='a'), right=Constant(value=5))
    """
    return substitute(node, lambda index: Constant(constants[index]))


@overload
def substitute(node: Predicate, parameter: Callable[[int], Expression]) -> Predicate: ...
@overload
def substitute(node: Expression, parameter: Callable[[int], Expression]) -> Expression: ...
def substitute(node: Predicate | Expression, parameter: Callable[[int], Expression]) -> Predicate | Expression:
    """The same with each Parameter replaced by what `parameter` gives for its number."""
    match node:
        case Parameter(index):
            return parameter(index)
        case Attribute() | Constant():
            return node
        case Comparison(op, left, right):
            return Comparison(op, substitute(left, parameter), substitute(right, parameter))
        case And(items):
            return And(tuple(substitute(item, parameter) for item in items))
        case Or(items):
            return Or(tuple(substitute(item, parameter) for item in items))
        case Not(item):
            return Not(substitute(item, parameter))
        case Arithmetic(operator, left, right):
            return Arithmetic(operator, substitute(left, parameter), substitute(right, parameter))
        case Minus(operand):
            return Minus(substitute(operand, parameter))
        case Truth(operand):
            return Truth(substitute(operand, parameter))
        case IsNull(operand):
            return IsNull(substitute(operand, parameter))
        case Among(operand, members):
            return Among(substitute(operand, parameter), tuple(substitute(item, parameter) for item in members))
        case Like(operand, pattern, escape):
            return Like(substitute(operand, parameter), substitute(pattern, parameter), escape)
        case StringTest(how, operand, text):
            return StringTest(how, substitute(operand, parameter), substitute(text, parameter))
        case ElementTest(quantifier, array, body):
            return ElementTest(quantifier, array, substitute(body, parameter))
        case AtomTest(function, attribute, arguments):
            return AtomTest(function, attribute, tuple(substitute(item, parameter) for item in arguments))
    assert_never(node)


def names(node: Predicate | Expression) -> Iterator[str]:
    """The attributes that a predicate or an expression looks at.

    >>> list(names(Comparison("<=>", Attribute("a"), Minus(Attribute("b.c")))))
    ['a', 'b.c']
    """
    match node:
        case Attribute(name):
            yield name
        case Constant() | Parameter():
            return
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            yield from names(left)
            yield from names(right)
        case And(items) | Or(items):
            for item in items:
                yield from names(item)
        case Not(item):
            yield from names(item)
        case Minus() | Truth() | IsNull() | Among() | Like() | StringTest() | ElementTest() | AtomTest():
            yield from names(node.operand)  # beside it there are literals, and the elements' own fields
        case _:
            assert_never(node)


def to_sql(node: Predicate | Expression) -> str:
    """The text of a predicate or an expression; parsing it gives an equal one.

    >>> print(to_sql(Not(Or((Truth(Attribute("a")), Comparison("<", Attribute("b"), Constant(-2)))))))
    NOT (a OR b < -2)
    """
    return _Writer(0).write(node)


#: How strongly an operator binds.
_WEIGHT = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


class _Writer:
    """Writes one scope: inside an element test, names are fields of its variable."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.variable = "" if depth == 0 else "e" if depth == 1 else f"e{depth}"

    def write(self, node: Predicate | Expression) -> str:
        match node:
            case Attribute(name):
                return self._name(name)
            case Constant(value):
                return constant_sql(value)
            case Parameter(index):
                return f":{index}"
            case Arithmetic(op, left, right):
                return f"{self._operand(left, _WEIGHT[op])} {op} {self._operand(right, _WEIGHT[op] + 1)}"
            case Minus(operand):
                return f"- {self._operand(operand, _WEIGHT['-'] + 2)}"
            case And(items):
                return " AND ".join(self._part(item) for item in items)
            case Or(items):
                return " OR ".join(self._part(item) for item in items)
            case Not(item):
                return f"NOT {self._part(item)}"
            case Comparison(comparison, left, right):
                return f"{self._operand(left)} {comparison} {self._operand(right)}"
            case Truth(operand):
                return self._operand(operand)
            case IsNull(operand):
                return f"{self._operand(operand)} IS NULL"
            case Among(operand, members):
                return f"{self._operand(operand)} IN ({', '.join(map(self.write, members))})"
            case Like(operand, pattern, escape):
                tail = "" if escape == "\\" else f" ESCAPE {constant_sql(escape)}"
                return f"{self._operand(operand)} LIKE {self.write(pattern)}{tail}"
            case StringTest(how, operand, text):
                return f"{how}({self.write(operand)}, {self.write(text)})"
            case ElementTest(quantifier, array, body):
                inner = _Writer(self.depth + 1)
                function = "exists" if quantifier == "any" else "forall"
                return f"{function}({self.write(array)}, {inner.variable} -> {inner.write(body)})"
            case AtomTest(function, attribute, arguments):
                return f"{function}({', '.join(map(self.write, (attribute, *arguments)))})"
        assert_never(node)

    def _name(self, name: str) -> str:
        if not self.variable:
            return name_sql(name)
        return f"{self.variable}.{name_sql(name)}" if name else self.variable

    def _operand(self, node: Expression, weight: int = 0) -> str:
        """An operand, in brackets only if it binds less than its surroundings: a long sum must not nest."""
        text = self.write(node)
        return f"({text})" if isinstance(node, Arithmetic) and _WEIGHT[node.op] < weight else text

    def _part(self, node: Predicate) -> str:
        return f"({self.write(node)})" if isinstance(node, And | Or | Not) else self.write(node)


def constant_sql(value: object) -> str:
    """A literal that parses to this very value: a float is not a decimal, and text may have any character.

    >>> print(constant_sql(2.5), constant_sql(Decimal("2.5")), constant_sql(Decimal(2)), constant_sql(None))
    2.5D 2.5 2BD NULL
    """
    if value is None:
        return "NULL"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value!r}D"
    if isinstance(value, Decimal):
        text = str(value)
        return text if "." in text and "E" not in text else f"{text}BD"
    if isinstance(value, bool | int | float | str | bytes | datetime):
        return literal_sql(value)
    raise TypeError(f"{type(value).__name__} has no literal")
