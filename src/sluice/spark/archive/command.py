"""`sluice pipeline`: archives what brokers log, until Ctrl-C or up to now.

Importing this is cheap; Spark is loaded when the verb runs. How it goes is told on standard error, in one line that changes
where somebody watches; how much was archived is the result.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.client.verbs.credentials import add_credentials, credentials_of
from sluice.net.address import DEFAULT_HELP, default_address
from sluice.spark.stopping import stopping
from sluice.verb import Verb, positive, progress_bar

if TYPE_CHECKING:
    from sluice.client.blocking import BlockingBus
    from sluice.spark.archive.pipeline import Pipeline, Progress
    from sluice.spark.network import Network

SUMMARY = "archive all that brokers log, once, in a Delta table"
DESCRIPTION = """\
Put every notification that durable brokers log into a Delta table, exactly once, with its stream, offset and time, in
files by day; until Ctrl-C, or with --once up to what there is now. The next start goes on where this one stopped,
however it ended. The brokers keep what is not archived, whatever their retention (sluice status shows it).

Small files are put together, and files that the table does not need any more are deleted after --keep-hours: nobody
should take longer than that to read one version of the table."""
EXAMPLES = """\
  sluice pipeline --archive quotes.archive
  sluice pipeline --brokers 127.0.0.1:7470,127.0.0.1:7471 --archive quotes.archive --once
  sluice pipeline --archive /shared/archive --master spark://cluster.example:7077 --where "price IS NOT NULL"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `pipeline` takes."""
    parser.add_argument(
        "--archive",
        metavar="DIR",
        type=Path,
        required=True,
        help="the table; driver and workers see the same directory",
    )
    parser.add_argument(
        "--brokers",
        metavar="ADDRESSES",
        default=default_address(),
        help=f"of some brokers, with commas between {DEFAULT_HELP}",
    )
    parser.add_argument("--where", metavar="WHERE", default="true", help="what to archive (default: everything)")
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*], this machine)")
    parser.add_argument("--once", action="store_true", help="end when all is archived that there is now")
    parser.add_argument(
        "--every", metavar="SECONDS", type=positive, default=1.0, help="look for something new so often (default: 1)"
    )
    parser.add_argument(
        "--max-rows", metavar="N", type=int, default=2_000_000, help="in one batch at most (default: 2,000,000)"
    )
    parser.add_argument(
        "--compact-every",
        metavar="FILES",
        type=int,
        default=32,
        help="small files of a day that become one (default: 32)",
    )
    parser.add_argument(
        "--keep-hours",
        metavar="HOURS",
        type=int,
        default=24,
        help="for files that are not needed any more (default: 24)",
    )
    parser.add_argument(
        "--hold",
        metavar="NAME",
        default="archive",
        help="under which brokers keep what is not archived (default: archive)",
    )
    parser.add_argument(
        "--go-on-after-loss", action="store_true", help="note in the table what a log has lost, and go on without it"
    )
    add_credentials(parser)
    parser.set_defaults(run=run)


PIPELINE = Verb("pipeline", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Archives until it is told to stop, or up to now."""
    from sluice.spark.archive.pipeline import Options, Pipeline
    from sluice.spark.session import session

    options = Options(
        where=arguments.where,
        max_rows=arguments.max_rows,
        hold=arguments.hold,
        go_on_after_loss=arguments.go_on_after_loss,
        compact_files=arguments.compact_every,
        keep_hours=arguments.keep_hours,
    )
    network = _network(arguments)
    spark = session("sluice pipeline", arguments.master)
    try:
        # From here on, since Spark has its own idea of what a signal means when it starts.
        with stopping() as stop, network.connect() as bus:
            pipeline = Pipeline(spark, network, arguments.archive, options)
            rows = _catch_up(pipeline, bus, stop) if arguments.once else _follow(pipeline, bus, stop, arguments.every)
        print(f"{rows:,} rows archived")
    finally:
        spark.stop()
    return 0


def _network(arguments: argparse.Namespace) -> Network:
    from sluice.spark.network import Network

    given = credentials_of(arguments)
    authority = given["tls_authority"]
    brokers = tuple(filter(None, (address.strip() for address in arguments.brokers.split(","))))
    # Workers elsewhere do not have the environment of this process.
    return Network(
        brokers, given["token"] or os.environ.get("SLUICE_TOKEN"), None if authority is None else str(authority)
    )


def _follow(pipeline: Pipeline, bus: BlockingBus, stop: threading.Event, every_seconds: float) -> int:
    """Archives what comes until it is told to stop; returns how many rows that were."""
    rows = 0
    with _line() as show:
        while not stop.is_set():
            progress = pipeline.step(bus)
            pipeline.tidy()
            if progress is not None:
                rows += progress.rows
                show(told(rows, progress))
            if progress is None or not sum(progress.lag.values()):
                stop.wait(every_seconds)
    return rows


def _catch_up(pipeline: Pipeline, bus: BlockingBus, stop: threading.Event) -> int:
    """Archives what there is now, with a bar that grows; returns how many rows that were."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    heads = pipeline.heads(bus)
    until = {stream: held.stop - 1 for stream, held in heads.items()}
    total = pipeline.lag(heads)
    rows = 0
    columns = ("archiving", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=total)
        while not stop.is_set() and (progress := pipeline.step(bus, until)) is not None:
            rows += progress.rows
            bar.update(task, completed=total - sum(progress.lag.values()))
            pipeline.tidy()
    return rows


def told(rows: int, progress: Progress) -> str:
    """How it goes, in a line.

    >>> from sluice.spark.archive.pipeline import Progress
    >>> told(1_500, Progress(500, 2, 0.25, {"b1": 12}))
    '1,500 rows archived; the last 500 in 2 files at 2,000 rows/s; behind: b1 by 12'
    """
    behind = ", ".join(f"{stream} by {count:,}" for stream, count in progress.lag.items()) or "none"
    rate = progress.rows / progress.seconds
    return (
        f"{rows:,} rows archived; the last {progress.rows:,} in {progress.files} files at {rate:,.0f} rows/s; "
        f"behind: {behind}"
    )


@contextmanager
def _line() -> Iterator[Callable[[str], None]]:
    """Shows a line: the same one again where somebody watches, else one after the other."""
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    from rich.console import Console

    with Console(stderr=True).status("looking for something new") as status:
        yield status.update
