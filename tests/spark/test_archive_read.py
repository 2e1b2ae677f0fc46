"""What is read from an archive is what the plain matcher picks from all that was put in, in the order of time."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sluice.errors import ConfigurationError, ParseError, SparkError
from sluice.model import parse
from sluice.spark.archive import bounds
from sluice.spark.archive import read as reading
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.read import files, positions, read
from sluice.spark.archive.table import Table
from tests.generate import Generator
from tests.spark.shelf import START, Library, logged, places, shelve


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Library]:
    folder = tmp_path_factory.mktemp("libraries")
    return [Library(folder, seed) for seed in range(2)]


@pytest.fixture(autouse=True, params=["spelt out", "coded"])
def small_portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CODE_BYTES", 1_000_000 if request.param == "coded" else 0)
    monkeypatch.setattr("sluice.spark.archive.files.ROW_GROUP", 4)
    monkeypatch.setattr(reading, "MAX_ROWS", 5)


def test_what_is_read_is_what_matches(libraries: list[Library]) -> None:
    source = random.Random(1)
    pruned = found_any = 0
    for library in libraries:
        generator = Generator(source)
        everything = len(files(library.path))
        times = [time for time, _, _ in library.records]
        for _ in range(25):
            where = generator.filter() if source.random() < 0.9 else "true"
            since = source.choice(times) if source.random() < 0.4 else None
            until = source.choice(times) if source.random() < 0.4 else None
            expected = library.expected(where, since, until)
            assert places(read(library.path, where, since, until)) == expected, where
            last = source.choice((0, 1, 3, 10, 1000))
            tail = expected[-last:] if last else []
            assert places(read(library.path, where, since, until, last)) == tail, where
            pruned += everything - len(files(library.path, where, since, until))
            found_any += bool(expected)
    assert pruned > 50 and found_any > 20


def test_nothing_is_overlooked_in_the_rest(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"price": 5}, {"price": 7}])])
    shelve(archive, [logged("b1", 3, START, [{"price": 6}, {"price": "cheap"}, {"order": {"total": 1}}])])
    shelve(archive, [logged("b1", 6, START, [{"price": 6}, {"order": {"total": 3}}, {"order.total": 9}, {"order": 4}])])
    shelve(archive, [logged("b1", 10, START, [{"price": float("nan")}, {"price": 900.5}])])
    for where, offsets in {
        "price = 'cheap'": [4],
        "price > 100": [11],
        "order.total = 9": [8],
        "order = 4": [9],
        "order.total = 3": [7],
        "price IS NULL": [5, 7, 8, 9],
        "price IS NOT NULL": [1, 2, 3, 4, 6, 10, 11],
    }.items():
        assert [offset for _, _, offset in places(read(archive, where))] == offsets, where
    assert len(files(archive, "price = 5")) == 3  # the second file can be left out only by those who overlook its rest


def test_nothing_is_overlooked_in_the_rest_of_records(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"a": {"b": 1}, "o": {"p": {"q": 1}}}])])
    shelve(archive, [logged("b1", 2, START, [{"a": {"b": {"x": 1}}}])])
    shelve(archive, [logged("b1", 3, START, [{"o.p": {"q": 7}}])])
    for where, offsets in {"a.b IS NOT NULL": [1, 2], "o.p.q = 7": [3], "o.p.q = 1": [1]}.items():
        assert [offset for _, _, offset in places(read(archive, where))] == offsets, where


def test_files_that_cannot_hold_anything_are_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for day in range(3):
        time = START + timedelta(days=day)
        symbols = ("IBM", "SUN") if day else ("DEC" * 50, "X" * 100)
        shelve(
            archive, [logged("b1", 10 * day + 1, time, [{"price": 10 * day + n, "symbol": symbols[n]} for n in (0, 1)])]
        )
    assert len(files(archive)) == 3
    assert [file.day.day for file in files(archive, "price BETWEEN 10 AND 11")] == [2]
    assert [file.day.day for file in files(archive, "symbol = 'IBM'")] == [1, 2, 3]
    assert [file.day.day for file in files(archive, "symbol < 'DEC'")] == []
    assert [file.day.day for file in files(archive, f"symbol = '{'X' * 100}'")] == [1]
    assert [file.day.day for file in files(archive, "note IS NOT NULL")] == [1, 2, 3]  # nobody knows of a note
    assert [
        file.day.day for file in files(archive, since=START + timedelta(days=1), until=START + timedelta(days=2))
    ] == [2]


def test_row_groups_that_cannot_hold_anything_are_left_out(tmp_path: Path) -> None:
    table = shelve(tmp_path / "archive", [logged("b1", 1, START, [{"price": n} for n in range(16)])])
    [file] = table.files()
    wanted = reading.Selection.of("price = 9", None, None)
    assert [group.number for group in reading.groups(table.path, file, wanted)] == [2]


def test_the_bounds_of_a_file_hold_all_of_it(libraries: list[Library]) -> None:
    for library in libraries:
        table = Table.open(library.path)
        seen = 0
        for file in table.files():
            rows = [*reading.in_order(table, [file], reading.Selection())]
            for place in places(rows):
                seen += 1
                record = library.records[place]
                assert bounds.may_hold(parse("true"), file.box)
                assert parse(file.box.to_sql()).matches(record)
        assert seen == len(library.records)


def test_columns_come_and_stay(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"price": 5, "order": {"id": 1}}])])
    shelve(archive, [logged("b1", 2, START, [{"price": "?", "note": "new", "order": {"id": 2, "by": "ann"}}])])
    [first, second] = [row for batch in read(archive) for row in batch.to_pylist()]
    assert first["price"] == 5 and first["note"] is None and first["order"] == {"id": 1, "by": None}
    assert second["price"] is None and second["note"] == "new" and second["order"] == {"id": 2, "by": "ann"}
    assert second["_rest"] == [("price", '"?"')]
    assert positions(archive) == {"b1": 2}


def test_who_has_not_seen_the_last_commit_cannot_write(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"price": 5}])])
    one, other = Table.open(archive), Table.open(archive)

    def write(table: Table) -> None:
        with DayFiles(archive, table.layout) as written:
            written.write(table.layout.arrange(logged("b1", 2, START, [{"price": 6}])))
        table.append(written.finished, {"b1": 1}, {"b1": 2})

    write(one)
    with pytest.raises(SparkError, match="somebody else has written"):
        write(other)
    with pytest.raises(SparkError, match="somebody else has written"):
        write(Table.open(archive))
    assert len(places(read(archive))) == 2


def test_a_file_that_is_gone_or_damaged_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1, START, [{"price": 5}])])
    [file] = files(archive)
    whole = (archive / file.path).read_bytes()
    (archive / file.path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SparkError, match=rf"{file.path}, a file of the archive, is damaged"):
        [*read(archive)]
    (archive / file.path).unlink()
    with pytest.raises(SparkError, match=rf"{file.path}, a file of the archive, is gone"):
        [*read(archive)]


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="is no archive"):
        read(tmp_path / "nothing")
    shelve(tmp_path / "archive", [logged("b1", 1, START, [{"price": 5}])])
    with pytest.raises(ParseError):
        read(tmp_path / "archive", "price >")
    with pytest.raises(ConfigurationError, match="no time"):
        read(tmp_path / "archive", since="yesterday")
    with pytest.raises(ConfigurationError, match="no sense"):
        read(tmp_path / "archive", last=-1)
    (tmp_path / "archive" / "_delta_log" / f"{0:020}.json").write_text("{}")
    with pytest.raises(SparkError, match="cannot be opened"):
        read(tmp_path / "archive")
    DeltaTable.create(tmp_path / "other", pa.schema([("a", pa.int64())]))
    with pytest.raises(SparkError, match="no archive of notifications"):
        read(tmp_path / "other")
