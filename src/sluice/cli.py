"""The command line: one verb per capability, each a thin face over the library.

Results go to standard output, progress and errors to standard error; the exit status is 0 for yes or done, 1 for no,
2 for an error, 130 after Ctrl-C. Heavy modules are imported by the verbs that need them, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sluice import __version__
from sluice.errors import ParseError, SluiceError
from sluice.usage import Parser, add_verb, check_verb, listing

if TYPE_CHECKING:
    from sluice import Matcher
    from sluice.files import Batch, Source, SubscriptionRow
    from sluice.model.filter import Filter
    from sluice.model.subscription import Subscription

YES, NO, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = [*(sys.argv[1:] if argv is None else argv)]
    if words[:2] in (["broker", "join"], ["broker", "leave"]):
        words[:2] = [" ".join(words[:2])]  # verbs of two words
    arguments = _said(words)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left. What is still buffered goes nowhere, or Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return FAILED


# What can be said


def _said(words: Sequence[str]) -> argparse.Namespace:
    """What the words of a command say; help, or what is wrong with them, ends the program."""
    parser = Parser(
        prog="sluice",
        usage="sluice VERB ...",
        epilog="sluice VERB --help shows what a verb takes, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"sluice {__version__}")
    verbs = parser.add_subparsers(prog="sluice", metavar="VERB", required=True, help=argparse.SUPPRESS)
    _explain_parser(verbs)
    _covers_parser(verbs)
    _match_parser(verbs)
    _demo_parser(verbs)
    _simulate_parser(verbs)
    _lab_parser(verbs)
    _broker_parser(verbs)
    _up_parser(verbs)
    _link_parser(verbs)
    _client_parsers(verbs)
    _status_parser(verbs)
    _pipeline_parser(verbs)
    _history_parser(verbs)
    _compose_parser(verbs)
    _statistics_parser(verbs)
    _doctor_parser(verbs)
    about = "Content-based publish/subscribe: subscriptions are the WHERE of a Spark SQL query."
    parser.description = f"{about}\n\n{listing(verbs.choices)}"
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(FAILED)
    check_verb(parser, words[0], verbs.choices)
    return parser.parse_args(words)


def _explain_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "explain",
        "show what a WHERE means: its canonical form and its boxes",
        "Show the canonical form of a WHERE and the boxes it is a union of. What no box can hold, such as\n"
        "arithmetic across attributes, is residual: it is evaluated after its box has matched.",
        """  sluice explain "symbol = 'IBM' AND price > 120"
  sluice explain "NOT (price BETWEEN 10 AND 20) OR price * volume > 1000000"
""",
    )
    parser.add_argument("where", metavar="WHERE", help="the text of a subscription")
    parser.set_defaults(run=_explain)


def _covers_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "covers",
        "tell whether one WHERE takes in all that another does",
        "Tell whether every notification that matches B matches A too, and why. The exit status is 0 for yes,\n"
        "1 for no and 2 for an error. A yes is certain; a no can also mean that no proof was found.",
        """  sluice covers "price > 100" "price BETWEEN 110 AND 120"
  sluice covers "symbol IN ('IBM', 'SAP')" "symbol LIKE 'I%'" || echo no
""",
    )
    parser.add_argument("a", metavar="A", help="the wider one")
    parser.add_argument("b", metavar="B", help="the narrower one")
    parser.set_defaults(run=_covers)


def _match_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "match",
        "match a file of notifications against a file of subscriptions",
        "Match notifications against subscriptions. For each notification that somebody asked for, one line of\n"
        'JSON tells who: {"notification": its index in the file, from 0, "ids": [the subscriptions, sorted]}.\n'
        "\n"
        "Files end in .jsonl (or .ndjson), .csv or .parquet. A subscription has an id (an integer or a string)\n"
        "and a where; a notification is any record. Lines of a live pipe are answered as they arrive. A line that\n"
        "cannot be read ends it with status 2; what was printed before are whole answers to earlier lines.\n"
        "\n"
        "With --master Spark does it: NOTIFICATIONS are Parquet files, a directory of them or a Delta table,\n"
        "SUBSCRIPTIONS a file, such a directory or table, or a saved matcher.",
        """  sluice match subscriptions.jsonl quotes.parquet
  sluice match subscriptions.csv quotes.jsonl --count
  tail -f quotes.jsonl | sluice match subscriptions.jsonl -
  sluice match subscriptions.parquet archive --master 'local[*]' --count
  sluice match subscriptions.parquet quotes.parquet --master spark://host:7077 --output deliveries

  subscriptions.jsonl:  {"id": 7, "where": "symbol = 'IBM' AND price > 120"}
  subscriptions.csv:    id,where
                        7,symbol = 'IBM' AND price > 120
  quotes.jsonl:         {"symbol": "IBM", "price": 121.5}
""",
    )
    parser.add_argument("subscriptions", metavar="SUBSCRIPTIONS", help="a file of id and where, - for standard input")
    parser.add_argument("notifications", metavar="NOTIFICATIONS", help="a file of records, - for standard input")
    parser.add_argument("--count", action="store_true", help="print the total number of matches and nothing else")
    parser.add_argument(
        "--format",
        choices=("jsonl", "csv", "parquet"),
        help="of standard input (default: jsonl) and of names without a known ending",
    )
    parser.add_argument("--master", metavar="MASTER", help="match on Spark: local[*], spark://HOST:PORT, sc://HOST")
    parser.add_argument(
        "--output", metavar="DIR", help="with --master: write what each subscription gets to a directory of its own"
    )
    parser.set_defaults(run=_match)


def _demo_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "demo",
        "watch matching on a live stream of stock quotes",
        "Match a live stream of made-up stock quotes against many subscriptions, as fast as it goes, and watch.\n"
        "Ctrl-C stops it. Where nobody watches (a pipe, a log) it prints one line a second.",
        """  sluice demo
  sluice demo --subscriptions 1000000 --seconds 30
""",
    )
    parser.add_argument(
        "--subscriptions", metavar="N", type=_whole, default=100_000, help="how many to make (default: 100,000)"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=_positive, help="how long (default: until Ctrl-C; 10 where nobody watches)"
    )
    parser.add_argument("--seed", metavar="N", type=_whole, default=1, help="same seed, same quotes (default: 1)")
    parser.set_defaults(run=_demo)


def _lab_parser(verbs: Any) -> None:
    from sluice.lab import command

    command.add_arguments(add_verb(verbs, "lab", command.SUMMARY, command.DESCRIPTION, command.EXAMPLES))


def _broker_parser(verbs: Any) -> None:
    from sluice.broker import command
    from sluice.client import join_command, reshape_command

    parser = add_verb(verbs, "broker", command.BROKER_SUMMARY, command.BROKER_DESCRIPTION, command.BROKER_EXAMPLES)
    command.add_broker_arguments(parser)
    parser.usage = "sluice broker --name NAME [--SETTING VALUE ...]"
    parser = add_verb(verbs, "broker join", join_command.SUMMARY, join_command.DESCRIPTION, join_command.EXAMPLES)
    join_command.add_arguments(parser)
    parser.usage = "sluice broker join ADDRESS --name NAME [--SETTING VALUE ...]"
    said = (reshape_command.LEAVE_SUMMARY, reshape_command.LEAVE_DESCRIPTION, reshape_command.LEAVE_EXAMPLES)
    reshape_command.add_leave_arguments(add_verb(verbs, "broker leave", *said))


def _link_parser(verbs: Any) -> None:
    from sluice.client import reshape_command as command

    parser = add_verb(verbs, "link", command.LINK_SUMMARY, command.LINK_DESCRIPTION, command.LINK_EXAMPLES)
    inner = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    command.add_link_arguments(inner, add_verb)


def _up_parser(verbs: Any) -> None:
    from sluice.broker import command

    command.add_up_arguments(add_verb(verbs, "up", command.UP_SUMMARY, command.UP_DESCRIPTION, command.UP_EXAMPLES))


def _status_parser(verbs: Any) -> None:
    from sluice.client.credentials import add_credentials

    parser = add_verb(
        verbs,
        "status",
        "show how the brokers of a network are",
        "Ask one broker about all that it knows of, and show for each: its links and clients, what comes in, is passed\n"
        "on and goes out in a second, the sizes of its tables and of its log, and who is too slow for what it asked for.",
        """  sluice status
  sluice status 127.0.0.1:7473 --watch
  sluice status --json
""",
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        nargs="?",
        help="of any broker (default: $SLUICE_ADDRESS, or sluice://127.0.0.1:7470)",
    )
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")
    parser.add_argument(
        "--json", action="store_true", help="print an array with all that the brokers tell, on one line"
    )
    add_credentials(parser)
    parser.set_defaults(run=_status)


def _client_parsers(verbs: Any) -> None:
    from sluice.client import command

    said = (command.PUBLISH_SUMMARY, command.PUBLISH_DESCRIPTION, command.PUBLISH_EXAMPLES)
    command.add_publish_arguments(add_verb(verbs, "publish", *said))
    said = (command.SUBSCRIBE_SUMMARY, command.SUBSCRIBE_DESCRIPTION, command.SUBSCRIBE_EXAMPLES)
    command.add_subscribe_arguments(add_verb(verbs, "subscribe", *said))
    said = (command.ADVERTISE_SUMMARY, command.ADVERTISE_DESCRIPTION, command.ADVERTISE_EXAMPLES)
    command.add_advertise_arguments(add_verb(verbs, "advertise", *said))


def _compose_parser(verbs: Any) -> None:
    from sluice.spark.compose import command

    command.add_arguments(add_verb(verbs, "compose", command.SUMMARY, command.DESCRIPTION, command.EXAMPLES))


def _statistics_parser(verbs: Any) -> None:
    from sluice.spark.traffic import command

    command.add_arguments(add_verb(verbs, "statistics", command.SUMMARY, command.DESCRIPTION, command.EXAMPLES))


def _pipeline_parser(verbs: Any) -> None:
    from sluice.spark.archive import command

    command.add_arguments(add_verb(verbs, "pipeline", command.SUMMARY, command.DESCRIPTION, command.EXAMPLES))


def _history_parser(verbs: Any) -> None:
    from sluice.spark.replay import command

    command.add_arguments(add_verb(verbs, "history", command.SUMMARY, command.DESCRIPTION, command.EXAMPLES))


def _doctor_parser(verbs: Any) -> None:
    from sluice.spark import doctor

    doctor.add_arguments(add_verb(verbs, "doctor", doctor.SUMMARY, doctor.DESCRIPTION, doctor.EXAMPLES))


def _simulate_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "simulate",
        "run networks of brokers under faults and check that they keep their promises",
        "Run whole networks of brokers and clients in virtual time, with faults, and check the specification. One\n"
        "seed fixes a run: routing, tree, wishes, faults and schedule. A run that breaks a promise is made short,\n"
        "told as a story, and printed with the command that repeats it; the exit status is 1 then.\n"
        "\n"
        "scenarios: routing (notifications reach exactly those who asked), completeness (who was told so misses\n"
        "nothing), interest (watchers know who asks; replays reach one subscriber), leases (damaged tables heal),\n"
        "streams (what was accepted is logged once, and durable readers get all of it), replay (the past, then what\n"
        "is live), reliable (everything from the start on, in order, once), order (the same order for all), reshape (the tree\n"
        "changes, and nobody notices).\n"
        "\n"
        "faults: broker-crash, link-loss, client-crash, offline; in leases also message-loss, duplication,\n"
        "corruption, clocks, tables; in streams also disk-full, retention.",
        """  sluice simulate
  sluice simulate --scenario leases --runs 1000
  sluice simulate --scenario routing --routing merging --advertisements --faults link-loss,broker-crash
  sluice simulate --scenario completeness --seed 17 --trace run.jsonl
  sluice simulate --scenario routing --mutants
""",
    )
    parser.add_argument("--scenario", metavar="NAME", default="all", help="which promises to test (default: all)")
    parser.add_argument(
        "--seed", metavar="N", type=_whole, help="run this seed alone, or begin with it (with --runs or --minutes)"
    )
    parser.add_argument(
        "--runs",
        metavar="K",
        type=_whole,
        help="how many seeds (default: 100, or 1 with --seed, or no end with --minutes)",
    )
    parser.add_argument("--minutes", metavar="M", type=_positive, help="stop after this time")
    parser.add_argument("--routing", metavar="NAME", help="one routing algorithm (default: each seed takes its own)")
    parser.add_argument("--advertisements", action="store_true", help="use advertisements in every run")
    parser.add_argument("--faults", metavar="LIST", help="none, all, or names with commas (default: as the seed says)")
    parser.add_argument("--trace", metavar="FILE", help="write what happened in a single run, as JSON lines")
    parser.add_argument(
        "--mutants", action="store_true", help="break the code on purpose and tell which bugs are noticed"
    )
    parser.set_defaults(run=_simulate)


def _whole(text: str) -> int:
    if not (number := int(text)) >= 0:
        raise argparse.ArgumentTypeError("should not be negative")
    return number


def _positive(text: str) -> float:
    if not 0 < (number := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError("should be more than 0")
    return number


# explain


def _explain(arguments: argparse.Namespace) -> int:
    from sluice import parse

    subscription = parse(arguments.where)
    if sys.stdout.isatty():
        _print_pretty(subscription)
    else:
        print("\n".join(explanation(subscription)))
    if subscription.is_empty:
        from sluice.model.contradiction import contradictions

        print("\n".join(f"  {line}" for line in contradictions(arguments.where)))
    return YES


def explanation(subscription: Subscription) -> Iterator[str]:
    """The canonical form, then each box with its sides and what is residual, as plain lines."""
    yield f"canonical: {subscription.to_sql()}"
    if not subscription.filters:
        yield "no box: nothing can match"
    for number, box in enumerate(subscription.filters, 1):
        yield f"box {number} of {len(subscription.filters)}{'' if _sides(box) else ': everything matches'}"
        width = max((len(name) for name, _ in _sides(box)), default=0)
        yield from (f"  {name:<{width}}  {text}" for name, text in _sides(box))


def _sides(box: Filter) -> list[tuple[str, str]]:
    """The attribute and the constraint of each side; what is residual comes last, under that name."""
    sides = [(name, side.to_sql(name)) for name, side in box.constraints.items()]
    return sides + [("(residual)", residual.to_sql()) for residual in box.residuals]


def _print_pretty(subscription: Subscription) -> None:
    """The same for people at a terminal."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    def sql(text: str) -> Syntax:
        return Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True)

    console = Console()
    console.print(Panel(sql(subscription.to_sql()), title="canonical form", title_align="left"))
    if not subscription.filters:
        console.print("no box: nothing can match", style="yellow")
    for number, box in enumerate(subscription.filters, 1):
        table = Table.grid(padding=(0, 2))
        for name, text in _sides(box) or [("", "everything matches")]:
            table.add_row(Text(name, style="yellow" if name == "(residual)" else "bold"), sql(text))
        console.print(Panel(table, title=f"box {number} of {len(subscription.filters)}", title_align="left"))


# covers


def _covers(arguments: argparse.Namespace) -> int:
    from sluice import parse

    a, b = (_parse_named(name, text, parse) for name, text in (("A", arguments.a), ("B", arguments.b)))
    covered = a.covers(b)
    print("yes" if covered else "no")
    for line in _why_covers(a, b) if covered else _why_not_covers(a, b):
        print(f"  {line}")
    return YES if covered else NO


def _parse_named(name: str, text: str, parse: Any) -> Subscription:
    try:
        subscription: Subscription = parse(text)
    except SluiceError as error:
        raise SluiceError(f"{name}: {error}") from error
    return subscription


def _why_covers(a: Subscription, b: Subscription) -> Iterator[str]:
    if not b.filters:
        yield "nothing can match B"
    for theirs in b.filters:
        mine = next((box for box in a.filters if box.covers(theirs)), None)
        yield f"{theirs} lies inside {mine or 'the boxes of A together'}"


def _why_not_covers(a: Subscription, b: Subscription) -> Iterator[str]:
    """For each box of B that is left over, what stands against it in each box of A."""
    for theirs in b.filters:
        if any(mine.covers(theirs) for mine in a.filters):
            continue
        yield f"{theirs} does not lie inside A"
        if not a.filters:
            yield "  nothing can match A"
        for mine in a.filters:
            yield f"  not inside {mine}: {_obstacle(mine, theirs)}"


def _obstacle(mine: Filter, theirs: Filter) -> str:
    """The first thing that `mine` asks for and `theirs` does not ensure."""
    for name, side in mine.constraints.items():
        if name not in theirs.constraints:
            return f"B does not ask for {side.to_sql(name)}"
        if not side.covers(theirs.constraints[name]):
            return f"{side.to_sql(name)} does not follow from {theirs.constraints[name].to_sql(name)}"
    residual = next(residual for residual in mine.residuals if residual not in theirs.residuals)
    return f"B does not ask for {residual.to_sql()}"


# match


def _match(arguments: argparse.Namespace) -> int:
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
    with _progress() as progress:
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
    return YES


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
    records = batch.records if isinstance(batch.records, list) else batch.records.to_pylist()
    for index, record in zip(batch.indexes, records, strict=True):
        try:
            matcher.match(record)
        except SluiceError as error:
            return source.error(index + 1, str(error))
    return None


def _answers(indexes: Sequence[int], offsets: Any, ranks: Any, ids: list[str]) -> Iterator[str]:
    """One line of JSON for each notification that matched."""
    starts = offsets.tolist()
    for row, (start, end) in enumerate(pairwise(starts)):
        if start < end:
            found = ", ".join([ids[rank] for rank in sorted(ranks[start:end].tolist())])
            yield f'{{"notification": {indexes[row]}, "ids": [{found}]}}\n'


@contextmanager
def _progress() -> Iterator[Any]:
    """A progress bar for people who watch; nothing at all for anybody else."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        yield progress


# demo


def _demo(arguments: argparse.Namespace) -> int:
    from sluice.demo.show import run

    run(subscriptions=arguments.subscriptions, seconds=arguments.seconds, seed=arguments.seed)
    return YES


# simulate


def _simulate(arguments: argparse.Namespace) -> int:
    from sluice.sim.command import simulate

    return simulate(arguments)


# status


def _status(arguments: argparse.Namespace) -> int:
    from sluice.client.credentials import credentials_of
    from sluice.client.status import status

    address = arguments.address or os.environ.get("SLUICE_ADDRESS") or "sluice://127.0.0.1:7470"
    return status(address, credentials_of(arguments), watch=arguments.watch, as_json=arguments.json)
