"""The verb `sluice simulate`: runs seeds with a progress bar, prints a summary, and tells the story of what failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluice.errors import SluiceError
from sluice.sim.mutants import MUTANTS, Caught, hunt
from sluice.sim.run import Summary, run_many, seeds_from, story
from sluice.sim.scenario import ALL_FAULTS, ROUTINGS, SCENARIOS, Choices, Scenario, scenario_named
from sluice.verb import progress_bar

FINE, FAILED = 0, 1
#: How many seeds are run if nobody says.
RUNS = 100


def simulate(arguments: argparse.Namespace) -> int:
    """Runs what the arguments ask for; the exit status is 1 if a promise was not kept."""
    scenarios = _scenarios(arguments.scenario)
    choices = _choices(arguments, scenarios)
    if arguments.mutants:
        return _mutants(scenarios, arguments.seed)
    runs = arguments.runs
    if runs is None and arguments.minutes is None:
        runs = RUNS if arguments.seed is None else 1
    if arguments.trace is not None and (runs != 1 or len(scenarios) != 1):
        raise SluiceError("--trace writes the trace of one run: name one --scenario and one --seed with it")
    with _progress(None if runs is None else runs * len(scenarios)) as advance:
        summary = run_many(
            scenarios,
            seeds_from(arguments.seed or 0, runs),
            choices,
            minutes=arguments.minutes,
            progress=advance,
        )
    if arguments.trace is not None and summary.last is not None:
        summary.last.trace.save(arguments.trace)
    _report(summary, choices)
    return FINE if summary.failed is None else FAILED


def _scenarios(name: str) -> list[Scenario]:
    if name == "all":
        scenario_named("routing")
        return list(SCENARIOS.values())
    return [scenario_named(name)]


def _choices(arguments: argparse.Namespace, scenarios: list[Scenario]) -> Choices:
    if arguments.routing is not None and arguments.routing not in ROUTINGS:
        raise SluiceError(f"there is no routing {arguments.routing!r}: take one of {', '.join(ROUTINGS)}")
    faults: tuple[str, ...] | None
    match arguments.faults:
        case None:
            faults = None
        case "none":
            faults = ()
        case "all":
            faults = ALL_FAULTS
        case text:
            faults = tuple(name.strip() for name in text.split(","))
            possible = [name for name in ALL_FAULTS if any(name in one.faults for one in scenarios)]
            for name in faults:
                if name not in possible:
                    raise SluiceError(
                        f"{name!r} cannot go wrong here: --faults takes none, all, or {', '.join(possible)}"
                    )
    return Choices(routing=arguments.routing, advertisements=arguments.advertisements or None, faults=faults)


def _report(summary: Summary, choices: Choices) -> None:
    last = summary.last
    if summary.runs == 1 and last is not None:
        print("options     " + ", ".join(f"{name}={value}" for name, value in last.plan.options.items()))
    print("\n".join(summary.lines()))
    if summary.runs == 1 and last is not None:
        print(f"trace       {last.trace.hash()}")
    if summary.failed is not None:
        print()
        sys.stdout.flush()
        for line in story(summary.failed, choices):
            print(line)


def _mutants(scenarios: list[Scenario], first: int | None) -> int:
    wanted = [mutant for mutant in MUTANTS if any(mutant.scenario == one.name for one in scenarios)]
    width = max(len(mutant.name) for mutant in wanted)
    print(f"{'mutant':<{width}}  {'caught':<24}  by")
    missed = 0
    with _progress(len(wanted)) as advance:
        for mutant in wanted:
            caught = hunt(mutant, first)
            missed += caught is None
            advance(None)
            begun = mutant.first if first is None else first
            print(f"{mutant.name:<{width}}  {_after(caught, begun):<24}  {caught.check if caught else mutant.says}")
            sys.stdout.flush()
    print(f"{len(wanted) - missed} of {len(wanted)} caught")
    return FAILED if missed else FINE


def _after(caught: Caught | None, begun: int) -> str:
    if caught is None:
        return "NO"
    said = "after 1 seed" if caught.seeds == 1 else f"after {caught.seeds} seeds"
    return f"{said} from {begun} on" if begun else said


@contextmanager
def _progress(total: int | None) -> Iterator[Any]:
    """Shows how many runs there were."""
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[events]}"),
    )
    with progress_bar(*columns) as bar:
        task = bar.add_task("runs", total=total, events="")

        def advance(summary: Summary | None) -> None:
            events = "" if summary is None else f"{summary.events:,} events"
            bar.update(task, advance=1, events=events)

        yield advance
