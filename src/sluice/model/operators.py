"""What a stretch of operands and operators means: from sqlglot's tree to a predicate.

The reader of the language has folded names, literals, brackets and calls into operands, each a number by which its
node is found here. sqlglot knows which operator binds tighter; this module takes what is in the language from its tree,
refuses the rest, and checks that no operand was lost on the way (section 4.3.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final, cast

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError as SqlglotParseError

from sluice.errors import LimitError, ParseError
from sluice.limits import MAX_DEPTH
from sluice.model.literals import Decoder, check_pattern, negative
from sluice.model.predicate import (
    Among,
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    IsNull,
    Like,
    Minus,
    Not,
    Or,
    Parameter,
    Predicate,
    Truth,
)
from sluice.model.vocabulary import SYMBOLS

DIALECT: Final = Spark()

_COMPARISONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_ARITHMETIC: Final[Mapping[type[exp.Expr], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip
_EXPRESSIONS: Final = (Attribute, Constant, Parameter, Arithmetic, Minus)
_OPERANDS: Final = (TokenType.NUMBER, TokenType.STRING)
#: What a stretch may end with; after anything else something is missing.
ENDINGS: Final = (*_OPERANDS, TokenType.R_PAREN, TokenType.NULL, TokenType.TRUE, TokenType.FALSE)
#: What needs something before it.
_INFIX: Final = frozenset(
    {*SYMBOLS.values(), TokenType.AND, TokenType.OR, TokenType.IN, TokenType.LIKE, TokenType.BETWEEN, TokenType.IS}
) - {TokenType.NOT, TokenType.DASH, TokenType.PLUS}
#: What to write where a condition stands as a value.
_JOINED: Final = "join conditions with AND, OR and NOT"
_TESTED: Final = (
    "IS tests an attribute: for IS TRUE write the condition itself, for IS FALSE write NOT before it, "
    "and for IS NULL test its attributes"
)


class Operators:
    """The operands of one text, and the meaning of operators between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.constants: dict[int, Any] = {}  # the values of the parameters
        self.decoders: dict[int, list[Decoder]] = {}  # how they are made from the plain literals
        self.checks: list[tuple[Callable[..., object], tuple[Expression, ...]]] = []  # what else they must pass
        self._nodes: list[tuple[Any, int]] = []  # operands and the places where they begin

    def _error(self, problem: str, where: int | exp.Expr) -> ParseError:
        """An error at an offset, or where the leftmost operand of a tree begins."""
        return ParseError(problem, self.text, self._place(where))

    def _too_long(self, where: exp.Expr) -> LimitError:
        problem = f"an expression of more than {MAX_DEPTH} operations in a row; work a part of it out beforehand"
        return LimitError(problem, self.text, self._place(where))

    def _place(self, where: int | exp.Expr) -> int:
        if isinstance(where, exp.Expr):
            where = min((self._nodes[index][1] for index in _operands(where)), default=0)
        return min(where, len(self.text))

    def _decoded(self, node: Expression, decoder: Decoder, where: int | exp.Expr) -> Expression:
        """A literal whose value is `decoder` of what it was."""
        try:
            value = decoder(self._value(node))
        except ValueError as error:
            raise self._error(str(error), where) from None
        if isinstance(node, Parameter):
            self.constants[node.index] = value
            self.decoders.setdefault(node.index, []).append(decoder)
            return node
        return Constant(value)

    def _value(self, node: Expression) -> Any:
        """The value of a literal."""
        return self.constants[node.index] if isinstance(node, Parameter) else cast(Constant, node).value

    def _flat(self, out: list[Token], end: int) -> Any:
        """The node of a stretch of operands and operators without brackets."""
        if not out:
            raise self._error("something is missing here: a comparison, a name or a literal", end)
        if len(out) == 1 and out[0].token_type == TokenType.NUMBER:
            return self._nodes[int(out[0].text)][0]
        try:
            (tree,) = DIALECT.parser().parse_into(exp.Condition, out, self.text)
        except SqlglotParseError as error:
            position = error.errors[0].get("col") if error.errors else None
            raise self._misplaced(out, end, position) from None
        if tree is None or sorted(_operands(tree)) != [int(t.text) for t in out if t.token_type in _OPERANDS]:
            raise self._misplaced(out, end, None)
        return self._convert(tree)

    def _misplaced(self, out: list[Token], end: int, position: int | None) -> ParseError:
        """What to say of a stretch that sqlglot cannot read."""
        if out[-1].token_type not in ENDINGS:
            return self._error(f"something is missing after {out[-1].text}", end)
        before = None
        for token in out:
            if token.token_type in _INFIX and (before is None or before.token_type not in ENDINGS):
                return self._error(f"something is missing before {token.text}", token.start)
            before = token
        for token in out:
            if token.token_type == TokenType.BETWEEN:
                return self._error("BETWEEN needs two values: a BETWEEN 1 AND 2", token.start)
        where = out[0].start if position is None else position
        word = cast(re.Match[str], re.match(r"\w+|.|$", self.text[where : where + 40], re.DOTALL)).group()
        return self._error(f"{word or 'this'} is out of place here", where)

    def _convert(self, tree: exp.Expr) -> Any:
        """A condition, a value or a list of literals."""
        if isinstance(tree, exp.And | exp.Or):
            return self._connected(tree)
        if isinstance(tree, exp.Not):
            return Not(self._predicate(tree.this))
        if isinstance(tree, exp.Paren):
            return self._convert(tree.this)
        if (op := _COMPARISONS.get(type(tree))) is not None:
            return Comparison(cast(Any, op), self._operand(tree.this), self._operand(tree.expression))
        if isinstance(tree, exp.NullSafeNEQ):
            return Not(Comparison("<=>", self._operand(tree.this), self._operand(tree.expression)))
        if isinstance(tree, exp.Is):
            return self._is(tree)
        if isinstance(tree, exp.Between):
            value = self._operand(tree.this)
            low = Comparison(">=", value, self._operand(tree.args["low"]))
            return And((low, Comparison("<=", value, self._operand(tree.args["high"]))))
        if isinstance(tree, exp.In):
            return Among(self._operand(tree.this), self._convert(tree.expressions[0]))
        if isinstance(tree, exp.Like):
            return self._like(tree, None)
        if isinstance(tree, exp.Escape) and isinstance(tree.this, exp.Like):
            return self._like(tree.this, tree.expression)
        return self._arithmetic(tree)

    def _connected(self, tree: exp.Expr) -> Predicate:
        """A chain of one connective, flat: sqlglot nests it to the left, thousands deep if the text is long."""
        kind = type(tree)
        made = And if isinstance(tree, exp.And) else Or
        parts: list[exp.Expr] = []
        while isinstance(tree, kind):
            parts.append(tree.expression)
            tree = tree.this
        parts.append(tree)
        items: list[Predicate] = []
        for part in reversed(parts):
            item = self._predicate(part)
            items += item.items if isinstance(item, made) else (item,)
        return made(tuple(items))

    def _is(self, tree: exp.Is) -> Predicate:
        value = self._operand(tree.this, _TESTED)
        if isinstance(tree.expression, exp.Null):
            return IsNull(value)
        if not isinstance(tree.expression, exp.Boolean):
            raise self._error("IS is followed by [NOT] NULL, TRUE, FALSE or DISTINCT FROM", tree.expression)
        return Comparison("<=>", value, Constant(tree.expression.this))

    def _like(self, tree: exp.Like, escape: exp.Expr | None) -> Predicate:
        operand = self._operand(tree.this)
        text = self._operand(tree.expression)
        if not isinstance(text, Constant | Parameter) or not isinstance(self._value(text), str | None):
            raise self._error("LIKE needs a string literal as its pattern", tree.expression)
        sign = "\\"
        if escape is not None:
            sign = self._value(self._operand(escape))
            if len(sign) != 1:
                raise self._error("ESCAPE needs a single character", escape)
        check = partial(check_pattern, sign)
        try:
            check(self._value(text))
        except ValueError as error:
            raise self._error(str(error), tree.expression) from None
        self.checks.append((check, (text,)))
        found = Like(operand, text, sign)
        return Not(found) if tree.args.get("negate") else found

    def _arithmetic(self, tree: exp.Expr) -> Expression:
        """A chain of arithmetic: sqlglot nests it to the left."""
        chain: list[tuple[str, exp.Expr]] = []
        while (op := _ARITHMETIC.get(type(tree))) is not None:
            chain.append((op, tree.expression))
            tree = tree.this
        if len(chain) > MAX_DEPTH:
            raise self._too_long(tree)
        if isinstance(tree, exp.Neg):
            inner = self._operand(tree.this)
            node: Any = self._minus(inner, tree)
        elif isinstance(tree, exp.Literal):
            node = self._nodes[int(tree.name)][0]
        elif isinstance(tree, exp.Paren):
            node = self._convert(tree.this)
        else:
            raise self._error(f"{tree.key} is not in the language", tree)
        if not chain:
            return cast(Expression, node)
        left = self._expression(node, tree)
        for op, right in reversed(chain):
            left = Arithmetic(cast(Any, op), left, self._operand(right))
        if _depth(left) > MAX_DEPTH:
            raise self._too_long(tree)
        return left

    def _minus(self, node: Expression, where: exp.Expr) -> Expression:
        """A minus before a numeric literal belongs to it."""
        if isinstance(node, Constant | Parameter):
            value = self._value(node)
            if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                return self._decoded(node, negative, where)
        if _depth(node) >= MAX_DEPTH:
            raise self._too_long(where)
        return Minus(node)

    def _operand(self, tree: exp.Expr, advice: str = _JOINED) -> Expression:
        """A tree that must be a value; `advice` is what to do if it is a condition."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.Literal | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
            raise self._error(f"a condition stands where a value is needed; {advice}", tree)
        return self._expression(self._arithmetic(tree), tree, advice)

    def _expression(self, node: Any, where: int | exp.Expr, advice: str = _JOINED) -> Expression:
        if isinstance(node, tuple):
            raise self._error("a list stands where a value is needed", where)
        if not isinstance(node, _EXPRESSIONS):
            raise self._error(f"a condition stands where a value is needed; {advice}", where)
        return node

    def _predicate(self, tree: exp.Expr) -> Predicate:
        """A tree that must be a condition."""
        return self._condition(self._convert(tree), tree)

    def _condition(self, node: Any, where: int | exp.Expr) -> Predicate:
        if isinstance(node, tuple):
            raise self._error("a list stands where a condition is needed", where)
        if not isinstance(node, _EXPRESSIONS):
            return cast(Predicate, node)
        if isinstance(node, Attribute) or (isinstance(node, Constant) and isinstance(node.value, bool | None)):
            return Truth(node)
        raise self._error("a value stands where a condition is needed; compare it with something", where)


def _operands(tree: exp.Expr) -> list[int]:
    return [int(found.name) for found in tree.find_all(exp.Literal)]


def _depth(node: Expression) -> int:
    """How deep an expression is nested."""
    if isinstance(node, Arithmetic):
        return 1 + max(_depth(node.left), _depth(node.right))
    return 1 + _depth(node.operand) if isinstance(node, Minus) else 0
