"""The benchmark of reliable delivery measures what it says: bytes add up, brokers die, stalls are told from pauses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import overhead, reliable
from bench.brokers import stall
from bench.brokers.client import Arrivals
from bench.brokers.figures import OURS, Entry, Trial
from bench.brokers.scenarios import version
from bench.brokers.stall import CONTESTANTS, JETSTREAM, REDUNDANT, SINGLE, Stall, StallEntry, StallPlan
from bench.match import RESULTS
from bench.overhead import Point, Weights
from bench.reliable import Plan
from bench.reliable_report import BEST_EFFORT, RELIABLE, ReliableRun, markdown, outcomes, scenario

TINY = replace(
    reliable.QUICK,
    brokers_per_node=(1,),
    wanted=(10,),
    brokers=(2,),
    subscriptions=(),
    publications=20,
    stall=StallPlan(repetitions=1, before_seconds=0.8, after_seconds=0.7, labels=(REDUNDANT,)),
)


@pytest.mark.long
def test_the_smallest_run_of_everything(tmp_path: Path) -> None:
    """As a user would start it, less what takes long."""
    run = reliable.carry_out(TINY, "python -m bench.reliable")
    assert [(entry.status, entry.reason) for entry in run.entries] == [("ok", "")] * 2
    [entry] = run.stalls
    assert (entry.status, entry.reason) == ("ok", "")
    [found] = entry.stalls
    assert found.missing == found.twice == 0
    reliable.write(run, tmp_path)
    told = json.loads((tmp_path / "reliable.json").read_text())
    assert [StallEntry.from_json(one) for one in told["stalls"]] == run.stalls
    assert [Point.from_json(one) for one in told["points"]] == run.points
    assert (tmp_path / "reliable.png").stat().st_size > 10_000
    page = (tmp_path / "reliable.md").read_text()
    assert f"throughput against best-effort, {scenario(1, 10)}" in page and "failed" not in page


@pytest.mark.long
@pytest.mark.skipif(version("jetstream") is None, reason="nats-server is not installed")
def test_a_cluster_loses_its_leader() -> None:
    [contestant] = [one for one in CONTESTANTS if one.label == JETSTREAM]
    found = asyncio.run(stall.measure(contestant, TINY.stall))
    assert found.missing == 0 and found.seconds > found.usual_seconds


def test_a_peer_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "version", lambda _: None)
    entries = asyncio.run(stall.take_turns(StallPlan(labels=(JETSTREAM,))))
    assert [(entry.status, entry.stalls) for entry in entries] == [("not installed", [])]
    run = ReliableRun("command", "now", 1, {}, stalls=entries)
    assert [(one.found, one.reached) for one in outcomes(run)] == [("not measured", None)]
    assert f"| {JETSTREAM} | not installed |" in markdown(run)


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [False, True])
def test_all_bytes_beyond_best_effort_are_accounted_for(changes: bool) -> None:
    """Both kinds of subscription get the same data, and what else is sent has one of the names."""
    one = overhead.point(3, 12, 60, changes=changes)
    for weights, plain in ((one.first, one.first_best_effort), (one.last, one.last_best_effort)):
        assert weights.data == plain.data > 0
        assert plain.vectors == plain.silences == plain.reports == 0
        assert weights.vectors > 0 and weights.silences > 0
        assert (weights.tables > plain.tables) is changes


def test_vectors_weigh_where_subscriptions_change() -> None:
    """A vector is spelled out once, so more brokers cost nothing until one of their clocks moves."""
    few, many = (overhead.point(brokers, 32, 60, changes=False) for brokers in (2, 16))
    assert few.first.vectors == many.first.vectors
    few, many = (overhead.point(brokers, 32, 60, changes=True) for brokers in (2, 16))
    assert few.first.vectors < many.first.vectors


def test_bytes_are_for_a_publication_and_a_link() -> None:
    one = Point(4, 16, False, 10, Weights(vectors=50), Weights(data=20), Weights(vectors=80), Weights(data=40))
    assert [one.each(one.first, "vectors"), one.each(one.last, "vectors")] == [5.0, 2.0]
    assert [one.each(one.first_best_effort, "data"), one.each(one.last_best_effort, "data")] == [2.0, 1.0]


# --- stalls -----------------------------------------------------------------------------------------------------------


def test_a_stall_is_the_longest_wait_that_ends_after_the_death() -> None:
    arrivals = [0, 5, 10, 40, 45, 345, 350, 700, 750, 1_350]
    received = {"arrivals_ns": [1_000_000 * each for each in arrivals], "missing": 0, "twice": 1}
    found = stall.stall_of(received, 46_000_000, 0.005)
    assert [round(each, 6) for each in (found.usual_seconds, found.death_seconds, found.later_seconds)] == [
        0.025,
        0.345,
        0.595,
    ]
    assert (found.seconds, found.missing, found.twice) == (found.later_seconds, 0, 1)


def test_what_comes_twice_is_counted_and_does_not_stand_for_something_else() -> None:
    arrivals = Arrivals(3)
    assert [arrivals.note(id) for id in (1, 1, 2, 3)] == [False, False, False, True]
    assert (arrivals.found()["missing"], arrivals.found()["twice"]) == (0, 1)


# --- report -----------------------------------------------------------------------------------------------------------


def entry(delivery: str, per_second: float) -> Entry:
    trials = [Trial(1_000, 1_000 / (per_second * factor), 0, 0.1, 0.2, 0.3, 0.0) for factor in (0.5, 1.0, 3.0)]
    return Entry(scenario(1, 1), delivery, OURS, "1.0", trials=trials)


def stalls(label: str, *seconds: float) -> StallEntry:
    return StallEntry(label, OURS, "1.0", stalls=[Stall(each, each / 2, 0.01) for each in seconds])


def test_targets_are_of_medians() -> None:
    run = ReliableRun(
        "command",
        "now",
        3,
        {"cpu": "one"},
        [entry(BEST_EFFORT, 1_000), entry(RELIABLE, 590)],
        stalls=[stalls(REDUNDANT, 0.1, 0.9, 0.3), stalls(SINGLE, 3.0), stalls(JETSTREAM, 4.0, 5.0, 9.0)],
    )
    assert [(one.found, one.reached) for one in outcomes(run)] == [("0.59×", False), ("0.060×", True)]
    page = markdown(run)
    assert "| MISSED |" in page and "| reached |" in page
    assert f"| {REDUNDANT} | 0.300 | 0.900 | 0.300 | 0.150 | 0.010 | 0 | 0.060× |" in page
    assert f"| {JETSTREAM} | 5.000 | 9.000 | 5.000 | 2.500 | 0.010 | 0 |  |" in page


def test_what_went_wrong_reaches_no_target() -> None:
    wrong = stalls(REDUNDANT, 0.1)
    wrong.status, wrong.reason = "wrong", "1 of 9 messages are missing"
    run = ReliableRun("command", "now", 3, {}, stalls=[wrong, stalls(JETSTREAM, 4.0)])
    assert [one.reached for one in outcomes(run)] == [None]
    assert "wrong: 1 of 9 messages are missing" in markdown(run)
    assert reliable.main(["--quick"], lambda *_: run) == 1


def test_arguments() -> None:
    assert reliable.parse_arguments([]) == (Plan(), RESULTS)
    assert reliable.parse_arguments(["--quick"]) == (reliable.QUICK, None)
    assert reliable.parse_arguments(["--parts", "bytes"]) == (replace(Plan(), parts=("bytes",)), None)
