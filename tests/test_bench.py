"""The benchmark measures what it says: the workloads are the known ones, and all systems give the same ids."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from bench import match, report
from bench.figures import OURS, Figure, Run
from bench.measure import figure, wrong_ids
from bench.peers import ENTRANTS, PEERS, Entrant
from bench.targets import outcomes
from bench.timing import Runner, measure
from bench.workloads import BATCH, NOTIFICATIONS, SIZES, W1, W2, WORKLOADS, Record, Workload, w1_subscriptions

SIZE = 300
FIRST_W1 = [
    "symbol = 'S2' AND price BETWEEN 10.85 AND 64.28 AND exchange IN ('X2', 'X4', 'X6') AND volume > 628",
    "symbol = 'S275' AND price BETWEEN 36.63 AND 61.42 AND exchange IN ('X3', 'X7', 'X9')",
    "symbol = 'S28' AND price BETWEEN 44.66 AND 80.78 AND exchange IN ('X4', 'X7') AND volume > 3376",
]
FIRST_W2 = "n5 BETWEEN 112 AND 687 AND n6 BETWEEN 292 AND 544 AND c0 = 'v95' AND n0 BETWEEN 96 AND 262"


@pytest.fixture(scope="module", params=WORKLOADS.values(), ids=lambda workload: workload.name)
def workload(request: pytest.FixtureRequest) -> Workload:
    found: Workload = request.param
    return found


@pytest.fixture(scope="module")
def records(workload: Workload) -> list[Record]:
    return workload.notifications()


def test_total_matches_of_a_thousand_are_the_known_ones(workload: Workload, records: list[Record]) -> None:
    subscriptions = workload.subscriptions(1_000)
    assert sum(len(subscriptions.matching(record)) for record in records) == workload.matches[1_000]


def test_a_size_is_a_prefix(workload: Workload) -> None:
    small, large = workload.subscriptions(50), workload.subscriptions(200)
    assert [small.where(row) for row in range(50)] == [large.where(row) for row in range(50)]


def test_first_texts() -> None:
    w1, w2 = W1.subscriptions(3), W2.subscriptions(1)
    assert [w1.where(row) for row in range(3)] == FIRST_W1
    assert w2.where(0) == FIRST_W2


def test_batches_hold_the_records_in_plain_columns(workload: Workload, records: list[Record]) -> None:
    batches = workload.batches(records)
    assert [batch.num_rows for batch in batches] == [BATCH] * 9 + [NOTIFICATIONS - 9 * BATCH]
    assert not any(pa.types.is_dictionary(field.type) for field in batches[0].schema)
    back = [row for batch in batches for row in batch.to_pylist()]
    assert [{k: v for k, v in row.items() if v is not None} for row in back] == records


@pytest.mark.parametrize("entrant", ENTRANTS, ids=lambda e: f"{e.workload}-{e.peer}-{e.formulation}".replace(" ", "-"))
def test_every_peer_gives_the_right_ids(entrant: Entrant) -> None:
    workload = WORKLOADS[entrant.workload]
    subscriptions, records = workload.subscriptions(SIZE), workload.notifications()[:40]
    runner = entrant.build(subscriptions)
    expected = [subscriptions.matching(record).tolist() for record in records]
    if entrant.unit == "batch":
        (batch,) = workload.batches(records)
        result = runner.match(batch)
        found = runner.ids(result, len(records))
        assert runner.count(result) == sum(map(len, expected))
    else:
        found = [ids for record in records for ids in runner.ids(runner.match(record), 1)]
    assert [sorted(ids) for ids in found] == expected


def test_sluice_gives_the_right_ids(workload: Workload, records: list[Record]) -> None:
    from bench import ours

    subscriptions = workload.subscriptions(SIZE)
    matcher, _ = ours.load(ours.texts(subscriptions))
    for runner, items in (
        (ours.batches(matcher), workload.batches(records)),
        (ours.records(matcher), records),
    ):
        assert wrong_ids(runner, items, subscriptions, records) == ""


def test_sluice_operations(workload: Workload, records: list[Record]) -> None:
    from bench import ours

    table, batch = ours.texts(workload.subscriptions(SIZE)), workload.batches(records[:20])[0]
    ours.warm(table, batch, records[0])
    matcher, _ = ours.load(table)
    assert ours.save_and_open(matcher, batch)["bytes_on_disk"] > 0
    assert ours.changes(matcher, table, records[:20], limit_seconds=0.05)["changes"] > 0
    assert len(matcher) == SIZE


def test_wrong_answers_are_noticed() -> None:
    subscriptions, records = w1_subscriptions(SIZE), W1.notifications()
    forgetful = Runner(lambda record: subscriptions.matching(record)[1:], len, lambda ids, _: [ids.tolist()])
    found = figure("forgetful", "", "record", W1, subscriptions, forgetful, 0.0, 1.0, records)
    assert (found.status, found.reason) == ("wrong", "wrong ids for notification 0")


def test_a_pass_stops_at_its_limit_and_says_so() -> None:
    records: list[Record] = [{"n": k} for k in range(100)]
    nothing = Runner(lambda record: [], len, lambda ids, _: [ids])
    assert measure(nothing, records, limit_seconds=60.0).complete
    cut = measure(nothing, records, limit_seconds=-1.0)
    assert (cut.complete, cut.passes, 0 < cut.best.events < 100) == (False, 1, True)


def test_arguments() -> None:
    plan, directory = match.parse_arguments([])
    assert (plan.sizes, plan.peers, directory) == (SIZES, PEERS, match.RESULTS)
    plan, directory = match.parse_arguments(["--sizes", "2000,1000", "--workloads", "w2", "--peers", ""])
    assert (plan.sizes, plan.workloads, plan.peers, directory) == ((1000, 2000), ("w2",), (), None)


@pytest.mark.parametrize("wrong", (["--sizes", "many"], ["--sizes", "0"], ["--peers", "nobody"], ["--workloads", "w3"]))
def test_wrong_arguments(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        match.parse_arguments(wrong)
    assert f"argument {wrong[0]}" in capsys.readouterr().err


def made_up(system: str, rate: float) -> Figure:
    """All notifications of W1, in batches, with 100,000 subscriptions."""
    return Figure(system, "any", "w1", 100_000, "batch", "ok", "", 1.0, 10_000, 1, 10_000 / rate, 1.0, True, 3)


def test_targets_compare_with_the_fastest_formulation() -> None:
    figures = [made_up(OURS, 100.0), made_up("duckdb", 4.0), made_up("duckdb", 12.5)]
    run = Run("command", "now", 5.0, {}, figures, [])
    first, second, *_ = outcomes(run)
    assert (first.found, first.reached) == ("8.0× (any): no; 25.0× (any): yes", False)
    assert (second.found, second.reached) == ("not measured", None)


def test_a_run_is_written_and_read_back(tmp_path: Path) -> None:
    skipped = Figure("rule-engine", "every rule", "w1", 100_000, "record", "skipped", "too slow")
    run = Run("command", "now", 5.0, {"cpu": "one"}, [made_up(OURS, 100.0), skipped], [])
    match.write(run, tmp_path)
    assert Run.from_json(json.loads((tmp_path / "match.json").read_text())) == run
    assert "rule-engine, 100,000, skipped: too slow." in (tmp_path / "match.md").read_text()
    assert (tmp_path / "match.png").read_bytes().startswith(b"\x89PNG")
    assert report.sheets(run)
