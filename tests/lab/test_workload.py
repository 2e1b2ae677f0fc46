"""The consumers are those of section 6.2.2: ten distinct random subscriptions each, spread evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from sluice.lab.workload import FILTERS, STOCKS, Filters, consumers
from sluice.model.subscription import Subscription


def stock_of(where: Subscription) -> str:
    return where.filters[0].constraints["symbol"].to_sql("symbol")


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("subscriptions", [1, 9, 10, 11, 669, 670, 671, 6_700])
def test_as_many_as_asked_for_and_spread_evenly(subscriptions: int, filters: Filters) -> None:
    found = list(consumers(subscriptions, 67, filters))
    assert sum(len(one.wanted) for one in found) == subscriptions
    assert [len(one.wanted) for one in found[:-1]] == [10] * (len(found) - 1)
    clients = Counter(one.home for one in found)
    assert set(clients) <= set(range(67))
    counts = [clients[home] for home in range(67)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("filters", FILTERS)
def test_the_subscriptions_of_a_client_are_distinct(filters: Filters) -> None:
    for one in consumers(3_000, 67, filters):
        assert len({stock_of(where) for where in one.wanted}) == 10


def test_every_stock_comes_up() -> None:
    seen = {stock_of(where) for one in consumers(20_000, 67, "quote") for where in one.wanted}
    assert len(seen) == STOCKS


def test_quotes_are_made_once_and_shared() -> None:
    assert len({id(where) for one in consumers(20_000, 67, "quote") for where in one.wanted}) == STOCKS


def test_intervals_contain_the_middle_price_and_reach_from_0_to_100() -> None:
    wanted = [where for one in consumers(2_000, 67, "interval") for where in one.wanted]
    for where in wanted:
        symbol = stock_of(where).split("'")[1]
        assert where.matches({"symbol": symbol, "price": 50.0})
        assert not where.matches({"symbol": symbol, "price": -0.1})
        assert not where.matches({"symbol": symbol, "price": 100.1})
        assert not where.matches({"symbol": "another", "price": 50.0})
    # Each end is as often on one side of the middle of its range as on the other.
    low = sum(where.matches({"symbol": stock_of(where).split("'")[1], "price": 25.0}) for where in wanted)
    high = sum(where.matches({"symbol": stock_of(where).split("'")[1], "price": 75.0}) for where in wanted)
    assert 0.45 < low / len(wanted) < 0.55
    assert 0.45 < high / len(wanted) < 0.55


def test_a_seed_draws_the_same_stocks_for_both_kinds() -> None:
    quotes, intervals = (list(consumers(500, 67, filters, seed=3)) for filters in FILTERS)
    assert [[stock_of(where) for where in one.wanted] for one in quotes] == [
        [stock_of(where) for where in one.wanted] for one in intervals
    ]
    assert [one.home for one in quotes] == [one.home for one in intervals]


def test_seeds_differ_and_repeat() -> None:
    assert list(consumers(500, 67, "interval", seed=1)) == list(consumers(500, 67, "interval", seed=1))
    assert list(consumers(500, 67, "interval", seed=1)) != list(consumers(500, 67, "interval", seed=2))
