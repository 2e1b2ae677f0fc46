"""Makes a failing run short: leaves out actions, clients, brokers and probes for as long as the same check still fails.

Delta debugging (Zeller's ddmin) over the plan, which is plain data. Each attempt is a whole run, so there is a limit to their
number; what comes out is a run that fails in the same way and is mostly short enough to be read as a story.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from sluice.sim.plan import (
    Damage,
    FillDisk,
    FreeDisk,
    Garbage,
    HealLink,
    LoseLink,
    Plan,
    Planned,
    StartBroker,
    StopBroker,
    Trim,
    mentions,
)
from sluice.sim.scenario import Outcome, Scenario

T = TypeVar("T")

#: How many runs a shrink may take.
ATTEMPTS = 600


class _Spent(Exception):
    """No attempts are left."""


def shrink(scenario: Scenario, plan: Plan, check: str, attempts: int = ATTEMPTS) -> Outcome:
    """The outcome of the shortest plan that was found under which `check` fails, as it does under `plan`."""
    search = _Search(scenario, check, attempts, plan)
    try:
        while search.pass_over():
            pass
    except _Spent:
        pass
    return scenario.execute(search.best)


class _Search:
    def __init__(self, scenario: Scenario, check: str, attempts: int, plan: Plan) -> None:
        self.scenario = scenario
        self.check = check
        self.left = attempts
        self.best = plan

    def fails(self, plan: Plan) -> bool:
        """Whether the check fails under a plan too; it is the best one then."""
        if not self.left:
            raise _Spent
        self.left -= 1
        outcome = self.scenario.execute(plan)
        if any(violation.check == self.check for violation in outcome.violations):
            self.best = plan
            return True
        return False

    def pass_over(self) -> bool:
        """Tries to leave everything out once; whether something could be."""
        before = _size(self.best)
        self._fewer(self.best.actions, lambda kept: replace(self.best, actions=tuple(kept)))
        self._fewer(self.best.probes, lambda kept: replace(self.best, probes=tuple(kept)))
        for one in self.best.clients:
            self.fails(without_client(self.best, one.name))
        for name in self.best.brokers:
            for neighbour in _neighbours(self.best, name):
                if self.fails(without_broker(self.best, name, neighbour)):
                    break
        return _size(self.best) < before

    def _fewer(self, items: Sequence[T], build: Callable[[Sequence[T]], Plan]) -> None:
        """Leaves out halves, quarters, and so on down to single items."""
        kept = list(items)
        chunk = max(1, len(kept) // 2)
        while kept:
            at = 0
            while at < len(kept):
                fewer = kept[:at] + kept[at + chunk :]
                if self.fails(build(fewer)):
                    kept = fewer
                else:
                    at += chunk
            if chunk == 1:
                break
            chunk //= 2


def _size(plan: Plan) -> int:
    return len(plan.actions) + len(plan.probes) + len(plan.clients) + len(plan.brokers)


def without_client(plan: Plan, name: str) -> Plan:
    """The plan without a client and all that it does."""
    return replace(
        plan,
        clients=tuple(one for one in plan.clients if one.name != name),
        actions=tuple(planned for planned in plan.actions if name not in mentions(planned[1])),
        probes=tuple(probe for probe in plan.probes if probe.client != name),
    )


def _neighbours(plan: Plan, broker: str) -> list[str]:
    return [b if a == broker else a for a, b in plan.links if broker in (a, b)]


def without_broker(plan: Plan, broker: str, heir: str) -> Plan:
    """The plan without a broker; its clients and its other links go to a neighbour."""

    def moved(name: str) -> str:
        return heir if name == broker else name

    actions: list[Planned] = []
    for at, action in plan.actions:
        match action:
            case StopBroker(name) | StartBroker(name) | Damage(name) | FillDisk(name) | FreeDisk(name) | Trim(name) if (
                name == broker
            ):
                continue
            case LoseLink(a, b) | HealLink(a, b) if broker in (a, b):
                if heir not in (a, b):
                    actions.append((at, replace(action, a=moved(a), b=moved(b))))
            case Garbage(a, b) if broker in (a, b):
                if heir not in (a, b):
                    actions.append((at, replace(action, sender=moved(a), receiver=moved(b))))
            case _:
                actions.append((at, action))
    return replace(
        plan,
        brokers=tuple(name for name in plan.brokers if name != broker),
        links=tuple((moved(a), moved(b)) for a, b in plan.links if {a, b} != {broker, heir}),
        clients=tuple(replace(one, at=moved(one.at)) for one in plan.clients),
        actions=tuple(actions),
    )
