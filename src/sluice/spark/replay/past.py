"""What has been kept of the past, as a history reads it: an archive, or nothing but the brokers' logs.

A past knows some streams up to some offsets and gives out what matches up to there, in the order of places. What is beyond is
in the logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sluice.model import parse
from sluice.model.notification import from_arrow
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Logged, Peer, Records, nested
from sluice.spark.archive.read import positions, read
from sluice.spark.archive.table import Table
from sluice.spark.rows import notifications

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Past(Protocol):
    """What a history replays from, before it turns to the logs."""

    @property
    def where(self) -> Subscription:
        """What all that is kept satisfies: nothing else was kept."""

    def positions(self) -> Mapping[Peer, int]:
        """The last offset of each stream that is kept."""

    def read(self, where: Subscription, since_micros: int | None, last: int | None) -> Iterator[Batch]:
        """What matches and is no older, or the last so many of it, in the order of places; each batch has one time."""


class Nothing:
    """No past but what the logs hold."""

    where = parse("true")

    def positions(self) -> Mapping[Peer, int]:
        return {}

    def read(self, where: Subscription, since_micros: int | None, last: int | None) -> Iterator[Batch]:
        return iter(())


class Archived:
    """The past in an archive, which goes on to be written and tidied up meanwhile."""

    def __init__(self, archive: Path) -> None:
        self.where = parse(Table.open(archive).where)
        self._archive = archive

    def positions(self) -> Mapping[Peer, int]:
        return positions(self._archive)

    def read(self, where: Subscription, since_micros: int | None, last: int | None) -> Iterator[Batch]:
        since = None if since_micros is None else _EPOCH + timedelta(microseconds=since_micros)
        for rows in read(self._archive, where.to_sql(), since, last=last):
            yield from batches_of_rows(rows)


def batches_of_rows(rows: pa.RecordBatch) -> Iterator[Records]:
    """Rows of an archive as the notifications that they were, those together that were logged together."""
    streams, offsets, times, publishers, numbers = (rows.column(place).to_pylist() for place in range(5))
    found = notifications(rows)
    records = found if isinstance(found, list) else [nested(flat) for flat in from_arrow(found)]
    micros = [round((time - _EPOCH) / timedelta(microseconds=1)) for time in times]
    for (stream, time_micros, publisher, _), run in groupby(
        range(rows.num_rows), lambda row: (streams[row], micros[row], publishers[row], numbers[row] - row)
    ):
        of_run = [*run]
        yield Records(
            publisher,
            [numbers[row] for row in of_run],
            records=[records[row] for row in of_run],
            logged=Logged(stream, [offsets[row] for row in of_run], time_micros),
        )
