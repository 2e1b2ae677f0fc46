"""LIKE, suffix and substring: matching, covering and overlap against plain definitions."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.language import parse_predicate
from sluice.model.ordered import Ordered, equals, of_kind, prefix
from sluice.model.pattern import ANY_ONE, ANY_RUN, Pattern, canonical, like, parse, substring, suffix
from sluice.model.predicate import Constant, Like, StringTest
from sluice.model.values import Kind

globs = st.text(alphabet="ab_%", max_size=6)


def accepts(glob: str, text: str) -> bool:
    """LIKE by definition."""
    if not glob:
        return not text
    if glob[0] == "%":
        return accepts(glob[1:], text) or (text != "" and accepts(glob, text[1:]))
    return text != "" and glob[0] in ("_", text[0]) and accepts(glob[1:], text[1:])


def words(length: int) -> list[str]:
    """All words up to a length: two letters that patterns name and one that they do not."""
    return ["".join(letters) for n in range(length + 1) for letters in itertools.product("abc", repeat=n)]


SHORT = words(5)
LONG = words(8)


@given(globs, st.text(alphabet="abc", max_size=9))
def test_matching_is_as_defined(glob: str, text: str) -> None:
    assert like(glob).matches(text) == accepts(glob, text)
    assert Pattern(parse(glob)).matches(text) == accepts(glob, text)


@given(st.text(alphabet="ab_%", max_size=4), st.text(alphabet="ab_%", max_size=4))
@settings(max_examples=300, deadline=None)
def test_covering_is_inclusion(outer: str, inner: str) -> None:
    """A pattern of n signs and another of m tell themselves apart within n + m letters."""
    expected = all(accepts(outer, word) for word in LONG if accepts(inner, word))
    assert Pattern(parse(outer)).covers_same(Pattern(parse(inner))) == expected


@given(st.text(alphabet="ab_%", max_size=4), st.text(alphabet="ab_%", max_size=4))
@settings(max_examples=300, deadline=None)
def test_overlap_is_a_common_string(one: str, other: str) -> None:
    expected = any(accepts(one, word) and accepts(other, word) for word in LONG)
    assert Pattern(parse(one)).overlaps_same(Pattern(parse(other))) == expected


@given(globs, globs)
@settings(deadline=None)
def test_the_algebra_agrees_with_matching(one: str, other: str) -> None:
    """Through `Constraint`, where some of the patterns are intervals."""
    a, b = like(one), like(other)
    both = a.intersect(b)
    for word in SHORT:
        assert both.matches(word) == (a.matches(word) and b.matches(word))
        assert not (a.covers(b) and b.matches(word) and not a.matches(word))
        assert not (a.matches(word) and b.matches(word) and not a.overlaps(b))
        assert a.hull().matches(word) or not a.matches(word)
    union = a.union(b)
    if union is not None:
        assert all(union.matches(word) == (a.matches(word) or b.matches(word)) for word in SHORT)


@given(globs)
def test_equal_sets_have_one_spelling(glob: str) -> None:
    spelled = glob.replace("%", "%%").replace("_%%", "%_%")
    assert parse(spelled) == parse(glob)
    assert canonical(parse(glob)) == parse(glob)


TEXTS = ["a", "b", "ab", "ba", "aab", "aba", "bab"]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(TEXTS, TEXTS)))
def test_table_4_5(one: str, other: str) -> None:
    """Covering among string constraints. (The row for suffixes is printed with its arguments the wrong way round.)"""
    assert suffix(one).covers(suffix(other)) == other.endswith(one)
    assert substring(one).covers(substring(other)) == (one in other)
    assert prefix(one).covers(prefix(other)) == other.startswith(one)
    assert substring(one).covers(suffix(other)) == (one in other)
    assert not suffix(one).covers(substring(other))
    assert suffix(one).covers(equals(other)) == other.endswith(one)
    assert substring(one).covers(equals(other)) == (one in other)
    assert suffix(one).overlaps(suffix(other)) == (one.endswith(other) or other.endswith(one))
    assert substring(one).overlaps(substring(other))


def test_intervals_are_not_patterns() -> None:
    assert like("abc") == equals("abc")
    assert like("") == equals("")
    assert like("abc%") == prefix("abc")
    assert like("%%") == of_kind(Kind.STRING)
    assert suffix("") == substring("") == of_kind(Kind.STRING)
    assert isinstance(like(r"50\%"), Ordered)
    assert like("%x").hull() == of_kind(Kind.STRING)
    assert like("ab%x").hull() == prefix("ab")


def test_escapes_are_sparks() -> None:
    assert parse(r"a\%b\_c\\") == ("a%b_c\\",)
    assert parse("a!%!!%", "!") == ("a%!", ANY_RUN)
    assert parse("%%_", "%") == ("%", ANY_ONE)
    for bad in ("a\\", r"\a", "a%\\"):
        with pytest.raises(ValueError, match="escape character"):
            parse(bad)


def test_newlines_case_and_code_points() -> None:
    assert like("a_c").matches("a\nc")
    assert like("%c_").matches("\n\nc\n")
    assert not like("a_c").matches("A-c")
    assert like("_x_").matches("\U0001f600x\U0001f600")
    assert not like("__").matches("\U0001f600")
    assert not like("%a").matches(None)
    assert not like("%a").matches(5)
    pattern = like("%a")
    assert isinstance(pattern, Pattern)
    assert pattern.applies("x")
    assert not pattern.applies(5)


@given(globs)
def test_the_text_of_a_pattern_is_the_pattern(glob: str) -> None:
    pattern = like(glob.replace("b", r"\%"))
    if not isinstance(pattern, Pattern):
        return
    node = parse_predicate(pattern.to_sql("name"))
    if isinstance(node, Like):
        assert isinstance(node.pattern, Constant)
        assert like(str(node.pattern.value)) == pattern
    else:
        assert isinstance(node, StringTest)
        assert isinstance(node.text, Constant)
        assert {"endswith": suffix, "contains": substring}[node.how](str(node.text.value)) == pattern


def test_hostile_patterns_are_answered() -> None:
    """These take exponential time by backtracking, or by trying all subsets."""
    many = like("%a" * 50 + "%b")
    assert not many.matches("a" * 20_000)
    assert many.matches("a" * 20_000 + "b")
    wide = like("%" + "a" + "_" * 60 + "%b")
    assert not wide.matches("a" * 50_000)
    assert like("%a" * 200 + "%").overlaps(like("%b" * 200))
    assert not like("%a" * 200).overlaps(like("%b" * 200))
    assert not wide.covers(many)
    assert like("%" + "a%" * 300).covers(like("%" + "a%" * 301))
    assert re.match(r"Pattern\(tokens=", repr(wide))
