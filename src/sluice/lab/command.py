"""`sluice lab`: one experiment of chapter 6 from the command line, as text, as JSON or as a plot.

Importing this is cheap; brokers and plots are loaded when the verb runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.verb import Verb, count, progress_bar

if TYPE_CHECKING:
    from sluice.lab.expected import Expected
    from sluice.lab.experiment import Result, Setup
    from sluice.lab.topology import Topology

EXPERIMENTS = ("table-size", "admin-messages")
SUMMARY = "repeat the routing experiments of the papers on a tree of 107 brokers"
DESCRIPTION = """\
Run an experiment on real brokers: 40 routers in four levels, 67 local brokers below them, clients of ten random
subscriptions each spread evenly over the local brokers, and a producer at the root.

table-size: all clients have subscribed; how many entries do all routing tables have for other brokers?

admin-messages: half of them have; how many messages between brokers does one more or one fewer subscription cost?

Both figures are counted either way. Same seed, same figures."""
EXAMPLES = """\
  sluice lab table-size --routing simple --subscriptions 6700
  sluice lab table-size --routing identity --subscriptions 1000000 --json
  sluice lab admin-messages --routing merging --filters interval --subscriptions 13400 --advertisements
  sluice lab table-size --routing covering --filters interval --subscriptions 67000 --plot covering.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what the verb takes."""
    parser.add_argument("experiment", choices=EXPERIMENTS, help="what to count")
    parser.add_argument(
        "--routing",
        metavar="NAME",
        required=True,
        help="flooding, simple, identity, covering, merging, imperfect, or one that was registered",
    )
    parser.add_argument(
        "--subscriptions", metavar="X", type=count, required=True, help="how many all clients have together"
    )
    parser.add_argument(
        "--advertisements",
        action="store_true",
        help="subscriptions travel only towards the producer, which advertises all",
    )
    parser.add_argument(
        "--filters",
        choices=("quote", "interval"),
        default="quote",
        help="quote: one of 1,000 stocks; interval: and a range of prices (default: quote)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of the random subscriptions (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one object instead of text")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="measure smaller numbers too and draw the curve (.png, .svg or .pdf)"
    )
    parser.set_defaults(run=run)


LAB = Verb("lab", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints, and draws if asked; 0 when done."""
    from sluice.lab import curves, experiment
    from sluice.lab.expected import expected
    from sluice.lab.topology import hierarchy

    topology = hierarchy()
    setup = experiment.Setup(
        experiment=arguments.experiment,
        routing=arguments.routing,
        subscriptions=arguments.subscriptions,
        advertisements=arguments.advertisements,
        filters=arguments.filters,
        seed=arguments.seed,
    )
    experiment.check(setup)
    if arguments.plot is not None:
        curves.check(arguments.plot)
    setups = curves.setups_up_to(setup, topology) if arguments.plot is not None else [setup]
    results = _measure(setups, topology)
    if arguments.plot is not None:
        curves.draw([curves.panel_of(results)], topology, arguments.plot)
    if arguments.json:
        print(json.dumps(results[-1].to_json()))
    else:
        print("\n".join(report(results[-1], expected(setup, topology))))
    return 0


def report(result: Result, wanted: Expected) -> Iterator[str]:
    """A result in lines for people, beside what should come out."""
    with_or_without = "with" if result.advertisements else "without"
    yield f"{result.routing} routing {with_or_without} advertisements, {result.filters} subscriptions, 107 brokers"
    yield f"  subscriptions   {result.subscriptions:>12,}   {result.active_subscriptions:,} of them active"
    yield f"  remote entries  {result.remote_entries:>12,}   {_expectation(wanted.remote_entries, ',.0f')}"
    if result.admin_messages is not None:
        yield (
            f"  admin messages  {result.admin_messages:>12,.3f}   {_expectation(wanted.admin_messages, ',.3f')}; "
            f"mean of {result.changes:,} changes"
        )


def _expectation(value: float | None, form: str) -> str:
    return "no formula" if value is None else f"expected {value:{form}}"


def _measure(setups: list[Setup], topology: Topology) -> list[Result]:
    from sluice.lab.experiment import run as measure

    results = []
    with _progress() as task:
        for number, setup in enumerate(setups, 1):
            what = f"{setup.subscriptions:,} subscriptions" + (
                f" ({number} of {len(setups)})" if len(setups) > 1 else ""
            )
            results.append(measure(setup, topology, task(what)))
    return results


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Shows how far the parts of an experiment are."""
    with progress_bar() as bar:
        task = bar.add_task("", total=None)

        def start(what: str) -> Callable[[int, int], None]:
            bar.update(task, description=what)
            return lambda done, of: bar.update(task, completed=done, total=of)

        yield start
