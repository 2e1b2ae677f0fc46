"""The benchmark of statistics counts what it says, and its verdict can be NO."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.statistics import Experiment, Market, Point, at_size, curve, draw, lies_below, page, sheets


@pytest.fixture(scope="module")
def points() -> list[Point]:
    experiment = Experiment("independent", Market(False), subscriptions=60, notifications=400)
    settings = (("perfect", 1.0), ("ratio", 4.0), ("traffic", 0.0003), ("traffic", 0.003))
    return [experiment.point(policy, setting) for policy, setting in settings]


def test_perfect_merging_wastes_nothing_and_the_others_save(points: list[Point]) -> None:
    perfect, *others = points
    assert perfect.in_vain == 0.0
    assert all(one.intervals < perfect.intervals and one.in_vain > 0 for one in others)


def test_the_verdict_follows_the_points() -> None:
    perfect = Point("independent", "perfect", 1.0, 100, 300, 0.0)
    ratio = replace(perfect, policy="ratio", entries=80, in_vain=0.4)
    good, bad = (replace(perfect, policy="traffic", entries=60, in_vain=waste) for waste in (0.5, 0.9))
    assert at_size(curve([perfect, ratio], "independent", "ratio"), 90) == pytest.approx(0.2)
    assert lies_below([perfect, ratio, good], "independent")
    assert not lies_below([perfect, ratio, bad], "independent")


def test_a_page_and_a_plot_come_of_it(points: list[Point], tmp_path: Path) -> None:
    both = [*points, *(replace(one, market="dependent") for one in points)]
    assert len(sheets(both)) == 2
    assert "perfect merging" in page(both, "make bench-statistics", 60, 400)
    draw(both, tmp_path / "plot.svg")
    first = (tmp_path / "plot.svg").read_bytes()
    draw(both, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_bytes() == first
