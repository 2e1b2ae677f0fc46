"""`sluice compose`: looks for the patterns of a file in what brokers log, and publishes what it finds.

Importing this is cheap; Spark is loaded when the verb runs. Results are notifications like all others; how many there were, and
what came too late to count, is told on standard error.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.client.verbs.credentials import add_credentials, credentials_of
from sluice.net.address import DEFAULT_HELP, default_address
from sluice.spark.stopping import stopping
from sluice.verb import Verb

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sluice.spark.compose.rules import Rules

SUMMARY = "look for patterns over time, and publish what is found"
DESCRIPTION = """\
Look for the patterns of a TOML file (sequences, absences, counts and changes) in everything that the brokers log, until
Ctrl-C, and publish each result as a notification {"pattern": its name, ...}. The brokers must be durable.

With --checkpoint it goes on where it stopped, and each result is published once. Standard error tells how many were
found, and how many events came too late to count."""
EXAMPLES = """\
  sluice compose rules.toml --check
  sluice compose rules.toml --brokers 127.0.0.1:7470 --checkpoint rules.checkpoint
  sluice compose rules.toml --start earliest --master spark://cluster.example:7077 --checkpoint /shared/rules

  rules.toml:  [[absence]]
               name = "unpaid"
               key = "order"
               first = "kind = 'ordered'"
               missing = "kind = 'paid'"
               within = "10m"
"""
#: What is told of events beside results.
_TOLD = {
    "late": "came too late to count",
    "untimed": "had no time",
    "forgotten": "were given up, since there were too many of one key",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `compose` takes."""
    parser.add_argument("rules", metavar="RULES", type=Path, help="a TOML file with patterns")
    parser.add_argument(
        "--brokers",
        metavar="ADDRESSES",
        default=default_address(),
        help=f"of some brokers, with commas between {DEFAULT_HELP}",
    )
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*], this machine)")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="remembers how far it is (default: nothing does, and it starts anew)"
    )
    parser.add_argument(
        "--start", metavar="WHERE", default="latest", help="without a checkpoint: latest (default), earliest or a time"
    )
    parser.add_argument("--check", action="store_true", help="tell what the rules say, and start nothing")
    add_credentials(parser)
    parser.set_defaults(run=run)


COMPOSE = Verb("compose", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Looks for patterns until Ctrl-C."""
    from sluice.spark.compose.rules import read_rules

    rules = read_rules(arguments.rules)
    if arguments.check:
        print("\n".join(_explanation(rules)))
        return 0
    from pyspark.errors import PySparkException

    from sluice.errors import SparkError
    from sluice.spark.session import session

    spark = session("sluice compose", arguments.master)
    try:
        # From here on, since Spark has its own idea of what a signal means when it starts.
        with stopping() as stop, _checkpoint(arguments.checkpoint) as checkpoint:
            query = start(spark, rules, checkpoint, _options(arguments), arguments.start)
            try:
                _follow(query, rules, stop)
            finally:
                _hush(spark)
                query.stop()
    except PySparkException as error:
        raise SparkError(f"the query has ended: {_reason(str(error))}") from error
    finally:
        spark.stop()
    return 0


def start(
    spark: SparkSession, rules: Rules, checkpoint: str, options: dict[str, str], begin: str = "latest"
) -> StreamingQuery:
    """The query that reads from brokers and publishes to them; `options` say how to reach them."""
    import pyarrow as pa
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    from sluice.spark.compose.rules import LOGGED
    from sluice.spark.compose.stream import compose
    from sluice.spark.frames import subscribe
    from sluice.spark.rows import Layout
    from sluice.spark.session import cores

    # Each keeps state of its own: more than there are hands would only cost.
    spark.conf.set("spark.sql.shuffle.partitions", cores(spark))
    # Nobody has declared the attributes, and what was seen of them so far would bind a restart: all are in the rest.
    schema = from_arrow_schema(Layout(pa.schema([])).schema)
    events = subscribe(spark, where=rules.where, schema=schema, start=begin, **options)
    outcomes = compose(
        events, rules.patterns, time=rules.time, late_by=rules.late_by, ticking=rules.time == LOGGED
    ).observe("outcomes", *(F.count_if(F.col("outcome") == kind).alias(kind) for kind in ("found", *_TOLD)))
    found: DataFrame = outcomes.where("outcome = 'found'").drop("outcome")
    return found.writeStream.format("sluice").options(**options).option("checkpointLocation", checkpoint).start()


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    given = {"brokers": arguments.brokers, **credentials_of(arguments)}
    return {name: str(value) for name, value in given.items() if value is not None}


@contextmanager
def _checkpoint(given: str | None) -> Iterator[str]:
    from tempfile import TemporaryDirectory

    if given is not None:
        yield given
    else:
        with TemporaryDirectory(prefix="sluice-compose-", ignore_cleanup_errors=True) as folder:
            yield folder


def _follow(query: StreamingQuery, rules: Rules, stop: threading.Event) -> None:
    """Tells how it goes, until the query fails or somebody stops it."""
    counts = dict.fromkeys(("found", *_TOLD), 0)
    last = -1
    has_begun = False
    while not stop.is_set() and not query.awaitTermination(1):
        for progress in query.recentProgress:
            if not has_begun:
                # Only now it is known where it begins; what is published from here on is seen.
                print(f"looking for {', '.join(pattern.name for pattern in rules.patterns)}", flush=True)
                has_begun = True
            if progress.batchId > last:
                last = progress.batchId
                _count(counts, progress.observedMetrics.get("outcomes"))


def _hush(spark: SparkSession) -> None:
    """A query that is stopped leaves its batch unfinished, which is no news; the next start finishes it."""
    from sluice.spark.session import is_connect

    if not is_connect(spark):  # there the log is the server's
        spark.sparkContext.setLogLevel("OFF")


def _reason(text: str) -> str:
    """What Sluice has said within an error of Spark's, which is long; else its beginning.

    >>> _reason("[STREAM_FAILED] Query [id = 1] ...\\nsluice.errors.LinkError: no broker at b1\\n SQLSTATE: XX000")
    'no broker at b1'
    """
    said = re.findall(r"^sluice\.errors\.\w+: (.*)$", text, flags=re.MULTILINE)
    return str(said[-1]) if said else text.partition("\n")[0]


def _count(counts: dict[str, int], observed: Any) -> None:
    """Adds what a batch has told; a line tells of it."""
    new = {kind: observed[kind] for kind in counts} if observed is not None else {}
    if not any(new.values()):
        return
    for kind, count in new.items():
        counts[kind] += count
    told = [f"{counts['found']:,} found", *(f"{counts[kind]:,} {why}" for kind, why in _TOLD.items() if counts[kind])]
    print("; ".join(told), file=sys.stderr, flush=True)


def _explanation(rules: Rules) -> Iterator[str]:
    """The rules in words."""
    from dataclasses import fields

    for pattern in rules.patterns:
        yield f"{type(pattern).__name__.lower()} {pattern.name!r}"
        said = {field.name: getattr(pattern, field.name) for field in fields(pattern)}
        for name in ("key", *(name for name in said if name not in ("name", "key", "emit"))):
            value = said[name]
            for text in value if isinstance(value, tuple) else () if value is None else (value,):
                yield f"  {name:<10} {text}"
        for emitted in pattern.emitted:
            yield f"  {'emits':<10} {emitted.attribute} of event {emitted.event + 1} as {emitted.name}"
    yield f"by {rules.time}, at most {rules.late_by} late"
