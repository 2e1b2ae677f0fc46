"""Measures one system on one workload of one size, in a process of its own, and prints what it found as JSON.

``bench.match`` starts it, with the environment that keeps thread pools to one thread. Every answer is checked: the ids
of the first notifications against a plain scan of all subscriptions, and the total against the known one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

from bench.figures import OURS, Figure
from bench.machine import stay_on_one_core
from bench.peers import ENTRANTS
from bench.timing import Runner, measure
from bench.workloads import WORKLOADS, Record, Subscriptions, Workload

#: Notifications whose ids are compared one by one.
CHECKED = 8
#: Records matched to learn the latency of a quiet matcher.
LATENCIES = 2_000


def wrong_ids(runner: Runner, items: Sequence[Any], subscriptions: Subscriptions, records: Sequence[Record]) -> str:
    """What is wrong with the ids of the first notifications; empty if nothing is."""
    checked = records[:CHECKED]
    if isinstance(items[0], dict):
        found = [ids for item in items[:CHECKED] for ids in runner.ids(runner.match(item), 1)]
    else:
        found = runner.ids(runner.match(items[0].slice(0, len(checked))), len(checked))
    for number, (ids, record) in enumerate(zip(found, checked, strict=True)):
        if sorted(ids) != subscriptions.matching(record).tolist():
            return f"wrong ids for notification {number}"
    return ""


def figure(
    system: str,
    formulation: str,
    unit: Literal["batch", "record"],
    workload: Workload,
    subscriptions: Subscriptions,
    runner: Runner,
    build_seconds: float,
    limit_seconds: float,
    records: list[Record],
) -> Figure:
    """Checks and times a runner."""
    items: Sequence[Any] = workload.batches(records) if unit == "batch" else records
    size = len(subscriptions)
    reason = wrong_ids(runner, items, subscriptions, records)
    if reason:
        return Figure(system, formulation, workload.name, size, unit, "wrong", reason)
    timing = measure(runner, items, limit_seconds)
    best = timing.best
    known = workload.matches.get(size)
    if timing.complete and known is not None and best.ids != known:
        reason = f"{best.ids:,} matches, not {known:,}"
    return Figure(
        system,
        formulation,
        workload.name,
        size,
        unit,
        "wrong" if reason else "ok",
        reason,
        build_seconds,
        best.events,
        best.ids,
        best.seconds,
        best.elapsed_seconds,
        timing.complete,
        timing.passes,
    )


def measure_peer(workload: Workload, size: int, peer: str, formulation: str, limit_seconds: float) -> dict[str, Any]:
    """One formulation of a peer."""
    entrant = next(e for e in ENTRANTS if (e.peer, e.formulation, e.workload) == (peer, formulation, workload.name))
    subscriptions, records = workload.subscriptions(size), workload.notifications()
    start = time.perf_counter()
    runner = entrant.build(subscriptions)
    seconds = time.perf_counter() - start
    found = figure(peer, formulation, entrant.unit, workload, subscriptions, runner, seconds, limit_seconds, records)
    return {"figures": [found.to_json()], "operations": []}


def measure_ours(workload: Workload, size: int, limit_seconds: float, with_changes: bool) -> dict[str, Any]:
    """Sluice: loading, both ways of matching, saving and opening, and if asked changes while matching."""
    from bench import ours

    subscriptions, records = workload.subscriptions(size), workload.notifications()
    table, batch = ours.texts(subscriptions), workload.batches(records)[0]
    ours.warm(table, batch, records[0])
    matcher, seconds = ours.load(table)
    units: tuple[tuple[Literal["batch", "record"], Runner], ...] = (
        ("batch", ours.batches(matcher)),
        ("record", ours.records(matcher)),
    )
    figures = [
        figure(OURS, f"{unit}", unit, workload, subscriptions, runner, seconds, limit_seconds, records)
        for unit, runner in units
    ]
    operation: dict[str, Any] = {"workload": workload.name, "size": size, "load_seconds": seconds}
    operation |= ours.save_and_open(matcher, batch)
    if with_changes:
        operation |= ours.changes(matcher, table, records[:LATENCIES], limit_seconds)
    return {"figures": [one.to_json() for one in figures], "operations": [operation]}


def main() -> None:
    """Reads what to measure, measures it, prints it."""
    parser = argparse.ArgumentParser(prog="python -m bench.measure", description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("size", type=int)
    parser.add_argument("system")
    parser.add_argument("--formulation", default="")
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of one pass")
    parser.add_argument("--changes", action="store_true", help="of Sluice: measure changes while matching too")
    options = parser.parse_args()
    stay_on_one_core()
    workload = WORKLOADS[options.workload]
    if options.system == OURS:
        found = measure_ours(workload, options.size, options.seconds, options.changes)
    else:
        found = measure_peer(workload, options.size, options.system, options.formulation, options.seconds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
