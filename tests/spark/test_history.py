"""History as a DataFrame is what the plain matcher picks from all that was archived."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluice.errors import ParseError, SparkError
from sluice.spark import history
from sluice.spark.archive.history import parts_of
from sluice.spark.archive.read import files
from tests.generate import Generator
from tests.spark.shelf import START, Library, Place, logged, shelve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def places(frame: DataFrame) -> list[Place]:
    rows = frame.select("_time", "_stream", "_offset").toArrow()
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_history_is_what_matches(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.spark.archive.files.ROW_GROUP", 4)
    monkeypatch.setattr("sluice.spark.archive.history.PART_ROWS", 6)
    library = Library(tmp_path, 3)
    assert any(part.of > 1 for file in files(library.path) for part in parts_of(file))
    source = random.Random(2)
    generator = Generator(source, spark=True)  # without the classes that this process knows and workers do not
    times = [time for time, _, _ in library.records]
    assert places(history(spark, library.path)) == library.expected("true")
    for _ in range(6):
        where = generator.filter()
        since = source.choice((None, source.choice(times)))
        until = source.choice((None, source.choice(times)))
        expected = library.expected(where, since, until)
        assert places(history(spark, library.path, where, since, until)) == expected, where
        assert places(history(spark, library.path, where, since, until, last=3)) == expected[-3:], where


def test_rows_have_the_columns_of_the_archive(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    records: list[dict[str, Any]] = [{"price": 5, "tags": ["a", "b"], "order": {"id": 1}}, {"price": "?"}, {"price": 7}]
    shelve(archive, [logged("b1", 1, START, records)])
    for last in (None, 5):
        first, second, _ = history(spark, archive, last=last).orderBy("_offset").collect()
        assert (first.price, first.tags, first.order.id, first._rest) == (5, ["a", "b"], 1, None)
        assert (second.price, second._rest) == (None, {"price": '"?"'})
        assert second.asDict().keys() == {
            *("_stream", "_offset", "_time", "_publisher", "_number", "price", "tags", "order", "_rest")
        }
    nothing = history(spark, archive, "price > 100")
    assert nothing.count() == 0 and nothing.columns == history(spark, archive).columns


def test_what_cannot_be_read_is_said(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with pytest.raises(SparkError, match="is no archive"):
        history(spark, archive)
    shelve(archive, [logged("b1", 1, START, [{"price": 5}])])
    with pytest.raises(ParseError):
        history(spark, archive, "price >")
    [file] = files(archive)
    (archive / file.path).write_bytes(b"not Parquet at all")
    with pytest.raises(Exception, match=rf"{file.path}, a file of the archive, is damaged"):
        history(spark, archive).collect()
