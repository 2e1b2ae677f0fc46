"""Every algorithm, change by change: the same as one that starts anew, and as the definition says by trying everything."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.match import filterset
from sluice.model.statistics import Statistics
from sluice.model.subscription import Subscription
from sluice.protocol.export import Delta
from sluice.protocol.messages import Entry
from sluice.protocol.route import ALGORITHMS, Ratio, RoutingOptions, Traffic, register_routing
from sluice.protocol.route.reduce import Reducer, algorithm
from tests.protocol.drive import entry
from tests.protocol.route.some import SAME, Some, any_matches

#: Ones are frequent, and y is mostly missing.
SEEN = Statistics.of([{"x": x, "y": x} if x == 3 else {"x": x} for x in (1, 1, 1, 1, 1, 2, 3, 9)] * 20)
POLICIES = (Ratio(), Ratio(1.0), Ratio(3.0), Traffic(SEEN, budget=0.02), Traffic(SEEN, budget=0.2))


class Told:
    """What a neighbour has been told, which must fit every change."""

    def __init__(self, name: str, options: RoutingOptions | None = None) -> None:
        self.reducer: Reducer = algorithm(name)(options or RoutingOptions())
        self.entries: dict[Entry, None] = dict.fromkeys(self.reducer.start())

    def update(self, added: Iterable[Entry], removed: Iterable[Entry] = ()) -> Delta:
        come, go = self.reducer.update(added, removed)
        assert len({*come, *go}) == len(come) + len(go), "an entry comes or goes twice"
        for each in go:
            del self.entries[each]
        for each in come:
            assert each not in self.entries
            self.entries[each] = None
        return come, go

    @property
    def filters(self) -> set[Subscription]:
        return {each.where for each in self.entries}

    @property
    def texts(self) -> list[str]:
        return sorted(each.where.to_sql() for each in self.entries)


def maximal(entries: Iterable[Entry]) -> set[Subscription]:
    """The boxes that no other one covers, by comparing all; of those that mean the same, the first in the alphabet."""
    boxes = {Subscription([box]) for each in entries for box in each.where.filters}
    return {
        box
        for box in boxes
        if not any(
            other.covers(box) and (not box.covers(other) or other.to_sql() < box.to_sql())
            for other in boxes
            if other != box
        )
    }


def churn(seed: int, names: list[str], options: RoutingOptions) -> tuple[Some, dict[str, Told], dict[Entry, None]]:
    """Adds and removes in random portions, the same for several reducers."""
    some = Some(random.Random(seed))
    told = {name: Told(name, options) for name in names}
    held: dict[Entry, None] = {}
    for _ in range(some.random.randint(1, 14)):
        added = [some.entry() for _ in range(some.random.choice((0, 1, 1, 1, 2, 5)))]
        most = min(len(held), some.random.choice((0, 0, 1, 2, 6)))
        removed = some.random.sample(list(held), most)
        for each in told.values():
            each.update(added, removed)
        for one in removed:
            del held[one]
        held.update(dict.fromkeys(added))
    return some, told, held


@pytest.fixture(params=[0, 24], ids=["index", "scan"])
def scan_up_to(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(filterset, "SCAN_UP_TO", request.param)
    return int(request.param)


def check(seed: int) -> None:
    options = RoutingOptions(POLICIES[seed % len(POLICIES)])
    some, told, held = churn(seed, list(ALGORITHMS), options)
    wheres = [each.where for each in held]
    for name, one in told.items():
        fresh = Told(name, options)
        entries = list(held)
        some.random.shuffle(entries)
        half = len(entries) // 2
        for part in (entries[:half], entries[half:]):
            fresh.update(part)
        assert one.entries == fresh.entries, f"{name} depends on the order"
    assert told["flooding"].texts == ["true"]
    assert told["simple"].entries == held
    assert told["identity"].filters == set(wheres)
    assert told["covering"].filters == maximal(held)
    assert len(told["merging"].entries) <= len(told["covering"].entries)
    if isinstance(options.policy, Ratio):  # by traffic, filters that were alike may get unlike sides, though seldom
        assert len(told["imperfect"].entries) <= len(told["merging"].entries)
    for record in some.records(wheres):
        wanted = any_matches(wheres, record)
        for name in ("identity", "covering", "merging"):
            assert any_matches(told[name].filters, record) == wanted, (name, record)
        if wanted:
            assert any_matches(told["imperfect"].filters, record), record
    for one in told.values():
        one.update([], held)
    assert not any(told[name].entries for name in ALGORITHMS if name != "flooding")


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_changes_lead_where_a_fresh_start_leads(seed: int) -> None:
    check(seed)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_changes_lead_where_a_fresh_start_leads_with_an_index(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", 0)
        check(seed)


def test_some_filters_mean_the_same_and_read_differently() -> None:
    for same in SAME[:3]:
        wheres = [entry(text).where for text in same]
        assert len(set(wheres)) == len(same)
        assert all(one.covers(other) for one in wheres for other in wheres)


@pytest.mark.parametrize("same", SAME, ids=str)
@pytest.mark.parametrize("name", ["covering", "merging", "imperfect"])
def test_filters_that_mean_the_same_are_told_once(name: str, same: tuple[str, ...], scan_up_to: int) -> None:
    entries = [entry(text, f"c/{number}") for number, text in enumerate(same)]
    results = []
    for order in (entries, entries[::-1]):
        told = Told(name)
        for each in order:
            told.update([each])
        results.append(told.texts)
        for each in order[:-1]:
            told.update([], [each])
            assert len(told.entries) == len(order[-1].where.filters)
        assert all(any(one.covers(box) for one in told.filters) for box in [order[-1].where])
        told.update([], [order[-1]])
        assert not told.entries
    assert results[0] == results[1]


def test_simple_keeps_apart_who_asked() -> None:
    told = Told("simple")
    told.update([entry("x > 1", "a/1"), entry("x > 1", "a/2")])
    assert told.update([], [entry("x > 1", "a/1")]) == ([], [entry("x > 1", "a/1")])
    assert list(told.entries) == [entry("x > 1", "a/2")]


def test_simple_counts_an_entry_that_comes_from_two_sides() -> None:
    told = Told("simple")
    one = entry("x > 1", "a/1")
    assert told.update([one, one]) == ([one], [])
    assert told.update([one], []) == ([], [])
    assert told.update([], [one]) == ([], [])
    assert told.update([], [one, one]) == ([], [one])


@pytest.mark.parametrize("name", ["identity", "covering", "merging", "imperfect"])
def test_a_twin_stays_when_the_other_goes(name: str) -> None:
    told = Told(name)
    assert told.update([entry("x > 1", "a/1")])[0] == [entry("x > 1")]
    assert told.update([entry("x > 1", "b/1")]) == ([], [])
    assert told.update([], [entry("x > 1", "a/1")]) == ([], [])
    assert told.update([], [entry("x > 1", "b/1")]) == ([], [entry("x > 1")])


@pytest.mark.parametrize("name", ["covering", "merging", "imperfect"])
def test_what_is_uncovered_comes_in_the_same_change(name: str, scan_up_to: int) -> None:
    told = Told(name)
    wide, narrow, other = entry("x > 1", "a/1"), entry("x > 5", "b/1"), entry("x BETWEEN 2 AND 3 AND y = 1", "b/2")
    told.update([narrow])
    assert told.update([wide]) == ([entry("x > 1")], [entry("x > 5")])
    assert told.update([other]) == ([], [])
    come, go = told.update([], [wide])
    assert sorted(each.where.to_sql() for each in come) == ["x > 5", "x BETWEEN 2 AND 3 AND y = 1"]
    assert go == [entry("x > 1")]


def test_what_comes_covers_what_would_surface() -> None:
    """One change takes the cover away and brings another: what lies below both is not told."""
    told = Told("covering")
    told.update([entry("x > 1", "a/1"), entry("x > 5", "b/1")])
    assert told.update([entry("x > 0", "a/2")], [entry("x > 1", "a/1")]) == ([entry("x > 0")], [entry("x > 1")])


def test_what_hangs_below_a_covered_filter_is_not_forgotten(scan_up_to: int) -> None:
    told = Told("covering")
    low, middle, high = entry("x > 9", "a/1"), entry("x > 5", "a/2"), entry("x > 1", "a/3")
    told.update([low])
    told.update([middle])
    told.update([high])
    assert told.update([], [middle]) == ([], [])
    assert told.update([], [high]) == ([entry("x > 9")], [entry("x > 1")])


@pytest.mark.parametrize("name", ["covering", "merging"])
def test_boxes_of_a_union_count_one_by_one(name: str) -> None:
    told = Told(name)
    told.update([entry("x > 1", "a/1")])
    assert told.update([entry("x > 2 AND y = 1 OR s = 'a'", "a/2")]) == ([entry("s = 'a'")], [])
    assert told.update([], [entry("x > 1", "a/1")])[0] == [entry("x > 2 AND y = 1")]


def test_a_filter_that_matches_nothing_is_not_told_by_boxes() -> None:
    told = Told("covering")
    assert told.update([entry("false", "a/1")]) == ([], []) == told.update([], [entry("false", "a/1")])


def test_perfect_merging_takes_one_attribute_after_the_other() -> None:
    told = Told("merging")
    corners = [entry(f"x = {x} AND y = {y}", f"a/{x}{y}") for x in (1, 2) for y in (3, 4)]
    told.update(corners[:3])
    assert told.texts == ["x = 1 AND y = 4", "x IN (1, 2) AND y = 3"]
    told.update(corners[3:])
    assert told.texts == ["x IN (1, 2) AND y IN (3, 4)"]
    told.update([], corners[:1])
    assert len(told.texts) == 2 and not any_matches(told.filters, {"x": 1, "y": 3})


def test_what_is_covered_is_not_merged() -> None:
    told = Told("merging")
    told.update([entry("x >= 0", "a/1"), entry("x = 1 AND y = 1", "a/2"), entry("x = -5 AND y = 1", "a/3")])
    assert told.texts == ["x = -5 AND y = 1", "x >= 0"]
    told.update([], [entry("x >= 0", "a/1")])
    assert told.texts == ["x IN (-5, 1) AND y = 1"]


def test_filters_with_more_attributes_may_come_later() -> None:
    told = Told("merging")
    told.update([entry("x = 1", "a/1")])
    told.update([entry("x = 2 AND y = 1 AND z = 1", "a/2"), entry("x = 2 AND y = 1 AND z = 2", "a/3")])
    assert told.texts == ["x = 1", "x = 2 AND y = 1 AND z IN (1, 2)"]
    told.update([entry("x = 2", "a/4")])
    assert told.texts == ["x IN (1, 2)"]


QUARTERS = ("w IS NULL AND y = 1", "w IS NOT NULL AND y = 1", "x IS NULL AND y = 1", "x IS NOT NULL AND y = 1")


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("first", range(4))
def test_two_groups_may_become_the_same_filter(together: bool, first: int) -> None:
    """Both pairs say `y = 1`, each in its own way: it stays until neither does."""
    told = Told("merging")
    entries = [entry(text, f"a/{number}") for number, text in enumerate(QUARTERS)]
    for part in [entries] if together else [[each] for each in entries]:
        told.update(part)
    assert told.texts == ["y = 1"]
    told.update([], [entries[first]])
    assert told.texts == ["y = 1"]
    other = (first + 2) % 4
    told.update([], [entries[other]])
    assert "y = 1" not in told.texts and len(told.texts) == 2
    told.update([entries[other]])
    assert told.texts == ["y = 1"]


def test_large_unions_stay_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.protocol.route.stages.MAX_MERGED_INTERVALS", 4)
    told = Told("merging")
    entries = [entry(f"x = {2 * i}", f"a/{i}") for i in range(10)]
    told.update(entries)
    assert [text.count(",") + 1 for text in sorted(told.texts, key=len, reverse=True)] == [4, 4, 2]
    assert [any_matches(told.filters, {"x": x}) for x in range(19)] == [x % 2 == 0 for x in range(19)]
    told.update([], entries[:9])
    assert told.texts == ["x = 18"]


def test_long_texts_stay_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.protocol.route.stages.MAX_TEXT", 160)
    told = Told("merging")
    told.update([entry(f"s = '{letter * 15}'", f"a/{letter}") for letter in "abcde"])
    assert len(told.texts) == 5 and all(len(text) < 40 for text in told.texts)


def test_imperfect_merging_closes_gaps_and_opens_them_again() -> None:
    told = Told("imperfect", RoutingOptions(Ratio(1.5)))
    told.update([entry("x BETWEEN 0 AND 10", "a/1")])
    told.update([entry("x BETWEEN 12 AND 20", "a/2")])
    assert told.texts == ["x BETWEEN 0 AND 20"]
    told.update([entry("x BETWEEN 100 AND 101", "a/3")])
    assert told.texts == ["(x BETWEEN 0 AND 20 OR x BETWEEN 100 AND 101)"]
    told.update([], [entry("x BETWEEN 12 AND 20", "a/2")])
    assert told.texts == ["(x BETWEEN 0 AND 10 OR x BETWEEN 100 AND 101)"]


def test_rare_traffic_is_lumped_together_and_frequent_traffic_stays_exact() -> None:
    quotes = [{"price": i % 100, "symbol": "IBM" if i % 4 else f"S{i % 96}"} for i in range(10_000)]
    told = Told("imperfect", RoutingOptions(Traffic(Statistics.of(quotes), budget=0.01)))
    rare = [entry(f"price BETWEEN {k} AND {k + 9} AND symbol = 'S{k}'", id=f"{k}") for k in range(12, 92, 8)]
    told.update([*rare, entry("price BETWEEN 10 AND 20 AND symbol = 'IBM'", id="a")])
    assert told.texts == [
        "price BETWEEN 10 AND 20 AND symbol = 'IBM'",
        "symbol IN ({})".format(", ".join(sorted(f"'S{k}'" for k in range(12, 92, 8)))),
    ]
    told.update([], rare[1:])
    assert told.texts == ["price BETWEEN 10 AND 20 AND symbol = 'IBM'", "symbol = 'S12'"]
    told.update([], [rare[0]])
    assert told.texts == ["price BETWEEN 10 AND 20 AND symbol = 'IBM'"]


def test_filters_become_one_along_an_attribute_before_the_one_that_went() -> None:
    """`a` is merged before `b` is, and again when `b` is gone."""
    seen = Statistics.of({"a": i % 100, "b": i % 10} for i in range(1000))
    told = Told("imperfect", RoutingOptions(Traffic(seen, budget=0.0095)))
    told.update([entry(f"a = {a} AND b = {a % 10}", id=f"{a}") for a in (1, 2, 3, 50)])
    assert told.texts == ["(a BETWEEN 1 AND 3 OR a = 50)"]


def test_perfect_algorithms_say_so() -> None:
    perfect = {name for name, each in ALGORITHMS.items() if each.perfect}
    assert perfect == {"simple", "identity", "covering", "merging"}


def test_an_unknown_algorithm_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'gossip'.*flooding, simple, identity, covering, merging, imperfect"):
        algorithm("gossip")


def test_a_new_algorithm_is_one_class_and_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.protocol.route.reduce.ALGORITHMS", dict(ALGORITHMS))

    @register_routing("nothing")
    class Nothing:
        perfect: ClassVar[bool] = True

        def __init__(self, options: RoutingOptions) -> None:
            pass

        def start(self) -> list[Entry]:
            return []

        def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
            return [], []

    assert algorithm("nothing") is Nothing
