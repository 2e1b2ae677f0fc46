"""`sluice lab` as people meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.cli import main
from sluice.lab import curves
from sluice.lab.experiment import Result
from sluice.lab.topology import hierarchy
from tests.terminal import at_terminal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = main(["lab", *map(str, arguments)])
        except SystemExit as end:
            status = int(end.code or 0)
        return status, *capsys.readouterr()

    return run


def test_json_is_one_object(lab: Run) -> None:
    status, out, err = lab(
        "table-size", "--routing", "simple", "--subscriptions", 1340, "--advertisements", "--seed", 5, "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "experiment": "table-size",
        "routing": "simple",
        "advertisements": True,
        "filters": "quote",
        "subscriptions": 1340,
        "active_subscriptions": 1340,
        "remote_entries": 5000,
        "admin_messages": 250 / 67,
        "changes": 268,
        "seed": 5,
    }


def test_text_shows_the_figures_beside_what_was_expected(lab: Run) -> None:
    status, out, err = lab("admin-messages", "--routing", "simple", "--subscriptions", 1340, "--advertisements")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "simple routing with advertisements, quote subscriptions, 107 brokers",
        "  subscriptions          1,340   670 of them active",
        "  remote entries         2,500   expected 2,500",
        "  admin messages         3.731   expected 3.731; mean of 1,340 changes",
    ]


def test_without_a_formula_it_says_so(lab: Run) -> None:
    out = lab("table-size", "--routing", "imperfect", "--subscriptions", 20, "--advertisements")[1]
    assert out.count("no formula") == 2


def test_a_plot_has_smaller_numbers_too(lab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[curves.Panel] = []
    draw = curves.draw

    def drawing(panels: list[curves.Panel], *rest: Any) -> None:
        drawn.extend(panels)
        draw(panels, *rest)

    monkeypatch.setattr(curves, "draw", drawing)
    plot = tmp_path / "curve.png"
    status, out, _ = lab(
        "table-size", "--routing", "identity", "--subscriptions", 1500, "--advertisements", "--plot", plot
    )
    assert status == 0 and "1,500" in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert [result.subscriptions for result in drawn[0].results] == [670, 1340, 1500]


def test_all_panels_of_a_picture(tmp_path: Path) -> None:
    results = [
        Result(
            experiment="admin-messages",
            routing=routing,
            advertisements=advertisements,
            filters="interval",
            subscriptions=subscriptions,
            active_subscriptions=subscriptions // 2,
            remote_entries=1000,
            admin_messages=1.5,
            changes=10,
            seed=1,
        )
        for routing in ("merging", "of my own")
        for advertisements in (False, True)
        for subscriptions in (670, 6_700)
    ]
    panel = curves.panel_of(results)
    assert panel.shows == "admin_messages"
    curves.draw([panel, panel, panel], hierarchy(), tmp_path / "three.svg")
    assert "<svg" in (tmp_path / "three.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--routing", "magic", "--subscriptions", 10), "no routing algorithm is called 'magic'"),
        (("--routing", "simple", "--subscriptions", 0), "argument --subscriptions: should be at least 1"),
        (("--routing", "simple", "--subscriptions", "many"), "argument --subscriptions: 'many' is no whole number"),
        (("--routing", "simple", "--subscriptions", 10**7), "more than the limit"),
        (("--routing", "identity", "--subscriptions", 10**9), "more than the limit"),
        (("--routing", "simple"), "--subscriptions"),
        (("--subscriptions", 10), "--routing"),
        (("--routing", "simple", "--subscriptions", 10, "--filters", "none"), "argument --filters"),
        (("--routing", "simple", "--subscriptions", 10, "--plot", "curve.doc"), "ends in .png, .svg, .pdf"),
        (("--routing", "simple", "--subscriptions", 10, "--plot", "no/such/folder.png"), "there is no folder"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_measured(
    lab: Run, arguments: tuple[object, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.lab.experiment.run", None)
    status, out, err = lab("table-size", *arguments)
    assert (status, out) == (2, "")
    assert says in err


def test_an_unknown_experiment(lab: Run) -> None:
    status, _, err = lab("speed", "--routing", "simple", "--subscriptions", 10)
    assert status == 2 and "table-size" in err


def test_a_bar_at_a_terminal() -> None:
    shown = at_terminal("lab", "table-size", "--routing", "identity", "--subscriptions", 670)
    assert shown.status == 0
    assert "670 subscriptions" in shown.text and "remote entries" in shown.text


def test_ctrl_c_ends_it() -> None:
    shown = at_terminal(
        "lab", "table-size", "--routing", "simple", "--subscriptions", 100_000, interrupt_at="100,000 subscriptions"
    )
    assert shown.status == 130
    assert "Traceback" not in shown.text and "remote entries" not in shown.text
