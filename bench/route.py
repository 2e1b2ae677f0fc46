"""Routing measured: ``python -m bench.route``.

Three parts: subscription changes a second on one broker beside a plain loop over all filters; events a second in the
simulator; table sizes and control messages in the lab's tree of 107 brokers, beside what the dissertation lets one expect. A
full run writes its tables, figures and plots to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine, route_report
from bench.command import conduct, say, words
from bench.match import RESULTS, ChildError, child
from bench.route_report import FIGURES, RouteRun
from bench.simulation import SCENARIOS
from sluice.lab import experiment
from sluice.lab.topology import hierarchy

ROUTINGS = ("covering", "merging")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    quotes: tuple[int, ...] = (670, 1_340, 3_350, 6_700, 13_400, 26_800, 53_600)
    """Numbers of subscriptions in figures 6.2 and 6.5. As many clients at every local broker: multiples of 670."""
    intervals: tuple[int, ...] = (670, 1_340, 2_680, 5_360)
    """The same for figures 6.3 and 6.6, whose filters cost more to compare."""
    limit_seconds: float = 5.0


QUICK = Plan((1_000,), (670,), (70,), 0.5)
PARTS = ("changes", "simulator", "figures")


def carry_out(plan: Plan, parts: Sequence[str], command: str) -> RouteRun:
    """Measures everything in the plan."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    run = RouteRun(command, started, plan.limit_seconds, machine.describe())
    seconds = str(plan.limit_seconds)
    if "changes" in parts:
        for size in plan.sizes:
            for routing in ROUTINGS:
                measured = _try(
                    f"changes, {routing}, {size:,}", "bench.churn", routing, str(size), "--seconds", seconds
                )
                run.changes.append(measured or {"routing": routing, "size": size})
    if "simulator" in parts:
        for scenario in SCENARIOS:
            measured = _try(f"simulator, {scenario}", "bench.simulation", scenario, "--seconds", seconds)
            run.simulator.append(measured or {"scenario": scenario})
    if "figures" in parts:
        tree = hierarchy()
        for setup in setups(plan):
            clock = time.perf_counter()
            run.results.append(experiment.run(setup, tree))
            with_or_without = "with" if setup.advertisements else "without"
            say(
                f"{setup.experiment}, {setup.routing} {with_or_without} advertisements, {setup.subscriptions:,}  "
                f"[{time.perf_counter() - clock:.0f} s]"
            )
    return run


def setups(plan: Plan) -> Iterator[experiment.Setup]:
    """The points of all curves of all figures."""
    for figure in FIGURES:
        for subscriptions in plan.quotes if figure.filters == "quote" else plan.intervals:
            for routing, advertisements in figure.curves():
                yield experiment.Setup(
                    experiment=figure.experiment,
                    routing=routing,
                    subscriptions=subscriptions,
                    advertisements=advertisements,
                    filters=figure.filters,
                    # Tables are drawn without the messages that changes of them would cost.
                    rounds=0 if figure.experiment == "table-size" else 1,
                )


def _try(what: str, *command: str) -> dict[str, Any] | None:
    """What a measuring process found; None, and a word about it, if it failed."""
    clock = time.perf_counter()
    try:
        found = child(*command)
    except ChildError as error:
        say(f"{what}: {error}")
        return None
    say(f"{what}  [{time.perf_counter() - clock:.0f} s]")
    return found


def write(run: RouteRun, directory: Path) -> None:
    """The raw figures, the tables and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "route.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "route.md").write_text(route_report.markdown(run))
    if run.changes:
        route_report.plot_changes(run, directory / "route.png")
    if run.results:
        route_report.plot_figures(run, directory / "route-figures.png")


def parse_arguments(arguments: Sequence[str]) -> tuple[Plan, tuple[str, ...], Path | None]:
    """The plan, the parts of it that are wanted, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.route",
        description="Measures routing: changes a second, the simulator, table sizes and control messages.",
        epilog="A full run writes bench/results; any other only with --output.",
    )
    parser.add_argument("--parts", type=words(PARTS, "part"), default=PARTS, help=f"default: {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smallest sizes only, to see that all works")
    parser.add_argument("--output", type=Path, metavar="DIRECTORY", help="write route.json, route.md and plots here")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    full = plan == Plan() and options.parts == PARTS
    return plan, options.parts, options.output or (RESULTS if full else None)


def main(
    arguments: Sequence[str] | None = None, measure: Callable[[Plan, Sequence[str], str], RouteRun] = carry_out
) -> int:
    """Measures, prints, and writes the results; 130 if interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    plan, parts, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.route", *given])
    return conduct(lambda: measure(plan, parts, command), route_report.print_to, write, directory, lambda run: False)


if __name__ == "__main__":
    sys.exit(main())
