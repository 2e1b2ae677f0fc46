"""Subscriptions that change while a stream is matched: those that are live at the brokers, or a table that somebody keeps.

A stream asks at the beginning of each batch what the subscriptions are; what it is told then holds for the whole batch,
and if the batch is run again, again (`sluice.spark.matching.versions`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sluice.client.blocking import BlockingInterest
from sluice.client.connect import connect
from sluice.errors import ConfigurationError, LinkError, MatcherError
from sluice.spark.matching.files import is_delta
from sluice.spark.matching.match import Output, of_frame, ship
from sluice.spark.matching.subscriptions import table_of
from sluice.spark.matching.versions import Version, Versions
from sluice.spark.session import is_connect

#: How long brokers may take to tell of the subscriptions that there are.
_ANSWER_SECONDS = 60.0


class ChangingSubscriptions(Protocol):
    """Subscriptions that are asked for at the beginning of each batch."""

    def current(self) -> dict[str, str]:
        """The texts of all subscriptions, by id."""
        ...


class LiveSubscriptions:
    """What subscribers of a broker network ask for, as far as it overlaps `where`; use it with `with`.

    What a subscriber was told to be complete, and what it was told to have ended, is in `current`.
    """

    def __init__(
        self,
        brokers: str | None = None,
        where: str = "true",
        *,
        token: str | None = None,
        tls_authority: str | Path | None = None,
    ) -> None:
        self._connection = connect(brokers, token=token, tls_authority=tls_authority)
        self._where = where
        self._opened = ExitStack()
        self._interest: BlockingInterest | None = None
        self._texts: dict[str, str] = {}

    def __enter__(self) -> Self:
        with self._opened:
            bus = self._opened.enter_context(self._connection)
            self._interest = self._opened.enter_context(bus.watch(self._where))
            try:
                self._interest.complete(timeout=_ANSWER_SECONDS)
            except TimeoutError:
                raise LinkError(f"no broker told of all subscriptions within {_ANSWER_SECONDS:g} s") from None
            self._opened = self._opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._interest = None
        self._opened.close()

    def current(self) -> dict[str, str]:
        """The texts of all subscriptions there are, by id."""
        if self._interest is None:
            raise ConfigurationError("the live subscriptions are not open: use them with `with`")
        try:
            change = self._interest.get(timeout=0)
        except TimeoutError:
            return self._texts
        texts = dict(self._texts)
        for entry in change.removed:
            texts.pop(str(entry.id), None)
        texts.update((str(entry.id), entry.where.to_sql()) for entry in change.added)
        self._texts = texts
        return texts


class TableSubscriptions:
    """The subscriptions in a file or a Delta table with columns `id` and `where`, read again whenever it has changed."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._seen: object = None
        self._texts: dict[str, str] = {}

    def current(self) -> dict[str, str]:
        """The texts of all subscriptions in the table now, by id."""
        state = self._state()
        if state != self._seen:
            table = table_of(self._path)
            self._texts = dict(zip(map(str, table["id"].to_pylist()), table["where"].to_pylist(), strict=True))
            self._seen = state
        return self._texts

    def _state(self) -> object:
        if is_delta(self._path):
            from deltalake import DeltaTable

            return DeltaTable(str(self._path)).version()
        try:
            status = self._path.stat()
        except OSError as error:
            raise MatcherError(f"{self._path}: the subscriptions cannot be read: {error.strerror}") from error
        return status.st_mtime_ns, status.st_size, status.st_ino


def match_live(
    notifications: DataFrame,
    subscriptions: ChangingSubscriptions,
    deliver: Callable[[DataFrame, int], None],
    *,
    checkpoint: str | Path,
    output: Output = "rows",
) -> DataStreamWriter:
    """Matches a stream against subscriptions that change; returns a writer on which to call `trigger` and `start`.

    `deliver` gets the deliveries of each batch, as `sluice.spark.match` makes them, and the number of the batch; a
    batch that is run again has the same number and the same deliveries. With `output` "rows" or "lists" the column
    `_index` tells the version of the subscriptions. `checkpoint` is a directory that the driver can write to: Spark's
    checkpoint, and in `sluice-index` the versions, of which `versions_of` tells from which batch on each was in effect.
    """
    if not notifications.isStreaming:
        raise ConfigurationError("only a stream has batches for changes to take effect in: use sluice.spark.match")
    if is_connect(notifications.sparkSession):
        raise ConfigurationError(
            "Spark Connect runs what is done with each batch at its server, where these subscriptions are not: use a "
            "session of local[*] or spark://…, or sluice.spark.match with subscriptions that do not change"
        )
    if "://" in str(checkpoint):
        raise ConfigurationError(f"{checkpoint}: the versions of the subscriptions need a directory, not an address")
    versions = Versions(_directory(checkpoint))
    one_at_a_time = threading.Lock()

    def handle(batch: DataFrame, batch_id: int) -> None:
        with one_at_a_time:
            version, index = versions.of_batch(batch_id, subscriptions.current())
            ship(batch.sparkSession, index)
            deliver(of_frame(batch, index, output, version=version.number), batch_id)

    return notifications.writeStream.foreachBatch(handle).option("checkpointLocation", str(checkpoint))


def versions_of(checkpoint: str | Path) -> list[Version]:
    """From which batch on each version of the subscriptions of a stream was in effect, the oldest first."""
    return Versions(_directory(checkpoint)).log


def _directory(checkpoint: str | Path) -> Path:
    return Path(checkpoint).resolve() / "sluice-index"
