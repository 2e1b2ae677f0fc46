"""Kills brokers under load, a thousand times: `python -m tests.soak_network --cycles 1000`. The first broken promise ends it.

Each round has a network of its own: another shape, another number of brokers, another seed. `--report` writes the counts to
`bench/results/soak.md`. With `--redundant` nodes have two brokers, and it is reliable subscriptions that must miss nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.network import redundant
from tests.network.drill import Report, drill

CYCLES = 1_000
#: Cycles of a round: its logs are compared at its end.
ROUND = 25
SHAPES = (("line", 3), ("star", 4), ("tree", 5), ("line", 5))
TEXT = """\
# Brokers killed under load

These are the counts of `python -m tests.soak_network --cycles {cycles} --seed {seed}`, which ended on {date}. Brokers of small
networks were killed with SIGKILL while programs published and read at all of them; afterwards every log was compared with what
had been acknowledged, and what durable subscriptions had read with the logs. Nothing was lost and nothing was read twice.

```
{counts}
```
"""
RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results" / "soak.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak_network", description="Kills durable brokers under load and counts what is lost."
    )
    parser.add_argument("--cycles", type=int, default=CYCLES, help=f"how often to kill (default {CYCLES:,})")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round (default 0)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--redundant", action="store_true", help="nodes of two brokers, and reliable subscriptions")
    kinds.add_argument("--report", action="store_true", help="write the counts to bench/results/soak.md")
    options = parser.parse_args()
    # Live subscriptions tell of gaps whenever a broker dies, as they should.
    logging.getLogger("sluice.client").setLevel(logging.CRITICAL)
    console, report, seed = Console(), Report(), options.seed
    started = time.monotonic()
    columns = (TextColumn("round {task.fields[seed]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("soak", total=options.cycles, seed=seed)
        while report.cycles < options.cycles:
            progress.update(task, seed=seed)
            cycles = min(ROUND, options.cycles - report.cycles)
            shape, brokers = SHAPES[seed % len(SHAPES)]
            try:
                with tempfile.TemporaryDirectory(prefix="sluice-soak-") as folder:
                    data = Path(folder)
                    if options.redundant:
                        shape, brokers = "line of nodes", redundant.NODES
                        asyncio.run(redundant.drill(data, seed, cycles=cycles, report=report))
                    else:
                        asyncio.run(drill(data, seed, shape=shape, brokers=brokers, cycles=cycles, report=report))
            except Exception as error:
                progress.stop()
                for cause in causes(error):
                    console.print(f"round {seed}: {type(cause).__name__}: {cause}", style="red", markup=False)
                flag = " --redundant" if options.redundant else ""
                command = f"python -m tests.soak_network --seed {seed} --cycles {ROUND}{flag}"
                console.print(f"try again with: {command}", markup=False, highlight=False)
                return 1
            said = f"round {seed}, {shape} of {brokers}: {report.cycles:,} cycles, {report.acknowledged:,} acknowledged"
            console.print(said, markup=False, highlight=False)
            seed += 1
            progress.update(task, completed=report.cycles)
    lines = [*report.lines(), f"minutes                       {(time.monotonic() - started) / 60:.1f}"]
    console.print("\n".join(lines), markup=False, highlight=False)
    console.print("nothing that was acknowledged is lost, nothing was read twice", markup=False, highlight=False)
    if options.report:
        write(lines, options.cycles, options.seed)
    return 0


def causes(error: BaseException) -> Iterator[BaseException]:
    """What went wrong, out of the groups that tasks put it in."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from causes(one)
    else:
        yield error


def write(lines: list[str], cycles: int, seed: int) -> None:
    """Writes the counts for people."""
    counts = "\n".join(lines)
    RESULTS.write_text(TEXT.format(cycles=cycles, seed=seed, date=datetime.now(UTC).date(), counts=counts))


if __name__ == "__main__":
    sys.exit(main())
