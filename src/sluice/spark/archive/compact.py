"""Tidies an archive up: the small files of a day become a large one, and what nobody needs any more is deleted.

A file that was replaced stays on the disk for `KEEP_HOURS`, or as long as is said, for those who still read an older version
of the table; so does one that was never a part of it, since its writer may still be about to tell the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sluice.errors import SparkError
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.read import Selection, in_order
from sluice.spark.archive.table import File, Table

#: A file below this is small.
SMALL_BYTES = 32 << 20
#: Small files of one day that are worth a large one, on a day that is not over.
SMALL_FILES = 32
#: What is put together at most.
LARGE_BYTES = 256 << 20


def due(files: Sequence[File], small_files: int = SMALL_FILES) -> Iterator[list[File]]:
    """Which files should become one: of a day that is over whenever there are two small ones, of the last day many."""
    last_day = max((file.day for file in files), default=None)
    small = [file for file in files if file.size_bytes < SMALL_BYTES]
    for day, of_day in groupby(small, lambda file: file.day):
        group: list[File] = []
        size = 0
        for file in of_day:
            if size + file.size_bytes <= LARGE_BYTES:
                group.append(file)
                size += file.size_bytes
        if len(group) >= (small_files if day == last_day else 2):
            yield group


def compact(table: Table, files: Sequence[File]) -> None:
    """Puts files of one day together."""
    with DayFiles(table.path, table.layout) as written:
        for rows in in_order(table, files, Selection()):
            written.write(rows)
    had, has = sum(file.rows for file in files), sum(file.rows for file in written.finished)
    if had != has:
        raise SparkError(
            f"files of {files[0].day} in the archive {table.path} have {has:,} rows where the table has {had:,}: "
            "restore them from a backup"
        )
    table.replace(files, written.finished)
