"""Whatever the filter and the record: the matcher (three ways in), the plain matcher and the meaning of the text agree."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sluice
from sluice.match import naive
from sluice.model.expression import truth
from sluice.model.language import parse_predicate
from sluice.model.notification import attributes
from tests.generate import Generator, batch_of, corner_records, filters, records, typed_records


def loaded(texts: Sequence[str]) -> tuple[sluice.Matcher, dict[int, sluice.Subscription]]:
    """A matcher of these texts, and what they mean."""
    matcher = sluice.Matcher()
    subscriptions = {}
    for text in texts:
        try:
            subscription = sluice.parse(text)
        except sluice.LimitError:
            continue
        subscriptions[matcher.add(text)] = subscription
    return matcher, subscriptions


def rows_of(answer: tuple[Any, Any]) -> list[list[int]]:
    """The ids of each record, in rising order."""
    offsets, ids = answer
    assert offsets[0] == 0 and offsets[-1] == len(ids)
    return [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def check(matcher: sluice.Matcher, subscriptions: Mapping[int, sluice.Subscription], found: Sequence[Any]) -> None:
    """One record at a time and all at once: the ids are those of the plain matcher, each once."""
    want = naive.match_batch(found, subscriptions)
    assert rows_of(matcher.match_batch(found)) == want
    for record, ids in zip(found, want, strict=True):
        assert sorted(matcher.match(record).tolist()) == ids, record


@given(st.lists(filters, min_size=1, max_size=8), st.lists(records, min_size=1, max_size=4))
def test_records(texts: list[str], found: list[dict[str, Any]]) -> None:
    check(*loaded(texts), found)


@given(st.lists(filters, min_size=1, max_size=8), st.lists(typed_records, min_size=1, max_size=4))
def test_arrow(texts: list[str], found: list[dict[str, Any]]) -> None:
    matcher, subscriptions = loaded(texts)
    assert rows_of(matcher.match_batch(batch_of(found))) == naive.match_batch(found, subscriptions)


@given(filters, st.lists(records, min_size=1, max_size=5))
def test_boxes_mean_what_the_text_says(text: str, found: list[dict[str, Any]]) -> None:
    """Boxes against the evaluation of the text itself, which knows no boxes."""
    try:
        subscription = sluice.parse(text)
    except sluice.LimitError:
        assume(False)
    predicate = parse_predicate(text)
    for record in found:
        assert subscription.matches(record) == (truth(predicate, attributes(record)) is True)


@given(filters)
@settings(max_examples=300)
def test_text_round_trip(text: str) -> None:
    try:
        subscription = sluice.parse(text)
    except sluice.LimitError:
        assume(False)
    assert sluice.parse(subscription.to_sql()) == subscription


@given(st.lists(filters, min_size=1, max_size=6), st.integers(0, 2**32))
def test_every_end_of_every_interval(texts: list[str], seed: int) -> None:
    """At each end, right below it and right above it, with the rest of the box satisfied."""
    matcher, subscriptions = loaded(texts)
    source = random.Random(seed)
    corners = [record for one in subscriptions.values() for record in corner_records(one, source, 25)][:300]
    if corners:
        check(matcher, subscriptions, corners)
    for id, subscription in subscriptions.items():
        predicate = parse_predicate(texts[id]) if len(texts) == len(subscriptions) else None
        if predicate is not None:
            for record in corners:
                assert subscription.matches(record) == (truth(predicate, attributes(record)) is True), record


def test_many_filters_at_once() -> None:
    """A few thousand filters in one matcher, where groups are large enough to have leaves and columns."""
    generator = Generator(random.Random(11))
    texts = [generator.filter() for _ in range(2_000)]
    matcher, subscriptions = loaded(texts)
    found = [generator.record(typed=i % 2 == 0) for i in range(40)]
    check(matcher, subscriptions, found)
    typed = found[::2]
    assert rows_of(matcher.match_batch(batch_of(typed))) == naive.match_batch(typed, subscriptions)


def test_simple_filters_in_large_numbers() -> None:
    """Filters of few shapes, as real ones are: equalities and ranges that the index decides alone, at their very ends."""
    source = random.Random(5)
    names, prices = ["IBM", "SUN", "abcdefgh", "abcdefgi", ""], [*range(-3, 4), 0.5, 2**53, 2**53 + 1, 2**53 + 2, 1e300]
    texts = []
    for _ in range(4_000):
        low, high = source.choice(prices), source.choice(prices)
        parts = [
            f"symbol = '{source.choice(names)}'",
            f"price {source.choice(['<', '<=', '>', '>=', '=', '!='])} {low}",
            f"volume BETWEEN {min(low, high)} AND {max(low, high)}",
            f"venue IN ('{source.choice(names)}', '{source.choice(names)}')",
        ]
        texts.append(" AND ".join(source.sample(parts, source.randint(1, 4))))
    matcher, subscriptions = loaded(texts)
    found = [
        {
            "symbol": source.choice(names),
            "price": source.choice(prices),
            "volume": source.choice(prices),
            "venue": source.choice(names),
        }
        for _ in range(40)
    ]
    check(matcher, subscriptions, found)
