"""Tests registered by name: what is refused, and that a stranger's factory cannot break the language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from sqlglot.dialects.spark import Spark

from sluice.errors import ParseError, SluiceError
from sluice.model import registry
from sluice.model.constraint import Atom
from sluice.model.parse import parse
from sluice.model.types import instanceof
from sluice.model.values import Value, literal_sql, name_sql
from sluice.model.vocabulary import CLAUSES, FUNCTIONS, REFUSED_WORDS, VALUES, WORDS

KEYWORDS = {word.lower() for word in Spark.Tokenizer.KEYWORDS if word.isidentifier()}


@dataclass(frozen=True, slots=True)
class Divisible(Atom):
    """Whole numbers that are divisible by another."""

    by: int

    def matches(self, value: Value) -> bool:
        return isinstance(value, int) and value % self.by == 0

    def applies(self, value: Value) -> bool:
        return isinstance(value, int)

    def covers_same(self, other: Divisible) -> bool:
        return other.by % self.by == 0

    def overlaps_same(self, other: Divisible) -> bool:
        return True

    def to_sql(self, name: str) -> str:
        return f"divisible({name_sql(name)}, {literal_sql(self.by)})"


def broken(*arguments: Any) -> Atom:
    raise ZeroDivisionError("oh")


def no_atom(by: Any) -> Any:
    return by


registry.register("divisible", Divisible)
registry.register("Broken", broken)
registry.register("no_atom", no_atom)


def test_a_registered_test_is_part_of_the_language() -> None:
    even, fours = parse("divisible(n, 2)"), parse("DIVISIBLE(n, 4) AND size > 3")
    assert even.matches({"n": 6}) and not even.matches({"n": 7}) and not even.matches({})
    assert parse("NOT divisible(n, 2)").matches({"n": 7}) and not parse("NOT divisible(n, 2)").matches({"n": "7"})
    assert even.covers(fours) and not fours.covers(even) and even.overlaps(fours)
    assert parse(fours.to_sql()) == fours


def test_names() -> None:
    assert {"divisible", "geo_within", "instanceof", "xpath_boolean"} <= set(registry.names())
    assert list(registry.names()) == sorted(registry.names())
    assert registry.is_registered("Divisible") and not registry.is_registered("prime")


@pytest.mark.parametrize("name", ["", "2x", "a b", "a-b", "ä", "exists", "CONTAINS", "and", "divisible", "instanceof"])
def test_names_that_cannot_be_registered(name: str) -> None:
    with pytest.raises(SluiceError, match=r"cannot be called|is taken"):
        registry.register(name, broken)


@pytest.mark.parametrize("word", sorted({*WORDS, *VALUES, *FUNCTIONS, *REFUSED_WORDS, *CLAUSES, *KEYWORDS}))
def test_a_name_can_be_called_or_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    try:
        registry.register(word, Divisible)
    except SluiceError as error:
        assert "is taken" in str(error)
    else:
        assert parse(f"b = 1 AND {word}(a, 4)").matches({"a": 8, "b": 1})


def test_registering_the_same_again_does_nothing() -> None:
    registry.register("divisible", Divisible)
    registry.register("instanceof", instanceof)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("divisible(n)", r"write divisible\(attribute, by\)"),
        ("divisible(n, 1, 2)", r"write divisible\(attribute, by\)"),
        ("broken(n)", "broken: oh"),
        ("no_atom(n, 5)", "gave int, and not an Atom"),
        ("prime(n)", "prime"),
    ],
)
def test_wrong_calls_are_parse_errors(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        parse(text)


def test_make_raises_only_value_errors() -> None:
    assert registry.make("divisible", 3) == Divisible(3)
    for name, arguments in (("prime", ()), ("divisible", ()), ("broken", (1,)), ("no_atom", (1,))):
        with pytest.raises(ValueError):
            registry.make(name, *arguments)
