"""What the matcher is meant to reach, and whether a run reached it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.figures import OURS, Figure, Run

#: One million WHERE texts of few shapes are loaded within a minute, into a process of less than a gigabyte.
LOAD_SECONDS = 60.0
MEMORY_BYTES = 10**9


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as the fastest formulation of a peer, in the same run."""

    workload: str
    size: int
    unit: Literal["batch", "record"]
    peer: str
    at_least: float


RATIOS = (
    Ratio("w1", 100_000, "batch", "duckdb", 10),
    Ratio("w1", 1_000_000, "batch", "duckdb", 10),
    Ratio("w2", 100_000, "batch", "duckdb", 8),
    Ratio("w2", 1_000_000, "batch", "duckdb", 18),
    Ratio("w1", 100_000, "record", "lambdas", 200),
    Ratio("w2", 100_000, "record", "lambdas", 100),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A target, what was found, and whether that is enough; None where the run did not measure it."""

    target: str
    wanted: str
    found: str
    reached: bool | None


def ratio(ours: Figure | None, peer: Figure | None) -> float | None:
    """Our speed by the peer's."""
    return ours.events_per_second / peer.events_per_second if ours and peer else None


def outcomes(run: Run) -> list[Outcome]:
    """All targets, one by one."""
    return [*(_speed(run, one) for one in RATIOS), _counts(run), *_operations(run)]


def _speed(run: Run, one: Ratio) -> Outcome:
    unit = "batches" if one.unit == "batch" else "one record at a time"
    target = f"{one.workload.upper()}, {one.size:,} subscriptions, {unit}, against {one.peer}"
    wanted = f"≥ {one.at_least:g}×"
    ours = run.fastest(OURS, one.workload, one.size, one.unit)
    peer = run.fastest(one.peer, one.workload, one.size, one.unit)
    times = ratio(ours, peer)
    if times is None or peer is None:
        return Outcome(target, wanted, "not measured", None)
    # Every way in which the peer was asked, the fastest first: that one decides. The others say for themselves.
    shown = "; ".join(
        _against(ours, other, one.at_least) for other in run.ok(one.peer, one.workload, one.size, one.unit)
    )
    return Outcome(target, wanted, shown, times >= one.at_least)


def _against(ours: Figure | None, peer: Figure, at_least: float) -> str:
    sample = "" if peer.complete else f", sample of {peer.events:,}"
    times = ratio(ours, peer) or 0.0
    return f"{times:.1f}× ({peer.formulation}{sample}): {'yes' if times >= at_least else 'no'}"


def _counts(run: Run) -> Outcome:
    wrong = [figure for figure in run.figures if figure.status == "wrong"]
    checked = [figure for figure in run.figures if figure.status == "ok" and figure.complete]
    shown = "; ".join(f"{f.system} ({f.formulation}), {f.workload}, {f.size:,}: {f.reason}" for f in wrong)
    return Outcome(
        "match counts", "the known ones, every size", shown or f"right in all {len(checked)} complete runs", not wrong
    )


def _operations(run: Run) -> list[Outcome]:
    """Load and memory of W1 at its full size; W2 has nearly as many shapes as subscriptions and no such target."""
    found = []
    for operation in run.operations:
        if (operation["workload"], operation["size"]) != ("w1", 1_000_000):
            continue
        seconds, peak = operation["load_seconds"], operation.get("peak_bytes")
        name = "W1, 1,000,000 subscriptions"
        found.append(Outcome(f"{name}, load", f"≤ {LOAD_SECONDS:g} s", f"{seconds:.1f} s", seconds <= LOAD_SECONDS))
        if peak is not None:
            memory = f"{peak / 1e9:.2f} GB"
            found.append(Outcome(f"{name}, process memory", "≤ 1 GB at its peak", memory, peak <= MEMORY_BYTES))
    return found
