"""Runs many seeds of many scenarios, adds up what happened, and stops at the first promise that was not kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from sluice.sim.plan import Plan, tell
from sluice.sim.scenario import Choices, Outcome, Scenario, scenario_named
from sluice.sim.shrink import shrink

#: A story longer than this is cut in the middle.
MAX_LINES = 120


@dataclass(slots=True)
class Summary:
    """What happened in all runs together."""

    runs: int = 0
    events: int = 0
    deliveries: int = 0
    faults: int = 0
    #: Links that were replaced by others.
    replaced: int = 0
    violations: int = 0
    seconds: float = 0.0
    #: The largest share of the bound that any recovery took, where leases were tested.
    recovery: float | None = None
    #: The first run that failed.
    failed: Outcome | None = None
    last: Outcome | None = field(default=None, repr=False)

    def add(self, outcome: Outcome) -> None:
        """Counts a run."""
        self.runs += 1
        self.events += outcome.events
        self.deliveries += outcome.deliveries
        self.faults += outcome.faults
        self.replaced += outcome.replaced
        self.violations += len(outcome.violations)
        if outcome.recovery is not None:
            self.recovery = max(self.recovery or 0.0, outcome.recovery)
        if outcome.violations and self.failed is None:
            self.failed = outcome
        self.last = outcome

    def lines(self) -> Iterator[str]:
        """The summary for people."""
        rate = self.events / self.seconds if self.seconds else 0.0
        yield f"runs        {self.runs:,}"
        yield f"events      {self.events:,} ({rate:,.0f} a second)"
        yield f"deliveries  {self.deliveries:,}"
        yield f"faults      {self.faults:,}"
        if self.replaced:
            yield f"replaced    {self.replaced:,} links"
        if self.recovery is not None:
            yield f"recovery    at most {self.recovery:.2f} of the bound"
        yield f"violations  {self.violations:,}"


def run_many(
    scenarios: Sequence[Scenario],
    seeds: Iterable[int],
    choices: Choices,
    *,
    minutes: float | None = None,
    progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Runs each seed in each scenario, until one fails, the seeds end or the time is over."""
    summary = Summary()
    start = time.perf_counter()
    for seed in seeds:
        for scenario in scenarios:
            summary.add(scenario.run(seed, choices))
            summary.seconds = time.perf_counter() - start
            if progress is not None:
                progress(summary)
            if summary.failed is not None or (minutes is not None and summary.seconds >= 60 * minutes):
                return summary
    return summary


def seeds_from(first: int, runs: int | None) -> Iterable[int]:
    """The seeds of so many runs; all of them from `first` on if it is not said how many."""
    return count(first) if runs is None else range(first, first + runs)


def command_for(plan: Plan, choices: Choices) -> str:
    """The one command that repeats a run."""
    words = ["sluice simulate", f"--scenario {plan.scenario}", f"--seed {plan.seed}"]
    if choices.routing is not None:
        words.append(f"--routing {choices.routing}")
    if choices.advertisements:
        words.append("--advertisements")
    if choices.faults is not None:
        words.append(f"--faults {','.join(choices.faults) or 'none'}")
    return " ".join(words)


def story(outcome: Outcome, choices: Choices) -> Iterator[str]:
    """A failed run told from beginning to end, as short as it could be made, with the command that repeats it."""
    first = outcome.violations[0]
    plan = outcome.plan
    short = shrink(scenario_named(plan.scenario), plan, first.check)
    shown = next((one for one in short.violations if one.check == first.check), first)
    yield f"{plan.scenario}, seed {plan.seed}: {first.check} does not hold"
    yield ""
    yield f"options: {', '.join(f'{name}={value}' for name, value in plan.options.items())}"
    yield (
        f"made short: {len(plan.actions)} actions became {len(short.plan.actions)}, "
        f"{len(plan.brokers)} brokers {len(short.plan.brokers)}, {len(plan.clients)} clients {len(short.plan.clients)}"
    )
    yield ""
    yield "planned:"
    yield from _cut([f"  {tell(planned)}" for planned in short.plan.actions])
    yield ""
    yield "what happened:"
    yield from _cut([f"  {line}" for line in short.trace.story()])
    yield ""
    yield str(shown)
    yield ""
    yield f"repeat it with: {command_for(plan, choices)}"


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"  ... {len(lines) - 2 * half} lines left out ...", *lines[-half:]]
