"""The filter language: the WHERE of Spark SQL, a subset, from text to predicate.

sqlglot's Spark dialect cuts the text into tokens and reads the operators. Names, literals, brackets and calls are
folded into single operands on the way, so nesting costs no recursion and every error knows its place. Whatever is not
in the subset is a `ParseError` that names it and says what to write instead. Names are case-sensitive, unlike Spark's
(section 4.3.2: a filter may be any boolean expression).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, cast

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from sluice.errors import LimitError, ParseError, SluiceError
from sluice.limits import MAX_DEPTH, MAX_TEXT
from sluice.model import registry
from sluice.model.calls import Argument, Calls
from sluice.model.literals import (
    CAST_TYPES,
    CLOSED_RE,
    NUMBER_RE,
    QUOTED_RE,
    RAW_RE,
    STRING_RE,
    TYPED,
    Decoder,
    cast_literal,
    literal,
)
from sluice.model.operators import DIALECT, ENDINGS
from sluice.model.predicate import (
    Attribute,
    Constant,
    Expression,
    Parameter,
    Predicate,
)
from sluice.model.vocabulary import (
    CLAUSES,
    FUNCTIONS,
    NO_TYPE,
    REFUSED_SYMBOLS,
    REFUSED_WORDS,
    SYMBOLS,
    VALUES,
    WHOLE_QUERY,
    WORDS,
)


def parse_predicate(text: str) -> Predicate:
    """The predicate that a WHERE text says.

    >>> parse_predicate("price > 10")
    Comparison(op='>', left=Attribute(name='price'), right=Constant(value=10))
    >>> parse_predicate("upper(symbol) = 'IBM'")
    Traceback (most recent call last):
    sluice.errors.ParseError: the function upper is not in the language; there are array_contains, ...
      upper(symbol) = 'IBM'
      ^
    """
    return Reader(text).read()


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokens without statements: otherwise what follows a first word such as SHOW or CALL would be one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _Frame:
    """An open bracket: what it belongs to and what it holds so far."""

    __slots__ = ("arguments", "kind", "name", "out", "position", "scope", "variable")

    def __init__(self, kind: str, name: str, position: int, scope: str | None) -> None:
        self.kind = kind  # "text" (the outermost), "group", "in", "call" or "cast"
        self.name = name
        self.position = position
        self.scope = scope  # the variable of the innermost element test around
        self.variable = ""  # of the lambda that is the argument being read
        self.out: list[Token] = []
        self.arguments: list[Argument] = []


class Reader(Calls):
    """Reads one text. `spans` says which literals become Parameters: where each begins, and its number.

    After `read`, `constants` has the values of the parameters, `decoders` how a parameter's value is made from the
    plain literal, `checks` what else the constants must pass; `taken` are the spans that became parameters, and `kept`
    those that are literals too but part of something larger.
    """

    def __init__(self, text: str, spans: Mapping[int, int] | None = None) -> None:
        super().__init__(text)
        self.spans = spans or {}
        self.taken: set[int] = set()
        self.kept: set[int] = set()
        self._tokens: list[Token] = []
        self._frames: list[_Frame] = []

    def read(self) -> Predicate:
        """The predicate; ParseError or LimitError for everything else."""
        if len(self.text) > MAX_TEXT:
            raise LimitError(
                f"the filter has {len(self.text)} characters, more than the limit of {MAX_TEXT}: "
                "split it into several subscriptions",
                self.text,
                MAX_TEXT,
            )
        try:
            self._tokens = _Tokenizer(dialect=DIALECT).tokenize(self.text)
            return self._whole()
        except SluiceError:
            raise
        except RecursionError:
            raise LimitError(
                "the filter is nested too deeply for the stack; write it with fewer brackets and NOTs", self.text, 0
            ) from None
        except SqlglotError:
            raise self._unreadable() from None

    # --- tokens into operands -----------------------------------------------------------------------------------------

    def _whole(self) -> Predicate:
        self._frames = [_Frame("text", "", 0, None)]
        if not self._tokens:
            raise ParseError("the filter is empty; write true to match everything", self.text, 0)
        at = 0
        prefixes = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            begin = at
            at = self._take(at)
            is_prefix = at == begin + 1 and self._raw(token).lower() in ("not", "!", "-", "+")
            prefixes = prefixes + 1 if is_prefix else 0
            if len(self._frames) + prefixes > MAX_DEPTH:
                raise LimitError(
                    f"the filter is nested deeper than {MAX_DEPTH} levels; write it with fewer brackets and NOTs",
                    self.text,
                    token.start,
                )
        if len(self._frames) > 1:
            raise self._error("this bracket is never closed", self._frames[-1].position)
        frame = self._frames[0]
        return self._condition(self._flat(frame.out, len(self.text)), self._start(frame.out))

    def _raw(self, token: Token) -> str:
        return self.text[token.start : token.end + 1]

    def _unreadable(self) -> ParseError:
        """What to say of a text that sqlglot cannot cut into tokens."""
        for found in CLOSED_RE.finditer(self.text):
            if found.group("open"):
                return self._error(f"{found.group()} opens here and never closes", found.start())
            if re.fullmatch(r"\W?[xX]", self.text[max(0, found.start() - 2) : found.start()]):
                try:
                    TYPED["x"](found.group()[1:-1])
                except ValueError as error:
                    return self._error(str(error), found.start() - 1)
        return self._error("the text cannot be read", 0)

    def _take(self, at: int) -> int:
        """Reads what begins with the token `at`, and says which token is next."""
        token = self._tokens[at]
        raw = self._raw(token)
        first = raw[:1]
        if first in ("'", '"'):
            return self._string(at)
        if first == "`" or first.isalnum() or first == "_" or (first == "." and self._next_is_digit(token)):
            return self._word(at, raw)
        if raw == "!" and self._is_complete():
            raise self._error("! may only stand before a condition; write NOT here", token.start)
        if raw == "+" and not self._is_complete():
            # sqlglot forgets a plus without a left side, even before a condition; before a number it means nothing.
            following = self.text[self._tokens[at + 1].start] if at + 1 < len(self._tokens) else ""
            if following not in tuple("0123456789."):
                raise self._error("this + has no left side; leave it out", token.start)
            return at + 1
        if raw in SYMBOLS:
            self._frames[-1].out.append(self._symbol(SYMBOLS[raw], token.start, token.end))
        elif raw == "(":
            if [self._raw(later) for later in self._tokens[at + 2 : at + 4]] == [")", "->"]:
                raise self._error("write the variable without brackets, as in exists(array, x -> x > 1)", token.start)
            self._open("group", "", token.start)
        elif raw == ")":
            self._close(at)
        elif raw == ",":
            self._comma(token.start)
        else:
            shown = raw.split()[0] if raw.split() else raw
            advice = REFUSED_SYMBOLS.get(shown, f"{shown[:20]!r} is not in the language")
            raise self._error(advice, token.start)
        return at + 1

    def _next_is_digit(self, token: Token) -> bool:
        return self.text[token.start + 1 : token.start + 2] in tuple("0123456789")

    def _symbol(self, kind: TokenType, start: int, end: int) -> Token:
        # The column is the offset: so sqlglot's own errors tell it.
        return Token(kind, self.text[start : end + 1], 1, start, start, end)

    def _push(self, node: Any, start: int, end: int, kind: TokenType = TokenType.NUMBER) -> None:
        """Appends an operand: a number for sqlglot, by which we find the node again."""
        self._expect_operand(start)
        self._nodes.append((node, start))
        self._frames[-1].out.append(Token(kind, str(len(self._nodes) - 1), 1, start, start, end))

    def _is_complete(self) -> bool:
        """Whether what was read so far could end here, so that an operator must follow."""
        out = self._frames[-1].out
        return bool(out) and out[-1].token_type in ENDINGS

    def _expect_operand(self, position: int) -> None:
        """An error if an operand stands right before `position` and another begins there."""
        if not self._is_complete():
            return
        word = cast(re.Match[str], re.match(r"\w*", self.text[position : position + 40])).group()
        if word.lower() in CLAUSES:
            raise self._error(
                f"{word.upper()} is not in the language: a filter is what follows WHERE and nothing more", position
            )
        raise self._error("an operator is missing before this: AND, OR, a comparison...", position)

    def _after(self, at: int, end: int) -> int:
        """The first token from `at` on that begins at `end` or later; an error if one straddles it."""
        while at < len(self._tokens) and self._tokens[at].start < end:
            if self._tokens[at].end >= end:
                raise self._error("this is not understood", self._tokens[at].start)
            at += 1
        return at

    def _literal_at(self, at: int) -> tuple[Any, int, int]:
        """The value of the string, raw string or number that begins with a token, its end, and the next token."""
        start = self._tokens[at].start
        for shape in (STRING_RE, RAW_RE, NUMBER_RE):
            if found := shape.match(self.text, start):
                return self._literal(found), found.end(), self._after(at, found.end())
        raise self._error("this is not a literal", start)

    def _literal(self, found: re.Match[str]) -> Any:
        out = self._frames[-1].out
        try:
            return literal(found.group(), after_minus=bool(out) and out[-1].token_type == TokenType.DASH)
        except ValueError as error:
            raise self._error(str(error), found.start()) from None

    def _is_string(self, at: int) -> bool:
        if at >= len(self._tokens):
            return False
        start = self._tokens[at].start
        return self.text[start] in "'\"" or RAW_RE.match(self.text, start) is not None

    def _string(self, at: int, decoder: Decoder | None = None, begin: int | None = None) -> int:
        """A string, or several in a row, which are one; with a decoder, the text of a typed literal."""
        starts = [self._tokens[at].start]
        value, end, at = self._literal_at(at)
        while self._is_string(at):
            starts.append(self._tokens[at].start)
            more, end, at = self._literal_at(at)
            value += more
        out = self._frames[-1].out
        is_escape = bool(out) and out[-1].token_type == TokenType.ESCAPE
        spans = [self.spans[start] for start in starts if start in self.spans]
        if is_escape or len(starts) > 1:
            self.kept.update(spans)
            spans = []
        if is_escape:
            self._push(Constant(value), starts[0], end - 1, TokenType.STRING)  # sqlglot wants a string after ESCAPE
        else:
            self._constant(value, starts[0], end, spans[0] if spans else None, decoder, begin)
        return at

    def _constant(
        self,
        value: Any,
        start: int,
        end: int,
        index: int | None,
        decoder: Decoder | None = None,
        begin: int | None = None,
    ) -> None:
        """Appends a literal as a Constant, or as a Parameter if it is one."""
        node: Expression
        if index is None:
            node = Constant(value)
        else:
            self.taken.add(index)
            self.constants[index] = value
            node = Parameter(index)
        if decoder is not None:
            node = self._decoded(node, decoder, start if begin is None else begin)
        self._push(node, start if begin is None else begin, end - 1)

    def _word(self, at: int, raw: str) -> int:
        """A name, a keyword, a call, a number or a literal with a type before it."""
        token = self._tokens[at]
        start = token.start
        if raw[0] in "0123456789." and not re.fullmatch(r"\w+", raw):
            return self._numeral(at)
        if raw[0] in "0123456789" and NUMBER_RE.fullmatch(raw):
            return self._numeral(at)
        if found := re.match(r"""(\w+)['"]""", raw):
            if found.group(1) in "rR":
                return self._string(at)
            if found.group(1) in "xX":
                return self._hexadecimal(at)
            raise self._error(NO_TYPE.format(word=found.group(1)), start)
        raw = raw.split()[0]  # sqlglot has tokens of several words, such as GROUP BY
        word = raw.lower()
        following = self._raw(self._tokens[at + 1]) if at + 1 < len(self._tokens) else ""
        if word in TYPED and self._is_string(at + 1):
            return self._string(at + 1, TYPED[word], start)
        frame = self._frames[-1]
        if word == "as" and frame.kind == "cast":
            return self._cast(at)
        if frame.out and frame.out[-1].token_type == TokenType.IS:
            return self._after_is(at, word)
        if following == "->":
            return self._arrow(at)
        if word in WORDS:
            frame.out.append(self._symbol(WORDS[word], start, token.end))
            if word == "in":
                if following != "(":
                    raise self._error("IN needs a list of literals in brackets, as in a IN (1, 2)", start)
                self._open("in", "", self._tokens[at + 1].start)
                return at + 2
            return at + 1
        if word in VALUES and following != "(" and following != ".":
            self._push(Constant(VALUES[word]), start, token.end)
            return at + 1
        if following == "(":
            return self._call(at, raw)
        if word == "select" and at == 0 and " where " in self.text.lower():
            raise self._error(WHOLE_QUERY, start)
        if word in REFUSED_WORDS and following != ".":
            advice = REFUSED_WORDS[word].format(word=raw.upper())
            if following in SYMBOLS or following.lower() in WORDS:
                advice += f" (an attribute of this name is written `{raw}`)"
            raise self._error(advice, start)
        if self._is_string(at + 1) and raw[0] != "`":
            raise self._error(NO_TYPE.format(word=raw), start)
        return self._name(at)

    def _numeral(self, at: int) -> int:
        start = self._tokens[at].start
        value, end, at = self._literal_at(at)
        if re.match(r"[\w.]", self.text[end : end + 1]):
            raise self._error("this is not a number", start)
        self._constant(value, start, end, self.spans.get(start))
        return at

    def _hexadecimal(self, at: int) -> int:
        """X'1F' in one token: the quotes begin after the X."""
        start = self._tokens[at].start
        found = STRING_RE.match(self.text, start + 1)
        if found is None:
            raise self._error("this is not understood", start)
        index = self.spans.get(start + 1)
        self._constant(self._literal(found), start, found.end(), index, TYPED["x"])
        return self._after(at, found.end())

    def _part(self, at: int) -> tuple[str, int]:
        """One part of a dotted name, and the next token."""
        token = self._tokens[at]
        if self.text[token.start] == "`":
            found = QUOTED_RE.match(self.text, token.start)
            if found is None or "\0" in found.group():
                raise self._error("this is not a name", token.start)
            return found.group()[1:-1].replace("``", "`"), self._after(at, found.end())
        raw = self._raw(token)
        if not re.fullmatch(r"[^\W\d]\w*", raw):
            self._expect_operand(token.start)
            raise self._error(
                f"{raw[:40]!r} is not a name; if it is meant to be one, write it in backquotes", token.start
            )
        return raw, at + 1

    def _name(self, at: int) -> int:
        """An attribute: names joined by dots. Inside an element test it must begin with the variable."""
        start = self._tokens[at].start
        part, at = self._part(at)
        parts = [part]
        while at < len(self._tokens) and self._raw(self._tokens[at]) == ".":
            if at + 1 == len(self._tokens):
                raise self._error("a name is missing after the dot", self._tokens[at].start)
            if self.text[self._tokens[at + 1].start] in "*(":
                raise self._error("only a name may follow a dot", self._tokens[at + 1].start)
            part, at = self._part(at + 1)
            parts.append(part)
        if at < len(self._tokens) and self._raw(self._tokens[at]) == "(":
            raise self._error("this is not a function of the language", start)
        scope = self._scope()
        if scope is not None:
            if parts[0] != scope:
                raise self._error(
                    f"inside the brackets of {scope} -> ... there are {scope} and its fields only; "
                    f"write {scope}.{parts[0]}, or test {parts[0]} outside",
                    start,
                )
            del parts[0]
        if parts == [""]:
            raise self._error("a name must not be empty", start)
        self._push(Attribute(".".join(parts)), start, self._tokens[at - 1].end)
        return at

    def _scope(self) -> str | None:
        """The variable of the innermost element test around."""
        frame = self._frames[-1]
        return frame.variable or frame.scope

    def _after_is(self, at: int, word: str) -> int:
        """IS [NOT] NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM."""
        frame = self._frames[-1]
        kinds = {"null": TokenType.NULL, "unknown": TokenType.NULL, "true": TokenType.TRUE, "false": TokenType.FALSE}
        start = self._tokens[at].start
        if word == "not" and at + 1 < len(self._tokens):
            frame.out.append(self._symbol(TokenType.NOT, start, self._tokens[at].end))
            at += 1
            word = self._raw(self._tokens[at]).lower()
        token = self._tokens[at]
        if word in kinds:
            frame.out.append(self._symbol(kinds[word], token.start, token.end))
            return at + 1
        if word == "distinct" and at + 1 < len(self._tokens) and self._raw(self._tokens[at + 1]).lower() == "from":
            last = self._tokens[at + 1]
            frame.out.append(self._symbol(TokenType.DISTINCT, token.start, token.end))
            frame.out.append(self._symbol(TokenType.FROM, last.start, last.end))
            return at + 2
        raise self._error("IS is followed by [NOT] NULL, TRUE, FALSE or DISTINCT FROM", start)

    # --- brackets -----------------------------------------------------------------------------------------------------

    def _open(self, kind: str, name: str, position: int) -> None:
        if kind != "in":
            self._expect_operand(position)
        self._frames.append(_Frame(kind, name, position, self._scope()))

    def _call(self, at: int, raw: str) -> int:
        """A word before a bracket: a function, or CAST."""
        start = self._tokens[at].start
        name = raw.lower()
        if name == "cast":
            self._open("cast", name, start)
        elif name in FUNCTIONS or registry.is_registered(name) or self._is_list(name):
            self._open("call", name, start)
        elif name in REFUSED_WORDS:
            raise self._error(REFUSED_WORDS[name].format(word=raw.upper()), start)
        else:
            there = ", ".join(sorted({*FUNCTIONS, *registry.names()}))
            raise self._error(f"the function {raw} is not in the language; there are {there}", start)
        return at + 2

    def _is_list(self, name: str) -> bool:
        return name == "array" and self._frames[-1].name == "arrays_overlap"

    def _arrow(self, at: int) -> int:
        """`x ->` at the start of an argument of exists or forall."""
        frame = self._frames[-1]
        token = self._tokens[at]
        if frame.name not in ("exists", "forall") or len(frame.arguments) != 1 or frame.out or frame.variable:
            raise self._error(REFUSED_SYMBOLS["->"], token.start)
        variable, _ = self._part(at)
        if not variable:
            raise self._error("a name must not be empty", token.start)
        frame.variable = variable
        return at + 2

    def _comma(self, position: int) -> None:
        frame = self._frames[-1]
        if frame.kind not in ("in", "call"):
            raise self._error("a comma belongs into IN (...) and into calls only", position)
        self._argument(position)

    def _argument(self, end: int) -> None:
        """Finishes the argument being read."""
        frame = self._frames[-1]
        node = self._flat(frame.out, end)
        frame.arguments.append((node, self._start(frame.out), frame.variable))
        frame.out = []
        frame.variable = ""

    def _start(self, out: list[Token]) -> int:
        return out[0].start if out else 0

    def _close(self, at: int) -> None:
        token = self._tokens[at]
        frame = self._frames[-1]
        if frame.kind == "text":
            raise self._error("this bracket was never opened", token.start)
        if frame.kind == "cast":
            raise self._error("write CAST(literal AS type)", frame.position)
        if frame.out or frame.variable or frame.arguments or frame.kind == "group":
            self._argument(token.start)
        self._frames.pop()
        node: Any
        if frame.kind == "group":
            node = frame.arguments[0][0]
        elif frame.kind == "in":
            node = tuple(self._literals(frame.arguments, "IN"))
            if not node:
                raise self._error("IN needs at least one literal", frame.position)
            self._frames[-1].out.append(self._symbol(TokenType.L_PAREN, frame.position, frame.position))
            self._push(node, frame.position, token.end)
            self._frames[-1].out.append(self._symbol(TokenType.R_PAREN, token.start, token.end))
            return
        elif frame.name == "array":
            node = tuple(self._literals(frame.arguments, "array"))
            if not node:
                raise self._error("array() needs at least one literal", frame.position)
        else:
            node = self._function(frame.name, frame.arguments, frame.position)
        self._push(node, frame.position, token.end)

    def _cast(self, at: int) -> int:
        """`AS type)`."""
        frame = self._frames.pop()
        position = self._start(frame.out)
        node = self._flat(frame.out, self._tokens[at].start)
        words = [self._raw(token) for token in self._tokens[at + 1 : at + 3]]
        if len(words) < 2 or words[1] != ")":
            raise self._error(
                f"write CAST(literal AS type) with one of {', '.join(CAST_TYPES)}", self._tokens[at].start
            )
        if not isinstance(node, Constant | Parameter):
            raise self._error(
                "only a literal can be cast; write the comparison with a literal of the attribute's type", position
            )
        decoded = self._decoded(node, partial(cast_literal, words[0].lower()), position)
        self._push(decoded, frame.position, self._tokens[at + 2].end)
        return at + 3

    def _literals(self, arguments: list[Argument], where: str) -> list[Expression]:
        for node, position, _ in arguments:
            if not isinstance(node, Constant | Parameter):
                raise self._error(
                    f"only literals may stand in {where}; write other comparisons with = and OR", position
                )
        return [node for node, _, _ in arguments]
