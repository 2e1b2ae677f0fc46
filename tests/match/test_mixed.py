"""Rows with different tests are right for any number of records at once: one by one, in a step, in many, sorted or not."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import sluice
from sluice.match import index, naive
from sluice.match.counting import Counting
from sluice.match.kernels.layout import CROWDED, PAGE

KEYS = [f"k{i}" for i in range(4)]
DAY = datetime(2024, 1, 1, tzinfo=UTC)
#: Records at once: a few, up to a step and beyond, and so many that they are searched in several steps.
COUNTS = [1, 3, 4, 15, 16, 17, 31, 33, 300]


def condition(source: random.Random) -> str:
    """A test whose ends lie where values do, of every kind that is laid out in a way of its own."""
    low = source.randrange(20)
    high = low + source.randrange(8)
    return source.choice(
        [
            f"i{source.randrange(3)} BETWEEN {low} AND {high}",
            f"i{source.randrange(3)} > {low}",
            f"i{source.randrange(3)} < {high}",
            f"i0 <= {low}.5",
            f"i1 IN ({low}, {low + 2}, {high + 5})",
            f"cents BETWEEN {low}.37 AND {high}.91",
            f"cents > {low}.37",
            f"day >= TIMESTAMP '2024-01-{low + 1:02} 00:00:00'",
            f"day < TIMESTAMP '2024-01-{low + 1:02} 00:00:00'",
            f"name > 'n{low:02}'",
            f"venue = 'v{low % 6}'",
            f"venue IN ('v{low % 6}', 'v{high % 6}')",
            f"venue NOT IN ('v{low % 6}', 'v{high % 6}')",
            f"i{source.randrange(3)} IS NOT NULL",
            f"i0 > {low} OR i1 > {low}",
        ]
    )


def text(source: random.Random) -> str:
    """Found by two equalities, by one or by an interval, with up to five tests besides."""
    keys = [f"{name} = 'x{source.randrange(2)}'" for name in source.sample(KEYS, source.choice([0, 1, 1, 2, 3]))]
    others = [f"({condition(source)})" for _ in range(source.randrange(0 if keys else 1, 6))]
    return " AND ".join(keys + others)


def record(source: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {name: f"x{source.randrange(3)}" for name in KEYS}
    made |= {f"i{i}": source.randrange(-1, 29) for i in range(3)}
    made |= {
        "cents": source.choice([source.randrange(2000) / 100, source.randrange(20) + 0.37]),
        "venue": f"v{source.randrange(8)}",
    }
    made |= {"day": DAY + timedelta(days=source.randrange(25)), "name": f"n{source.randrange(25):02}"}
    return {name: value for name, value in made.items() if source.random() < 0.85}


def pool() -> dict[int, sluice.Subscription]:
    source = random.Random(7)
    return {id: sluice.parse(text(source)) for id in range(1500)}


@pytest.fixture(scope="module")
def subscriptions() -> dict[int, sluice.Subscription]:
    return pool()


def loaded(subscriptions: dict[int, sluice.Subscription]) -> sluice.Matcher:
    matcher = sluice.Matcher()
    for id, subscription in subscriptions.items():
        matcher.add(subscription, id=id)
    return matcher


@pytest.fixture(scope="module")
def matcher(subscriptions: dict[int, sluice.Subscription]) -> sluice.Matcher:
    return loaded(subscriptions)


def check(matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription], found: list[dict[str, Any]]) -> None:
    offsets, ids = matcher.match_batch(found)
    got = [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]
    assert got == naive.match_batch(found, subscriptions)


@pytest.mark.parametrize("count", COUNTS)
def test_any_number_of_records(
    matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription], count: int
) -> None:
    source = random.Random(count)
    check(matcher, subscriptions, [record(source) for _ in range(count)])


def test_all_lead_to_the_same_rows(matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription]) -> None:
    """Columns end anywhere within a step, and some have a value only here and there."""
    source = random.Random(1)
    for count in range(2, 40):
        found = [{**record(source), **dict.fromkeys(KEYS, "x1")} for _ in range(count)]
        for made in found[: count // 2]:
            made.pop("i0", None)
        check(matcher, subscriptions, found)


def test_one_number_that_no_double_equals(
    matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription]
) -> None:
    """Then records have an upper and a lower key, in a batch with others that have one."""
    source = random.Random(2)
    found = [record(source) for _ in range(40)]
    found[7]["i0"] = 2**53 + 1
    found[8]["i1"] = -(2**60) - 1
    check(matcher, subscriptions, found)


@pytest.mark.parametrize("number", [2**60 - 1, 2**60 + 1, -(2**60) - 1])
def test_a_number_beside_one_whose_half_is_enough(number: int) -> None:
    """One of the doubles around it could be compared by half of its key, the other one could not."""
    near = 2**60 if number > 0 else -(2**60)
    texts = [f"k = 1 AND a {how} {near}" for how in ("<", "<=", "=", ">=", ">")]
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text) for text in texts}
    check(matcher, subscriptions, [{"k": 1, "a": number}] * 5)
    check(matcher, subscriptions, [{"k": 1, "a": number}, {"k": 1, "a": near}, {"k": 1, "a": 5}] * 7)


def test_halves_that_look_the_same() -> None:
    """A number whose upper half is also the key of a tiny number, in tests and in records, with and without the other."""
    one, tiny = 1.0, 0x3FF00000 * 5e-324
    texts = [f"k = 1 AND a BETWEEN {low!r} AND {high!r}" for low, high in ((one, 1.5), (tiny, tiny), (0.0, tiny))]
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text) for text in texts}
    for values in ([one, 2.0], [tiny, 0.0], [one, tiny]):
        for count in (5, 21):
            check(matcher, subscriptions, [{"k": 1, "a": values[i % 2]} for i in range(count)])


def test_a_moment_whose_half_means_missing() -> None:
    """2**31 microseconds before 1970, as the end of a test, among records of 1970 some of which have no moment."""
    first = DAY.replace(year=1970) - timedelta(microseconds=2**31)
    text = f"k = 1 AND at BETWEEN TIMESTAMP '{first:%Y-%m-%d %H:%M:%S.%f}' AND TIMESTAMP '1970-01-01 00:00:01'"
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text)}
    there = {"k": 1, "at": DAY.replace(year=1970, microsecond=7)}
    check(matcher, subscriptions, [there, {"k": 1}, there, {"k": 1}, there])


@pytest.mark.parametrize("open_side", ["a", "b"])
def test_two_equalities_cover_no_interval(open_side: str) -> None:
    """Rows are found by both of them, and a box that has an interval on one side begins where they are."""
    crowd = [f"a = 1 AND b = 2 AND c > {i}" for i in range(2 * CROWDED)]
    matcher = sluice.Matcher()
    for text in crowd:
        matcher.add(text)
    sides = {"a": "a = 1", "b": "b = 2"}
    assert matcher.covering(" AND ".join(sides.values()) + " AND c > 1000") == list(range(len(crowd)))
    sides[open_side] = f"{sides[open_side].replace('=', 'BETWEEN')} AND 7"
    assert matcher.covering(" AND ".join(sides.values()) + " AND c > 1000") == []


@pytest.mark.parametrize("large", [2**19, 2**31 - 1, 2**31, -(2**31), 2**40, 0.1, 1e300, -0.0])
def test_values_that_do_not_fit_in_half_a_key(large: float) -> None:
    """One such value in a column, and tests that end at it and next to it."""
    ends = [large, large - 1, large + 1]
    texts = [f"k = 1 AND b = 1 AND a {how} {end!r}" for how in ("<", "<=", "=", ">=", ">") for end in ends]
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text) for text in texts}
    values = [large, *ends, 5, 0, -7, 12]
    check(matcher, subscriptions, [{"k": 1, "b": 1, "a": values[i % len(values)]} for i in range(37)])
    check(matcher, subscriptions, [{"k": 1, "b": 1, "a": 5}] * 20)


def test_little_room(subscriptions: dict[int, sluice.Subscription], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is kept when there is no room for more, and the rest is found after that, once."""
    for name in ("_PAIRS", "_CANDIDATES", "_RUNS"):
        monkeypatch.setattr(index, name, 1)
    source = random.Random(3)
    found = [record(source) for _ in range(50)]
    check(loaded(subscriptions), subscriptions, found)
    matcher = loaded(subscriptions)
    for made in found[:10]:
        assert sorted(matcher.match(made).tolist()) == naive.match(made, subscriptions)


def test_more_than_one_batch(
    matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_BATCH", 7)
    monkeypatch.setattr(index, "_COUNTED", 7)
    source = random.Random(4)
    found = [record(source) for _ in range(50)]
    check(matcher, subscriptions, found)
    counting = Counting(matcher)
    counting.add(found)
    counts = dict.fromkeys(subscriptions, 0)
    for id in itertools.chain.from_iterable(naive.match_batch(found, subscriptions)):
        counts[id] += 1
    ids, sums = counting.result()
    assert dict(zip(ids.tolist(), sums.tolist(), strict=True)) == {id: n for id, n in counts.items() if n}


def test_rows_longer_than_a_page() -> None:
    """One with more tests than fit beside others comes, is found, and goes."""
    names = [f"a{i}" for i in range(PAGE // 2)]
    long = "k = 1 AND " + " AND ".join(f"{name} > 3" for name in names)
    subscriptions = {id: sluice.parse(f"k = 1 AND a{id} > {id}") for id in range(20)}
    matcher = loaded(subscriptions)
    for id in (100, 101):
        subscriptions[id] = sluice.parse(long)
        matcher.add(long, id=id)
    full = {"k": 1, **dict.fromkeys(names, 4)}
    found = [full, {**full, names[-1]: 3}, {"k": 1, "a5": 9}] * 3
    check(matcher, subscriptions, found)
    for id in (100, 7, 101):
        matcher.remove(id)
        del subscriptions[id]
        check(matcher, subscriptions, found)


def test_every_row_goes_and_comes_back(subscriptions: dict[int, sluice.Subscription]) -> None:
    """Half of a crowded bucket leaves and others take the room."""
    source = random.Random(5)
    crowd = {id: sluice.parse(f"k0 = 'x1' AND {condition(source)} AND {condition(source)}") for id in range(1200)}
    matcher = loaded(crowd)
    found = [record(source) for _ in range(20)]
    size = matcher.index_bytes
    for _ in range(3):
        for id in source.sample(sorted(crowd), 600):
            matcher.remove(id)
            crowd[id] = sluice.parse(f"k0 = 'x1' AND {condition(source)} AND {condition(source)}")
            matcher.add(crowd[id], id=id)
        check(matcher, crowd, found)
    assert matcher.index_bytes < 2 * size
    for id in list(crowd):
        matcher.remove(id)
    check(matcher, {}, found)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["a > X'FFFFFFFFFFFF'", "a <= X'FFFFFFFF'", "a = X'00'"], [b"\xff" * 7, b"", b"\xff" * 4, b"\0"]),
        (["a > 3", "a = 0", "a < 1e-300", "a <= -1e300"], [5e-324, 1e-320, 5e-324]),
        (["a > 1e308", "a >= 0", "a < 0"], [float("inf"), float("-inf"), 0.0]),
        (
            [
                "a > TIMESTAMP '2020-01-01 00:00:00'",
                "a > TIMESTAMP '1970-01-01 00:00:00'",
                "a < TIMESTAMP '1960-01-01 00:00:00'",
            ],
            [datetime(1970, 1, 1, 0, 0, i, tzinfo=UTC) for i in range(3)],
        ),
    ],
)
def test_keys_at_the_ends_of_a_half(texts: list[str], values: list[Any]) -> None:
    """Columns of keys that are small, or missing everywhere, and tests that end far from them."""
    matcher, subscriptions = sluice.Matcher(), {}
    for text in texts:
        for whole in (f"k = 1 AND b = 1 AND {text}", f"b > 0 AND {text}", f"k = 1 AND {text} AND c > 0 AND b = 1"):
            subscriptions[matcher.add(whole)] = sluice.parse(whole)
    for count in (5, 21):
        check(matcher, subscriptions, [{"k": 1, "b": 1, "c": 1}] * count)
        check(matcher, subscriptions, [{"k": 1, "b": 1, "c": 1, "a": values[i % len(values)]} for i in range(count)])
        check(matcher, subscriptions, [{"k": 1, "b": 1, "c": 1, "a": values[0]}] * count)
