"""The comparison of ways to replace a link counts what it says, and reports all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import reshape, reshape_report
from bench.match import RESULTS
from bench.replacing import Running, after_a_break, both, by_order, check, in_the_lab, straightforward
from bench.reshape_report import Cell, ReshapeRun, Row, Verdict, outcomes
from sluice.errors import SluiceError
from sluice.protocol.reshape.messages import Stage
from sluice.sim.cugola import PROTOCOLS, Plan

TINY = reshape.Size(2, (Cell(5, 10), Cell(5, 10, "merging")), 1, 3, 1)
ROW = Row(Cell(100, 10_000), "ours", "all", 1, 9.0, 30.0, 30.0, 30.0, 30.0, 30.0, 9.0, 0.0, 10, 0, 20.0)


def test_brokers_and_the_lab_agree() -> None:
    """Ours sends the filters that two sweeps in the lab send, to nobody else; the straightforward way floods both."""
    plan = Plan.calm(4, dispatchers=12, subscriptions=60, publications=12)
    network = Running(plan, "covering")
    for each in both(plan):
        flooded = network.measure(straightforward, each.substitution)
        assert flooded.entries >= in_the_lab(each, PROTOCOLS["straightforward, covering"]).entries
        assert flooded.off_the_path > 0
        assert flooded.acknowledgements > 0
        assert flooded.all_messages > flooded.messages
    for each in both(plan):
        ours, swept = network.measure(by_order, each.substitution), in_the_lab(each, PROTOCOLS["two sweeps, covering"])
        assert ours.entries == swept.entries > 0
        assert (ours.touched, ours.off_the_path) == (ours.path, 0) == (swept.touched, 0)
        assert (ours.due, ours.lost) == (swept.due, 0)
        assert ours.messages > swept.messages
    check(network)
    holding = Running(plan, "covering", holds=True)
    for each in both(plan):
        ours, swept = (
            holding.measure(after_a_break, each.substitution),
            in_the_lab(each, PROTOCOLS["two sweeps, covering"]),
        )
        assert ours.entries == swept.entries
        assert (ours.touched, ours.off_the_path) == (ours.path, 0)
    check(holding)
    order = next(iter(network.world.shape.orders.values()))
    order.stage = Stage.REFUSED
    with pytest.raises(SluiceError, match="nothing has failed"):
        check(network)


def test_what_does_not_arrive_is_lost() -> None:
    plan = Plan.calm(8, dispatchers=12, subscriptions=60, publications=12)
    network = Running(plan, "covering")
    cost = network.measure(lambda running, substitution: running.part(*substitution.old), plan.substitution)
    assert 0 < cost.lost < cost.due


def test_a_plan_is_taken_back() -> None:
    there, back = both(Plan.calm(1, dispatchers=9, subscriptions=0))
    assert back.substitution.old == there.substitution.new
    assert back.substitution.new == there.substitution.old
    after = back.substitution.applied_to(back.tree)
    assert {frozenset(link) for link in after.links} == {frozenset(link) for link in there.tree.links}


def test_a_run_is_written(tmp_path: Path) -> None:
    run = reshape.carry_out(TINY, reshape.PARTS, "command")
    reshape.write(run, tmp_path)
    written = json.loads((tmp_path / "reshape.json").read_text())
    assert [row["way"] for row in written["rows"] if row["links"] == "all"] == [
        "straightforward",
        "ours",
        "ours, broken link",
        "published, repaired",
        "straightforward, identity",
        "straightforward",
        "ours",
        "ours, broken link",
    ]
    page = (tmp_path / "reshape.md").read_text()
    assert page.count("## ") == 5
    assert "| published, repaired | 0.0% | 0.0% | 0.0% |" in page
    assert (tmp_path / "reshape.png").read_bytes().startswith(b"\x89PNG")


def test_targets_see_what_is_wrong_and_what_is_not() -> None:
    right = Verdict("published, repaired", True, 10, 0, 3)
    run = ReshapeRun("command", [right, replace(right, wrong=1), replace(right, protocol="published, literal")])
    assert [one.reached for one in outcomes(run)] == [True, False, False]
    other = replace(ROW, way="straightforward", messages=100.0, entries=110.0)
    assert [one.reached for one in outcomes(ReshapeRun("", [], [ROW, other]))] == [True, True, True, True]
    dear = replace(ROW, entries=40.0, messages=40.0, off_the_path=1.0, lost=1)
    assert [one.reached for one in outcomes(ReshapeRun("", [], [dear, other]))] == [False, False, False, False]


def test_arguments_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reshape.parse_arguments([]) == (reshape.Size(), reshape.PARTS, RESULTS)
    assert reshape.parse_arguments(["--quick"]) == (reshape.QUICK, reshape.PARTS, None)
    assert reshape.parse_arguments(["--parts", "costs"]) == (reshape.Size(), ("costs",), None)
    with pytest.raises(SystemExit):
        reshape.parse_arguments(["--parts", "nothing"])

    def interrupted(*_: object) -> ReshapeRun:
        raise KeyboardInterrupt

    assert reshape.main(["--output", str(tmp_path)], interrupted) == 130
    assert not list(tmp_path.iterdir())
    wrong = ReshapeRun("command", [], [replace(ROW, lost=1)])
    assert reshape.main(["--quick"], lambda *_: wrong) == 1
    assert reshape.main(["--quick"], lambda *_: ReshapeRun("command")) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert reshape_report.sheets(ReshapeRun("command")) == []
