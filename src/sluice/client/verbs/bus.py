"""`sluice publish`, `sluice subscribe` and `sluice advertise`: the bus from a shell.

Importing this is cheap; the client is loaded when a verb runs. Results go to standard output, one line each; what is said about
them goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.client.verbs.credentials import Credentials, add_credentials, credentials_of
from sluice.errors import ConfigurationError
from sluice.files import FORMATS
from sluice.net.address import DEFAULT_HELP
from sluice.verb import Verb, count

if TYPE_CHECKING:
    from sluice.client.bus import Bus, Order
    from sluice.client.event import Event
    from sluice.client.gap import Gap
    from sluice.client.subscription import AnySubscription
    from sluice.files import Batch, Source

T = TypeVar("T")

#: The status after Ctrl-C.
INTERRUPTED = 130

_ADDRESS_HELP = f"of a broker {DEFAULT_HELP}"

PUBLISH_SUMMARY = "publish the records of a file or of a pipe"
PUBLISH_DESCRIPTION = """\
Publish every record of a file: .jsonl (or .ndjson), .csv or .parquet; - is standard input, and JSON lines of a live
pipe are published as they arrive. It ends when the broker has accepted everything, a durable one has it on disk then,
and prints how many there were."""
PUBLISH_EXAMPLES = """\
  sluice publish quotes.jsonl
  sluice publish quotes.parquet --at sluice://broker.example:7470
  tail -f quotes.jsonl | sluice publish -
"""
SUBSCRIBE_SUMMARY = "print what matches a WHERE, as it is published"
SUBSCRIBE_DESCRIPTION = """\
Print every notification that matches, one line each, until Ctrl-C or --limit. Standard error tells from when on
nothing is missed, and what may have been missed after a broken link.

With --replay or --last a history is asked for the past first (`sluice history` is one); what is live follows it
without a gap or a duplicate.

With --reliable nothing is missed from the start on, whatever broker or link fails; all brokers need a data directory.
With --ordered everything comes in one order, the same for all who ask for it; the two go together.

With --durable the subscription is kept at the broker under a name, and goes on where it stopped. With --from the log of
the broker at the other end is read from an offset on, and the logs of others from their beginning; it needs a data
directory."""
SUBSCRIBE_EXAMPLES = """\
  sluice subscribe "symbol = 'IBM' AND price > 120"
  sluice subscribe "price > 0" --json --limit 10
  sluice subscribe "price > 0" --from 1 --at sluice://broker.example:7470
  sluice subscribe "price > 0" --durable accounting
  sluice subscribe "price > 0" --reliable --ordered
  sluice subscribe "symbol = 'IBM'" --replay 2h --last 1000
"""
ADVERTISE_SUMMARY = "say what will be published, and see who is interested"
ADVERTISE_DESCRIPTION = """\
Hold an advertisement until Ctrl-C, and print a line for every subscription that overlaps it: + when it comes, - when it
goes. In a network with advertisements, subscriptions travel only to where something is advertised."""
ADVERTISE_EXAMPLES = """\
  sluice advertise "symbol IS NOT NULL"
  sluice advertise "price > 100" --at sluice://broker.example:7470
"""


# What can be said


def add_publish_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `publish` takes."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="a file of records, - for standard input")
    parser.add_argument("--at", metavar="ADDRESS", help=_ADDRESS_HELP)
    parser.add_argument("--batch", metavar="N", type=count, default=1024, help="records sent at a time (default: 1024)")
    parser.add_argument("--format", choices=FORMATS, help="of standard input and of names without a known ending")
    parser.add_argument("--ordered", action="store_true", help="have everybody get them in one order, with all such")
    add_credentials(parser)
    parser.set_defaults(run=publish)


def add_subscribe_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `subscribe` takes."""
    parser.add_argument("where", metavar="WHERE", help="the text of a subscription")
    parser.add_argument("--at", metavar="ADDRESS", help=_ADDRESS_HELP)
    parser.add_argument(
        "--json", action="store_true", help="print an object with the record, its id and its place in a log"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--from", dest="start", metavar="OFFSET", type=count, help="read the broker's log from here on")
    place.add_argument(
        "--reliable", action="store_true", help="miss nothing from the start on, whatever fails on the way"
    )
    place.add_argument("--durable", metavar="NAME", help="go on where the subscription of this name stopped")
    parser.add_argument(
        "--ordered", action="store_true", help="get everything in the order that all get it in who ask for that"
    )
    past = parser.add_argument_group("the past")
    past.add_argument("--replay", metavar="TIME", help="begin so far back: 90s, 15m, 2h, 3d")
    past.add_argument("--last", metavar="N", type=count, help="begin with the last so many, at most")
    parser.add_argument("--limit", metavar="N", type=count, help="end after so many notifications")
    add_credentials(parser)
    parser.set_defaults(run=subscribe)


def add_advertise_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `advertise` takes."""
    parser.add_argument("where", metavar="WHERE", help="what will be published")
    parser.add_argument("--at", metavar="ADDRESS", help=_ADDRESS_HELP)
    add_credentials(parser)
    parser.set_defaults(run=advertise)


PUBLISH = Verb("publish", PUBLISH_SUMMARY, PUBLISH_DESCRIPTION, PUBLISH_EXAMPLES, add_publish_arguments)
SUBSCRIBE = Verb("subscribe", SUBSCRIBE_SUMMARY, SUBSCRIBE_DESCRIPTION, SUBSCRIBE_EXAMPLES, add_subscribe_arguments)
ADVERTISE = Verb("advertise", ADVERTISE_SUMMARY, ADVERTISE_DESCRIPTION, ADVERTISE_EXAMPLES, add_advertise_arguments)


# publish


def publish(arguments: argparse.Namespace) -> int:
    """Publishes a file and prints how many records that were; 0 when all are accepted."""
    from sluice.files import Source

    source = Source(arguments.file, arguments.format)
    source.check()
    order: Order = "total" if arguments.ordered else "none"
    try:
        asyncio.run(_publish(source, arguments.at, arguments.batch, order, credentials_of(arguments)))
    except KeyboardInterrupt:
        # A thread may still wait for standard input, and the interpreter would wait for that thread.
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    return 0


async def _publish(source: Source, address: str | None, rows: int, order: Order, credentials: Credentials) -> None:
    """Publishes a file and prints how many records that were, also when Ctrl-C ends it."""
    from rich.console import Console
    from rich.progress import Progress

    from sluice.client.connect import connect
    from sluice.files import InputError, read_notifications

    async with connect(address, **credentials) as bus:
        found = read_notifications(source)
        is_typed = source.is_stdin and sys.stdin.isatty()
        if is_typed:
            print("a JSON object a line, until Ctrl-D:", file=sys.stderr)
        is_shown = sys.stderr.isatty() and not is_typed
        try:
            with Progress(console=Console(stderr=True), transient=True, disable=not is_shown) as progress:
                task = progress.add_task("publishing", total=found.units)
                # A pipe is read in a thread: the link to the broker must live while nothing comes.
                while (batch := await _next(found.batches)) is not None:
                    await _publish_batch(bus, source, batch, rows, order)
                    progress.update(task, advance=batch.units)
        except InputError as error:
            await bus.flush()  # what stands before the line that cannot be read
            raise InputError(f"{error}\n{bus.published:,} records before it are published") from error
        except asyncio.CancelledError:
            await bus.flush()
            print(bus.published, flush=True)
            raise
        await bus.flush()
        print(bus.published)


async def _next(items: Iterator[T]) -> T | None:
    """The next item, None after the last, from a thread that does not keep the program from ending, as those of asyncio do."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T | None] = loop.create_future()

    def settle(item: T | None, error: Exception | None) -> None:
        if found.cancelled():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(item)

    def wait() -> None:
        item, error = None, None
        try:
            item = next(items, None)
        except Exception as problem:
            error = problem
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, item, error)

    Thread(target=wait, daemon=True).start()
    return await found


async def _publish_batch(bus: Bus, source: Source, batch: Batch, rows: int, order: Order) -> None:
    """Publishes the records of a batch; those before one that cannot be published are published."""
    from sluice.errors import NotificationError

    if not isinstance(batch.records, list):
        for start in range(0, batch.records.num_rows, rows):
            await bus.publish_arrow(batch.records.slice(start, rows), order=order)
        return
    for start in range(0, len(batch.records), rows):
        some = batch.records[start : start + rows]
        try:
            await bus.publish_many(some, order=order)
        except NotificationError:
            await _publish_each(bus, source, zip(batch.indexes[start:], some, strict=False), order)


async def _publish_each(bus: Bus, source: Source, records: Iterable[tuple[int, Any]], order: Order) -> None:
    from sluice.errors import NotificationError

    for index, record in records:
        try:
            await bus.publish(record, order=order)
        except NotificationError as error:
            raise source.error(index + 1, str(error)) from error


# subscribe


def subscribe(arguments: argparse.Namespace) -> int:
    """Prints what comes; 0 when as many have come as were asked for."""
    if (arguments.replay or arguments.last) and arguments.reliable:
        raise ConfigurationError("a reliable subscription begins now: leave --replay and --last out")
    if (arguments.replay or arguments.last or arguments.durable or arguments.start) and arguments.ordered:
        raise ConfigurationError(
            "the order of all is that of what is live: leave --replay, --last, --durable and --from out"
        )
    if (arguments.replay or arguments.last) and (arguments.durable or arguments.start):
        raise ConfigurationError(
            "--replay and --last ask a history for the past: --durable and --from read logs instead"
        )
    asyncio.run(_subscribe(arguments))
    return 0


async def _subscribe(arguments: argparse.Namespace) -> None:
    from sluice.client.connect import connect
    from sluice.model.contradiction import contradictions
    from sluice.model.parse import parse

    where = parse(arguments.where)
    if where.is_empty:
        print("nothing can match:", "; ".join(contradictions(arguments.where)), file=sys.stderr, flush=True)
    async with connect(arguments.at, on_gap=_tell_gap, **credentials_of(arguments)) as bus:
        subscription: AnySubscription
        order: Order = "total" if arguments.ordered else "none"
        if arguments.reliable:
            subscription = bus.subscribe(where, delivery="reliable", order=order)
        elif arguments.ordered:
            subscription = bus.subscribe(where, order=order)
        elif arguments.durable is not None:
            subscription = bus.subscribe(where, durable=arguments.durable)
        elif arguments.start is not None:
            subscription = bus.subscribe(where, start={await _logging_broker(bus): arguments.start})
        else:
            subscription = bus.subscribe(where, replay=arguments.replay, last=arguments.last)
        async with subscription:
            starts = await subscription.complete()
            print(f"complete: nothing is missed from {_place(starts)} on", file=sys.stderr, flush=True)
            async for event in _first(subscription, arguments.limit):
                print(_line(event, as_json=arguments.json), flush=True)


async def _logging_broker(bus: Bus) -> str:
    """The name of the broker at the other end, which must keep a log."""
    report = await bus.describe()
    if report["log"] is None:
        raise ConfigurationError(f"{report['name']} keeps no log: start it with a data directory")
    return str(report["name"])


def _place(starts: Mapping[str, int] | None) -> str:
    """Where a subscription begins, in words."""
    if starts is None:
        return "here"
    return ", ".join(f"offset {offset} of {stream}" for stream, offset in sorted(starts.items()))


async def _first(items: AsyncIterator[T], limit: int | None) -> AsyncIterator[T]:
    """The first of some items; all of them without a limit."""
    count = 0
    async for item in items:
        yield item
        count += 1
        if count == limit:
            return


def _tell_gap(gap: Gap) -> None:
    print(f"gap: {gap}", file=sys.stderr, flush=True)


def _line(event: Event, *, as_json: bool) -> str:
    if not as_json:
        return json.dumps(event, default=_json_value, ensure_ascii=False)
    told = {
        "record": event,
        "publisher": event.id.publisher,
        "number": event.id.number,
        "stream": event.stream,
        "offset": event.offset,
        "time": event.time,
        "replayed": event.replayed,
    }
    return json.dumps(told, default=_json_value, ensure_ascii=False)


def _json_value(value: object) -> Any:
    """What JSON has no form for: times in ISO 8601, bytes in base 64."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


# advertise


def advertise(arguments: argparse.Namespace) -> int:
    """Holds an advertisement until Ctrl-C, and prints who comes and goes."""
    asyncio.run(_advertise(arguments.where, arguments.at, credentials_of(arguments)))
    return 0


async def _advertise(where: str, address: str | None, credentials: Credentials) -> None:
    from sluice.client.connect import connect

    connection = connect(address, **credentials)
    async with connection as bus, bus.advertise(where) as advertisement, bus.watch(where) as interest:
        await advertisement.complete()
        await interest.complete()
        print(f"advertised: {advertisement.where}", file=sys.stderr, flush=True)
        async for change in interest:
            for sign, entries in (("+", change.added), ("-", change.removed)):
                for entry in entries:
                    print(f"{sign} {entry.id}: {entry.where}", flush=True)
