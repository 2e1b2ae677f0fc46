"""Order over real processes, on the topology of the paper's evaluation: the same traffic with order and with FIFO links."""

from __future__ import annotations

import asyncio

import pytest

from bench.order_degree import FIFO, ORDERED, DegreePlan, play
from tests.patience import PATIENCE_SECONDS

ROOTED = {"order_algorithm": "rooted", "order_root": "core2"}


@pytest.mark.parametrize(
    "plan",
    [
        DegreePlan(cores=2, edges=2, publications=40, limit_seconds=PATIENCE_SECONDS),
        DegreePlan(cores=2, edges=1, publications=40, limit_seconds=PATIENCE_SECONDS, settings=ROOTED),
        pytest.param(DegreePlan(cores=3, limit_seconds=PATIENCE_SECONDS), marks=pytest.mark.long),
    ],
    ids=lambda plan: f"{plan.settings.get('order_algorithm', 'floors')}, {plan.brokers} brokers",
)
def test_all_see_the_same_order(plan: DegreePlan) -> None:
    played = asyncio.run(play(plan))
    assert played.wrong() == []
    assert played.degree(ORDERED) == 1.0
    accounts = played.accounts
    assert sum(account["stamped"] for account in accounts.values()) == len(played.published)
    assert accounts["edge1-1"]["subscriptions"] == 1
    assert all(account["waiting"] == account["lost"] == 0 for account in accounts.values())
    if plan.settings:
        assert [name for name, account in accounts.items() if account["stamped"]] == ["core2"]
        assert {account["root"] for account in accounts.values()} == {"core2"}
        assert not any(account["held"] or account["floors"] for account in accounts.values())
    else:
        # What is stamped at a root comes in its order to all.
        assert played.degree(FIFO) < 1.0, "the links are so slow that publications meet: order is not there by luck"
        assert accounts["core1"]["floors"] > 0 and not any(account["root"] for account in accounts.values())
