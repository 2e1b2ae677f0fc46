"""Sluice and its peers on the workloads W1 and W2: ``python -m bench.match``.

Each system is measured in a process of its own, one after the other, on one core, with the same notifications; every
answer is checked. A full run writes its tables, figures and plot to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import machine, report
from bench.command import conduct, say, words
from bench.figures import OURS, Figure, Run
from bench.peers import ENTRANTS, PEERS, Entrant
from bench.workloads import SIZES, WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
#: Longest pass over the notifications: slower systems are measured on what they manage until then.
PASS_SECONDS = 5.0
#: Longest time for a measuring process, building included, before it is stopped.
PROCESS_SECONDS = 300.0
QUICK_SIZES = (1_000, 10_000)
QUICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    workloads: tuple[str, ...]
    sizes: tuple[int, ...]
    peers: tuple[str, ...]
    limit_seconds: float

    def entrants(self, workload: str) -> Iterator[Entrant]:
        """The formulations of the wanted peers on a workload."""
        return (entrant for entrant in ENTRANTS if entrant.workload == workload and entrant.peer in self.peers)


def child(module: str, *arguments: str, seconds: float = PROCESS_SECONDS) -> dict[str, Any]:
    """Runs a measuring module in a fresh process with one thread; raises ChildError if it does not answer in time."""
    places = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | machine.ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, cwd=ROOT, check=False
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"not finished within {seconds:g} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()
        raise ChildError(f"ended with code {done.returncode}: {last[-1] if last else 'no message'}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class ChildError(Exception):
    """A measuring process gave no figures; the message says why."""


def measure_entrant(entrant: Entrant, size: int, limit_seconds: float) -> Figure:
    """One formulation of a peer; what went wrong is part of the figure."""
    given = (entrant.peer, entrant.formulation, entrant.workload, size, entrant.unit)
    if size > entrant.largest:
        return Figure(*given, "skipped", entrant.beyond)
    try:
        found = child(
            "bench.measure",
            entrant.workload,
            str(size),
            entrant.peer,
            "--formulation",
            entrant.formulation,
            "--seconds",
            str(limit_seconds),
        )
    except ChildError as error:
        return Figure(*given, "failed", str(error))
    return Figure.from_json(found["figures"][0])


def measure_ours(
    workload: str, size: int, limit_seconds: float, with_changes: bool
) -> tuple[list[Figure], list[dict[str, Any]]]:
    """Sluice, in batches and one record at a time, and its other operations."""
    wanted = ["bench.measure", workload, str(size), OURS, "--seconds", str(limit_seconds)]
    try:
        found = child(*wanted, *(["--changes"] if with_changes else []))
    except ChildError as error:
        return [Figure(OURS, unit, workload, size, unit, "failed", str(error)) for unit in ("batch", "record")], []
    return [Figure.from_json(one) for one in found["figures"]], found["operations"]


def measure_memory(workload: str, size: int) -> dict[str, Any]:
    """Memory of a process that loads the subscriptions from a file."""
    from bench.ours import texts

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "subscriptions.arrow"
        table = texts(WORKLOADS[workload].subscriptions(size))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        del table
        return child("bench.memory", str(path))


def carry_out(plan: Plan, command: str) -> Run:
    """Measures everything in the plan."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(command, started, plan.limit_seconds, machine.describe())
    for workload in plan.workloads:
        for size in plan.sizes:
            largest = size == max(plan.sizes)
            clock = time.perf_counter()
            figures, operations = measure_ours(workload, size, plan.limit_seconds, largest)
            for figure in figures:
                tell(figure, clock)
            if largest and operations:
                try:
                    operations[0] |= measure_memory(workload, size)
                except ChildError as error:
                    say(f"{workload} {size:>9,}  memory: {error}")
            run.figures.extend(figures)
            run.operations.extend(operations)
            for entrant in plan.entrants(workload):
                clock = time.perf_counter()
                run.figures.append(measure_entrant(entrant, size, plan.limit_seconds))
                tell(run.figures[-1], clock)
    return run


def tell(figure: Figure, clock: float) -> None:
    """One line of progress."""
    what = f"{figure.workload} {figure.size:>9,}  {figure.system:<12} {figure.formulation:<27}"
    if figure.status == "ok":
        sample = "" if figure.complete else f" (sample of {figure.events:,})"
        say(f"{what}{figure.events_per_second:>12,.0f} events/s{sample}  [{time.perf_counter() - clock:.0f} s]")
    else:
        say(f"{what}{figure.status}: {figure.reason}")


def write(run: Run, directory: Path) -> None:
    """The raw figures, the tables and the plot."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "match.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "match.md").write_text(report.markdown(run))
    report.plot(run, directory / "match.png")


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size.replace("_", "")) for size in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 1000,10000") from None
    if not all(1 <= size <= max(SIZES) for size in sizes):
        raise argparse.ArgumentTypeError(f"a size is from 1 to {max(SIZES):,}")
    return tuple(sorted(set(sizes)))


def parse_arguments(arguments: Sequence[str]) -> tuple[Plan, Path | None]:
    """The plan, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.match",
        description="Measures Sluice and its peers on the workloads W1 and W2, one core, in one run.",
        epilog="A run with all workloads, sizes and peers writes bench/results; any other only with --output.",
    )
    parser.add_argument("--sizes", type=_sizes, help="numbers of subscriptions (default: 1000,10000,100000,1000000)")
    parser.add_argument(
        "--workloads", type=words(tuple(WORKLOADS), "workload"), default=tuple(WORKLOADS), help="default: w1,w2"
    )
    parser.add_argument(
        "--peers",
        type=words(PEERS, "peer"),
        default=PEERS,
        help=f"default: {','.join(PEERS)}; an empty text measures Sluice alone",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and short passes, to see that all works")
    parser.add_argument(
        "--output", type=Path, metavar="DIRECTORY", help="write match.json, match.md and match.png here"
    )
    options = parser.parse_args(arguments)
    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    plan = Plan(options.workloads, sizes, options.peers, QUICK_SECONDS if options.quick else PASS_SECONDS)
    full = plan == Plan(tuple(WORKLOADS), SIZES, PEERS, PASS_SECONDS)
    return plan, options.output or (RESULTS if full else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 1 if any answer was wrong."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    plan, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.match", *given])
    return conduct(
        lambda: carry_out(plan, command),
        report.print_to,
        write,
        directory,
        lambda run: any(figure.status == "wrong" for figure in run.figures),
    )


if __name__ == "__main__":
    sys.exit(main())
