"""A program that does through Spark Connect what Sluice offers on Spark, and prints what came of it, as JSON.

python -m tests.spark.connected MASTER FOLDER FROM TO

Each piece of work has a result, or the error that ended it. The brokers to read from have numbers, those to publish to nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import SparkSession

from sluice import cli
from sluice.errors import SluiceError
from sluice.spark import TableSubscriptions, history, match, match_live, read, session, subscribe
from sluice.spark.session import cores
from tests.spark.matched import matched, shipped
from tests.spark.shelf import START, logged, shelve

SCHEMA = "n BIGINT, _rest MAP<STRING, STRING>"


@dataclass(frozen=True, slots=True)
class Program:
    """The pieces of work, each a method."""

    spark: SparkSession
    master: str
    folder: Path
    brokers: str
    sink: str

    def core_count(self) -> int:
        """What matching plans with."""
        return cores(self.spark)

    def source(self) -> list[int]:
        """A batch read with a filter of its own and one of the query."""
        frame = read(self.spark, self.brokers, "n >= 3", schema=SCHEMA, streams="b1")
        return sorted(row.n for row in frame.where("n < 7 AND n != 5").collect())

    def stream(self) -> None:
        """A stream of what there is now, matched against fixed subscriptions, from brokers to brokers."""
        frame = subscribe(self.spark, self.brokers, "n < 9", schema=SCHEMA, start="earliest", streams="b1").drop(
            "_rest"
        )
        found = match(frame, [(1, "n > 5"), (2, "n = 3")], index_directory=self.folder / "indexes")
        writer = found.writeStream.format("sluice").option("brokers", self.sink)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    def sink_batch(self) -> None:
        """A batch of rows that is published."""
        frame = self.spark.createDataFrame(pa.table({"subscription": [7, 8], "n": [100, 101]}))
        frame.write.format("sluice").option("brokers", self.sink).mode("append").save()

    def matched(self) -> dict[str, Any]:
        """Both strategies, DataFrame and files."""
        return matched(self.spark, self.folder / "match")

    def shipped(self) -> list[list[int]]:
        """An index that the server cannot see."""
        return shipped(self.spark, self.folder / "match")

    def live(self) -> None:
        """Subscriptions that change, which is refused."""
        frame = subscribe(self.spark, self.brokers, schema=SCHEMA)
        changing = TableSubscriptions(self.folder / "rules.jsonl")
        match_live(frame, changing, lambda deliveries, batch: None, checkpoint=self.folder / "live")

    def history(self) -> list[list[int]]:
        """What an archive holds, and the last of it."""
        archive = self.folder / "past"
        shelve(archive, [logged("b1", 1, START, [{"n": n} for n in range(10)])])
        frames = (history(self.spark, archive, "n > 6"), history(self.spark, archive, last=2))
        return [sorted(row.n for row in frame.collect()) for frame in frames]

    def commands(self) -> dict[str, Any]:
        """What the commands say that take a master."""
        rules, quotes = self.folder / "rules.jsonl", self.folder / "quotes.parquet"
        rules.write_text('{"id": 7, "where": "price > 2"}\n')
        parquet.write_table(pa.table({"price": [1, 2, 3]}), quotes)
        archive, traffic = str(self.folder / "archive"), str(self.folder / "traffic.json")
        return {
            "match": self._said("match", str(rules), str(quotes)),
            "pipeline": self._said("pipeline", "--brokers", self.brokers, "--archive", archive, "--once"),
            "statistics": self._said("statistics", "--archive", archive, "--output", traffic),
            "doctor": json.loads(self._said("doctor", "--json", "--brokers", self.brokers)),
        }

    def _said(self, *arguments: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            cli.main([*arguments, "--master", self.master])
        return said.getvalue()


def attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """What came of it."""
    try:
        return {"found": work()}
    except SluiceError as error:
        return {"error": str(error)}
    except Exception:
        return {"error": traceback.format_exc()}


def main(master: str, folder: str, brokers: str, sink: str) -> None:
    """Does one thing after the other."""
    program = Program(session("connected", master), master, Path(folder), brokers, sink)
    works = (
        *(program.core_count, program.source, program.stream, program.sink_batch),
        *(program.matched, program.shipped, program.live, program.history, program.commands),
    )
    print(json.dumps({work.__name__: attempt(work) for work in works}))


if __name__ == "__main__":
    main(*sys.argv[1:])
