"""History as a DataFrame is what the plain matcher picks from all that was archived."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import reduce
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sluice.errors import ParseError, SparkError
from sluice.spark import history
from sluice.spark.archive.read import files
from tests.generate import Generator
from tests.spark.shelf import START, Library, Place, logged, shelve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def places(frames: Mapping[str, DataFrame]) -> dict[str, list[Place]]:
    """The places of the rows in each of several frames, found by one job."""
    named = [
        frame.select(F.lit(name).alias("name"), "_time", "_stream", "_offset").coalesce(1)
        for name, frame in frames.items()
    ]
    rows = reduce(lambda some, more: some.unionAll(more), named).toArrow()
    found: dict[str, list[Place]] = {name: [] for name in frames}
    for name, *place in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found[name].append(tuple(place))
    return {name: sorted(each) for name, each in found.items()}


def offsets(spark: SparkSession, archive: Path, *wheres: str) -> dict[str, list[int]]:
    found = places({where: history(spark, archive, where) for where in wheres})
    return {where: [offset for _, _, offset in each] for where, each in found.items()}


def needs_python(frame: DataFrame) -> bool:
    with redirect_stdout(StringIO()) as plan:
        frame.explain()
    return "MapInArrow" in plan.getvalue()


def test_history_is_what_matches(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.spark.archive.files.ROW_GROUP", 4)
    library = Library(tmp_path, 3)
    source = random.Random(2)
    generator = Generator(source, spark=True)  # without the classes that this process knows and workers do not
    times = [time for time, _, _ in library.records]
    frames = {"all": history(spark, library.path)}
    expected = {"all": library.expected("true")}
    for number in range(8):
        where = generator.filter()
        since = source.choice((None, source.choice(times)))
        until = source.choice((None, source.choice(times)))
        name = f"{number}: {where} from {since} to {until}"
        expected[name] = library.expected(where, since, until)
        frames[name] = history(spark, library.path, where, since, until)
        if number % 4 == 0:
            expected[f"last of {name}"] = expected[name][-3:]
            frames[f"last of {name}"] = history(spark, library.path, where, since, until, last=3)
    assert places(frames) == expected


def test_columns_tell_what_they_can(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive [1] {a,b} * é"  # what a path may have, and a pattern of paths reads otherwise
    shelve(archive, [logged("b1", 1, START, [{"d": -0.0, "n": 2**53 + 1}, {"d": -0.0, "n": 2**53}])])
    shelve(
        archive, [logged("b1", 3, START, [{"d": 7.5, "o": {"p": 1}}, {"d": float("nan"), "o": {"p": 2}}, {"d": 1.0}])]
    )
    shelve(archive, [logged("b1", 6, START, [{"n": 5, "o": {"p": 3, "q": "x"}, "note": "new"}])])
    expected = {
        "true": [1, 2, 3, 4, 5, 6],
        "d = 0": [1, 2],
        "d >= 0 AND d < 1": [1, 2],
        "d < 0": [],
        "d > 5": [3],
        "isnan(d)": [4],
        "d > 5 OR isnan(d)": [3, 4],
        "d != 1": [1, 2, 3],
        "n = 9007199254740993": [1],
        "n > 9007199254740992D": [1],
        "note IS NULL AND o.q IS NULL": [1, 2, 3, 4, 5],
        "o.p > 1": [4, 6],
    }
    assert offsets(spark, archive, *expected) == expected
    assert not any(needs_python(history(spark, archive, where)) for where in expected)
    # What columns tell a part of:
    expected = {"o IS NOT NULL AND o.q IS NULL": [3, 4], "n + 1 > 5": [1, 2, 6], "o IS NULL": [1, 2, 5]}
    assert offsets(spark, archive, *expected) == expected
    assert all(needs_python(history(spark, archive, where)) for where in expected)


def test_what_is_in_no_column_is_found(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"price": 5, "volume": 1}, {"price": "dear", "volume": 2}])])
    shelve(archive, [logged("b1", 3, START, [{"price": 9, "order.total": 3}, {"price": 7}])])
    expected = {"price = 'dear'": [2], "price > 5 OR price = 'dear'": [2, 3, 4], "order.total = 3": [3]}
    assert offsets(spark, archive, *expected) == expected
    assert all(needs_python(history(spark, archive, where)) for where in expected)
    # All volumes are in their column: what else is in no column does not matter.
    assert offsets(spark, archive, "volume > 1") == {"volume > 1": [2]}
    assert not needs_python(history(spark, archive, "volume > 1"))


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
    with pytest.raises(Exception, match=rf"FAILED_READ_FILE.*{file.path}"):
        history(spark, archive).collect()
    (archive / file.path).unlink()
    with pytest.raises(PySparkException, match=rf"PATH_NOT_FOUND.*{file.path}"):
        history(spark, archive).collect()
