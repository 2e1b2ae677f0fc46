"""Brokers measured side by side: ``python -m bench.broker``.

Sluice beside NATS, RabbitMQ and ActiveMQ, all with Python clients, each client in a process of its own, on loopback and in the
same run. Every message is counted. A full run writes its tables, figures and plots to ``bench/results``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from bench import broker_report, machine
from bench.brokers.figures import BrokerRun
from bench.brokers.scenarios import PEERS, SCENARIOS, Plan, compete, measure_links, version
from bench.command import conduct, words
from bench.match import RESULTS

#: Measured otherwise: bytes, not messages a second.
LINKS = "links"
ALL = (*SCENARIOS, LINKS)
QUICK = Plan(
    rounds=1,
    trial_seconds=0.2,
    limit_seconds=20.0,
    keys=100,
    connections=2,
    per_second=500,
    latency_seconds=1.0,
    subscriptions=(100,),
    brokers=(2,),
    link_messages=400,
)


def carry_out(plan: Plan, scenarios: Sequence[str], command: str) -> BrokerRun:
    """Measures everything in the plan."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    run = BrokerRun(command, started, plan.rounds, machine.describe() | _peers(plan))
    for scenario in scenarios:
        if scenario == LINKS:
            run.links.extend(asyncio.run(measure_links(plan)))
            continue
        for contestants in SCENARIOS[scenario](plan):
            run.entries.extend(asyncio.run(compete(scenario, contestants, plan)))
    return run


def _peers(plan: Plan) -> dict[str, str]:
    """The versions of the peers and their clients, and how long the disk takes."""
    brokers = {f"{name} (broker)": version(name) or "not installed" for name in plan.peers}
    clients = {name: metadata.version(name) for name in ("nats-py", "pika", "msgspec")}
    return brokers | clients | {"fsync of 4 KiB": f"{_fsync_seconds() * 1e3:.2f} ms (median of 100)"}


def _fsync_seconds() -> float:
    """How long the disk takes to write a little, there where the brokers keep their data."""
    taken = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 4096)
            start = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def write(run: BrokerRun, directory: Path) -> None:
    """The raw figures, the tables and the plot."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "broker.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "broker.md").write_text(broker_report.markdown(run))
    broker_report.plot(run, directory / "broker.png")


def parse_arguments(arguments: Sequence[str]) -> tuple[Plan, tuple[str, ...], Path | None]:
    """The plan, the scenarios that are wanted, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.broker",
        description="Measures Sluice's broker beside NATS, RabbitMQ and ActiveMQ.",
        epilog="A full run writes bench/results; any other only with --output.",
    )
    parser.add_argument(
        "--scenarios",
        type=words(ALL, "scenario"),
        default=ALL,
        help=f"default: {','.join(ALL)}",
    )
    parser.add_argument(
        "--peers",
        type=words(PEERS, "peer"),
        default=PEERS,
        help=f"default: {','.join(PEERS)}; an empty text measures Sluice alone",
    )
    parser.add_argument("--quick", action="store_true", help="few messages and subscriptions, to see that all works")
    parser.add_argument("--output", type=Path, metavar="DIRECTORY", help="write broker.json, broker.md and plot here")
    options = parser.parse_args(arguments)
    plan = replace(QUICK if options.quick else Plan(), peers=options.peers)
    full = plan == Plan() and options.scenarios == ALL
    return plan, options.scenarios, options.output or (RESULTS if full else None)


def main(
    arguments: Sequence[str] | None = None, measure: Callable[[Plan, Sequence[str], str], BrokerRun] = carry_out
) -> int:
    """Measures, prints, and writes the results; 1 if a message was lost, 130 if interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    plan, scenarios, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.broker", *given])
    return conduct(
        lambda: measure(plan, scenarios, command),
        broker_report.print_to,
        write,
        directory,
        lambda run: any(entry.status == "wrong" for entry in run.entries),
    )


if __name__ == "__main__":
    # Whoever is told to end must still stop the brokers that it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
