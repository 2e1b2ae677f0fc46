"""Bugs on purpose: each is noticed, the canaries nearly always, and none is left behind."""

from __future__ import annotations

from functools import cache

import pytest

from sluice.sim.mutants import MUTANTS, Mutant, hunt
from sluice.sim.plan import Publish, Subscribe
from sluice.sim.run import command_for, story
from sluice.sim.scenario import Choices, Outcome, scenario_named
from sluice.sim.shrink import shrink


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def first_failure(mutant: Mutant) -> Outcome:
    """The first failing run; call it while the mutant is in place."""
    scenario = scenario_named(mutant.scenario)
    return next(outcome for seed in range(1000) if (outcome := scenario.run(seed)).violations)


@cache
def holds_without(scenario: str, seed: int) -> bool:
    """Whether nothing is wrong in a run with no mutant in place; many mutants are caught under the same seed."""
    return not scenario_named(scenario).run(seed).violations


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_is_caught(mutant: Mutant) -> None:
    caught = hunt(mutant)
    assert caught is not None, mutant.says
    assert holds_without(mutant.scenario, caught.seed), "the seed fails without the mutant too"


def test_there_are_enough_of_them_in_every_scenario() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert {mutant.scenario for mutant in MUTANTS} == {
        "routing",
        "completeness",
        "interest",
        "leases",
        "streams",
        "replay",
        "reliable",
        "order",
        "reshape",
    }


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.is_canary], ids=lambda mutant: mutant.name)
def test_canaries_are_caught_on_nearly_every_seed(mutant: Mutant) -> None:
    scenario = scenario_named(mutant.scenario)
    with mutant.apply():
        caught = sum(bool(scenario.run(seed).violations) for seed in range(20))
    assert caught >= 16


def test_a_mutant_is_gone_afterwards_also_after_an_error() -> None:
    from sluice.protocol.route.forward import Forwarding

    original = Forwarding.find
    with pytest.raises(ZeroDivisionError), named("delivers-nothing").apply():
        assert Forwarding.find is not original
        raise ZeroDivisionError
    assert Forwarding.find is original


@pytest.mark.parametrize("name", ["uncovered-forgotten", "twin-removed", "rider-not-waiting"])
def test_a_failing_run_is_made_short(name: str) -> None:
    mutant = named(name)
    with mutant.apply():
        failed = first_failure(mutant)
        check = failed.violations[0].check
        short = shrink(scenario_named(mutant.scenario), failed.plan, check)
    assert check in [violation.check for violation in short.violations]
    assert len(short.plan.actions) <= 8 < len(failed.plan.actions)
    assert len(short.plan.brokers) <= len(failed.plan.brokers)
    assert len(short.plan.clients) <= 4
    assert scenario_named(mutant.scenario).execute(short.plan).violations == []


def test_the_story_of_a_failure_has_all_that_is_needed() -> None:
    mutant = named("uncovered-forgotten")
    with mutant.apply():
        failed = first_failure(mutant)
        told = "\n".join(story(failed, Choices()))
    for part in (
        f"seed {failed.plan.seed}",
        "options: routing=",
        "made short: ",
        " subscribes ",
        failed.violations[0].check,
    ):
        assert part in told
    assert told.endswith(f"repeat it with: sluice simulate --scenario routing --seed {failed.plan.seed}")


def test_the_command_says_what_was_chosen() -> None:
    plan = scenario_named("routing").plan(7, Choices())
    chosen = Choices(routing="simple", advertisements=True, faults=("offline", "link-loss"))
    assert command_for(plan, chosen) == (
        "sluice simulate --scenario routing --seed 7 --routing simple --advertisements --faults offline,link-loss"
    )
    assert command_for(plan, Choices(faults=())).endswith("--seed 7 --faults none")


def test_shrinking_keeps_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_named("routing")
    runs = []
    execute = type(scenario).execute

    def counted(self: object, plan: object) -> Outcome:
        runs.append(plan)
        return execute(scenario, plan)  # type: ignore[arg-type]

    with named("delivers-nothing").apply():
        failed = first_failure(named("delivers-nothing"))
        monkeypatch.setattr(type(scenario), "execute", counted)
        shrink(scenario, failed.plan, "live", attempts=10)
    assert len(runs) == 11
    assert any(isinstance(action, Subscribe | Publish) for _, action in failed.plan.actions)
