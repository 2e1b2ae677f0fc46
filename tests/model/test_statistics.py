"""Estimates against counting, and files that say what cannot be."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice import parse
from sluice.model.notification import attributes
from sluice.model.ordered import between, equals, one_of
from sluice.model.statistics import FREQUENT, STEPS, Statistics, StatisticsError, Values
from sluice.model.values import Kind

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 4_000


def traffic(seed: int) -> list[dict[str, Any]]:
    """Independent attributes of every ordered kind: skewed, some with more values than are kept, some missing."""
    chance = random.Random(seed)
    records = []
    for _ in range(COUNT):
        record: dict[str, Any] = {
            "symbol": f"S{min(999, int(chance.paretovariate(0.7))):03d}",
            "price": round(chance.lognormvariate(3, 1), 3),
            "size": chance.choice((1, 10, 100, chance.randrange(5000))),
            "at": START + timedelta(seconds=int(chance.betavariate(2, 5) * 86_400)),
            "code": chance.randbytes(3),
            "open": chance.random() < 0.2,
        }
        if chance.random() < 0.3:
            del record["size"]
        elif chance.random() < 0.1:
            record["size"] = "many"
        records.append(record)
    return records


RECORDS = traffic(1)
STATISTICS = Statistics.of(RECORDS)
JOINED = Statistics.of(RECORDS[:500]).joined(Statistics.of(RECORDS[500:1500])).joined(Statistics.of(RECORDS[1500:]))
FLAT = [attributes(record) for record in RECORDS]


def text(chance: random.Random) -> str:
    """One constraint whose ends are values of the traffic or near them."""
    one, other = sorted(round(chance.lognormvariate(3, 1.5), 1) for _ in range(2))
    low, high = sorted(chance.randrange(5000) for _ in range(2))
    symbols = [f"S{min(999, int(chance.paretovariate(0.7))):03d}" for _ in range(3)]
    first, last = sorted(START + timedelta(seconds=chance.randrange(-3600, 90_000)) for _ in range(2))
    code = chance.randbytes(1).hex().upper()
    return chance.choice(
        (
            f"price BETWEEN {one} AND {other}",
            f"price < {one}",
            f"(price < {one} OR price > {other})",
            f"size > {low} AND size <= {high}",
            f"size = {chance.choice((1, 10, low))}",
            "size IS NULL",
            "size IS NOT NULL",
            f"size != {chance.choice((1, 10))}",
            f"symbol IN ('{symbols[0]}', '{symbols[1]}', '{symbols[2]}')",
            f"symbol > '{symbols[0]}'",
            f"startswith(symbol, '{symbols[0][: chance.randint(1, 4)]}')",
            f"symbol LIKE '%{chance.randrange(10)}'",
            f"at BETWEEN TIMESTAMP '{first:%Y-%m-%d %H:%M:%S}' AND TIMESTAMP '{last:%Y-%m-%d %H:%M:%S}'",
            f"code >= X'{code}'",
            "open",
        )
    )


def counted(where: str) -> float:
    boxes = parse(where).filters
    return sum(any(box.matches(flat) for box in boxes) for flat in FLAT) / COUNT


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_one_constraint_is_off_by_at_most_two_steps_of_the_quantiles(seed: int) -> None:
    where = text(random.Random(seed))
    estimate, found = STATISTICS.share(parse(where)), counted(where)
    bound = 2 / STEPS
    if "LIKE" in where:  # values that are not frequent count as if they matched
        frequent = sum(share for _, share in STATISTICS.attributes["symbol"][Kind.STRING].frequent)
        assert found - 1e-9 <= estimate <= found + 1 - frequent + bound
    else:
        assert estimate == pytest.approx(found, abs=bound), where


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_independent_sides_multiply(seed: int) -> None:
    """The bound of one constraint, once for each, and what independent attributes have in common by chance."""
    chance = random.Random(seed)
    sides: dict[str, str] = {}
    while len(sides) < 2:
        one = text(chance)
        if "LIKE" not in one:
            sides[one.strip("(").split()[0].removeprefix("startswith(").rstrip(",")] = one
    where = " AND ".join(sides.values())
    assert STATISTICS.share(parse(where)) == pytest.approx(counted(where), abs=4 / STEPS + 0.01), where


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_union_is_no_more_than_its_boxes_and_no_less_than_the_largest(seed: int) -> None:
    chance = random.Random(seed)
    one, other = parse(text(chance)), parse(text(chance))
    share = STATISTICS.share(one | other)
    assert share <= STATISTICS.share(one) + STATISTICS.share(other) + 1e-9
    assert share >= max(STATISTICS.share(one), STATISTICS.share(other)) - 1 / STEPS


def test_frequent_values_are_exact() -> None:
    counts = Counter(record["symbol"] for record in RECORDS)
    frequent = STATISTICS.attributes["symbol"][Kind.STRING].frequent
    assert len(frequent) > 100
    for value, share in frequent:
        assert share == counts[value] / COUNT
        assert STATISTICS.share_of("symbol", equals(value)) == pytest.approx(share, abs=1e-9)


def test_few_values_leave_nothing_to_estimate() -> None:
    records = [{"x": x} for x in (1, 1, 2, 3, 3, 3, 7, 7, 7, 7)]
    statistics = Statistics.of(records)
    for low in range(9):
        for high in range(low, 9):
            expected = sum(low <= record["x"] <= high for record in records) / len(records)
            assert statistics.share_of("x", between(low, high)) == pytest.approx(expected)


def test_a_value_that_is_not_frequent_is_one_of_the_others() -> None:
    """A thousand values as frequent as each other: 256 are known, and the others share what is left."""
    statistics = Statistics.of({"x": x} for x in range(0, 10_000, 10))
    for x in (0, 3000, 9990):
        assert statistics.share_of("x", equals(x)) == pytest.approx(0.001, rel=0.02)
    assert statistics.share_of("x", equals(-10)) == statistics.share_of("x", equals(10_000)) == 0.0
    assert statistics.share_of("x", one_of([3000, 5000])) == pytest.approx(0.002, rel=0.02)


def test_what_two_boxes_have_in_common_counts_once() -> None:
    both = STATISTICS.share(parse("price < 30 OR open"))
    assert both == pytest.approx(counted("price < 30 OR open"), abs=0.02)
    assert both < STATISTICS.share(parse("price < 30")) + STATISTICS.share(parse("open")) - 0.05


def test_what_nothing_is_known_about_counts_as_everything() -> None:
    assert STATISTICS.share(parse("colour = 'red'")) == 1.0
    assert STATISTICS.share(parse("colour = 'red' AND open")) == STATISTICS.share(parse("open"))
    assert STATISTICS.share(parse("price > size")) >= counted("price > size")
    assert STATISTICS.share(parse("false")) == 0.0
    assert STATISTICS.share(parse("true")) == 1.0


def test_beyond_the_least_and_the_greatest_there_is_nothing() -> None:
    for where in ("price < 0", "price > 1e9", "symbol > 'T'", "at < TIMESTAMP '2025-12-31'", "price = 'cheap'"):
        assert STATISTICS.share(parse(where)) == 0.0, where


def test_kinds_are_told_apart() -> None:
    assert STATISTICS.share(parse("size = 'many'")) == pytest.approx(counted("size = 'many'"))
    assert STATISTICS.share(parse("size >= 0")) == pytest.approx(counted("size >= 0"))
    mixed = Statistics.of([{"x": (1, 2)}, {"x": {}}, {"x": float("nan")}, {"x": 3}, {}])
    assert mixed.share(parse("x IS NULL")) == pytest.approx(0.2)
    assert mixed.share(parse("x = 3")) == pytest.approx(0.2)
    assert mixed.attributes["x"].keys() == {Kind.NUMBER, Kind.NAN, Kind.MULTI, Kind.RECORD}


def test_the_waste_of_a_merger_is_what_its_parts_do_not_match() -> None:
    parts = [parse("price BETWEEN 5 AND 10"), parse("price BETWEEN 20 AND 30")]
    merger = parse("price BETWEEN 5 AND 30")
    gap = counted("price > 10 AND price < 20")
    assert STATISTICS.waste(merger, parts) == pytest.approx(gap, abs=2 / STEPS)
    assert STATISTICS.waste(merger, [merger]) == STATISTICS.waste(parts[0], [merger]) == 0.0
    rare = parse("price BETWEEN 5 AND 30 AND open")
    assert STATISTICS.waste(rare, [part & parse("open") for part in parts]) < STATISTICS.waste(merger, parts) / 3


def test_values_far_apart_and_far_out_do_no_harm() -> None:
    far = [-(10**400), -1.7e308, float("-inf"), 0, 5e-324, 1.7e308, 10**400, float("inf")]
    statistics = Statistics.of([{"x": value} for value in far for _ in range(3)])
    thin = Statistics(statistics.count, {"x": {Kind.NUMBER: Values(1.0, 8, (), tuple(sorted(far)))}})
    for each in (statistics, thin, Statistics.from_text(thin.to_text())):
        shares = [each.share(parse(f"x < {bound}")) for bound in ("-1e300", "0", "1e300")]
        assert shares == sorted(shares) and all(0 <= share <= 1 for share in shares)


def test_texts_with_a_long_common_beginning_are_told_apart() -> None:
    records = [{"url": f"https://example.org/pages/{i:05d}"} for i in range(5000)]
    share = Statistics.of(records).share(parse("url < 'https://example.org/pages/01250'"))
    assert share == pytest.approx(0.25, abs=2 / STEPS)
    ends = Values(1.0, 5000, (), (records[0]["url"], records[-1]["url"]))
    share = Statistics(5000, {"url": {Kind.STRING: ends}}).share(parse("url < 'https://example.org/pages/03750'"))
    assert share == pytest.approx(0.75, abs=0.1), "texts go by their digits, which are not quite even"


def test_a_file_says_the_same() -> None:
    written = STATISTICS.to_text()
    again = Statistics.from_text(written)
    assert again == STATISTICS and again.to_text() == written
    assert len(written) < 100_000, "a small file"
    assert Statistics.from_text(Statistics.of([]).to_text()) == Statistics.of([])


def test_only_the_most_frequent_values_are_kept() -> None:
    kept = STATISTICS.attributes["code"][Kind.BYTES]
    assert len(kept.frequent) == FREQUENT < kept.distinct == len({record["code"] for record in RECORDS})
    assert len(kept.quantiles) == STEPS + 1


def test_nested_records_are_known_by_dotted_names() -> None:
    statistics = Statistics.of([{"order": {"total": 5}}, {"order": {"total": 7}}])
    assert list(statistics.attributes) == ["order", "order.total"]
    assert statistics.share(parse("order.total > 6")) == 0.5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_parts_joined_are_like_the_whole(seed: int) -> None:
    """Of three unequal parts: three times the bound of one constraint."""
    where = text(random.Random(seed))
    assert JOINED.share(parse(where)) == pytest.approx(STATISTICS.share(parse(where)), abs=6 / STEPS), where


def test_parts_count_by_their_size() -> None:
    chance = random.Random(1)
    few = Statistics.of({"x": chance.random()} for _ in range(500))
    many = Statistics.of({"x": 10 + chance.random()} for _ in range(4500))
    for both in (few.joined(many), many.joined(few)):
        assert both.share(parse("x < 5")) == pytest.approx(0.1, abs=2 / STEPS)
        assert both.share(parse("x < 10.5")) == pytest.approx(0.55, abs=0.03)


def test_what_one_part_alone_has_is_not_lost() -> None:
    assert JOINED.count == COUNT and Statistics.from_text(JOINED.to_text()) == JOINED
    nothing = Statistics.of([])
    assert nothing.joined(nothing) == nothing
    assert nothing.joined(STATISTICS).share(parse("open")) == pytest.approx(STATISTICS.share(parse("open")))
    both = Statistics.of([{"a": 1}]).joined(Statistics.of([{"b": "x"}, {"b": (1, 2)}, {"a": "one"}]))
    assert both.share(parse("a = 1")) == both.share(parse("b = 'x'")) == both.share(parse("a = 'one'")) == 0.25
    assert both.attributes["b"][Kind.MULTI] == Values(0.25)


def damaged(change: Callable[[dict[str, Any]], object]) -> str:
    found = json.loads(Statistics.of([{"x": 1, "s": "a", "t": START}, {"x": 2}]).to_text())
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[]", "no file of statistics"),
        ('{"version": 1}', "no file of statistics"),
        (damaged(lambda f: f.update(version=2)), "version 2 .* unknown"),
        (damaged(lambda f: f.pop("version")), "version None"),
        (damaged(lambda f: f.update(count=-1)), "count is -1"),
        (damaged(lambda f: f.update(count=True)), "count is True"),
        (damaged(lambda f: f.pop("attributes")), "attributes should be an object"),
        (damaged(lambda f: f["attributes"].update(x=[])), "x should be an object"),
        (damaged(lambda f: f["attributes"]["x"].update(colour={})), "kind 'colour'"),
        (damaged(lambda f: f["attributes"]["x"].update(null={})), "kind 'null'"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(share=1.5)), "x, number: share is 1.5"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(share="1")), "a number from 0 to 1"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(distinct=0)), "distinct is 0"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(median=3)), "nothing is called median"),
        (damaged(lambda f: f["attributes"]["x"]["number"].pop("frequent")), "pairs of a number and a share"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(frequent=[["1", 0.5]])), "pairs of a number"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(frequent=[[1, 2]])), "the share of 1 is 2"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(frequent=[[1, 0.1], [1.0, 0.1]])), "twice"),
        (damaged(lambda f: f["attributes"]["s"]["string"].update(frequent=[["a", 0.6]])), "larger share"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(quantiles=[2, 1])), "from the least"),
        (damaged(lambda f: f["attributes"]["x"]["number"].update(quantiles=[2])), "at least two"),
        (damaged(lambda f: f["attributes"]["t"]["timestamp"].update(quantiles=["soon", "later"])), "a timestamp"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(file: str, says: str) -> None:
    with pytest.raises(StatisticsError, match=says):
        Statistics.from_text(file)
