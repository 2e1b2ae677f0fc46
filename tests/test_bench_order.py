"""What is measured and compared about total order is what it says, and all of it is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import order, order_delays, order_report, order_steps
from bench.match import RESULTS
from bench.order_degree import FIFO, ORDERED, DegreePlan, Played
from bench.order_delays import Window
from bench.order_report import Degree, OrderRun, Row, outcomes
from bench.order_steps import Step
from sluice.sim.padres.plan import Publication

TINY = order.Size(2, 2, 1, (1.0,), 2, (20.0,), (8.0,), 10.0, filters=(1, 3), step_publications=2)
FLOORS = Row("saturation", "floors", 160.0, 1, {}, 1.0, 2.0, 3.0, 4.0, 1.0, 30.0)


WINDOWS = [
    Window("floors", 6, 0, ordered=[], unordered=[1.0] * 9, near=[], control=0.0),
    Window("floors", 6, 50, ordered=[4.0] * 4, unordered=[2.0] * 5, near=[4.0], control=2.0),
    Window("floors", 6, 0, ordered=[], unordered=[1.0] * 9, near=[], control=0.0),
    Window("floors", 6, 50, ordered=[5.0] * 5, unordered=[2.0] * 4, near=[5.0], control=4.0),
    Window("floors", 6, 100, ordered=[3.0] * 9, unordered=[], near=[3.0], control=5.0),
]


def test_a_run_is_written(tmp_path: Path) -> None:
    run = order.carry_out(TINY, ("steps", *order.COUNTED), "command")
    run.delays.extend(order_delays.summarise(WINDOWS))
    order.write(run, tmp_path)
    assert [row["part"] for row in json.loads((tmp_path / "order.json").read_text())["rows"]].count("violations") == 9
    page = (tmp_path / "order.md").read_text()
    assert page.count("## ") == 9
    assert "| floors | 6 | 50 % | 5.0 / 5.0 | 5.0 / 5.0 | 2.0 / 2.0 | 2.00 | 3.0 |" in page
    assert "| rooted | 0.0% | 0.0% | 0.0% | 0.0% | 1.0000 |" in page
    for plot in ("order.png", "order-figures.png"):
        assert (tmp_path / plot).read_bytes().startswith(b"\x89PNG")


def test_targets_see_what_is_broken_and_what_is_not() -> None:
    run = OrderRun("command")
    violations = replace(FLOORS, part="violations", runs=10)
    run.rows.extend([violations, replace(violations, broken={"lost": 1}), replace(violations, algorithm="fifo")])
    assert [one.reached for one in outcomes(run)] == [True, False, False]


def test_targets_of_what_was_measured() -> None:
    steps = [Step("subscriptions", 1, 100.0, 40.0), Step("subscriptions", 10_000, 250.0, 40.0)]
    delays = [*order_delays.summarise(WINDOWS)]
    degrees = [Degree(6, 100, 1_000, 1.0, 0.98, 0), Degree(6, 100, 1_000, 0.999, 1.0, 3)]
    found = outcomes(OrderRun("command", steps=steps, delays=delays, degrees=degrees))
    assert [one.reached for one in found] == [True, False, False, True, True, True, False, False, False]
    assert [delay.ratio for delay in delays] == [1.0, 2.0, 0.0]


def test_a_step_with_order_releases_what_it_holds() -> None:
    for grows in ("subscriptions", "advertisements"):
        broker = order_steps.broker_with(grows, 3, ordered=True)
        entries = {kind.name.lower(): table for kind, table in broker.tables.items()}
        assert len(entries[grows].replicas["west"].entries) == 3
        assert order_steps.cost(grows, 3, 5, ordered=True) > 0
    assert broker.order.account(0.0)["subscriptions"] == 1


def test_the_degree_sees_what_is_out_of_order_and_the_check_what_is_missing() -> None:
    played = Played(DegreePlan(1, 2, 3))
    one, two, three = (Publication("p", number, 0) for number in (1, 2, 3))
    played.published = [(one, {"n": 0}), (two, {"n": 2}), (three, {"n": 4})]
    played.streams = {
        (ORDERED, "edge1-1"): [one, two, three],
        (ORDERED, "edge1-2"): [one, two, three],
        (FIFO, "edge1-1"): [one, three, two],
        (FIFO, "edge1-2"): [one, two],
    }
    assert played.degree(ORDERED) == 1.0 == played.degree(FIFO)
    assert played.wrong() == ["fifo subscriber at edge1-2: 2 publications, not 3"]
    played.streams[FIFO, "edge1-2"].append(three)
    assert played.wrong() == [] and Degree.of(played) == Degree(2 * 1 + 1, 3, 12, 1.0, round(7 / 9, 5), 0)


@pytest.mark.long
def test_processes_are_measured() -> None:
    run = order.carry_out(order.QUICK, order.LIVE, "command")
    assert [degree.wrong for degree in run.degrees] == [0] and run.degrees[0].ordered == 1.0
    assert [delay.share for delay in run.delays] == [0, 25, 50, 100]
    assert run.delays[0].control == 0 < run.delays[-1].control


@pytest.mark.parametrize(("sequencer", "reached"), [(10.0, True), (16.0, False), (41.0, None)])
def test_the_sequencer_counts_once_it_is_saturated(sequencer: float, reached: bool | None) -> None:
    """Not at a load that it can almost carry."""
    rows = [FLOORS, replace(FLOORS, algorithm="sequencer", throughput=sequencer)]
    assert [one.reached for one in outcomes(OrderRun("command", rows=rows))] == [reached]


def test_arguments_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert order.parse_arguments([]) == (order.Size(), order.PARTS, RESULTS)
    assert order.parse_arguments(["--quick"]) == (order.QUICK, order.PARTS, None)
    assert order.parse_arguments(["--parts", "costs"]) == (order.Size(), ("costs",), None)
    with pytest.raises(SystemExit):
        order.parse_arguments(["--parts", "nothing"])

    def interrupted(*_: object) -> OrderRun:
        raise KeyboardInterrupt

    assert order.main(["--output", str(tmp_path)], interrupted) == 130
    assert not list(tmp_path.iterdir())
    wrong = OrderRun("command", rows=[replace(FLOORS, part="faults", broken={"pairwise order": 1})])
    assert order.main(["--quick"], lambda *_: wrong) == 1
    assert order.main(["--quick"], lambda *_: OrderRun("command")) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert order_report.sheets(OrderRun("command")) == []
