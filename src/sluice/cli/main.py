"""The command line: one verb per capability, each a thin face over the library.

Results go to standard output, progress and errors to standard error; the exit status is 0 for yes or done, 1 for no,
2 for an error, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from sluice import __version__
from sluice.broker.command import BROKER, UP
from sluice.cli.covers import COVERS
from sluice.cli.explain import EXPLAIN
from sluice.cli.match import MATCH
from sluice.cli.simulate import SIMULATE
from sluice.client.verbs.bus import ADVERTISE, PUBLISH, SUBSCRIBE
from sluice.client.verbs.join import JOIN
from sluice.client.verbs.reshape import LEAVE, LINK
from sluice.client.verbs.status import STATUS
from sluice.demo.command import DEMO
from sluice.errors import SluiceError
from sluice.lab.command import LAB
from sluice.spark.archive.command import PIPELINE
from sluice.spark.compose.command import COMPOSE
from sluice.spark.doctor import DOCTOR
from sluice.spark.replay.command import HISTORY
from sluice.spark.traffic.command import STATISTICS
from sluice.usage import Parser, check_verb, listing

#: The verbs in the order in which help tells of them.
GROUPS = {
    "filters": (EXPLAIN, COVERS, MATCH, DEMO),
    "clients": (PUBLISH, SUBSCRIBE, ADVERTISE),
    "brokers": (BROKER, UP, STATUS),
    "the tree, while it runs": (JOIN, LEAVE, LINK),
    "on Spark": (PIPELINE, HISTORY, COMPOSE, STATISTICS, DOCTOR),
    "tests and experiments": (SIMULATE, LAB),
}
VERBS = {verb.name: verb for verbs in GROUPS.values() for verb in verbs}

FAILED, INTERRUPTED, BROKEN_PIPE = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = [*(sys.argv[1:] if argv is None else argv)]
    if " ".join(words[:2]) in (JOIN.name, LEAVE.name):
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


def _said(words: Sequence[str]) -> argparse.Namespace:
    """What the words of a command say; help, or what is wrong with them, ends the program."""
    about = "Content-based publish/subscribe: subscriptions are the WHERE of a Spark SQL query."
    parser = Parser(
        prog="sluice",
        usage="sluice VERB ...",
        description=f"{about}\n\n{listing(GROUPS)}",
        epilog="sluice VERB --help shows what a verb takes, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"sluice {__version__}")
    verbs = parser.add_subparsers(prog="sluice", metavar="VERB", required=True, help=argparse.SUPPRESS)
    for verb in VERBS.values():
        verb.add_to(verbs)
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(FAILED)
    check_verb(parser, words[0], VERBS)
    return parser.parse_args(words)
