"""The comparison of algorithms for total order counts what it says, and reports all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import order, order_report
from bench.match import RESULTS
from bench.order_report import OrderRun, Row, outcomes

TINY = order.Size(2, 2, 1, (1.0,), 2, (20.0,), (8.0,), 10.0)
FLOORS = Row("saturation", "floors", 160.0, 1, {}, 1.0, 2.0, 3.0, 4.0, 1.0, 30.0)


def test_a_run_is_written(tmp_path: Path) -> None:
    run = order.carry_out(TINY, order.PARTS, "command")
    order.write(run, tmp_path)
    assert [row["part"] for row in json.loads((tmp_path / "order.json").read_text())["rows"]].count("violations") == 9
    page = (tmp_path / "order.md").read_text()
    assert page.count("## ") == 6
    assert "| rooted | 0.0% | 0.0% | 0.0% | 0.0% | 1.0000 |" in page
    assert (tmp_path / "order.png").read_bytes().startswith(b"\x89PNG")


def test_targets_see_what_is_broken_and_what_is_not() -> None:
    run = OrderRun("command")
    violations = replace(FLOORS, part="violations", runs=10)
    run.rows.extend([violations, replace(violations, broken={"lost": 1}), replace(violations, algorithm="fifo")])
    assert [one.reached for one in outcomes(run)] == [True, False, False]


@pytest.mark.parametrize(("sequencer", "reached"), [(10.0, True), (16.0, False), (41.0, None)])
def test_the_sequencer_counts_once_it_is_saturated(sequencer: float, reached: bool | None) -> None:
    """Not at a load that it can almost carry."""
    rows = [FLOORS, replace(FLOORS, algorithm="sequencer", throughput=sequencer)]
    assert [one.reached for one in outcomes(OrderRun("command", rows))] == [reached]


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
    wrong = OrderRun("command", [replace(FLOORS, part="faults", broken={"pairwise order": 1})])
    assert order.main(["--quick"], lambda *_: wrong) == 1
    assert order.main(["--quick"], lambda *_: OrderRun("command")) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert order_report.sheets(OrderRun("command")) == []
