"""`sluice statistics`: what the traffic looks like, counted by Spark over an archive or the logs of brokers, as a small file.

Importing this is cheap; Spark is loaded when there is something to count.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.client.verbs.credentials import add_credentials, credentials_of
from sluice.verb import Verb, progress_bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sluice.model.statistics import Statistics, Values
    from sluice.model.values import Scalar

SUMMARY = "count what traffic looks like, for brokers that judge mergers by it"
DESCRIPTION = """\
Count what an archive or the logs of brokers hold: for each attribute how many notifications carry it, how many values it
has, the frequent ones, and quantiles. The result is a small file; brokers with imperfect routing and the setting
statistics = FILE merge what costs little traffic. --show prints such a file."""
EXAMPLES = """\
  sluice statistics --archive quotes.archive --output traffic.json
  sluice statistics --archive quotes.archive --since 2026-03-01 --where "kind = 'quote'" --output traffic.json
  sluice statistics --brokers 127.0.0.1:7470 --output traffic.json --master spark://cluster.example:7077
  sluice statistics --show traffic.json
  sluice broker --name b1 --routing imperfect --statistics traffic.json
"""
#: Frequent values that are shown of each attribute.
SHOWN = 3
#: Characters of a value that are shown.
WIDTH = 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `statistics` takes."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", metavar="DIR", type=Path, help="count what `sluice pipeline` has archived")
    source.add_argument(
        "--brokers", metavar="ADDRESSES", help="count what the logs of brokers hold; addresses with commas between"
    )
    source.add_argument("--show", metavar="FILE", type=Path, help="print what is in a file")
    parser.add_argument(
        "--where", metavar="WHERE", default="true", help="count only what matches (default: everything)"
    )
    parser.add_argument(
        "--since", metavar="TIME", type=_time, help="count only what was logged since then, as in 2026-03-01T12:30"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to write; a file that is there is replaced")
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*], this machine)")
    add_credentials(parser)
    parser.set_defaults(run=run)


STATISTICS = Verb("statistics", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Counts and writes, or shows; 0 when done."""
    from sluice.errors import SluiceError
    from sluice.files import read_statistics

    if arguments.show is not None:
        print("\n".join(table(read_statistics(arguments.show))))
        return 0
    if arguments.output is None:
        raise SluiceError("where should the statistics go? Say --output FILE")
    found = _count(arguments)
    if not found.count:
        raise SluiceError("there is nothing to count: no notification is there that matches")
    from sluice.files import write_statistics

    write_statistics(arguments.output, found)
    print(f"{arguments.output}: {found.count:,} notifications, {len(found.attributes):,} attributes")
    return 0


def _count(arguments: argparse.Namespace) -> Statistics:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from sluice.errors import SparkError
    from sluice.model import parse
    from sluice.spark.progress import tasks_shown
    from sluice.spark.session import session
    from sluice.spark.traffic.statistics import statistics

    parse(arguments.where)  # a mistake in it is told before Spark starts
    with progress_bar() as bar:
        starting = bar.add_task("starting Spark", total=None)
        spark = session("sluice statistics", arguments.master)
        bar.remove_task(starting)
        try:
            with tasks_shown(spark, bar, "counting"):
                return statistics(_rows(spark, arguments))
        except (PySparkException, Py4JJavaError) as error:
            raise SparkError(f"Spark could not count: {_reason(str(error))}") from error
        finally:
            spark.stop()


def _reason(text: str) -> str:
    """What Spark says was wrong, from among what it was doing.

    >>> _reason("An error occurred while calling o4.collect.\\n: java.X: [FAILED_READ_FILE] error in a.parquet\\n\\tat b")
    '[FAILED_READ_FILE] error in a.parquet'
    """
    found = re.search(r"\[[A-Z_.]+\] .*", text)
    return found[0] if found else text.partition("\n")[0]


def _rows(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    if arguments.archive is not None:
        from sluice.spark.archive.history import history

        return history(spark, arguments.archive, arguments.where, since=arguments.since)
    from sluice.spark.frames import read

    given = credentials_of(arguments)
    # Workers elsewhere do not have the environment of this process.
    token = given["token"] or os.environ.get("SLUICE_TOKEN")
    start = arguments.since or "earliest"
    return read(
        spark, arguments.brokers, arguments.where, start=start, token=token, tls_authority=given["tls_authority"]
    )


def _time(text: str) -> datetime:
    from sluice.model.values import to_utc

    try:
        return to_utc(datetime.fromisoformat(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write it as in 2026-03-01T12:30") from None


def table(statistics: Statistics) -> Iterator[str]:
    """The statistics in lines for people.

    >>> from sluice.model.statistics import Statistics
    >>> quotes = [{"symbol": "IBM", "price": 5.5}, {"symbol": "IBM", "price": 7.25}, {"symbol": "SUN"}]
    >>> print("\\n".join(table(Statistics.of(quotes))))
    3 notifications, 2 attributes
    attribute  kind    share  distinct  frequent               least  median  greatest
    price      number  66.7%         2  5.5 33.3%, 7.25 33.3%    5.5     5.5      7.25
    symbol     string   100%         2  IBM 66.7%, SUN 33.3%     IBM     IBM       SUN
    """
    yield f"{statistics.count:,} notifications, {len(statistics.attributes):,} attributes"
    rows = [("attribute", "kind", "share", "distinct", "frequent", "least", "median", "greatest")]
    for name, kinds in statistics.attributes.items():
        rows += [(name, kind.name.lower(), *_row(values)) for kind, values in kinds.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from (_line(row, widths) for row in rows)


def _row(values: Values) -> tuple[str, str, str, str, str, str]:
    frequent = ", ".join(f"{_shown(value)} {_percent(share)}" for value, share in values.frequent[:SHOWN])
    if not values.quantiles:
        return _percent(values.share), "", "", "", "", ""
    least, median, greatest = (values.quantiles[i] for i in (0, len(values.quantiles) // 2, -1))
    return _percent(values.share), f"{values.distinct:,}", frequent, _shown(least), _shown(median), _shown(greatest)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers and values to the right."""
    cells = zip(row, widths, "<<>><>>>", strict=True)
    return "  ".join(f"{cell:{side}{width}}" for cell, width, side in cells).rstrip()


def _shown(value: Scalar) -> str:
    match value:
        case bytes():
            text = value.hex()
        case datetime():
            text = value.isoformat().replace("+00:00", "Z")
        case _:
            text = str(value)
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _percent(share: float) -> str:
    """Three digits.

    >>> _percent(1.0), _percent(0.1234), _percent(0.00001234)
    ('100%', '12.3%', '0.00123%')
    """
    return f"{100 * share:.3g}%" if share >= 1e-6 or not share else f"{100 * share:.0e}%"
