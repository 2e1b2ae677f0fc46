"""`sluice match`: the notifications of a file against the subscriptions of another, without any broker.

Importing this is cheap; the matcher is loaded when the verb runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sluice.errors import ParseError, SluiceError
from sluice.files import FORMATS
from sluice.verb import Verb, progress_bar

if TYPE_CHECKING:
    from sluice import Matcher
    from sluice.files import Batch, Source, SubscriptionRow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `match` takes."""
    parser.add_argument("subscriptions", metavar="SUBSCRIPTIONS", help="a file of id and where, - for standard input")
    parser.add_argument("notifications", metavar="NOTIFICATIONS", help="a file of records, - for standard input")
    parser.add_argument("--count", action="store_true", help="print the total number of matches and nothing else")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="of standard input (default: jsonl) and of names without a known ending",
    )
    parser.add_argument("--master", metavar="MASTER", help="match on Spark: local[*], spark://HOST:PORT, sc://HOST")
    parser.add_argument(
        "--output", metavar="DIR", help="with --master: write what each subscription gets to a directory of its own"
    )
    parser.set_defaults(run=match)


MATCH = Verb(
    "match",
    "match a file of notifications against a file of subscriptions",
    """\
Match notifications against subscriptions. For each notification that somebody asked for, one line of
JSON tells who: {"notification": its index in the file, from 0, "ids": [the subscriptions, sorted]}.

Files end in .jsonl (or .ndjson), .csv or .parquet. A subscription has an id (an integer or a string)
and a where; a notification is any record. Lines of a live pipe are answered as they arrive. A line that
cannot be read ends it with status 2; what was printed before are whole answers to earlier lines.

With --master Spark does it: NOTIFICATIONS are Parquet files, a directory of them or a Delta table,
SUBSCRIPTIONS a file, such a directory or table, or a saved matcher.""",
    """\
  sluice match subscriptions.jsonl quotes.parquet
  sluice match subscriptions.csv quotes.jsonl --count
  tail -f quotes.jsonl | sluice match subscriptions.jsonl -
  sluice match subscriptions.parquet archive --master 'local[*]' --count
  sluice match subscriptions.parquet quotes.parquet --master spark://host:7077 --output deliveries

  subscriptions.jsonl:  {"id": 7, "where": "symbol = 'IBM' AND price > 120"}
  subscriptions.csv:    id,where
                        7,symbol = 'IBM' AND price > 120
  quotes.jsonl:         {"symbol": "IBM", "price": 121.5}
""",
    add_arguments,
)


def match(arguments: argparse.Namespace) -> int:
    """Prints who gets what; 0 when done."""
    from sluice.files import InputError, Source, read_notifications

    if arguments.master is not None:
        from sluice.spark.matching.command import match_on_spark

        return match_on_spark(arguments)
    if arguments.output is not None:
        raise SluiceError("--output is for matching on Spark: say --master too, or send the answers to a file with >")
    subscriptions = Source(arguments.subscriptions, arguments.format)
    notifications = Source(arguments.notifications, arguments.format)
    if subscriptions.is_stdin and notifications.is_stdin:
        raise InputError("only one of SUBSCRIPTIONS and NOTIFICATIONS can be standard input")
    # Known before the subscriptions are loaded, which may take a while: a wrong name fails at once.
    subscriptions.check()
    notifications.check()
    with progress_bar() as progress:
        matcher, ids = _load(subscriptions, progress)
        found = read_notifications(notifications)
        task = progress.add_task("matching", total=found.units)
        total = 0
        for batch in found.batches:
            offsets, ranks = _match_batch(matcher, batch, notifications)
            total += len(ranks)
            if not arguments.count:
                sys.stdout.write("".join(_answers(batch.indexes, offsets, ranks, ids)))
                sys.stdout.flush()
            progress.update(task, advance=batch.units)
    if arguments.count:
        print(total)
    return 0


def _load(source: Source, progress: Any) -> tuple[Matcher, list[str]]:
    """A matcher with all subscriptions of a file in it, and the ids they have there, as JSON, by their rank.

    The matcher knows each subscription by the rank of its id, so that what it finds, once sorted, is sorted by id.
    """
    from sluice import Matcher
    from sluice.files import read_subscriptions

    task = progress.add_task("loading subscriptions", total=None)
    rows = sorted(
        read_subscriptions(source),
        key=lambda row: (isinstance(row.id, str), row.id),
    )
    for row, following in pairwise(rows):
        if row.id == following.id:
            raise source.error(
                following.number, f"the id {json.dumps(row.id)} stands on {source.place(row.number)} already"
            )
    matcher = Matcher()
    progress.update(task, total=len(rows))
    try:
        matcher.load(
            ((rank, row.where) for rank, row in enumerate(rows)),
            progress=lambda loaded: progress.update(task, completed=loaded),
        )
    except SluiceError as error:
        raise _first_bad(source, rows, error) or error from error
    return matcher, [json.dumps(row.id) for row in rows]


def _first_bad(source: Source, rows: Iterable[SubscriptionRow], error: SluiceError) -> SluiceError | None:
    """The error of the first text that cannot be parsed, with the place where it stands."""
    from sluice import parse

    if isinstance(error.__cause__, ParseError):
        wrong = error.__cause__.text
        rows = [row for row in rows if row.where == wrong]
    for row in sorted(rows, key=lambda row: row.number):
        try:
            parse(row.where)
        except SluiceError as problem:
            return source.error(row.number, str(problem))
    return None


def _match_batch(matcher: Matcher, batch: Batch, source: Source) -> tuple[Any, Any]:
    try:
        return matcher.match_batch(batch.records)
    except SluiceError as error:
        raise _first_unreadable(matcher, batch, source) or error from error


def _first_unreadable(matcher: Matcher, batch: Batch, source: Source) -> SluiceError | None:
    """The error of the first record that the matcher does not take, with the place where it stands."""
    records = batch.records
    for row, index in enumerate(batch.indexes):
        try:
            matcher.match_batch(records[row : row + 1] if isinstance(records, list) else records.slice(row, 1))
        except SluiceError as error:
            return source.error(index + 1, str(error).removeprefix("row 0: "))
    return None


def _answers(indexes: Sequence[int], offsets: Any, ranks: Any, ids: list[str]) -> Iterator[str]:
    """One line of JSON for each notification that matched."""
    starts = offsets.tolist()
    for row, (start, end) in enumerate(pairwise(starts)):
        if start < end:
            found = ", ".join([ids[rank] for rank in sorted(ranks[start:end].tolist())])
            yield f'{{"notification": {indexes[row]}, "ids": [{found}]}}\n'
