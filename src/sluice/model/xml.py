"""Path filters on XML documents: `xpath_boolean(doc, '//cpu[@maker="AMD" and @clock>=700]')`.

A document is read once into a list of elements, each a flat record of its path (`/`), the text of its attributes
(`@clock`) and their numbers (`#clock`). A path filter is then an ordinary box over these: the element selector is its
side `/`, the attribute filters are the others, and covering of selectors, element filters and path filters (section
4.4.3) is covering of boxes. No document is trusted: one that is malformed, too large or declares a DTD is NULL.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NoReturn
from xml.parsers import expat

from sluice.limits import MAX_DEPTH, MAX_FILTERS, MAX_XML, MAX_XML_PATH
from sluice.model import ordered
from sluice.model.constraint import Atom, Constraint
from sluice.model.filter import Filter
from sluice.model.ordered import ABSENT, Ordered, of_kind
from sluice.model.pattern import suffix
from sluice.model.values import Kind, Value, literal_sql, name_sql

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
#: An element: its path, its attributes as text and as numbers.
Element = dict[str, str | float]

_FLIPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARED = {
    "<": ordered.less_than,
    "<=": ordered.at_most,
    ">": ordered.greater_than,
    ">=": ordered.at_least,
    "=": ordered.equals,
}


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """`@name op literal`, or `@name` alone: the attribute is there."""

    name: str
    op: Operator | None = None
    literal: str | float = ""

    def sides(self) -> Iterable[tuple[str, Constraint]]:
        """The test as sides of a box. What it implies is said too, so that covering sees it."""
        text, number = f"@{self.name}", f"#{self.name}"
        yield text, of_kind(Kind.STRING)
        if self.op is None:
            return
        if isinstance(self.literal, str) and self.op in ("=", "!="):
            if self.op == "=":
                yield text, ordered.equals(self.literal)
                value = to_number(self.literal)
                yield number, ABSENT if value is None else ordered.equals(value)
            else:
                yield text, ordered.differs(self.literal)
            return
        value = to_number(self.literal) if isinstance(self.literal, str) else self.literal
        if value is None:
            yield number, Ordered.NOTHING
        elif self.op == "!=":
            # In XPath, a text that is no number differs from every number.
            yield number, ordered.equals(value).complement()
        else:
            yield number, _COMPARED[self.op](value)

    def __str__(self) -> str:
        if self.op is None:
            return f"@{self.name}"
        if isinstance(self.literal, str):
            quote = "'" if '"' in self.literal else '"'
            return f"@{self.name}{self.op}{quote}{self.literal}{quote}"
        # XPath has no exponents.
        digits = f"{Decimal(repr(self.literal)):f}".removesuffix(".0")
        return f"@{self.name}{self.op}{digits}"


@dataclass(frozen=True, slots=True)
class Path:
    """A path filter: an element selector, absolute (`/a/b`) or abbreviated (`//b`), and tests of the attributes."""

    absolute: bool
    steps: tuple[str, ...]
    tests: tuple[AttributeTest, ...] = ()
    filter: Filter = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tests", tuple(sorted(set(self.tests), key=str)))
        selector = "".join(f"/{step}" for step in self.steps)
        # An absolute path covers no abbreviated one. The dissertation lets /notification cover //notification, because
        # there the root, and no other element, has that name; in general //a also selects elements further down.
        box = Filter.of({"/": ordered.equals(selector) if self.absolute else suffix(selector)})
        for test in self.tests:
            for name, side in test.sides():
                box = box.intersect(Filter.of({name: side}))
        object.__setattr__(self, "filter", box)

    def __str__(self) -> str:
        tests = f"[{' and '.join(map(str, self.tests))}]" if self.tests else ""
        return f"{'/' if self.absolute else '//'}{'/'.join(self.steps)}{tests}"


@dataclass(frozen=True, slots=True)
class XPath(Atom):
    """The documents in which some element satisfies one of the path filters.

    >>> amd = xpath_boolean('//cpu[@maker="AMD"]')
    >>> amd.matches('<notification><cpu maker="AMD" clock="800"/></notification>')
    True
    >>> amd.covers(xpath_boolean('/notification/cpu[@maker="AMD" and @clock>=700]'))
    True
    """

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        kept: list[Path] = []
        for path in self.paths:
            if not any(other.filter.covers(path.filter) for other in kept):
                kept = [other for other in kept if not path.filter.covers(other.filter)]
                kept.append(path)
        object.__setattr__(self, "paths", tuple(sorted(kept, key=str)))

    def domain(self) -> Ordered:
        return of_kind(Kind.STRING)

    def applies(self, value: Value) -> bool:
        return isinstance(value, str) and read_document(value) is not None

    def matches(self, value: Value) -> bool:
        elements = read_document(value) if isinstance(value, str) else None
        return elements is not None and any(path.filter.matches(element) for element in elements for path in self.paths)

    def covers_same(self, other: XPath) -> bool:
        return all(any(mine.filter.covers(theirs.filter) for mine in self.paths) for theirs in other.paths)

    def overlaps_same(self, other: XPath) -> bool:
        # Different elements of one document may satisfy the two.
        return True

    def union_same(self, other: XPath) -> Constraint | None:
        both = XPath(self.paths + other.paths)
        return both if len(both.paths) <= MAX_FILTERS else None

    def to_sql(self, name: str) -> str:
        return f"xpath_boolean({name_sql(name)}, {literal_sql(' | '.join(map(str, self.paths)))})"


def xpath_boolean(path: Any) -> XPath:
    """The test that `xpath_boolean(document, path)` is; ValueError says where a path is wrong and what to write."""
    if not isinstance(path, str):
        raise ValueError("the path is a string: write xpath_boolean(doc, '//cpu[@clock>=700]')")
    return XPath(_Parser(path).paths())


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<symbol>//|/|\[|\]|@|\||!=|<=|>=|=|<|>|-)
    | (?P<string>"[^"]*"|'[^']*')
    | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    | (?P<name>[^\W\d][\w.\-]*)
    | (?P<end>\Z)
    | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Parser:
    """Reads `path | path | ...`, where a path is steps by name with tests of attributes behind the last."""

    def __init__(self, text: str) -> None:
        self.tokens: list[_Token] = []
        position = 0
        while not self.tokens or self.tokens[-1].kind != "end":
            found = _TOKEN.match(text, position)
            assert found is not None  # some alternative always matches
            kind = str(found.lastgroup)
            self.tokens.append(_Token(kind, found[kind], found.start(kind)))
            position = found.end()
        self.next = 0

    def paths(self) -> tuple[Path, ...]:
        found = [self.path()]
        while self.take("|"):
            found.append(self.path())
            if len(found) > MAX_FILTERS:
                self.fail(f"more than {MAX_FILTERS} paths", "split them into several subscriptions")
        if self.token.kind != "end":
            self.fail_here("write names such as /order/item or //item, then tests in [...]; several paths with |")
        return tuple(found)

    def path(self) -> Path:
        if not self.take("//"):
            absolute = True
            if not self.take("/"):
                self.fail_here("begin the path with / (from the root) or // (anywhere)")
        else:
            absolute = False
        steps = [self.name("an element")]
        while self.take("/"):
            if self.token.text == "@":
                self.fail_here("test an attribute in brackets: //item[@price]")
            steps.append(self.name("an element"))
        if self.token.text == "//":
            self.fail_here("// may only stand at the beginning; write all names between with /")
        tests: list[AttributeTest] = []
        while self.take("["):
            tests.append(self.test())
            while self.token.kind == "name" and self.token.text == "and":
                self.next += 1
                tests.append(self.test())
            if not self.take("]"):
                self.fail_here("join tests with and, and close them with ]; instead of or, write two paths with |")
        if self.token.text in ("/", "//"):
            self.fail_here("tests in [...] may only stand behind the last name of the path")
        return Path(absolute, tuple(steps), tuple(tests))

    def test(self) -> AttributeTest:
        if self.take("@"):
            name = self.name("an attribute")
            op = self.operator()
            return AttributeTest(name, op, self.literal()) if op else AttributeTest(name)
        if self.token.kind not in ("string", "number") and self.token.text != "-":
            self.fail_here('test an attribute: [@clock>=700] or [@maker="AMD"]')
        literal = self.literal()
        op = self.operator()
        if op is None or not self.take("@"):
            self.fail_here('compare a literal with an attribute: [@clock>=700] or [@maker="AMD"]')
        return AttributeTest(self.name("an attribute"), _FLIPPED[op], literal)

    def operator(self) -> Operator | None:
        op = _OPERATORS.get(self.token.text) if self.token.kind == "symbol" else None
        if op is not None:
            self.next += 1
        return op

    def literal(self) -> str | float:
        minus = self.take("-")
        token = self.token
        if token.kind == "number":
            self.next += 1
            value = float(token.text)
            if value == float("inf"):
                self.next -= 1
                self.fail_here("use a number that a double can hold")
            return -value if minus else value
        if token.kind == "string" and not minus:
            self.next += 1
            return token.text[1:-1]
        self.fail_here('compare with a number such as 700 or -0.5, or with a string such as "AMD"')

    def name(self, of_what: str) -> str:
        token = self.token
        if token.kind != "name":
            self.fail_here(f"here stands the name of {of_what}; * and functions are not supported")
        self.next += 1
        if self.token.text == ":":
            self.fail_here("names with a namespace prefix are not supported; name the element without one")
        return token.text

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def take(self, symbol: str) -> bool:
        if self.token.kind == "symbol" and self.token.text == symbol:
            self.next += 1
            return True
        return False

    def fail_here(self, advice: str) -> NoReturn:
        at_end = self.token.kind == "end"
        self.fail("the path ends too early" if at_end else f"{self.token.text!r} is not understood", advice)

    def fail(self, problem: str, advice: str) -> NoReturn:
        raise ValueError(f"{problem} (character {self.token.position} of the path): {advice}")


_OPERATORS: dict[str, Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*\Z")


def to_number(text: str) -> float | None:
    """What XPath's number() makes of a text, None for NaN: no exponent, no plus sign.

    >>> to_number(" -3.50 "), to_number("1e3"), to_number("")
    (-3.5, None, None)
    """
    found = _NUMBER.match(text)
    return float(found[1]) if found else None


class _RefusedError(Exception):
    """The document is over a limit, or has declarations."""


class _Builder:
    """Collects the elements while expat reads."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self.open: list[str] = [""]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        path = f"{self.open[-1]}/{tag}"
        if len(self.open) > MAX_DEPTH or len(path) > MAX_XML_PATH:
            raise _RefusedError
        self.open.append(path)
        element: Element = {"/": path}
        # As in Spark, prefixes of attributes are ignored, and declarations of namespaces are no attributes.
        for name in sorted(attributes, key=lambda name: ":" not in name):
            prefix, _, local = name.rpartition(":")
            if "xmlns" not in (prefix, name):
                text = attributes[name]
                element[f"@{local}"] = text
                number = to_number(text)
                if number is None:
                    element.pop(f"#{local}", None)
                else:
                    element[f"#{local}"] = number
        self.elements.append(element)

    def end(self, tag: str) -> None:
        self.open.pop()

    def doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:
        # Entities and default values can blow a small document up, and an external definition is somebody else's file.
        if system_id is not None or public_id is not None or has_internal_subset:
            raise _RefusedError


@functools.lru_cache(maxsize=16)
def read_document(text: str) -> tuple[Element, ...] | None:
    """The elements of a document in order; None if it is not one, is over a limit, or declares anything in a DTD."""
    if len(text) > MAX_XML or text.startswith("\ufeff"):
        return None
    builder = _Builder()
    # The text is decoded already, so an encoding that it names does not count.
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError, _RefusedError):
        return None
    return tuple(builder.elements)
