"""`sluice history`: a history from a shell. Importing this is cheap; the client is loaded when the verb runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.client.verbs.credentials import Credentials, add_credentials, credentials_of
from sluice.errors import LinkError
from sluice.net.address import DEFAULT_HELP
from sluice.verb import Verb

if TYPE_CHECKING:
    from sluice.spark.replay.past import Past
    from sluice.spark.replay.service import History

SUMMARY = "replay the past to subscribers who wish for it"
DESCRIPTION = """\
Watch who subscribes with a wish for the past (`sluice subscribe WHERE --replay 2h`, or --last 10), and replay it to each of
them alone: from the archive, then from the brokers' logs, so that what is live follows without a gap. Without an archive
the logs are all there is. Any number of histories may run; it ends with Ctrl-C."""
EXAMPLES = """\
  sluice history --archive archive --brokers 127.0.0.1:7470
  sluice history --brokers a.example:7470,b.example:7470
"""

#: How long to look for a broker before the next one is tried, and how often the account is written.
GIVE_UP_SECONDS = 5.0
TELL_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `history` takes."""
    parser.add_argument("--archive", metavar="DIR", type=Path, help="what `sluice pipeline` writes (default: the logs)")
    parser.add_argument(
        "--brokers",
        metavar="ADDRESSES",
        help=f"of some brokers, with commas between; any one will do {DEFAULT_HELP}",
    )
    add_credentials(parser)
    parser.set_defaults(run=history)


HISTORY = Verb("history", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def history(arguments: argparse.Namespace) -> int:
    """Replays until Ctrl-C."""
    from sluice.spark.replay.past import Archived, Nothing

    past: Past = Nothing() if arguments.archive is None else Archived(arguments.archive)
    brokers = [None] if arguments.brokers is None else arguments.brokers.split(",")
    asyncio.run(_serve(past, brokers, credentials_of(arguments)))
    return 0


async def _serve(past: Past, brokers: Sequence[str | None], credentials: Credentials) -> None:
    """Serves at the first broker that answers; when that one is gone for a while, at the next."""
    from sluice.client.connect import connect
    from sluice.spark.replay.service import History

    was_up = False
    while True:
        problems: list[str] = []
        for address in brokers:
            try:
                async with connect(address, give_up_seconds=GIVE_UP_SECONDS, **credentials) as bus:
                    was_up = True
                    await _run(History(bus, past), await bus.broker())
            except LinkError as error:
                problems.append(str(error))
        if not was_up:
            raise LinkError("; ".join(problems))


async def _run(service: History, broker: str) -> None:
    telling = asyncio.create_task(_tell(service, broker))
    try:
        await service.run()
    finally:
        telling.cancel()


async def _tell(service: History, broker: str) -> None:
    """A line that lives on a terminal; elsewhere, a line whenever a replay is done or given up."""
    await service.ready()
    print(f"whoever wishes for the past is heard at {broker}", flush=True)
    is_terminal, told = sys.stderr.isatty(), ""
    while True:
        line = str(service.account)
        if is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif (service.account.done or service.account.given_up) and line != told:
            print(line, file=sys.stderr, flush=True)
        told = line
        await asyncio.sleep(TELL_SECONDS)
