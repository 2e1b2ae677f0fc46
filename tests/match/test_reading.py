"""Texts and what they mean: a subscription is kept under a text that is read as an equal one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sluice
from sluice.match import reading
from sluice.model.filter import Filter
from sluice.model.ordered import (
    Ordered,
    at_least,
    at_most,
    between,
    differs,
    equals,
    greater_than,
    less_than,
    one_of,
    prefix,
)
from sluice.model.subscription import Subscription
from sluice.model.values import Kind
from tests.generate import Generator

numbers = st.one_of(st.integers(), st.floats(allow_nan=False), st.integers(-100, 100))
texts = st.one_of(st.text(max_size=9), st.text("ab '\\%_`\0\"", max_size=4))
scalars = st.one_of(numbers, texts)
pairs = st.one_of(st.tuples(numbers, numbers), st.tuples(texts, texts)).map(sorted)
sides = st.one_of(
    st.builds(lambda make, value: make(value), st.sampled_from([equals, differs, less_than, at_most]), scalars),
    st.builds(lambda make, value: make(value), st.sampled_from([greater_than, at_least]), scalars),
    pairs.map(lambda pair: between(*pair)),
    pairs.map(lambda pair: greater_than(pair[0]).intersection(less_than(pair[1]))),
    st.lists(scalars, max_size=5).map(one_of),
    texts.map(prefix),
)
names = st.sampled_from(["a", "price", "order.total", "class", "unit price", "a`b", "SELECT", "x1", "é"])


@given(st.dictionaries(names, sides, max_size=3))
def test_text_is_read_as_the_same(constraints: dict[str, Ordered]) -> None:
    """Whatever the way to the text, without help from what is remembered."""
    subscription = Subscription([Filter.of(constraints)])
    assert sluice.parse(reading.text_of(subscription)) == subscription


@pytest.mark.parametrize("seed", range(3))
def test_text_of_any_filter_is_read_as_the_same(seed: int) -> None:
    generator = Generator(random.Random(seed))
    for _ in range(100):
        subscription = sluice.parse(generator.term())
        assert sluice.parse(reading.text_of(subscription)) == subscription


def test_plain_ones_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sluice.parse("never_before = 'IBM' AND price BETWEEN 1 AND 2.5 AND n IN (1, 2) AND m > 3")
    like = sluice.parse("never_before LIKE '%x%'")
    reading.text_of(sluice.parse("never_before = 1 AND price = 1 AND n = 1 AND m = 1"))  # its names are known now
    parsed: list[str] = []

    def parse(text: str) -> sluice.Subscription:
        parsed.append(text)
        return sluice.parse(text)

    monkeypatch.setattr(reading, "parse", parse)
    text = reading.text_of(plain)
    assert parsed == [] and reading.meaning(text) is plain
    assert parsed == []
    assert reading.text_of(like) == parsed[0]


class Odd(float):
    """A number that prints in a way of its own, as those of numpy do."""

    def __repr__(self) -> str:
        return f"Odd({float(self)})"


@pytest.mark.parametrize(
    "constraints",
    [{"": equals(1)}, {"a": equals(Odd(2.5))}, {"a": Ordered(((int(Kind.NAN),), (int(Kind.NAN) + 1,)))}],
)
def test_what_cannot_be_read_is_refused(constraints: dict[str, Any]) -> None:
    matcher = sluice.Matcher()
    with pytest.raises(sluice.SluiceError):
        matcher.add(Subscription([Filter.of(constraints)]))
    assert len(matcher) == 0


def test_the_number_of_a_subscription_is_not_kept() -> None:
    matcher = sluice.Matcher()
    mine = Subscription(sluice.parse("number_kept > 3").filters, id=9)
    assert matcher[matcher.add(mine)].id is None
