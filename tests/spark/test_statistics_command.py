"""`sluice statistics`: from an archive to a file, and from a file to a table for people."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from sluice.cli import main
from sluice.files import read_statistics, write_statistics
from sluice.model.statistics import Statistics
from sluice.spark.archive.read import files
from tests.spark.shelf import START, logged, shelve


def sluice(*words: str) -> int:
    return main(["statistics", *words])


def test_an_archive_is_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark, "stop", lambda: None)  # others go on with it
    screen = StringIO()
    bar = partial(Progress, console=Console(file=screen, force_terminal=True))
    monkeypatch.setattr("sluice.spark.traffic.command.progress_bar", bar)  # somebody watches
    early = [{"symbol": "IBM", "price": price} for price in range(40)]
    late = [{"symbol": "SUN", "price": price, "note": "!"} for price in range(20)]
    shelve(tmp_path / "a", [logged("b1", 1, START, early), logged("b1", 41, START + timedelta(days=2), late)])
    file = tmp_path / "traffic.json"
    words = ("--archive", str(tmp_path / "a"), "--output", str(file), "--master", "local[2]")
    assert sluice(*words, "--since", "2026-03-02", "--where", "price < 10") == 0
    assert capsys.readouterr().out == f"{file}: 10 notifications, 3 attributes\n"
    assert read_statistics(file) == Statistics.of(late[:10])
    assert "starting Spark" in screen.getvalue() and "counting" in screen.getvalue()
    assert sluice(*words, "--where", "price > 100") == 2
    assert "there is nothing to count" in capsys.readouterr().err
    for damaged in files(tmp_path / "a"):
        (tmp_path / "a" / damaged.path).write_bytes(b"not Parquet at all")
    assert sluice(*words) == 2
    assert re.match(r"sluice: Spark could not count: \[FAILED_READ_FILE.*/part-\w+\.parquet", capsys.readouterr().err)
    assert read_statistics(file).count == 10, "the file is as it was"


def test_a_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "traffic.json"
    records = [{"at": START, "raw": b"\x00\xff", "tags": ("a",), "text": "line\n" + "x" * 50}, {"at": START}, {}]
    write_statistics(file, Statistics.of(records))
    assert sluice("--show", str(file)) == 0
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert title == "3 notifications, 4 attributes"
    assert head.split() == ["attribute", "kind", "share", "distinct", "frequent", "least", "median", "greatest"]
    at = "2026-03-01T00:00:00Z"
    text = "line\\n" + "x" * 18 + "..."
    assert [re.split("  +", line) for line in lines] == [
        ["at", "timestamp", "66.7%", "1", f"{at} 66.7%", at, at, at],
        ["raw", "bytes", "33.3%", "1", "00ff 33.3%", "00ff", "00ff", "00ff"],
        ["tags", "multi", "33.3%"],
        ["text", "string", "33.3%", "1", f"{text} 33.3%", text, text, text],
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--archive", "a"), "--output FILE"),
        (("--archive", "a", "--output", "f", "--where", "price >"), "price >"),
        (("--show", "nowhere.json"), "nowhere.json cannot be read"),
    ],
)
def test_mistakes_are_told_before_spark_starts(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sluice(*words) == 2
    assert re.search(rf"^sluice: .*{re.escape(says)}", capsys.readouterr().err, re.DOTALL)


def test_what_the_command_line_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--archive", "a", "--brokers", "b"), ("--archive", "a", "--since", "yesterday")):
        with pytest.raises(SystemExit):
            sluice(*words)
    assert "'yesterday' is no time" in capsys.readouterr().err
