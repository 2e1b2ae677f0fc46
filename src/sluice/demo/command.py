"""`sluice demo`: watch matching on a live stream of stock quotes.

Importing this is cheap; the matcher is loaded when the verb runs.
"""

from __future__ import annotations

import argparse

from sluice.verb import Verb, positive, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `demo` takes."""
    parser.add_argument(
        "--subscriptions", metavar="N", type=whole, default=100_000, help="how many to make (default: 100,000)"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=positive, help="how long (default: until Ctrl-C; 10 where nobody watches)"
    )
    parser.add_argument("--seed", metavar="N", type=whole, default=1, help="same seed, same quotes (default: 1)")
    parser.set_defaults(run=demo)


DEMO = Verb(
    "demo",
    "watch matching on a live stream of stock quotes",
    """\
Match a live stream of made-up stock quotes against many subscriptions, as fast as it goes, and watch.
Ctrl-C stops it. Where nobody watches (a pipe, a log) it prints one line a second.""",
    """\
  sluice demo
  sluice demo --subscriptions 1000000 --seconds 30
""",
    add_arguments,
)


def demo(arguments: argparse.Namespace) -> int:
    """Shows it until it ends; 0 then."""
    from sluice.demo.show import run

    run(subscriptions=arguments.subscriptions, seconds=arguments.seconds, seed=arguments.seed)
    return 0
