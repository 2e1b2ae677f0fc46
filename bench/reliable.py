"""What reliable delivery costs and what it brings: ``python -m bench.reliable``.

Throughput against best-effort delivery on the same brokers, the bytes of vectors and silences, and how long a subscriber waits
when a broker on its way dies, beside a cluster of NATS servers that loses a leader. A full run writes to ``bench/results``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from bench import machine, overhead, reliable_report
from bench.brokers import scenarios, stall
from bench.brokers.contest import Client, Contestant
from bench.brokers.figures import OURS
from bench.brokers.stall import StallPlan
from bench.command import conduct, words
from bench.match import RESULTS
from bench.reliable_report import BEST_EFFORT, RELIABLE, ReliableRun

PARTS = ("throughput", "bytes", "stall")
#: Of so many publications a subscriber wants one, where it does not want all.
ONE_OF = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and for how long."""

    throughput: scenarios.Plan = field(default_factory=lambda: scenarios.Plan(rounds=7, peers=()))
    brokers_per_node: tuple[int, ...] = (1, 2)
    wanted: tuple[int, ...] = (1, ONE_OF)
    """Of so many publications the subscriber wants one."""
    brokers: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """Brokers with reliable subscribers, for the bytes."""
    subscriptions: tuple[int, ...] = (16, 64, 256, 1_024, 8_192)
    publications: int = 1_000
    stall: StallPlan = field(default_factory=StallPlan)
    parts: tuple[str, ...] = PARTS


QUICK = Plan(
    throughput=scenarios.Plan(rounds=1, trial_seconds=0.2, limit_seconds=20.0, peers=()),
    brokers=(1, 2),
    subscriptions=(16,),
    publications=200,
    stall=StallPlan(repetitions=1, before_seconds=1.0, after_seconds=2.0),
)


def throughput(plan: Plan) -> Iterator[tuple[str, Sequence[Contestant]]]:
    """On each tree of brokers, who competes: the same publisher and subscriber, which relies on its subscription or not."""
    for brokers_per_node in plan.brokers_per_node:
        for one_of in plan.wanted:
            serve = {"brokers": 3, "brokers_per_node": brokers_per_node, "durable": True}
            contestants = [
                Contestant(delivery, OURS, _publisher(one_of), (_subscriber(one_of, delivery),), serve)
                for delivery in (BEST_EFFORT, RELIABLE)
            ]
            yield reliable_report.scenario(brokers_per_node, one_of), contestants


def _publisher(one_of: int) -> Client:
    return Client("publish") if one_of == 1 else Client("publish_keyed", {"keys": one_of})


def _subscriber(one_of: int, delivery: str) -> Client:
    if one_of == 1:
        return Client("receive", {"delivery": delivery}, broker=-1)
    return Client(
        "receive_keyed", {"connection": 0, "connections": one_of, "keys": one_of, "delivery": delivery}, broker=-1
    )


def carry_out(plan: Plan, command: str) -> ReliableRun:
    """Measures everything in the plan."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {"nats (broker)": scenarios.version("nats") or "not installed", "nats-py": metadata.version("nats-py")}
    run = ReliableRun(command, started, plan.throughput.rounds, machine.describe() | versions, stall_plan=plan.stall)
    if "throughput" in plan.parts:
        for scenario, contestants in throughput(plan):
            run.entries.extend(asyncio.run(scenarios.compete(scenario, contestants, plan.throughput)))
    if "bytes" in plan.parts:
        run.points.extend(overhead.sweep(plan.brokers, plan.subscriptions, plan.publications))
    if "stall" in plan.parts:
        run.stalls.extend(asyncio.run(stall.take_turns(plan.stall)))
    return run


def write(run: ReliableRun, directory: Path) -> None:
    """The raw figures, the tables and the plot."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "reliable.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "reliable.md").write_text(reliable_report.markdown(run))
    reliable_report.plot(run, directory / "reliable.png")


def parse_arguments(arguments: Sequence[str]) -> tuple[Plan, Path | None]:
    """The plan, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reliable",
        description="Measures what reliable delivery costs, and what it brings.",
        epilog="A full run writes bench/results; any other only with --output.",
    )
    parser.add_argument("--parts", type=words(PARTS, "part"), default=PARTS, help=f"default: {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--output", type=Path, metavar="DIRECTORY", help="write reliable.json, .md and .png here")
    options = parser.parse_args(arguments)
    plan = replace(QUICK if options.quick else Plan(), parts=options.parts)
    return plan, options.output or (RESULTS if plan == Plan() else None)


def main(arguments: Sequence[str] | None = None, measure: Callable[[Plan, str], ReliableRun] = carry_out) -> int:
    """Measures, prints, and writes the results; 1 if a message was lost, 130 if interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    plan, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.reliable", *given])
    return conduct(
        lambda: measure(plan, command),
        reliable_report.print_to,
        write,
        directory,
        lambda run: "wrong" in [*(entry.status for entry in run.entries), *(entry.status for entry in run.stalls)],
    )


if __name__ == "__main__":
    # Whoever is told to end must still stop the brokers that it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
