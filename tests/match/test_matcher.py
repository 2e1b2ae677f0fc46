"""The matcher as its users call it: ids, loading, explaining, filters against filters, and the sizes that stretch it."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sluice
from sluice.match import naive
from sluice.match.kernels.layout import ROWS
from sluice.model.types import declare
from tests.generate import Generator

#: Types are declared for good: each test has its own.
NUMBERS = itertools.count()


def matched(matcher: sluice.Matcher, record: object) -> list[int]:
    """The matches of a record, which are the same alone and in a batch."""
    one = sorted(matcher.match(record).tolist())
    offsets, ids = matcher.match_batch([record])
    assert offsets.tolist() == [0, len(ids)]
    assert sorted(ids.tolist()) == one
    return one


# --- ids ------------------------------------------------------------------------------------------------------------


def test_ids_given_and_assigned() -> None:
    matcher = sluice.Matcher()
    assert matcher.add("a = 1") == 0
    assert matcher.add("a = 1", id=7) == 7
    assert matcher.add(sluice.parse("a = 1"), id=2**31 - 1) == 2**31 - 1
    free = matcher.add("a = 1")
    assert free not in (0, 7, 2**31 - 1)
    assert matched(matcher, {"a": 1}) == sorted([0, 7, 2**31 - 1, free]) == list(matcher)
    assert len(matcher) == 4 and 7 in matcher and 8 not in matcher and "7" not in matcher
    assert matcher[7] == sluice.parse("a = 1")


def test_assigned_ids_never_meet_given_ones() -> None:
    matcher = sluice.Matcher()
    for id in (1, 2, 5):
        matcher.add("a = 1", id=id)
    assigned = [matcher.add("a = 1") for _ in range(20)]
    assert len({*assigned, 1, 2, 5}) == 23
    assert matched(matcher, {"a": 1}) == sorted({*assigned, 1, 2, 5})


def test_an_id_is_used_again() -> None:
    matcher = sluice.Matcher()
    for text, value in (("a = 1", 1), ("a > 5", 9), ("s LIKE '%x%'", "axb"), ("a = 1 OR b = 1", 1)):
        matcher.add(text, id=3)
        assert matched(matcher, {"a": value, "s": value}) == [3]
        matcher.remove(3)
        assert matched(matcher, {"a": value, "s": value}) == []
    assert len(matcher) == 0


@pytest.mark.parametrize(
    "id", [-1, 2**31, 1.0, "1", True, np.True_, np.float32(1), np.int64(-1), np.arange(3), Fraction(1), [1]]
)
def test_a_wrong_id_is_refused(id: Any) -> None:
    matcher = sluice.Matcher()
    with pytest.raises(sluice.MatcherError, match="whole number"):
        matcher.add("a = 1", id=id)
    with pytest.raises(sluice.MatcherError, match="whole number"):
        matcher.load([(id, "a = 1")])
    assert len(matcher) == 0 and matched(matcher, {"a": 1}) == []


@pytest.mark.parametrize("id", [np.int64(7), np.uint8(7), np.array(7), IntEnum("Colour", {"RED": 7}).RED])  # type: ignore[attr-defined]
@pytest.mark.parametrize("others", [0, 1, 8])
def test_an_id_is_a_whole_number_of_any_type(id: Any, others: int) -> None:
    matcher = sluice.Matcher()
    for other in range(others):
        matcher.add("b = 1", id=other if other != 7 else None)
    if 7 in matcher:
        matcher.remove(id)
    added = matcher.add("a = 1", id=id)
    assert added == 7 and type(added) is int
    assert id in matcher and matcher[id] == sluice.parse("a = 1") and matcher.explain({"a": 1}, id).matched
    with pytest.raises(sluice.MatcherError, match="the id 7 is taken"):
        matcher.load([(id, "a = 1")])
    matcher.remove(id)
    assert 7 not in matcher and id not in matcher and matcher.load([(id, "a = 1")]) == 1
    assert list(matcher)[-1] == 7 and matched(matcher, {"a": 1}) == [7]


def test_what_matched_is_in_the_matcher() -> None:
    matcher = sluice.Matcher()
    matcher.load([(5, "a = 1"), (9, "a > 0")])
    for id in matcher.match({"a": 1}):
        assert id in matcher
        matcher.remove(id)
    assert len(matcher) == 0


def test_one_row_with_the_same_id_twice_in_different_types() -> None:
    matcher = sluice.Matcher()
    with pytest.raises(sluice.MatcherError, match="the id 3 is taken"):
        matcher.load([(3, "a = 1"), (np.int32(3), "a = 2")])
    assert len(matcher) == 0


def test_a_filter_is_added_as_well_as_a_subscription() -> None:
    matcher = sluice.Matcher()
    wanted = sluice.parse("a > 1 AND b LIKE '%x%'")
    ids = [matcher.add("a > 1 AND b LIKE '%x%'"), matcher.add(wanted), matcher.add(wanted.filters[0], id=9)]
    assert matched(matcher, {"a": 2, "b": "axb"}) == ids == [0, 1, 9]
    assert matcher[9] == wanted


def test_a_taken_id_is_refused() -> None:
    matcher = sluice.Matcher()
    matcher.add("a = 1", id=4)
    with pytest.raises(sluice.MatcherError, match="4 is taken"):
        matcher.add("a = 2", id=4)
    assert matched(matcher, {"a": 1}) == [4] and matched(matcher, {"a": 2}) == []


@pytest.mark.parametrize("id", [5, -1, 2**40, "x", None, True, 1.0, 4.0, np.float64(4), np.True_, [4], np.arange(3)])
@pytest.mark.parametrize("others", [[], [0, 1, 2, 3], [3]], ids=["alone", "in their places", "in other places"])
def test_an_unknown_id_is_an_error(id: Any, others: list[int]) -> None:
    matcher = sluice.Matcher()
    for other in others:
        matcher.add("b = 1", id=other)
    matcher.add("a = 1", id=4)
    assert id not in matcher
    for call in (matcher.remove, matcher.__getitem__, lambda unknown: matcher.explain({"a": 1}, unknown)):
        with pytest.raises(sluice.MatcherError, match="no subscription"):
            call(id)
    assert matched(matcher, {"a": 1}) == [4]


def test_removed_twice() -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a = 1")
    matcher.remove(id)
    with pytest.raises(sluice.MatcherError, match="no subscription"):
        matcher.remove(id)


def test_a_wrong_text_adds_nothing() -> None:
    matcher = sluice.Matcher()
    with pytest.raises(sluice.ParseError) as caught:
        matcher.add("a = 1 AND upper(b) = 'X'")
    assert caught.value.position == 10
    assert len(matcher) == 0


# --- loading --------------------------------------------------------------------------------------------------------

PAIRS = [(5, "a = 1"), (9, "a > 0 OR s = 'x'"), (0, "s LIKE '%x'")]


@pytest.mark.parametrize(
    "table",
    [
        PAIRS,
        iter(PAIRS),
        dict(PAIRS).items(),
        pa.table({"id": [5, 9, 0], "where": [text for _, text in PAIRS]}),
        pa.table({"where": [text for _, text in PAIRS], "more": [1, 2, 3], "id": pa.array([5, 9, 0], pa.int16())}),
        pa.RecordBatch.from_pydict(
            {"id": [5, 9, 0], "where": pa.array([text for _, text in PAIRS], pa.large_string())}
        ),
        pa.table(
            {"id": pa.chunked_array([[5], [9, 0]]), "where": pa.chunked_array([["a = 1"], [PAIRS[1][1], PAIRS[2][1]]])}
        ),
    ],
    ids=["pairs", "iterator", "items", "table", "more columns", "batch", "chunks"],
)
def test_load(table: Any) -> None:
    matcher = sluice.Matcher()
    assert matcher.load(table) == 3
    assert matched(matcher, {"a": 1, "s": "ax"}) == [0, 5, 9]
    assert matched(matcher, {"a": 2}) == [9]


def test_load_tells_how_far_it_is() -> None:
    seen: list[int] = []
    matcher = sluice.Matcher()
    matcher.load([(i, f"a = {i}") for i in range(40_000)], seen.append)
    assert seen == sorted(seen) and seen[-1] == 40_000
    assert matched(matcher, {"a": 39_999}) == [39_999]


@pytest.mark.parametrize("at", [0, 10, 20_000])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ((77_777, "a ="), "77777.*wrong"),
        ((77_777, None), "77777.*no text"),
        ((77_777, 5), "77777.*no text"),
        ((None, "a = 1"), "None"),
        ((-3, "a = 1"), "-3"),
        ((3, "a = 1"), "3 is taken"),
        ((1_000_000, "a = 1"), "1000000 is taken"),
    ],
)
def test_load_is_all_or_nothing(at: int, bad: tuple[Any, Any], problem: str) -> None:
    """One bad row in the first chunk or in a later one: the error names it, and nothing is left of the others."""
    matcher = sluice.Matcher()
    matcher.add("a = 5", id=3)
    rows: list[tuple[Any, Any]] = [(1_000_000 + i, f"a = {i % 50}") for i in range(at + 10)]
    if bad[0] != 1_000_000 or at > 0:
        rows.insert(at, bad)
    else:
        rows.append(bad)
    with pytest.raises(sluice.MatcherError, match=problem):
        matcher.load(rows)
    assert list(matcher) == [3] and matched(matcher, {"a": 5}) == [3]
    assert matcher.load([(4, "a = 5")]) == 1
    assert matched(matcher, {"a": 5}) == [3, 4]


def test_load_of_a_wrong_table() -> None:
    for table in (pa.table({"id": [1]}), pa.table({"where": ["a = 1"]}), pa.table({})):
        with pytest.raises(sluice.MatcherError, match=r"no columns .*id.*where"):
            sluice.Matcher().load(table)


@pytest.mark.parametrize("twice", ["id", "where"])
def test_load_of_a_table_with_a_column_twice(twice: str) -> None:
    columns = {"id": pa.array([1]), "where": pa.array(["a = 1"])}
    table = pa.table([*columns.values(), columns[twice]], [*columns, twice])
    for each in (table, table.to_batches()[0]):
        with pytest.raises(sluice.MatcherError, match=f"2 columns `{twice}`"):
            sluice.Matcher().load(each)


@pytest.mark.parametrize("rows", [[5], ["abc"], [(1,)], [(1, "a = 1", 2)], [None], 5])
def test_load_of_no_pairs_at_all(rows: Any) -> None:
    with pytest.raises(sluice.MatcherError):
        sluice.Matcher().load(rows)


def test_load_interrupted_leaves_nothing() -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    matcher = sluice.Matcher()
    with pytest.raises(KeyboardInterrupt):
        matcher.load([(1, "a = 1")], stop)
    assert len(matcher) == 0 and matched(matcher, {"a": 1}) == []


# --- explaining -----------------------------------------------------------------------------------------------------


def test_explain() -> None:
    matcher = sluice.Matcher()
    id = matcher.add("price > 3 AND symbol = 'IBM' AND price * 2 < volume")
    text = str(matcher.explain({"price": 5, "symbol": "SUN", "volume": 100}, id))
    assert text.splitlines()[0] == "no match"
    assert "yes  price > 3" in text and "price is 5" in text
    assert "NO   symbol = 'IBM'" in text and "symbol is 'SUN'" in text
    assert "price * 2" in text and "evaluated" in text


def test_explain_boxes() -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a = 1 AND b = 2 OR c LIKE '%x%'")
    explanation = matcher.explain({"c": "axa"}, id)
    assert explanation.matched and len(explanation.boxes) == 2
    assert str(explanation).startswith("match\n box 1 of 2\n")
    assert "a is missing" in str(explanation)


def test_explain_everything_and_nothing() -> None:
    matcher = sluice.Matcher()
    assert "everything" in str(matcher.explain({}, matcher.add("true")))
    assert "contradict" in str(matcher.explain({}, matcher.add("a = 1 AND a = 2")))


def test_explain_agrees_with_matching() -> None:
    generator = Generator(random.Random(21))
    matcher = sluice.Matcher()
    for _ in range(150):
        matcher.add(generator.filter())
    for _ in range(10):
        record = generator.record(typed=False)
        found = matched(matcher, record)
        for id in matcher:
            explanation = matcher.explain(record, id)
            assert explanation.matched == (id in found) == str(explanation).startswith("match")


# --- filters against filters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_covering_covered_and_merging(seed: int) -> None:
    generator = Generator(random.Random(seed))
    matcher = sluice.Matcher()
    subscriptions: dict[int, sluice.Subscription] = {}
    for step in range(250):
        if subscriptions and generator.chance(0.2):
            gone = generator.random.choice(sorted(subscriptions))
            matcher.remove(gone)
            del subscriptions[gone]
        # Terms rather than whole filters: they cover each other more often.
        text = generator.filter() if generator.chance(0.3) else generator.term()
        if generator.chance(0.3):
            text = f"{text} AND {generator.term()}"
        subscriptions[matcher.add(text, id=None if step % 3 else 1000 + step)] = sluice.parse(text)
        if step % 100 == 50:
            matcher.merge_candidates("a = 1")  # from here on the index of candidates is kept up to date
    found = 0
    queries = [sluice.parse(generator.term()) for _ in range(15)]
    queries += [subscriptions[generator.random.choice(sorted(subscriptions))] for _ in range(15)]
    for query in queries:
        covering, covered = naive.covering(query, subscriptions), naive.covered(query, subscriptions)
        assert matcher.covering(query) == covering, query
        assert matcher.covered(query) == covered, query
        overlapping = naive.overlapping(query, subscriptions)
        assert matcher.overlapping(query) == overlapping, query
        assert matcher.overlaps(query) == bool(overlapping), query
        candidates = naive.merge_candidates(query, subscriptions)
        assert matcher.merge_candidates(query) == candidates, query
        found += len(covering) + len(covered) + len(candidates)
    assert found > 60


def test_covering_takes_texts_filters_and_subscriptions() -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a > 1")
    wanted = sluice.parse("a > 2")
    assert matcher.covering("a > 2") == matcher.covering(wanted) == matcher.covering(wanted.filters[0]) == [id]
    assert matcher.covered("a > 0") == [id] and matcher.covered("a > 5") == []
    assert matcher.merge_candidates("a < 7") == [id]
    assert matcher.overlapping("a < 2") == matcher.overlapping(sluice.parse("a < 2").filters[0]) == [id]
    assert matcher.overlapping("a < 1") == [] and not matcher.overlaps("a < 1")


@pytest.mark.parametrize(
    ("query", "stored"),
    [
        ("s > 2.5 OR s < 'abc'", "s > 3"),  # one interval that goes from numbers into strings
        ("s > '' OR s < X'ff'", "s = 'x'"),
        ("t <= TIMESTAMP '1969-12-31 23:59:59.999999'", "t < TIMESTAMP '1970-01-01'"),  # nothing lies between
        ("t > TIMESTAMP '1970-01-01'", "t >= TIMESTAMP '1970-01-01 00:00:00.000001'"),
        ("n > 9007199254740992", "n >= 9007199254740993"),
        ("n >= 0.1", "n > 0.1"),
        ("s >= 'x'", "s = 'x'"),
        ("s > 'abcdefgh'", "s > 'abcdefgi'"),
    ],
)
def test_covering_at_the_ends(query: str, stored: str) -> None:
    for a, b in ((query, stored), (stored, query), (query, query)):
        matcher = sluice.Matcher()
        id = matcher.add(b)
        assert matcher.covered(a) == naive.covered(sluice.parse(a), {id: sluice.parse(b)})
        assert matcher.covering(a) == naive.covering(sluice.parse(a), {id: sluice.parse(b)})


def test_nothing_is_covered_by_all() -> None:
    matcher = sluice.Matcher()
    some, none = matcher.add("a = 1"), matcher.add("a = 1 AND a = 2")
    assert matcher.covering("false") == [some, none]
    assert none in matcher.covered("b = 9")


# --- what records and filters may look like -------------------------------------------------------------------------


def test_attributes_never_seen_before() -> None:
    matcher = sluice.Matcher()
    assert matched(matcher, {"a": 1}) == []
    id = matcher.add("a = 1")
    assert matched(matcher, {"a": 1, "new": 5, "other": [1, {"x": 2}]}) == [id]
    late = matcher.add("new.part = 5")
    assert matched(matcher, {"a": 1, "new": {"part": 5}}) == [id, late]


def test_mixed_types_under_one_name() -> None:
    matcher = sluice.Matcher()
    texts = {
        1: "a = 1",
        2: "a = '1'",
        3: "a = true",
        4: "a = X'31'",
        5: "a IN (1, '1')",
        6: "a IS NOT NULL",
        7: "array_contains(a, 1)",
    }
    matcher.load(
        [*texts.items(), (8, "a != 2"), (9, "a.b = 1"), (10, "NOT a <=> 1"), (11, "a IS NULL"), (12, "a > 0 OR a > ''")]
    )
    for value, want in (
        (1, [1, 5, 6, 8, 12]),
        (1.0, [1, 5, 6, 8, 12]),
        ("1", [2, 5, 6, 10, 12]),
        (True, [3, 6, 10]),
        (b"1", [4, 6, 10]),
        ([1], [6, 7, 10]),
        ({"b": 1}, [6, 9, 10]),
        (float("nan"), [6, 10]),
        (None, [10, 11]),
        (2**53 + 1, [6, 8, 10, 12]),
    ):
        assert matched(matcher, {"a": value}) == want, value


def test_filters_without_an_access_key() -> None:
    """Everything, nothing, residuals alone, absence: no filter is left out of the index."""
    matcher = sluice.Matcher()
    matcher.load(
        [
            (0, "true"),
            (1, "false"),
            (2, "a = 1 AND a = 2"),
            (3, "a + b > 3"),
            (4, "a IS NULL"),
            (5, "a <=> b"),
            (6, "1 = 1"),
        ]
    )
    assert matched(matcher, {}) == [0, 4, 5, 6]
    assert matched(matcher, {"a": 2, "b": 2}) == [0, 3, 5, 6]
    for id in (0, 3, 5):
        matcher.remove(id)
    assert matched(matcher, {"a": 2, "b": 2}) == [6]


def test_objects_are_records() -> None:
    @dataclass
    class Quote:
        symbol: str
        price: float

    matcher = sluice.Matcher()
    id = matcher.add(sluice.instance_of(Quote) & sluice.parse("price < 100"))
    assert matched(matcher, Quote("IBM", 95.5)) == [id] and matched(matcher, Quote("IBM", 195.5)) == []


@pytest.mark.parametrize("record", [5, "text", None, [1], [("a", 1)], {1: 2}, {"a": object}, {"a": 1 + 2j}])
def test_what_is_no_record(record: Any) -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a = 1")
    for call in (lambda: matcher.match(record), lambda: matcher.match_batch([{"a": 1}, record])):
        with pytest.raises(sluice.NotificationError):
            call()
    assert matched(matcher, {"a": 1}) == [id], "the matcher must be as it was"


def test_a_bad_value_leaves_nothing_behind() -> None:
    """What was written of a record before its bad value is not seen by the next one."""
    matcher = sluice.Matcher()
    matcher.load([(0, "a = 1"), (1, "b IS NULL"), (2, "s = 'x' OR c")])
    for _ in range(3):
        with pytest.raises(sluice.NotificationError):
            matcher.match({"a": 1, "b": 2, "s": "x", "c": True, "bad": object})
        assert matched(matcher, {}) == [1]


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [61, 62, 63, 64, 65, 130])
def test_more_strings_than_a_mask_has_bits(count: int) -> None:
    """62 strings of an attribute have a bit of their own; with more, IN and NOT IN must stay exact."""
    texts = [f"s{i}" for i in range(count)]
    lists = {
        0: "a IN ({})".format(", ".join(f"'{text}'" for text in texts)),
        1: "a NOT IN ({})".format(", ".join(f"'{text}'" for text in texts)),
        2: f"a IN ('{texts[0]}', '{texts[-1]}')",
        3: f"a NOT IN ('{texts[0]}', '{texts[-1]}')",
        4: f"a != '{texts[-1]}'",
        5: f"a = '{texts[-1]}'",
        6: "a NOT IN ({}) AND b = 1".format(", ".join(f"'{text}'" for text in texts[::2])),
        7: "a IN ({}) AND b = 1".format(", ".join(f"'{text}'" for text in texts[1:])),
    }
    matcher = sluice.Matcher()
    matcher.load(lists.items())
    subscriptions = {id: sluice.parse(text) for id, text in lists.items()}
    records: list[dict[str, Any]] = [{"a": text, "b": 1} for text in (*texts, "other", "", "s")] + [
        {"a": None},
        {"a": 5},
        {"b": 1},
    ]
    for record in records:
        assert matched(matcher, record) == naive.match(record, subscriptions), record
    for gone in (0, 7, 1):  # bits come free, and others take them
        matcher.remove(gone)
        del subscriptions[gone]
        text = "a IN ('new', 's1', 'more')" if gone else "a NOT IN ('new', 's2', 'again')"
        subscriptions[matcher.add(text)] = sluice.parse(text)
        for record in (*records, {"a": "new"}, {"a": "again"}, {"a": "more"}):
            assert matched(matcher, record) == naive.match(record, subscriptions), record


def test_a_thousand_attributes() -> None:
    matcher = sluice.Matcher()
    matcher.load([(i, f"a{i} = {i % 7} AND a{(i + 1) % 1000} > 2") for i in range(1_000)])
    subscriptions = {i: sluice.parse(f"a{i} = {i % 7} AND a{(i + 1) % 1000} > 2") for i in range(1_000)}
    source = random.Random(2)
    for _ in range(5):
        record = {f"a{i}": source.randrange(7) for i in range(1_000) if source.random() < 0.9}
        want = naive.match(record, subscriptions)
        assert matched(matcher, record) == want and want
        _, ids = matcher.match_batch(pa.RecordBatch.from_pylist([record]))
        assert sorted(ids.tolist()) == want


def test_a_filter_on_a_thousand_attributes() -> None:
    matcher = sluice.Matcher()
    id = matcher.add(" AND ".join(f"a{i} > {i}" for i in range(1_000)))
    record = {f"a{i}": i + 1 for i in range(1_000)}
    assert matched(matcher, record) == [id]
    assert matched(matcher, {**record, "a999": 999}) == []
    matcher.remove(id)
    assert matched(matcher, record) == []


def test_a_record_of_ten_thousand_attributes() -> None:
    matcher = sluice.Matcher()
    matcher.load([(0, "a9999 = 9999 AND a0 = 0"), (1, "a5000 IS NULL"), (2, "a1.b = 3")])
    record: dict[str, Any] = {f"a{i}": i for i in range(10_000)}
    assert matched(matcher, record) == [0]
    assert matched(matcher, {**record, "a1": {"b": 3}}) == [0, 2]


def test_a_hundred_thousand_matches() -> None:
    """Buffers for results grow as often as it takes, on all ways in."""
    matcher = sluice.Matcher()
    count = 100_000
    matcher.load((i, f"a > {i % 10} AND b = 1") for i in range(count))
    want = list(range(count))
    assert matched(matcher, {"a": 50, "b": 1}) == want
    offsets, ids = matcher.match_batch(pa.RecordBatch.from_pydict({"a": [50, 5, 50], "b": [1, 1, 2]}))
    assert sorted(ids[: offsets[1]].tolist()) == want
    assert np.diff(offsets).tolist() == [count, count // 2, 0]
    confirmed = sluice.Matcher()
    confirmed.load((i, f"a + {i % 10} > 5") for i in range(3_000))
    assert matched(confirmed, {"a": 50}) == list(range(3_000))


def test_results_stay_as_they_are() -> None:
    """What was returned is not written over by the next match."""
    matcher = sluice.Matcher()
    matcher.load([(i, f"a = {i % 2}") for i in range(100)])
    first = matcher.match({"a": 0})
    _, batch = matcher.match_batch([{"a": 0}])
    kept, kept_batch = first.copy(), batch.copy()
    matcher.match({"a": 1})
    matcher.match_batch([{"a": 1}] * 3)
    assert (first == kept).all() and (batch == kept_batch).all()


def test_the_shape_of_results() -> None:
    matcher = sluice.Matcher()
    matcher.load([(i, "a = 1") for i in range(3)])
    assert matcher.match({"a": 1}).dtype == np.int32
    offsets, ids = matcher.match_batch([{"a": 1}, {}, {"a": 1}])
    assert offsets.dtype == np.int64 and ids.dtype == np.int32
    assert offsets.tolist() == [0, 3, 3, 6]


def test_boxes_of_one_subscription_count_once() -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a > 1 OR b > 1 OR s LIKE '%x%' OR c IN ('p', 'q', 'r')")
    assert matched(matcher, {"a": 2, "b": 2, "s": "x", "c": "q"}) == [id]
    record = pa.RecordBatch.from_pylist([{"a": 2, "b": 2, "s": "x", "c": "q"}] * 2)
    assert matcher.match_batch(record)[1].tolist() == [id, id]


def test_control_c_in_a_kernel_arrives_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper of a compiled function turns it into a SystemError; any other SystemError stays one."""
    error = SystemError("returned a result with an exception set")

    def interrupted(*_: object) -> None:
        raise error

    matcher = sluice.Matcher()
    matcher.add("a = 1")
    monkeypatch.setattr("sluice.match.kernels.mixed.collect", interrupted)
    with pytest.raises(SystemError):
        matcher.match_batch([{"a": 1}])
    error.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        matcher.match_batch([{"a": 1}])
    monkeypatch.undo()
    assert matcher.match_batch([{"a": 1}])[1].tolist() == [0]


def test_a_string_that_began_with_the_shared_bit_keeps_it() -> None:
    """The bits of a mask run out, become free again, and older rows must still be found."""
    matcher = sluice.Matcher()
    for i in range(62):
        matcher.add(f"k = 1 AND s NOT IN ('a{i}')", id=i)
    matcher.add("k = 1 AND s IN ('x', 'y')", id=100)
    matcher.remove(0)
    matcher.remove(1)
    matcher.add("k = 2 AND s IN ('x', 'z')", id=101)
    assert 100 in matcher.match({"k": 1, "s": "x"}).tolist()
    assert matcher.match({"k": 2, "s": "x"}).tolist() == [101]
    matcher.remove(100)
    matcher.remove(101)
    matcher.add("k = 3 AND s IN ('x', 'y')", id=102)
    assert matcher.match({"k": 3, "s": "y"}).tolist() == [102]
    assert matcher.match({"k": 3, "s": "w"}).tolist() == []


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("instanceof(k, 'Kind{n}') AND k = 'Thing{n}'", True),
        ("instanceof(k, 'Kind{n}') OR k = 'Thing{n}'", True),
        ("instanceof(k, 'Kind{n}') OR instanceof(k, 'Thing{n}') AND x > 1", True),
        ("NOT instanceof(k, 'Kind{n}') AND k = 'Thing{n}'", False),
    ],
)
def test_types_declared_after_a_subscription(text: str, is_match: bool, reopened: bool, tmp_path: Path) -> None:
    """It matches from then on, and goes without a trace, also when what it means has become simpler since."""
    number = f"{next(NUMBERS)}"
    text = text.replace("{n}", number)
    matcher = sluice.Matcher()
    matcher.add("a = 1", id=5)
    size = len(matcher._fields.symbols)
    matcher.add(text, id=6)
    matcher.merge_candidates(text)
    if reopened:
        matcher.save(tmp_path / "saved")
        matcher = sluice.Matcher.open(tmp_path / "saved")
        matcher.merge_candidates(text)
    declare(f"Thing{number}", f"Kind{number}")
    made = {"k": f"Thing{number}"}
    assert matcher.match(made).tolist() == ([6] if is_match else [])
    matcher.remove(6)
    assert matcher.match(made).tolist() == []
    assert matcher.match({"a": 1}).tolist() == [5]
    assert matcher.merge_candidates("k = 'nothing'") == []
    assert len(matcher._fields.symbols) == size
    assert matcher._index.heap[ROWS] == 1
