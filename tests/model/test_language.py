"""The language: every construct as a readable pair, every error with its place, and no other exception for any text."""

from __future__ import annotations

import pickle
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

import sluice
from sluice.errors import LimitError, ParseError, SluiceError
from sluice.limits import MAX_DEPTH, MAX_SHAPES, MAX_TEXT
from sluice.model import shapes
from sluice.model.expression import bind, to_sql
from sluice.model.language import parse_predicate
from sluice.model.predicate import And, Attribute, Comparison, Constant, Parameter, Predicate
from sluice.model.shapes import parse_shape
from sluice.model.values import name_sql
from tests.model.predicates import names, predicates

FIXTURE = Path(__file__).parent / "fixtures" / "language.txt"
ROWS = [line for line in FIXTURE.read_text().splitlines() if line and not line.startswith("#")]
GOOD = [re.split(r"\s+=> ", row, maxsplit=1) for row in ROWS if re.search(r"\s=> ", row)]
BAD = [re.split(r"\s*!! ", row, maxsplit=1) for row in ROWS if re.search(r"\s!! ", row)]


def test_every_row_of_the_fixture_is_read() -> None:
    assert len(GOOD) + len(BAD) == len(ROWS)
    assert len(GOOD) > 70
    assert len(BAD) > 70


@pytest.mark.parametrize(("text", "canonical"), GOOD)
def test_a_text_means_its_canonical_text(text: str, canonical: str) -> None:
    assert to_sql(parse_predicate(text)) == canonical
    assert exact(parse_predicate(canonical)) == exact(parse_predicate(text))
    assert exact(from_shape(text)) == exact(parse_predicate(text))


@pytest.mark.parametrize(("text", "error"), BAD)
def test_what_is_not_in_the_language_says_so_at_its_place(text: str, error: str) -> None:
    position, part = error.split(" ", 1)
    for parse in (parse_predicate, parse_shape):
        with pytest.raises(ParseError) as caught:
            parse(text)
        assert part in caught.value.problem
        assert caught.value.position == int(position)
        assert caught.value.text == text


def exact(node: Predicate) -> str:
    """Equal texts, equal predicates: unlike `==`, this tells 1 from 1.0 and from true."""
    return repr(node)


def from_shape(text: str) -> Predicate:
    predicate, constants = parse_shape(text)
    return bind(predicate, constants)


@given(predicates())
@settings(max_examples=400, deadline=None)
def test_what_is_written_parses_to_the_same(predicate: Predicate) -> None:
    text = to_sql(predicate)
    assert exact(parse_predicate(text)) == exact(predicate)
    assert exact(from_shape(text)) == exact(predicate)
    assert exact(from_shape(text)) == exact(predicate)  # now by the cache


@given(names)
def test_any_name_can_be_written(name: str) -> None:
    assert parse_predicate(f"{name_sql(name)} = 1") == Comparison("=", Attribute(name), Constant(1))


@pytest.mark.parametrize("word", sorted(word for word in Spark.Tokenizer.KEYWORDS if word.isidentifier()))
def test_no_word_of_sql_is_in_the_way_of_a_name(word: str) -> None:
    name = word.lower()
    assert parse_predicate(f"{name_sql(name)} = 1") == Comparison("=", Attribute(name), Constant(1))
    assert parse_predicate(f"a.{name} = 1") == Comparison("=", Attribute(f"a.{name}"), Constant(1))


# --- no other exception -----------------------------------------------------------------------------------------------

WORDS = re.findall(
    r"\S+",
    """a b x.y `c` e1 1 2.5 .5 5. 1e3 7L 1.5BD 'x' 'it''s' 'b\\'c' "q" r'a\\n' X'1F' ( ) ( ) , , = != <> < <= > >= <=>
    + - * / % AND OR NOT and or not BETWEEN IN LIKE ESCAPE IS NULL TRUE DISTINCT FROM -> CAST( AS DOUBLE ) exists(
    forall( array_contains( arrays_overlap( array( startswith( contains( instanceof( TIMESTAMP DATE '2026-01-01' -- /*
    */ ; [ ] ! CASE WHEN THEN END SELECT INTERVAL ANY ALL RLIKE || & | ^ ~ :: : ? @ # $ { } \\ ' " `""",
)
soups = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
tight = st.lists(st.sampled_from(WORDS), max_size=10).map("".join)
anything = st.text(alphabet=st.characters(categories=None), max_size=40)
likely = st.text(alphabet="ab1.'\"\\`()<>=!-+*/%, \n\0\tANDORIeExXrR_;:", max_size=24)


def outcome(parse: object, text: str) -> str:
    """What a parser makes of a text: a predicate or an error, both to the letter. Anything else fails the test."""
    try:
        return exact(parse(text))  # type: ignore[operator]
    except ParseError as error:
        assert 0 <= error.position <= len(text)
        return f"{error.position}: {error}"
    except SluiceError as error:
        return str(error)


@given(st.one_of(soups, tight, anything, likely))
@settings(max_examples=1500, deadline=None)
@example("a = 'x\\")
@example("\ud800 = 1")
@example("a = '\ud800'")
@example("a\0 = 1")
@example("a = 1 /* /* */ AND b = 2 -- */")
@example("a = 1 // AND b = 2")
@example("a = 5 \0 AND b")
@example("a = `b 5` AND c = 'd'")
@example("a = '\\U00110000'")
@example("a = X'\\U00110000'")
@example("a = 1\u00a0AND b = 2")
@example("a = 1\x1f AND b = 2")
@example("/*+ hint */ a = 1")
@example("{{ a }} = {% b %}")
def test_any_text_works_or_raises_our_error_the_same_with_and_without_shapes(text: str) -> None:
    direct = outcome(parse_predicate, text)
    assert outcome(from_shape, text) == direct
    assert outcome(from_shape, text) == direct


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_random_bytes(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "replace"), data.decode("utf-8", "surrogateescape")):
        outcome(parse_predicate, text)
        outcome(from_shape, text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        ")" * 10_000,
        "(" * 10_000 + "a" + ")" * 10_000,
        "NOT " * 10_000 + "a",
        "- " * 10_000 + "a > 1",
        "exists(a, x -> " * 5_000,
        "a = 1" + " = 1" * 10_000,
        "a" + " IS NULL" * 5_000,
        "a" + " LIKE 'x'" * 5_000,
        "a + " * 10_000 + "a > 1",
        "a BETWEEN " * 5_000,
        "a" + ".a" * 20_000 + " = 1",
        "'" * 99_999,
        "'" + "\\'" * 49_000,
        '"' + '\\"' * 49_000,
        "/*" * 40_000,
        "`" * 99_999,
        "1" * 99_999 + " = a",
        "a = 1." + "1" * 99_000,
        "1e" + "9" * 5_000 + " = a",
        "a = 1e-99999999999999999999BD",
        "a = 1e99999999999999999999BD",
        "a = 1e99999999999999999999",
        "a LIKE '" + "%_" * 40_000 + "'",
        "a IN (" + "1," * 40_000 + "1)",
        "a = 'x' " * 10_000,
        "[" * 10_000,
        "CAST(" * 10_000,
        "a = '" + "x" * 1_000_000 + "'",
        "a" * 1_000_000,
    ],
    ids=lambda text: text[:16],
)
def test_huge_and_hostile_texts(text: str) -> None:
    assert outcome(from_shape, text) == outcome(parse_predicate, text)


def test_long_chains_work() -> None:
    for word, count in (("AND", 10_000), ("OR", 10_000)):
        predicate = parse_predicate(f" {word} ".join(["a = 1"] * count))
        assert len(predicate.items) == count  # type: ignore[union-attr]
    assert len(parse_shape(" AND ".join(f"a = {i}" for i in range(5_000)))[1]) == 5_000


def test_limits_are_named() -> None:
    deep = MAX_DEPTH - 1
    inner = to_sql(parse_predicate("(" * deep + "a" + ")" * deep))
    assert inner == "a"
    assert to_sql(parse_predicate("NOT " * deep + "a")).count("NOT") == deep
    nested = "exists(a, x -> " + "exists(x.a, x -> " * (deep - 1) + "x = 1" + ")" * deep
    assert to_sql(parse_predicate(nested)).count("exists") == deep
    for text in ("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, "NOT " * MAX_DEPTH + "a", "a + " * MAX_DEPTH + "a + a > 1"):
        with pytest.raises(LimitError, match=str(MAX_DEPTH)):
            parse_predicate(text)
        with pytest.raises(LimitError, match=str(MAX_DEPTH)):
            parse_shape(text)
    with pytest.raises(LimitError, match=str(MAX_TEXT)):
        parse_predicate("a" * (MAX_TEXT + 1))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("b = 1 AND " + "(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, 9 + MAX_DEPTH),
        ("b = 1 AND " + "NOT " * MAX_DEPTH + "a", 10 + 4 * (MAX_DEPTH - 1)),
        ("b = 1 AND " + "a + " * MAX_DEPTH + "a + a > 1", 10),
        ("b = 1 AND " + " AND ".join(f"(c{i} = 1 OR d{i} = 2)" for i in range(9)), 0),
        (" OR ".join(f"c{i} = 1" for i in range(300)), 0),
        ("a" * (MAX_TEXT + 1), MAX_TEXT),
    ],
    ids=("brackets", "NOT", "sum", "product", "boxes", "length"),
)
def test_a_limit_has_its_place_in_the_text(text: str, position: int) -> None:
    with pytest.raises(LimitError) as caught:
        sluice.parse(text)
    error = caught.value
    assert (error.text, error.position) == (text, position)
    assert str(error).startswith(f"{error.problem}\n  ") and str(error).endswith("^")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_nesting_does_not_lean_on_the_callers_stack() -> None:
    text = "(" * (MAX_DEPTH - 1) + "a = 1" + ")" * (MAX_DEPTH - 1)

    def deeper(frames: int) -> Predicate:
        return deeper(frames - 1) if frames else parse_predicate(text)

    assert deeper(sys.getrecursionlimit() // 2) == Comparison("=", Attribute("a"), Constant(1))


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_texts_of_one_shape_share_one_predicate() -> None:
    first, constants = parse_shape("price > 10 AND symbol = 'IBM'")
    second, others = parse_shape("price > 20 AND symbol = 'S\\'N'")
    assert first is second
    assert (constants, others) == ((10, "IBM"), (20, "S'N"))
    assert first == And(
        (Comparison(">", Attribute("price"), Parameter(0)), Comparison("=", Attribute("symbol"), Parameter(1)))
    )


def test_the_type_of_a_literal_is_part_of_the_shape() -> None:
    assert parse_shape("shape_a = 1")[0] is not parse_shape("shape_a = 1.5")[0]
    assert parse_shape("shape_a = 1")[0] is parse_shape("shape_a = 2")[0]


def test_known_shapes_and_new_conjunctions_of_known_conjuncts_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    conjuncts = [
        "k1 BETWEEN 1 AND 2",
        "NOT k2 = -3",
        "(k3 = 'x' OR k4 IN (1, 2.5))",
        "exists(k5, x -> x.a = 1 AND x.b)",
        "k6 = TIMESTAMP '2026-01-01'",
        "`k 7` LIKE 'a%'",
        "xpath_boolean(k8, '//a')",
    ]
    parse_shape(" AND ".join(conjuncts))
    parse_shape("k9 LIKE 'a!%' ESCAPE '!'")
    parse_shape("k10 = 'a' 'b' OR k11 = 1")

    def unexpected(*arguments: object) -> None:
        raise AssertionError("parsed once more")

    monkeypatch.setattr(shapes, "Reader", unexpected)
    monkeypatch.setattr(shapes, "parse_predicate", unexpected)
    text = (
        " AND ".join(reversed(conjuncts)).replace("2026-01-01", "2026-01-02").replace("-3", "-4").replace("//a", "//b")
    )
    predicate, constants = parse_shape(text)
    assert constants[:3] == ("//b", "a%", datetime(2026, 1, 2, tzinfo=UTC))
    assert exact(bind(predicate, constants)) == exact(parse_predicate(text))
    assert parse_shape("k9 LIKE 'b!%' ESCAPE '!'")[1] == ("b!%", "!")
    assert parse_shape("k10 = 'a' 'b' OR k11 = 2")[1] == ("a", "b", 2)


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("a > -5", "a > -7"),
        ("a - 5 > 1", "a - 7 > 1"),
        ("a LIKE 'x%'", "a LIKE '%y'"),
        ("a LIKE 'x%'", "a LIKE 'x\\\\q'"),
        ("a LIKE 'x!%' ESCAPE '!'", "a LIKE 'x!%' ESCAPE '#'"),
        ("a LIKE 'x!%' ESCAPE '!'", "a LIKE 'x!!' ESCAPE '!'"),
        ("a = 'x' 'y'", "a = 'x' 'z'"),
        ("a = r'x'", "a = r'\\n'"),
        ("a = X'1F'", "a = X'2F'"),
        ("a = X'1F'", "a = X'2G'"),
        ("a = TIMESTAMP '2026-01-01'", "a = TIMESTAMP '2026-01-02'"),
        ("a = TIMESTAMP'2026-01-01'", "a = TIMESTAMP'2026-13-01'"),
        ("a = DATE '2026-01-01' AND b = 1", "a = DATE '2026-02-30' AND b = 2"),
        ("a = CAST('Infinity' AS DOUBLE)", "a = CAST('-1.5' AS DOUBLE)"),
        ("a = CAST('1' AS INT)", "a = CAST('x' AS INT)"),
        ("a = -CAST('1' AS INT)", "a = -CAST('2' AS INT)"),
        ("xpath_boolean(d, '//a')", "xpath_boolean(d, '//b')"),
        ("xpath_boolean(d, '//a') AND b = 1", "xpath_boolean(d, 'b') AND b = 1"),
        ("a = 5Y", "a = 500Y"),
        ("a = 'b'", "a = 'b"),
        ("a = 5 AND b = 6", "a = 5 AND b = 6 AND"),
        ("`a 5` = 5", "`a 6` = 5"),
        ("a = 5 -- 5", "a = 5 -- 6"),
        ("a = 5 /* 5 */ AND b = 7", "a = 6 /* 6 */ AND b = 8"),
        ("array_contains(a, 5)", "array_contains(a, 6)"),
        (
            "exists(a, x -> x = 5 AND x IN (1)) AND d BETWEEN 1 AND 2",
            "exists(a, x -> x = 6 AND x IN (3)) AND d BETWEEN 5 AND 6",
        ),
        ("(a = 1 AND b = 2) AND c = 3", "(a = 4 AND b = 5) AND c = 6"),
        ("a = 1 AND b = 2 OR c = 3", "a = 4 AND b = 5 OR c = 6"),
        ("NOT a = 1 AND b = 2", "NOT a = 3 AND b = 4"),
    ],
)
def test_a_known_shape_never_changes_the_meaning(known: str, new: str) -> None:
    for text in (known, new, known, new):
        assert outcome(from_shape, text) == outcome(parse_predicate, text)


PIECES = st.sampled_from(
    [
        "a = {}",
        "b > {}",
        "c BETWEEN {} AND {}",
        "NOT d <= -{}",
        "e IN ({}, {})",
        "(f = {} OR g = {})",
        "h IS NULL",
        "`i {}` = {}",
        "j LIKE 'x{}%'",
        "(k = {} AND l = '{}')",
        "exists(m, x -> x.n = {} AND x.o)",
        "p = TIMESTAMP '2026-01-{}'",
        "q=-{}",
    ]
)


@given(
    st.lists(st.tuples(PIECES, st.integers(1, 31), st.integers(1, 31)), min_size=1, max_size=5),
    st.sampled_from(["AND", "and", "AND\n", "OR"]),
)
@settings(max_examples=300, deadline=None)
def test_conjunctions_put_together_from_known_conjuncts_are_right(parts: list[tuple[str, int, int]], word: str) -> None:
    text = f" {word} ".join(piece.format(one, other) for piece, one, other in parts)
    assert outcome(from_shape, text) == outcome(parse_predicate, text)


def test_the_cache_is_bounded() -> None:
    for i in range(MAX_SHAPES + 50):
        parse_shape(f"bounded = 1 AND {'(' * (i % 40)}other{i % 97} = 'x'{')' * (i % 40)} AND third{i % 89} > 2")
    parse_shape(f"bounded IN ({', '.join(map(str, range(5_000)))})")
    assert all(len(key[0]) < 5_000 and len(key) < 5_000 for key in shapes._whole)
    assert len(shapes._whole) <= MAX_SHAPES
    assert len(shapes._conjuncts) <= MAX_SHAPES
