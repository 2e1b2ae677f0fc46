"""`sluice match --master` says what `sluice match` says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from sluice import cli
from sluice.spark.matching import command


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> tuple[str, str]:
    """Two files, and the session of the tests instead of one that the verb would start and stop."""
    monkeypatch.setattr("sluice.spark.matching.index.default_directory", lambda: tmp_path / "indexes")
    monkeypatch.setattr(command, "session", lambda app, master: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    subscriptions, notifications = tmp_path / "rules.jsonl", tmp_path / "quotes.parquet"
    rules = [{"id": 7, "where": "price > 2"}, {"id": 3, "where": "price > 1"}, {"id": 9, "where": "price > 100"}]
    subscriptions.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    parquet.write_table(pa.table({"price": [1, 2, 3, None, 3]}), notifications, row_group_size=2)
    return str(subscriptions), str(notifications)


def test_lines_and_counts_are_the_same(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--count"]):
        said = []
        for master in ([], ["--master", "local[2]"]):
            assert cli.main(["match", *files, *options, *master]) == 0
            said.append(capsys.readouterr().out)
        assert said[0] == said[1] != ""


def test_files_for_each_subscription(files: tuple[str, str], tmp_path: Path) -> None:
    assert cli.main(["match", *files, "--master", "local[2]", "--output", str(tmp_path / "out")]) == 0
    assert sorted(each for each in os.listdir(tmp_path / "out") if "=" in each) == ["subscription=3", "subscription=7"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--output", "x"], "say --master too"),
        (["--output", "x", "--count", "--master", "local[2]"], "a number or files"),
    ],
)
def test_what_cannot_be(
    files: tuple[str, str], options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["match", *files, *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sluice: ") and problem in said


def test_a_bad_filter(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.csv").write_text("id,where\n1,price >\n")
    assert cli.main(["match", str(tmp_path / "bad.csv"), files[1], "--master", "local[2]"]) == 2
    assert "sluice: the subscription with id 1 is wrong" in capsys.readouterr().err
    assert cli.main(["match", "-", files[1], "--master", "local[2]"]) == 2
    assert "standard input cannot be shared out" in capsys.readouterr().err
