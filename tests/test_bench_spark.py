"""The page of the bulk match says what was measured, and where."""

from __future__ import annotations

from pathlib import Path

from bench.report import Sheet
from bench.spark.child import BINNED, OURS, PLAIN
from bench.spark.match import SCALED, Figure, SparkRun, plot, sheets, wrong

CASE = (1_000_000, 100_000)


def figure(contestant: str, case: tuple[int, int], cores: int, seconds: float, is_cluster: bool = False) -> Figure:
    return Figure(contestant, *case, cores, "ok", seconds=seconds, rounds=5, digest=7, is_cluster=is_cluster)


def found() -> SparkRun:
    figures = [
        figure(OURS, CASE, 2, 0.5),
        figure(PLAIN, CASE, 2, 50.0),
        figure(BINNED, CASE, 2, 1.0),
        figure(OURS, SCALED, 2, 2.0),
        figure(OURS, SCALED, 1, 3.8),
        figure(OURS, SCALED, 1, 5.0, is_cluster=True),
        figure(OURS, SCALED, 2, 2.5, is_cluster=True),
    ]
    return SparkRun("bench", "now", (0.0, 0.0), {}, figures)


def sheet(run: SparkRun, title: str) -> Sheet:
    return next(sheet for sheet in sheets(run) if sheet.title == title)


def test_targets_are_judged() -> None:
    reached = {row[0].split(", ")[0]: (row[2], row[3]) for row in sheet(found(), "Targets").rows}
    assert reached["1 M × 100 k against the plain join"] == ("100.0×", "yes")
    assert reached["1 M × 100 k against the hand-binned join"] == ("2.0×", "NO")
    assert reached["1 M × 100 k against running counts"] == ("not measured", "–")
    assert reached["10 M × 100 k"] == ("1.9×", "yes")


def test_cores_and_workers_stand_beside_each_other() -> None:
    rows = sheet(found(), "From one core to a cluster").rows
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("local[1]", "3.80", "1.0×"),
        ("local[2]", "2.00", "1.9×"),
        ("1 worker", "5.00", "1.0×"),
        ("2 workers", "2.50", "2.0×"),
    ]
    assert all(row[3] == "local[2]" for row in sheet(found(), "Counting matches per subscription").rows)


def test_a_run_of_sluice_alone_has_a_picture_of_cores_alone(tmp_path: Path) -> None:
    run = found()
    plot(run, tmp_path / "all.png")
    run.figures = [each for each in run.figures if each.contestant == OURS]
    plot(run, tmp_path / "ours.png")
    assert (tmp_path / "ours.png").stat().st_size < (tmp_path / "all.png").stat().st_size
    assert "Skipped" not in sheet(run, "Counting matches per subscription").note


def test_whoever_counts_otherwise_is_named() -> None:
    run = found()
    run.figures.append(Figure(BINNED, *SCALED, 2, "ok", seconds=1.0, digest=8))
    assert [each.contestant for each in wrong(run)] == [BINNED]
    assert sheet(run, "Targets").rows[-1][3] == "NO"
