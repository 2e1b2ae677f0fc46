"""Whatever the text and whatever the record: it works, or it raises a SluiceError; a wrong text also with its position."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sluice
from sluice.limits import MAX_DEPTH, MAX_TEXT
from sluice.match import naive
from sluice.model.notification import attributes, from_json
from tests.generate import Generator, filters

TOKENS = (
    "a", "b.c", "`x y`", "x", "=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=", "!", "AND", "OR", "NOT", "BETWEEN", "IN",
    "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "(", ")", "(", ")", ",", "'x'", "'%_'", '"q"', "1", "-1", "2.5", "1e5", "9" * 40,
    "X'1F'", "TIMESTAMP '2020-01-01'", "DATE", "CAST", "AS", "DOUBLE", "exists(", "forall(", "array_contains(",
    "arrays_overlap(", "array(", "->", "startswith(", "xpath_boolean(", "instanceof(", "geo_within(", "+", "-", "*", "/", "%",
    ";", "--", "/*", "*/", "'", '"', "`", "\\", "[", "]", "{", "}", "?", ":", "::", "SELECT", "CASE", "INTERVAL", "\0",
    "\ud800", "\U0001f600", "\u2028", "\ufeff", "1_0", "0x1", "1L", "BD", "r'", "@", "#", "$", "~", "^", "|", "||", "&",
    "&&", ".", "..",
)  # fmt: skip


def tried(text: str) -> sluice.Subscription | None:
    """Parses a text; what is refused is refused as it should be."""
    try:
        found = sluice.parse(text)
    except sluice.ParseError as error:
        assert error.text == text
        assert 0 <= error.position <= len(text), error.position
        assert "^" in str(error)
        return None
    except sluice.SluiceError as error:
        assert str(error)
        return None
    assert isinstance(found, sluice.Subscription)
    return found


def used(subscription: sluice.Subscription | None) -> None:
    """Does with a subscription what can be done with one."""
    if subscription is None:
        return
    text = subscription.to_sql()
    assert sluice.parse(text) == subscription
    matcher = sluice.Matcher()
    id = matcher.add(subscription)
    for record in ({}, {"a": 1, "x": "x", "b": {"c": [1, {"p": 2}]}}):
        assert (id in matcher.match(record)) == subscription.matches(record)
        matcher.explain(record, id)
    matcher.covering(subscription)
    matcher.covered(subscription)
    matcher.remove(id)


@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    used(tried(text))


@given(st.text(alphabet=st.characters(), max_size=40).map(lambda text: f"a = '{text}'"))
def test_any_string(text: str) -> None:
    used(tried(text))


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(150):
        raw = source.randbytes(source.randint(0, 60))
        for text in (raw.decode("latin-1"), raw.decode("utf-8", "replace"), raw.decode("utf-8", "surrogateescape")):
            used(tried(text))


@pytest.mark.parametrize("seed", range(5))
def test_token_soup(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(400):
        separator = source.choice((" ", " ", "", "\n"))
        used(tried(separator.join(source.choice(TOKENS) for _ in range(source.randint(1, 14)))))


@given(filters, st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_nearly_right_texts(text: str, source: random.Random) -> None:
    """A good text with a piece cut out, doubled, or put in."""
    at, end = sorted((source.randint(0, len(text)), source.randint(0, len(text))))
    for other in (
        text[:at] + text[end:],
        text[:end] + text[at:],
        text[:at] + source.choice(TOKENS) + text[at:],
        text[:at],
    ):
        used(tried(other))


def deep_texts() -> dict[str, str]:
    found: dict[str, str] = {}
    for depth in (MAX_DEPTH - 2, MAX_DEPTH, MAX_DEPTH + 2, 1_000, 10_000):
        found |= {
            f"{depth} brackets": "(" * depth + "a = 1" + ")" * depth,
            f"{depth} open brackets": "(" * depth,
            f"{depth} closed brackets": ")" * depth,
            f"{depth} nots": "NOT " * depth + "a",
            f"{depth} minuses": "a = " + "- " * depth + "b",
            f"{depth} sums": "a = " + " + ".join("b" * depth),
            f"{depth} ands": " AND ".join(f"a{i} = 1" for i in range(depth)),
            f"{depth} ands of one": " AND ".join(f"a > {i}" for i in range(depth)),
            f"{depth} ors": " OR ".join(f"a = {i}" for i in range(depth)),
            f"{depth} ors of others": " OR ".join(f"a{i} = 1" for i in range(depth)),
            f"{depth} exists": "".join(f"exists({'a' if i == 0 else f'x{i}'}, x{i + 1} -> " for i in range(depth))
            + "true"
            + ")" * depth,
            f"{depth} names": ".".join("a" * depth) + " = 1",
            f"{depth} values": f"a IN ({', '.join(map(str, range(depth)))})",
            f"{depth} strings": "a = " + " ".join(["'x'"] * depth),
            f"{depth} betweens": " AND ".join(["a BETWEEN 1 AND 2"] * depth),
            f"{depth} product": " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(depth)),
            f"{depth} comments": "/*" * depth,
            f"{depth} likes": "a LIKE '" + "%_" * depth + "'",
            f"{depth} casts": "a = " + "CAST(" * depth,
        }
    return found


@pytest.mark.parametrize("name", deep_texts())
def test_deep_and_long_texts(name: str) -> None:
    found = tried(deep_texts()[name])
    if found is not None:
        assert sluice.parse(found.to_sql()) == found or len(found.to_sql()) > MAX_TEXT
        found.matches({"a": 1, "a0": 1})


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + "x" * 1_000_000 + "'",
        "a = '" + "x" * (MAX_TEXT - 6) + "'",
        "a LIKE '%" + "x" * 50_000 + "%'",
        "`" + "x" * 50_000 + "` = 1",
        "a = " + "9" * 50_000,
        "a = -" + "9" * 4_000,
        "a > " + "9" * 400,
        "a = 1e308 OR a = 1e-999",
        "a = 0." + "0" * 30_000 + "1",
        "a = X'" + "ff" * 40_000 + "'",
        " " * 1_000_000,
        "\0" * 1_000,
        "a * " * 1_000 + "a > 1",
        "xpath_boolean(a, '" + "/a" * 20_000 + "')",
        "xpath_boolean(a, '//a[" + " and ".join(["@b=1"] * 5_000) + "]')",
        "a = 1 -- " + "x" * 90_000,
    ],
    ids=lambda text: f"{text[:20]}... ({len(text)})",
)
def test_huge_texts(text: str) -> None:
    found = tried(text)
    if found is not None:
        found.matches({"a": 1})
        found.matches({"a": "x" * 1_000_000})


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"], object()], ids=lambda text: type(text).__name__)
def test_no_text_at_all(text: Any) -> None:
    """A wrong type is the caller's mistake; it must not pass for a filter."""
    with pytest.raises((sluice.SluiceError, TypeError)):
        sluice.parse(text)


# --- records --------------------------------------------------------------------------------------------------------

TEXTS = [
    "a = 1", "a > 0.5", "a.b = 1", "a IS NULL", "a IS NOT NULL", "a = 'x'", "a LIKE '%x%'", "array_contains(a, 1)",
    "exists(a, x -> x.b = 1)", "forall(a, x -> x > 1)", "a + b > 1", "xpath_boolean(a, '//x')", "instanceof(a, 'T')",
    "geo_within(a, 0, 0, 10, 10)", "a = X'00'", "a > TIMESTAMP '2020-01-01'", "a OR b", "a NOT IN ('x', 'y')", "a <=> b",
    "a != 5", "a < 9007199254740993", "a % 2 = 1", "a >= 'abcdefgh'", "a.b.c > 1 OR a.b LIKE '_'", "NOT exists(a, x -> x > 1)",
]  # fmt: skip


@pytest.fixture(scope="module")
def matcher() -> sluice.Matcher:
    found = sluice.Matcher()
    found.load(enumerate(TEXTS))
    return found


SUBSCRIPTIONS = {i: sluice.parse(text) for i, text in enumerate(TEXTS)}


def published(matcher: sluice.Matcher, record: Any) -> None:
    """Matches a record all ways; it works on all with one result, or is refused on all."""
    try:
        want = naive.match(record, SUBSCRIPTIONS)
    except sluice.SluiceError:
        want = None
    calls: list[Callable[[], Any]] = [lambda: matcher.match(record), lambda: matcher.match_batch([record])[1]]
    for call in calls:
        try:
            got = sorted(call().tolist())
        except sluice.SluiceError:
            got = None
        assert got == want


keys = st.one_of(st.sampled_from(["a", "b", "c", "a.b", "", "."]), st.text(max_size=4))
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["x", "<x/>", 10**4000, 2**53 + 1]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
odd_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.binary(max_size=4),
        st.datetimes(),
        st.dates(),
        st.decimals(),
        st.complex_numbers(),
        st.uuids(),
        st.timedeltas(),
        st.fractions(),
        st.just(object()),
        st.just(print),
        st.just(...),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(keys, st.integers(), st.none()), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.dictionaries(keys, json_values, max_size=5))
@settings(max_examples=300)
def test_any_json_record(matcher: sluice.Matcher, record: dict[str, Any]) -> None:
    published(matcher, record)


@given(st.one_of(odd_values, st.dictionaries(st.one_of(st.just("a"), keys, st.integers()), odd_values, max_size=4)))
@example({1: 2})
@settings(max_examples=300)
def test_any_python_record(matcher: sluice.Matcher, record: Any) -> None:
    published(matcher, record)


@given(st.one_of(st.text(max_size=40), json_values.map(lambda value: json.dumps(value)), st.binary(max_size=30)))
def test_any_json_text(text: str | bytes) -> None:
    try:
        record = from_json(text)
    except sluice.SluiceError:
        return
    assert attributes(record) == record or record != record


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize("depth", [10, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 1_000, 20_000])
@pytest.mark.parametrize(
    "wrap",
    [lambda v: {"a": v}, lambda v: [v], lambda v: (v, v), lambda v: {"a": [v]}],
    ids=["dict", "list", "pair", "both"],
)
def test_deep_records(matcher: sluice.Matcher, depth: int, wrap: Any) -> None:
    record = {"a": nested(depth, wrap)}
    if wrap(1) == (1, 1):
        # Shared parts, read as often as they occur: 2 ** depth values, so only the bounded depths.
        record = {"a": nested(min(depth, MAX_DEPTH), wrap)}
    published(matcher, record)


def test_records_that_contain_themselves(matcher: sluice.Matcher) -> None:
    record: dict[str, Any] = {"b": 1}
    record["a"] = record
    published(matcher, record)
    items: list[Any] = []
    items.append(items)
    published(matcher, {"a": items})


@pytest.mark.parametrize(
    "value",
    [
        10**4_000,
        -(10**4_000),
        10**5_000,
        2**63,
        2**64,
        float("nan"),
        float("inf"),
        "x" * 1_000_000,
        b"\0" * 1_000_000,
        "\ud800",
        "\0" * 100,
        "<x>" * 100_000,
        "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
        list(range(100_000)),
        [[]] * 1_000,
        {"b": {}},
        {"": 1},
        {"b": {"c": 2}},
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else f"{value.bit_length()} bits",
)
def test_large_and_odd_values(matcher: sluice.Matcher, value: Any) -> None:
    published(matcher, {"a": value})
    published(matcher, {"a": value, "b": value})
    published(matcher, {"a": [value, {"b": value}]})


def test_any_arrow_batch(matcher: sluice.Matcher) -> None:
    """Columns of generated values in whatever types Arrow gives them."""
    generator = Generator(random.Random(6))
    for _ in range(300):
        values = [generator.anything() for _ in range(3)]
        try:
            batch = pa.RecordBatch.from_pydict({"a": values, "b": [generator.value("n") for _ in range(3)]})
        except (pa.ArrowException, OverflowError, ValueError):
            continue  # no type for these
        try:
            offsets, ids = matcher.match_batch(batch)
        except sluice.SluiceError:
            continue
        want = naive.match_batch(batch.to_pylist(), SUBSCRIPTIONS)
        assert [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)] == want, batch.to_pylist()


@pytest.mark.parametrize(
    "batch",
    [5, None, "abc", b"x", [5], pa.table({"a": [1]}), pa.array([1]), ({"a": 1} for _ in range(1))],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_batch(matcher: sluice.Matcher, batch: Any) -> None:
    try:
        offsets, _ = matcher.match_batch(batch)
    except (sluice.SluiceError, TypeError):
        return
    assert len(offsets) == 2
