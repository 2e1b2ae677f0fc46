"""The shape cache: texts that differ only in their literals are parsed once.

One regular expression cuts the literals out of a text; what is left is its *shape*, and a known shape gives its
predicate (with Parameters for the literals) without parsing. An unknown shape that is a conjunction is put together
from the shapes of its conjuncts, so a million texts made of a few tests in any order stay cheap. Bound to its
constants, the result always equals `parse_predicate(text)`; where that is in doubt the text is parsed whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from sluice.errors import SluiceError
from sluice.limits import MAX_SHAPES, MAX_TEXT
from sluice.model.expression import substitute
from sluice.model.language import Reader, parse_predicate
from sluice.model.literals import STRING_RE, Decoder, literal
from sluice.model.predicate import And, Constant, Expression, Parameter, Predicate

#: Strings, numbers, quoted names and comments. A quote or comment that never closes takes the rest of the text, so that
#: a hostile text is scanned once. Numbers are matched whole or not at all. Every branch begins with a character that is
#: looked for, with what must not stand before it checked afterwards: that makes the search four times as fast.
_CUT: Final = re.compile(
    r"""(
      '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+(?:'|\\?\Z)
    | "[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+(?:"|\\?\Z)
    | [0-9](?<!\w[0-9])(?<!\.[0-9])[0-9]*+(?:\.[0-9]*+)?+(?:[eE][+-]?[0-9]++)?+(?:[bB][dD]|[lLsSyYfFdD])?+(?![\w.])
    | \.(?<![\w.]\.)[0-9]++(?:[eE][+-]?[0-9]++)?+(?:[bB][dD]|[lLsSyYfFdD])?+(?![\w.])
    | `[^`]*+(?:`|\Z)
    | --[^\n]*+
    | /\*.*?(?:\*/|\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)

#: What matters for cutting a conjunction at its ANDs, in a text without literals.
_JOINT: Final = re.compile(r"`[^`]*`|[()]|(?<![\w.])(?:and|or|between)(?!\w)", re.IGNORECASE)
#: Characters of texts that are cut so. Comments and whatever else is rare are left to the parser.
_PLAIN: Final = re.compile(r"(?:[\w \t\r\n.,()<>=!+*%\0]++|-(?!-)|/(?![*/])|`[^`]*`)*")
_BLANKS: Final = " \t\r\n"

_Check = tuple[Callable[..., object], tuple[Expression, ...]]
_Key = tuple[Any, ...]


@dataclass(slots=True)
class _Shape:
    """What a shape says: its predicate, and what is still to be done to the plain values of its literals."""

    predicate: Predicate
    decoders: tuple[tuple[int, Decoder], ...] = ()
    checks: tuple[_Check, ...] = ()
    shifted: dict[int, _Shape] = field(default_factory=dict, compare=False)

    def constants(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The constants for these plain values; ValueError if one makes no sense where it stands."""
        made = list(values)
        for index, decoder in self.decoders:
            made[index] = decoder(made[index])
        for check, arguments in self.checks:
            check(*(made[a.index] if isinstance(a, Parameter) else a.value for a in arguments if isinstance(a, _GIVEN)))
        return tuple(made)

    def shift(self, offset: int) -> _Shape:
        """The same with its parameters numbered from `offset` on."""
        known = self.shifted.get(offset)
        if known is None:

            def moved(index: int) -> Parameter:
                return Parameter(index + offset)

            known = _Shape(
                substitute(self.predicate, moved),
                tuple((index + offset, decoder) for index, decoder in self.decoders),
                tuple((check, tuple(substitute(a, moved) for a in arguments)) for check, arguments in self.checks),
            )
            if offset < _MAX_OFFSET:
                self.shifted[offset] = known
        return known


_GIVEN = (Parameter, Constant)
#: Shapes are kept for texts as people write them: with long ones, and what is far behind in them, the cache would be large.
_MAX_KEPT: Final = 2_000
_MAX_OFFSET: Final = 64

#: By what is left of the text and the types of its literals. A tuple says which literals belong to the key as well.
_whole: dict[_Key, _Shape | tuple[int, ...]] = {}
#: The same for the conjuncts of texts, so that ever new conjunctions do not drive them out.
_conjuncts: dict[_Key, _Shape] = {}


def parse_shape(text: str) -> tuple[Predicate, tuple[Any, ...]]:
    """The predicate of a text with its literals cut out, and the literals.

    Texts of one shape whose literals have the same types get the very same predicate object.

    >>> parse_shape("price > 10 AND symbol = 'IBM'")[1], parse_shape("price > 20 AND symbol = 'SUN'")[1]
    ((10, 'IBM'), (20, 'SUN'))
    >>> parse_shape("price > 10 AND symbol = 'IBM'")[0] is parse_shape("price > 20 AND symbol = 'SUN'")[0]
    True
    """
    if len(text) > MAX_TEXT:
        return parse_predicate(text), ()
    pieces = _CUT.split(text)
    if "`" in text or "--" in text or "/*" in text:
        pieces = _without_names(pieces)
    values: list[Any] = []
    try:
        for raw in pieces[1::2]:
            if raw[0] == "'":
                value: Any = raw[1:-1]
                if raw[-1] != "'" or "\\" in value or "'" in value or len(raw) < 2:
                    value = _closed(raw)
            elif len(raw) > 18:
                value = _closed(raw)
            elif raw.isdigit():
                value = int(raw)
            elif raw.replace(".", "", 1).isdigit():
                value = Decimal(raw)
            else:
                value = _closed(raw)
            values.append(value)
        key: _Key = ("\0".join(pieces[::2]), *map(type, values))
        shape = _whole.get(key)
        if shape is None:
            shape = _learn(text, pieces, values, key)
        if shape.__class__ is tuple:
            shape = _whole.get((*key, *(values[i] for i in shape))) or _learn(text, pieces, values, key)
        if isinstance(shape, _Shape):
            return shape.predicate, shape.constants(values) if shape.decoders or shape.checks else tuple(values)
    except ValueError:
        pass  # a literal that makes no sense: the parser will say so in its own words
    return parse_predicate(text), ()


def _closed(raw: str) -> Any:
    """The value of a literal; ValueError for a string that never closes."""
    if raw[0] in "'\"" and not STRING_RE.fullmatch(raw):
        raise ValueError("a string that never closes")
    return literal(raw)


def _without_names(pieces: list[str]) -> list[str]:
    """The pieces with quoted names and comments put back into the text between the literals."""
    merged = [pieces[0]]
    for i in range(1, len(pieces), 2):
        if pieces[i][0] in "`-/":
            merged[-1] += pieces[i] + pieces[i + 1]
        else:
            merged += pieces[i : i + 2]
    return merged


def _learn(text: str, pieces: list[str], values: list[Any], key: _Key) -> _Shape | None:
    """The shape of a text seen for the first time; None if it cannot be told from the text alone."""
    composed = _compose(pieces, values, key)
    if composed is not None:
        _keep(_whole, key, composed)
        return composed
    spans = _spans(pieces)
    reader = Reader(text, spans)
    shape = _Shape(reader.read(), *_duties(reader))
    rest = sorted(reader.kept)
    if len(reader.taken) + len(rest) != len(values):
        return None
    if rest:
        _keep(_whole, key, tuple(rest))
        key = (*key, *(values[i] for i in rest))
    _keep(_whole, key, shape)
    return shape


def _spans(pieces: list[str], start: int = 0) -> dict[int, int]:
    """Where each literal begins, and its number."""
    spans = {}
    for i in range(1, len(pieces), 2):
        start += len(pieces[i - 1])
        spans[start] = i // 2
        start += len(pieces[i])
    return spans


def _duties(reader: Reader) -> tuple[tuple[tuple[int, Decoder], ...], tuple[_Check, ...]]:
    decoders = tuple((index, step) for index, steps in sorted(reader.decoders.items()) for step in steps)
    checks = tuple(check for check in reader.checks if any(isinstance(node, Parameter) for node in check[1]))
    return decoders, checks


def _keep(cache: dict[_Key, Any], key: _Key, shape: object) -> None:
    """Remembers a shape, unless it is very long; beyond the limit the oldest goes."""
    if len(key[0]) + len(key) > _MAX_KEPT:
        return
    if len(cache) >= MAX_SHAPES:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread may be quicker
            del cache[next(iter(cache))]
    cache[key] = shape


def _compose(pieces: list[str], values: list[Any], key: _Key) -> _Shape | None:
    """The shape of a conjunction from those of its conjuncts; None if it is none, or not surely one."""
    left, types = key[0], key[1:]
    items: list[Predicate] = []
    decoders: tuple[tuple[int, Decoder], ...] = ()
    checks: tuple[_Check, ...] = ()
    first = 0
    for conjunct in _conjuncts_of(left):
        last = first + conjunct.count("\0")
        shape = _conjuncts.get((conjunct, *types[first:last]))
        if shape is None:
            shape = _learn_conjunct(conjunct, pieces[2 * first + 1 : 2 * last : 2], types[first:last])
            if shape is None:
                return None
        shape = shape.shift(first) if first else shape
        items += shape.predicate.items if isinstance(shape.predicate, And) else (shape.predicate,)
        decoders += shape.decoders
        checks += shape.checks
        first = last
    # A NUL that stood in the text itself would be counted as a literal.
    return _Shape(And(tuple(items)), decoders, checks) if items and first == len(values) else None


def _learn_conjunct(left: str, raws: list[str], types: _Key) -> _Shape | None:
    """The shape of a conjunct seen for the first time."""
    parts = left.split("\0")
    if len(parts) != len(raws) + 1:
        return None
    pieces = [parts[0]]
    for raw, part in zip(raws, parts[1:], strict=True):
        pieces += [raw, part]
    reader = Reader("".join(pieces), _spans(pieces))
    try:
        shape = _Shape(reader.read(), *_duties(reader))
    except SluiceError:
        return None  # the parser will say so of the whole text
    if len(reader.taken) != len(raws):
        return None
    _keep(_conjuncts, (left, *types), shape)
    return shape


def _conjuncts_of(left: str) -> list[str]:
    """A text without literals, cut at the ANDs of its outermost level; empty if there is an OR, or nothing to cut."""
    if not _PLAIN.fullmatch(left):
        return []
    conjuncts = []
    depth = betweens = start = 0
    for found in _JOINT.finditer(left):
        word = found.group()
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        elif depth == 0 and word[0] != "`":
            word = word.upper()
            if word == "OR":
                return []
            if word == "BETWEEN":
                betweens += 1
            elif betweens:
                betweens -= 1
            else:
                conjuncts.append(left[start : found.start()].strip(_BLANKS))
                start = found.end()
    if conjuncts:
        conjuncts.append(left[start:].strip(_BLANKS))
    return conjuncts
