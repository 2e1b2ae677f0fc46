"""Ways to replace a link of the tree compared: ``python -m bench.reshape``.

Two parts: how often each protocol of the lab ends with wrong tables, or tells somebody off the path; and what a substitution
costs, with the brokers that run and with the protocols of the lab, on the same trees, subscriptions and links. All of it is
counted in virtual time, so it is the same on any machine. A full run writes its tables and plots to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from bench import reshape_report
from bench.command import conduct, say, words
from bench.match import RESULTS
from bench.replacing import Cost, Running, after_a_break, both, by_order, check, in_the_lab, straightforward
from bench.reshape_report import BROKEN, Cell, ReshapeRun, Row, Verdict
from sluice.sim.cugola import PROTOCOLS, REPAIRED, Plan, Protocol, Repair, compare, published
from sluice.sim.cugola.plan import draw_substitution

#: The protocols of the lab whose costs are compared with those of the brokers that run. They know every pattern by itself.
COMPARED = ("published, repaired", "straightforward, identity")
#: Beyond this, what they hold does not fit into the memory of an ordinary machine.
MOST_PATTERNS = 2_000_000
#: Beyond this, matching takes them too long, as they look at one pattern after the other, and no second network is built.
MOST_MATCHED = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much to compare."""

    #: Random runs with churn, and as many without.
    seeds: int = 1_000
    cells: tuple[Cell, ...] = (
        Cell(10, 1_000),
        Cell(30, 1_000),
        Cell(100, 1_000),
        Cell(200, 1_000),
        Cell(100, 100),
        Cell(100, 10_000),
        Cell(100, 100_000),
        Cell(30, 1_000, "identity"),
        Cell(30, 1_000, "merging"),
    )
    #: How many links of each tree are replaced, there and back.
    links: int = 8
    #: One in every link delay, from the beginning of each substitution on.
    publications: int = 20
    #: Processes at the same time: nothing is timed.
    workers: int = 2


QUICK = Size(20, (Cell(8, 50), Cell(16, 50), Cell(8, 50, "merging")), 1, 5, 1)
PARTS = ("tables", "costs")


def tables(size: Size) -> Iterator[Verdict]:
    """Random trees with churn and without, every protocol, and the published one without each of its repairs."""
    protocols: dict[str, Protocol] = {
        "published, literal": PROTOCOLS["published, literal"],
        **{f"published, all repairs but {repair}": published(REPAIRED - {repair}) for repair in Repair},
        **{name: protocol for name, protocol in PROTOCOLS.items() if name != "published, literal"},
    }
    for churn in (1.0, 0.0):
        plans = (Plan.drawn(seed, churn=churn, publications=0) for seed in range(size.seeds))
        for name, tally in compare(plans, protocols).items():
            yield Verdict(name, bool(churn), tally.runs, tally.wrong, tally.disturbing)


def costs(size: Size, cell: Cell) -> list[Row]:
    """What replacing some links of one network costs, way by way."""
    plan = Plan.calm(1, dispatchers=cell.brokers, subscriptions=cell.subscriptions, publications=size.publications)
    random = Random(f"links {cell.brokers} {cell.subscriptions}")
    plans = [
        each
        for _ in range(size.links)
        for each in both(replace(plan, substitution=draw_substitution(random, plan.tree)))
    ]
    network = Running(plan, cell.routing)
    # What was replaced by order stays replaced until it is ordered back: so orders come last.
    found = {
        name: [network.measure(way, each.substitution) for each in plans]
        for name, way in (("straightforward", straightforward), ("ours", by_order))
    }
    check(network)
    if cell.subscriptions <= MOST_MATCHED:
        holding = Running(plan, cell.routing, holds=True)
        found[BROKEN] = [holding.measure(after_a_break, each.substitution) for each in plans]
        check(holding)
    if cell.routing == "covering" and cell.brokers * cell.subscriptions <= MOST_PATTERNS:
        silent = [replace(each, publications=()) if cell.subscriptions > MOST_MATCHED else each for each in plans]
        found |= {name: [in_the_lab(each, PROTOCOLS[name]) for each in silent] for name in COMPARED}
    return [row for name, each in found.items() for row in _rows(cell, name, plans, each)]


def _rows(cell: Cell, way: str, plans: Sequence[Plan], found: Sequence[Cost]) -> Iterator[Row]:
    """All substitutions together; those where the old link leads to a leaf, and the others."""
    yield _row(cell, way, "all", found)
    leaf = [any(len(plan.tree.neighbours[end]) == 1 for end in plan.substitution.old) for plan in plans]
    for links, wanted in (("leaf", True), ("inner", False)):
        some = [cost for cost, is_leaf in zip(found, leaf, strict=True) if is_leaf is wanted]
        if some:
            yield _row(cell, way, links, some)


def _row(cell: Cell, way: str, links: str, found: Sequence[Cost]) -> Row:
    """The mean of all costs; what was published is added up."""
    each = [asdict(cost) for cost in found]
    mean = {name: round(sum(cost[name] for cost in each) / len(each), 2) for name in each[0]}
    return Row(
        cell,
        way,
        links,
        len(found),
        **{**mean, "due": sum(one.due for one in found), "lost": sum(one.lost for one in found)},
    )


def carry_out(size: Size, parts: Sequence[str], command: str) -> ReshapeRun:
    """Compares everything that is wanted, the largest networks first."""
    run = ReshapeRun(command)
    clock = time.perf_counter()
    if "tables" in parts:
        run.verdicts.extend(tables(size))
        say(f"tables  [{time.perf_counter() - clock:.0f} s]")
    if "costs" in parts:
        cells = sorted(size.cells, key=lambda cell: -cell.brokers * cell.subscriptions)
        found: dict[Cell, list[Row]] = {}
        for cell, rows in zip(cells, _mapped(size, cells), strict=True):
            found[cell] = rows
            say(f"{cell}  [{time.perf_counter() - clock:.0f} s]")
        run.rows.extend(row for cell in size.cells for row in found[cell])
    return run


def _mapped(size: Size, cells: Sequence[Cell]) -> Iterator[list[Row]]:
    if size.workers == 1:
        yield from (costs(size, cell) for cell in cells)
        return
    with ProcessPoolExecutor(size.workers) as pool:
        yield from pool.map(costs, [size] * len(cells), cells)


def write(run: ReshapeRun, directory: Path) -> None:
    """The raw figures, the tables and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "reshape.json").write_text(json.dumps(run.to_json(), indent=1) + "\n")
    (directory / "reshape.md").write_text(reshape_report.markdown(run))
    reshape_report.plot(run, directory / "reshape.png")


def parse_arguments(arguments: Sequence[str]) -> tuple[Size, tuple[str, ...], Path | None]:
    """How much to compare, the parts that are wanted, and where to write the results (None: nowhere)."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reshape",
        description="Compares ways to replace a link of the tree: wrong tables, and costs.",
        epilog="A full run writes bench/results; any other only with --output.",
    )
    parser.add_argument("--parts", type=words(PARTS, "part"), default=PARTS, help=f"default: {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a few small networks, to see that all works")
    parser.add_argument(
        "--output", type=Path, metavar="DIRECTORY", help="write reshape.json, reshape.md and reshape.png here"
    )
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else Size()
    full = size == Size() and options.parts == PARTS
    return size, options.parts, options.output or (RESULTS if full else None)


def main(
    arguments: Sequence[str] | None = None, compared: Callable[[Size, Sequence[str], str], ReshapeRun] = carry_out
) -> int:
    """Compares, prints, and writes the results; 130 if interrupted, 1 if what must hold did not."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    size, parts, directory = parse_arguments(given)
    command = shlex.join(["python", "-m", "bench.reshape", *given])
    return conduct(
        lambda: compared(size, parts, command),
        reshape_report.print_to,
        write,
        directory,
        lambda run: any(outcome.reached is False for outcome in reshape_report.outcomes(run)),
    )


if __name__ == "__main__":
    sys.exit(main())
