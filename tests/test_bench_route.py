"""The routing benchmark measures what it says: plain loops and broker tell neighbours the same, and all is reported."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench import route, route_report
from bench.churn import NEIGHBOURS, Station, changes, disagreement, filters, measure, told_by_brokers
from bench.match import RESULTS
from bench.pairwise import FORMULATIONS, Covering, Formulation, Merging
from bench.route_report import FIGURES, RouteRun, outcomes
from bench.simulation import measure as simulate
from sluice.lab.experiment import Result
from sluice.model.subscription import Subscription


@pytest.mark.parametrize("routing", route.ROUTINGS)
@pytest.mark.parametrize("size", [30, pytest.param(1_200, marks=pytest.mark.long)])
def test_broker_and_plain_loops_agree(routing: str, size: int) -> None:
    assert disagreement(routing, size) == ""


def test_a_disagreement_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Covering, "_is_covered", lambda self, where: False)
    assert "is told something else" in disagreement("covering", 1_200)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_plain_loops_by_definition(formulation: Formulation) -> None:
    """Against the definition of a maximal filter, from nothing up to many and down to nothing again."""
    narrow = [each for each in filters(4_000) if "'S1" in each.to_sql() and len(each.to_sql()) < 66][:60]
    covering, held = Covering(formulation, (), ()), dict[Subscription, None]()
    merging = Merging(Covering(formulation, (), ()), ())
    for come, where in [*((True, each) for each in narrow), *((False, each) for each in narrow)]:
        for plain in (covering, merging):
            (plain.add if come else plain.remove)(where)
        if come:
            held[where] = None
        else:
            del held[where]
        maximal = {one for one in held if not any(other.covers(one) for other in held if other != one)}
        assert set(covering.told) == maximal
        # All intervals contain the middle price: one merger for each stock.
        stocks = {where.to_sql().rpartition("symbol")[2] for where in held}
        assert len(merging.told) == len(stocks)
        assert all(any(merger.covers(where) for merger in merging.told) for where in held)


def test_filters_are_distinct_and_changes_keep_their_number() -> None:
    held = list(filters(500))
    assert len(set(held)) == 500
    now = set(held)
    for number, (come, where) in enumerate(islice(changes(held), 400)):
        assert (where in now) is not come
        now ^= {where}
        assert len(now) == (500 if number % 2 else 499)


def test_a_station_holds_the_filters_and_tells_all_neighbours() -> None:
    held = list(filters(300))
    station = Station("covering", held)
    told = told_by_brokers("merging", held)
    assert [set(station.told(neighbour)) for neighbour in NEIGHBOURS] == [set(told["covering"])] * 3
    assert not any(completion.is_waiting for completion in station.broker.completion.values())


def test_measurements() -> None:
    found = measure("merging", 200, limit_seconds=0.01)
    assert found["broker"]["changes"] >= 200
    assert all(found[formulation]["changes"] >= 4 for formulation in FORMULATIONS)
    simulated = simulate("routing", limit_seconds=0.01)
    assert simulated["runs"] >= 1 and simulated["events"] > 0 and simulated["violations"] == 0


def made_up(rate: float) -> dict[str, Any]:
    """A measurement in which the faster plain loop takes ten changes a second."""
    speeds = {"broker": rate, "all": 3.0, "until found": 10.0}
    return {
        "routing": "covering",
        "size": 100_000,
        "told": 5_000,
        "load_seconds": 1.0,
        "bytes_per_filter": 1_000.0,
        **{name: {"changes": 10, "seconds": 1.0, "changes_per_second": speed} for name, speed in speeds.items()},
    }


def test_targets_compare_with_the_faster_loop() -> None:
    run = RouteRun("command", "now", 5.0, {})
    run.changes.extend([made_up(999.0), made_up(1000.0), {"routing": "merging", "size": 100_000}])
    run.simulator.append({"scenario": "routing"})
    assert [(one.found, one.reached) for one in outcomes(run)] == [
        ("100×", False),
        ("100×", True),
        ("not measured", None),
        ("not measured", None),
    ]


def test_a_run_is_written(tmp_path: Path) -> None:
    run = RouteRun("command", "now", 5.0, {"cpu": "one"})
    run.changes.extend([made_up(5_000.0), {"routing": "merging", "size": 100_000}])
    run.simulator.append(
        {"scenario": "routing", "runs": 1, "events": 10, "seconds": 1.0, "events_per_second": 10.0, "violations": 0}
    )
    for setup in route.setups(route.QUICK):
        run.results.append(
            Result(
                experiment=setup.experiment,
                routing=setup.routing,
                advertisements=setup.advertisements,
                filters=setup.filters,
                subscriptions=setup.subscriptions,
                active_subscriptions=setup.subscriptions,
                remote_entries=100,
                admin_messages=2.5,
                changes=1,
                seed=1,
            )
        )
    route.write(run, tmp_path)
    assert len(json.loads((tmp_path / "route.json").read_text())["lab"]) == 16
    page = (tmp_path / "route.md").read_text()
    assert all(f"## Figure {figure.number}" in page for figure in FIGURES)
    assert "500×" in page
    assert (tmp_path / "route.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "route-figures.png").read_bytes().startswith(b"\x89PNG")
    assert route_report.sheets(run)


def test_every_figure_has_four_curves() -> None:
    points = list(route.setups(route.Plan()))
    assert len(points) == 2 * 4 * (len(route.Plan().quotes) + len(route.Plan().intervals))
    assert all(setup.subscriptions % 670 == 0 for setup in points)


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert route.parse_arguments([]) == (route.Plan(), route.PARTS, RESULTS)
    assert route.parse_arguments(["--quick"]) == (route.QUICK, route.PARTS, None)
    assert route.parse_arguments(["--parts", "figures"]) == (route.Plan(), ("figures",), None)
    with pytest.raises(SystemExit):
        route.parse_arguments(["--parts", "nothing"])
    assert "argument --parts" in capsys.readouterr().err


def test_interrupted_it_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> RouteRun:
        raise KeyboardInterrupt

    assert route.main(["--output", str(tmp_path)], interrupted) == 130
    assert not list(tmp_path.iterdir())
    assert "nothing was written" in capsys.readouterr().err
