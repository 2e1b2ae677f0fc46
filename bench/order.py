"""Total order, measured and compared: ``python -m bench.order``.

Over real processes, on the paper's topology: what order costs in a broker's step, what it adds to delays, and how well ordered
the streams of subscribers are. In virtual time, the same on any machine: how often each algorithm breaks pairwise order, what
faults do to it, what it costs in delay and messages, and where the busiest broker is saturated. A full run writes its tables,
figures and plots to ``bench/results``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import machine, order_degree, order_delays, order_figures, order_report, order_steps
from bench.command import conduct, say, words
from bench.match import RESULTS
from bench.order_degree import DegreePlan
from bench.order_delays import DelayPlan
from bench.order_report import Degree, OrderRun, Row
from sluice.sim.padres import ALGORITHMS, Plan, Tally, compare

WHOLE_QUEUE, PUBLISHED = "published, fast, whole queue", "published, fast, progressive"
#: Those whose costs are compared; exact detection costs the same messages as fast detection.
COMPARED = (PUBLISHED, "sequencer", "rooted", "skeen", "floors")
#: How long a broker of the last part is busy with a message, in link delays.
WORK = 0.05


@dataclass(frozen=True, slots=True)
class Size:
    """How much to compare."""

    #: Random networks without faults, with faults, and for each load of the costs.
    seeds: int = 3_000
    faulty: int = 1_000
    cost_seeds: int = 150
    #: Mean time between two publications of one publisher, in link delays.
    intervals: tuple[float, ...] = (16.0, 4.0, 1.0, 0.25)
    #: Core brokers of the paper's topology; each has five edge brokers.
    cores: int = 16
    paper_intervals: tuple[float, ...] = (800.0, 80.0, 20.0)
    saturating: tuple[float, ...] = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
    length: float = 60.0
    #: Subscriptions or advertisements of each neighbour, and the publications that are timed with them.
    filters: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 30_000)
    step_publications: int = 1_000
    #: Networks whose streams are compared.
    degrees: tuple[DegreePlan, ...] = (DegreePlan(cores=2), DegreePlan(cores=3))
    #: For each algorithm that brokers have, the network whose delays are measured; and how many core brokers others have.
    delays: tuple[tuple[str, DelayPlan], ...] = (
        ("floors", DelayPlan()),
        ("rooted", DelayPlan(settings={"order_algorithm": "rooted", "order_root": "core1"})),
    )
    delay_cores: tuple[int, ...] = (1, 2, 3)


QUICK = Size(
    *(30, 30, 5, (4.0, 0.5), 2, (20.0,), (4.0, 0.5), 20.0),
    filters=(1, 100),
    step_publications=20,
    degrees=(DegreePlan(1, 2, 20),),
    delays=(("floors", DelayPlan(1, 2, 1, publications=8, mean_pause_seconds=0.02)),),
    delay_cores=(),
)
LIVE = ("steps", "delays", "degree")
COUNTED = ("violations", "faults", "costs", "paper", "saturation")
PARTS = (*LIVE, *COUNTED)


def violations(size: Size) -> Iterable[Row]:
    """Random networks without faults, every algorithm."""
    yield from _rows("violations", 0.0, compare(Plan.drawn(seed) for seed in range(size.seeds)))


def faults(size: Size) -> Iterable[Row]:
    """Random networks in which brokers crash and links break."""
    yield from _rows("faults", 0.0, compare(Plan.drawn(seed, faults=True) for seed in range(size.faulty)))


def costs(size: Size) -> Iterable[Row]:
    """Delays and messages on links that take constant time, from little to much under way."""
    algorithms = {name: ALGORITHMS[name] for name in (WHOLE_QUEUE, *COMPARED)}
    for interval in size.intervals:
        plans = (Plan.drawn(seed, delays="constant", interval=interval) for seed in range(size.cost_seeds))
        yield from _rows("costs", 1 / interval, compare(plans, algorithms))


def paper(size: Size) -> Iterable[Row]:
    """A chain of data centres in which everybody gets everything."""
    algorithms = {name: ALGORITHMS[name] for name in ("fifo", PUBLISHED, "rooted", "floors")}
    publishers = 5 * size.cores
    for interval in size.paper_intervals:
        # As many publications at every rate.
        plan = Plan.data_centres(1, cores=size.cores, topics=1, interval=interval, length=5 * interval)
        yield from _rows("paper", publishers / interval, compare([plan], algorithms))


def saturation(size: Size) -> Iterable[Row]:
    """A chain of data centres that mostly keep to themselves, with brokers that need time for each message."""
    algorithms = {name: ALGORITHMS[name] for name in ("fifo", *COMPARED) if name != "skeen"}
    for interval in size.saturating:
        plan = Plan.data_centres(
            1, cores=size.cores, topics=size.cores, interval=interval, length=size.length, work=WORK
        )
        yield from _rows("saturation", len(plan.schedule) / size.length, compare([plan], algorithms))


_COUNTED = {"violations": violations, "faults": faults, "costs": costs, "paper": paper, "saturation": saturation}


def _rows(part: str, load: float, tallies: dict[str, Tally]) -> Iterable[Row]:
    for algorithm, tally in tallies.items():
        yield Row(
            part=part,
            algorithm=algorithm,
            load=load,
            runs=tally.runs,
            broken=dict(sorted(tally.broken.items())),
            mean_added=round(tally.mean_added, 3),
            p95_added=round(tally.added_at(0.95), 3),
            control=round(tally.control_per_publication, 3),
            carried=round(tally.carried_per_publication, 3),
            degree=round(tally.degree, 5),
            throughput=round(tally.throughput, 3),
        )


def carry_out(size: Size, parts: Sequence[str], command: str) -> OrderRun:
    """Measures and compares everything that is wanted."""
    run = OrderRun(command, datetime.now(UTC).isoformat(timespec="seconds"), machine.describe())
    for part in parts:
        clock = time.perf_counter()
        if part == "steps":
            run.steps.extend(order_steps.sweep(size.filters, size.step_publications))
        elif part == "delays":
            run.delays.extend(order_delays.sweep(dict(size.delays), size.delay_cores))
        elif part == "degree":
            run.degrees.extend(Degree.of(asyncio.run(order_degree.play(plan))) for plan in size.degrees)
        else:
            run.rows.extend(_COUNTED[part](size))
        say(f"{part}  [{time.perf_counter() - clock:.0f} s]")
    return run


def write(run: OrderRun, directory: Path) -> None:
    """The raw figures, the tables and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "order.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "order.md").write_text(order_report.markdown(run))
    order_report.plot(run, directory / "order.png")
    order_figures.plot(run, directory / "order-figures.png")


def parse_arguments(arguments: Sequence[str]) -> tuple[Size, tuple[str, ...], Path | None]:
    """How much to compare, the parts that are wanted, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.order",
        description="Measures total order over real processes, and compares algorithms for it in virtual time.",
        epilog="A full run writes bench/results; any other only with --output.",
    )
    parser.add_argument("--parts", type=words(PARTS, "part"), default=PARTS, help=f"default: {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small networks and sizes, to see that all works")
    parser.add_argument(
        "--output", type=Path, metavar="DIRECTORY", help="write order.json, order.md and the plots here"
    )
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else Size()
    full = size == Size() and options.parts == PARTS
    return size, options.parts, options.output or (RESULTS if full else None)


def main(
    arguments: Sequence[str] | None = None, compared: Callable[[Size, Sequence[str], str], OrderRun] = carry_out
) -> int:
    """Compares, prints, and writes the results; 130 if interrupted, 1 if what must hold did not."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    size, parts, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.order", *given])
    return conduct(
        lambda: compared(size, parts, command),
        order_report.print_to,
        write,
        directory,
        lambda run: any(outcome.reached is False for outcome in order_report.outcomes(run)),
    )


if __name__ == "__main__":
    # Whoever is told to end must still stop the brokers that it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
