"""String patterns: LIKE, suffix and substring as one constraint, with exact covering and overlap.

A pattern is a sequence of literal strings, ANY_ONE (`_`) and ANY_RUN (`%`) in one canonical spelling. What is an
interval of strings (no wildcard, or one `%` at the end) becomes an `Ordered` instead. Matching never backtracks,
covering is exact language inclusion and overlap exact intersection of two globs (table 4.5 of section 4.3.3 is a
special case).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from sluice.model.constraint import Atom, Constraint
from sluice.model.ordered import Ordered, equals, of_kind, prefix
from sluice.model.values import Kind, Value, literal_sql, name_sql


class Wild(Enum):
    """The wildcards of LIKE."""

    ONE = "_"
    RUN = "%"

    def __repr__(self) -> str:
        return f"ANY_{self.name}"


ANY_ONE = Wild.ONE
ANY_RUN = Wild.RUN
Token = str | Wild

#: Work that covering or overlap may take before the safe answer is given: patterns that people write need hundreds.
MAX_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class Pattern(Atom):
    """The strings that a LIKE pattern matches; `like`, `suffix` and `substring` make one.

    >>> like("a%z").matches("abcz"), like("a%z").matches("abc"), like("a_c").matches("abc")
    (True, False, True)
    >>> substring("b").covers(suffix("abc")), suffix("c").covers(suffix("bc")), suffix("bc").covers(suffix("c"))
    (True, True, False)
    """

    tokens: tuple[Token, ...]
    _matcher: _Matcher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matcher", _Matcher(self.tokens))

    def matches(self, value: Value) -> bool:
        return isinstance(value, str) and self._matcher.matches(value)

    def domain(self) -> Ordered:
        return of_kind(Kind.STRING)

    def applies(self, value: Value) -> bool:
        return isinstance(value, str)

    def hull(self) -> Ordered:
        first = self.tokens[0] if self.tokens else ANY_RUN
        return prefix(first) if isinstance(first, str) else of_kind(Kind.STRING)

    def covers_same(self, other: Pattern) -> bool:
        """Exact inclusion, but for patterns so large that the search is given up: then no."""
        return _includes(_flat(self.tokens), _flat(other.tokens))

    def overlaps_same(self, other: Pattern) -> bool:
        """Exact, but for patterns so large that the search is given up: then yes."""
        return _intersects(_flat(self.tokens), _flat(other.tokens))

    def to_sql(self, name: str) -> str:
        match self.tokens:
            case (Wild.RUN, str(text)):
                return f"endswith({name_sql(name)}, {literal_sql(text)})"
            case (Wild.RUN, str(text), Wild.RUN):
                return f"contains({name_sql(name)}, {literal_sql(text)})"
        return f"{name_sql(name)} LIKE {literal_sql(spelled(self.tokens))}"


def like(pattern: str, escape: str = "\\") -> Constraint:
    r"""What `LIKE pattern ESCAPE escape` matches: an Ordered where it is an interval, else a Pattern.

    >>> like("abc"), like("abc%"), like("%_%x")
    (Ordered(x = 'abc'), Ordered(startswith(x, 'abc')), Pattern(tokens=(ANY_ONE, ANY_RUN, 'x')))
    >>> like(r"50\%").matches("50%")
    True
    """
    return from_tokens(parse(pattern, escape))


def suffix(text: str) -> Constraint:
    """Every string that ends with `text`."""
    return from_tokens((ANY_RUN, text))


def substring(text: str) -> Constraint:
    """Every string that contains `text`."""
    return from_tokens((ANY_RUN, text, ANY_RUN))


def from_tokens(tokens: Iterable[Token]) -> Constraint:
    """The constraint for these tokens, in canonical form."""
    match canonical(tokens):
        case ():
            return equals("")
        case (str(text),):
            return equals(text)
        case (str(text), Wild.RUN):
            return prefix(text)
        case (Wild.RUN,):
            return of_kind(Kind.STRING)
        case short:
            return Pattern(short)


def parse(pattern: str, escape: str = "\\") -> tuple[Token, ...]:
    """The tokens of a LIKE pattern; ValueError for an escape that Spark refuses too."""
    tokens: list[Token] = []
    run: list[str] = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == escape:
            i += 1
            if i == len(pattern):
                raise ValueError(f"the pattern ends in its escape character {escape!r}; write it twice to mean itself")
            if pattern[i] not in ("_", "%", escape):
                raise ValueError(f"the escape character {escape!r} may only stand before _, % or itself")
            run.append(pattern[i])
        elif char in "_%":
            tokens += ["".join(run), ANY_ONE if char == "_" else ANY_RUN]
            run = []
        else:
            run.append(char)
        i += 1
    tokens.append("".join(run))
    return canonical(tokens)


def canonical(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """The one spelling: neighbouring literals joined, and in each stretch of wildcards every `_` before a single `%`.

    >>> canonical(["a", "b", ANY_RUN, ANY_ONE, ANY_RUN, "", ANY_RUN])
    ('ab', ANY_ONE, ANY_RUN)
    """
    short: list[Token] = []
    literal: list[str] = []
    run = False
    for token in tokens:
        if isinstance(token, str):
            if token and run:
                short.append(ANY_RUN)
                run = False
            literal.append(token)
            continue
        if text := "".join(literal):
            short.append(text)
        literal = []
        if token is ANY_RUN:
            run = True
        else:
            short.append(ANY_ONE)
    if run:
        short.append(ANY_RUN)
    if text := "".join(literal):
        short.append(text)
    return tuple(short)


def spelled(tokens: tuple[Token, ...]) -> str:
    """The tokens as a LIKE pattern with the default escape."""
    escapes = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})
    return "".join(token.translate(escapes) if isinstance(token, str) else token.value for token in tokens)


class _Matcher:
    """Matches the stretches between the `%`: the first at the start, the last at the end, the others leftmost in turn.

    Taking the leftmost place for each stretch is always right, so nothing is ever tried twice.
    """

    __slots__ = ("exact", "first", "last", "least", "middle")

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        stretches: list[list[str | Wild]] = [[]]
        for token in tokens:
            if token is ANY_RUN:
                stretches.append([])
            else:
                stretches[-1].append(token)
        pieces = [_Stretch(stretch) for stretch in stretches]
        self.exact = len(pieces) == 1
        self.first, self.middle, self.last = pieces[0], pieces[1:-1], pieces[-1]
        self.least = sum(piece.length for piece in pieces)

    def matches(self, value: str) -> bool:
        if self.exact:
            return len(value) == self.first.length and self.first.at(value, 0)
        if len(value) < self.least:
            return False
        end = len(value) - self.last.length
        if not self.last.at(value, end) or not self.first.at(value, 0):
            return False
        place = self.first.length
        for piece in self.middle:
            found = piece.find(value, place, end)
            if found < 0:
                return False
            place = found + piece.length
        return True


class _Stretch:
    """A part of a pattern of fixed length: literals and `_`."""

    __slots__ = ("length", "regex", "text")

    def __init__(self, tokens: list[str | Wild]) -> None:
        self.length = sum(len(token) if isinstance(token, str) else 1 for token in tokens)
        literal = all(isinstance(token, str) for token in tokens)
        self.text = "".join(token for token in tokens if isinstance(token, str)) if literal else ""
        # Literals and dots only: this expression has nothing to backtrack over.
        source = "".join(re.escape(token) if isinstance(token, str) else "." for token in tokens)
        self.regex = None if literal else re.compile(source, re.DOTALL)

    def at(self, value: str, place: int) -> bool:
        if self.regex is None:
            return value.startswith(self.text, place)
        return self.regex.match(value, place) is not None

    def find(self, value: str, start: int, end: int) -> int:
        if self.regex is None:
            return value.find(self.text, start, end)
        found = self.regex.search(value, start, end)
        return found.start() if found else -1


def _flat(tokens: tuple[Token, ...]) -> list[str | Wild]:
    """The tokens character by character."""
    flat: list[str | Wild] = []
    for token in tokens:
        flat += token if isinstance(token, str) else [token]
    return flat


def _includes(outer: list[str | Wild], inner: list[str | Wild]) -> bool:
    """Whether every string of `inner` is one of `outer`.

    It is enough to try strings in which the wildcards of `inner` stand for a character that `outer` does not name:
    where `outer` accepts that character it accepts any. So we follow `inner` with the set of places where `outer` may
    be (the bits of an integer); a `%` of `inner` may end here, or take one more such character.
    """
    runs = 0
    ones = 0
    letters: dict[str, int] = {}
    for i, token in enumerate(outer):
        if token is ANY_RUN:
            runs |= 1 << i
        elif token is ANY_ONE:
            ones |= 1 << i
        else:
            assert isinstance(token, str)
            letters[token] = letters.get(token, 0) | 1 << i

    def settle(places: int) -> int:
        return places | (places & runs) << 1

    def step(places: int, letter: str | None) -> int:
        onward = places & (ones | (letters.get(letter, 0) if letter is not None else 0))
        return settle(onward << 1 | places & runs)

    start = (0, settle(1))
    seen = {start}
    open_ends = [start]
    while open_ends:
        at, places = open_ends.pop()
        if places == 0 or len(seen) > MAX_STEPS // (1 + len(outer) // 64):
            return False
        if at == len(inner):
            if not places >> len(outer) & 1:
                return False
            continue
        token = inner[at]
        if token is ANY_RUN:
            nexts = [(at + 1, places), (at, step(places, None))]
        else:
            nexts = [(at + 1, step(places, token if isinstance(token, str) else None))]
        for follower in nexts:
            if follower not in seen:
                seen.add(follower)
                open_ends.append(follower)
    return True


def _intersects(a: list[str | Wild], b: list[str | Wild]) -> bool:
    """Whether some string matches both: a walk over the pairs of places that one string can reach."""
    seen = {(0, 0)}
    open_ends = [(0, 0)]
    while open_ends:
        i, j = open_ends.pop()
        if i == len(a) and j == len(b):
            return True
        if len(seen) > MAX_STEPS:
            return True
        x = a[i] if i < len(a) else None
        y = b[j] if j < len(b) else None
        nexts = []
        if x is ANY_RUN:
            nexts += [(i + 1, j), (i, j + 1)] if y is not None else [(i + 1, j)]
        elif y is ANY_RUN:
            nexts += [(i, j + 1), (i + 1, j)] if x is not None else [(i, j + 1)]
        elif x is not None and y is not None and (x == y or x is ANY_ONE or y is ANY_ONE):
            nexts.append((i + 1, j + 1))
        for follower in nexts:
            if follower not in seen:
                seen.add(follower)
                open_ends.append(follower)
    return False
