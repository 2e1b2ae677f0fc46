"""A bug on purpose: a patch of one real function for the time of a run, and the hunt for a seed that notices it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from sluice.sim.scenario import Choices, scenario_named

#: After so many seeds a mutant counts as missed.
SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: which scenario should notice it, what is wrong, and how it is made."""

    name: str
    scenario: str
    says: str
    apply: Callable[[], AbstractContextManager[None]]
    #: A bug so bad that nearly every seed must notice it.
    is_canary: bool = False
    #: The seed where the hunt begins: a rare bug is found sooner where it was found before.
    first: int = 0


@dataclass(frozen=True, slots=True)
class Caught:
    """A mutant was noticed: under which seed, after how many, and by which check."""

    seed: int
    seeds: int
    check: str


MUTANTS: list[Mutant] = []


def hunt(bug: Mutant, first: int | None = None, seeds: int = SEEDS) -> Caught | None:
    """Runs seeds with a bug in place until one fails; None if none does."""
    first = bug.first if first is None else first
    scenario = scenario_named(bug.scenario)
    with bug.apply():
        for tried in range(seeds):
            outcome = scenario.run(first + tried, Choices())
            if outcome.violations:
                return Caught(first + tried, tried + 1, outcome.violations[0].check)
    return None


Patch = tuple[object, str, Callable[[Any], Any]]


def mutant(
    scenario: str, name: str, says: str, *, canary: bool = False, first: int = 0
) -> Callable[[Callable[[], Patch]], None]:
    """Registers a bug. The function gives the owner, the name of the function and what is made of the function there."""

    def register(function: Callable[[], Patch]) -> None:
        @contextmanager
        def apply() -> Iterator[None]:
            owner, attribute, make = function()
            original = vars(owner)[attribute]
            setattr(owner, attribute, make(original))
            try:
                yield
            finally:
                setattr(owner, attribute, original)

        MUTANTS.append(Mutant(name, scenario, says, apply, canary, first))

    return register
