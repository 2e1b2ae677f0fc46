"""`sluice status`: what the verb takes. The client is loaded when it runs, by `sluice.client.status`."""

from __future__ import annotations

import argparse

from sluice.client.verbs.credentials import add_credentials, credentials_of
from sluice.net.address import DEFAULT_HELP
from sluice.verb import Verb


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `status` takes."""
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        nargs="?",
        help=f"of any broker {DEFAULT_HELP}",
    )
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")
    parser.add_argument(
        "--json", action="store_true", help="print an array with all that the brokers tell, on one line"
    )
    add_credentials(parser)
    parser.set_defaults(run=status)


STATUS = Verb(
    "status",
    "show how the brokers of a network are",
    """\
Ask one broker about all that it knows of, and show for each: its links and clients, what comes in, is passed
on and goes out in a second, the sizes of its tables and of its log, and who is too slow for what it asked for.""",
    """\
  sluice status
  sluice status 127.0.0.1:7473 --watch
  sluice status --json
""",
    add_arguments,
)


def status(arguments: argparse.Namespace) -> int:
    """Prints how a network is; 0 when done."""
    from sluice.client import status

    return status.status(arguments.address, credentials_of(arguments), watch=arguments.watch, as_json=arguments.json)
