"""Networks whose brokers merge by the same statistics: tables are those of a network built fresh, whatever has happened."""

from __future__ import annotations

from itertools import islice

import pytest

from sluice.model.subscription import Subscription
from sluice.protocol.route.policy import Traffic
from sluice.protocol.route.stages import Loosened
from sluice.sim.plan import Plan
from sluice.sim.scenario import Choices, scenario_named


def plans(count: int) -> list[Plan]:
    """Plans of imperfect merging by traffic."""
    scenario, choices = scenario_named("routing"), Choices(routing="imperfect")
    drawn = (scenario.plan(seed, choices) for seed in range(1000))
    return list(islice((plan for plan in drawn if isinstance(plan.config.options.policy, Traffic)), count))


def test_tables_are_a_function_of_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loosened = 0
    original = Loosened._loosen

    def counted(self: Loosened, where: Subscription) -> Subscription:
        nonlocal loosened
        result = original(self, where)
        loosened += result != where
        return result

    monkeypatch.setattr(Loosened, "_loosen", counted)
    for plan in plans(8):
        assert scenario_named("routing").execute(plan).violations == [], f"seed {plan.seed}"
    assert loosened > 0, "the statistics made no difference"


def test_what_depends_on_history_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that shrinks with every question: the answer is no function of the set, and the judge of tables sees it."""
    asked = 0
    original = Traffic.close_gaps

    def moody(self: Traffic, name, whole, rest):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        return original(Traffic(self.statistics, self.budget if asked % 2 else 0.0), name, whole, rest)

    monkeypatch.setattr(Traffic, "close_gaps", moody)
    checks = [found.check for plan in plans(3) for found in scenario_named("routing").execute(plan).violations]
    assert "as-built-fresh" in checks
