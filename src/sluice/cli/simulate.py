"""`sluice simulate`: what the verb takes. The simulator itself is loaded when it runs, by `sluice.sim.command`."""

from __future__ import annotations

import argparse

from sluice.verb import Verb, positive, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `simulate` takes."""
    parser.add_argument("--scenario", metavar="NAME", default="all", help="which promises to test (default: all)")
    parser.add_argument(
        "--seed", metavar="N", type=whole, help="run this seed alone, or begin with it (with --runs or --minutes)"
    )
    parser.add_argument(
        "--runs",
        metavar="K",
        type=whole,
        help="how many seeds (default: 100, or 1 with --seed, or no end with --minutes)",
    )
    parser.add_argument("--minutes", metavar="M", type=positive, help="stop after this time")
    parser.add_argument("--routing", metavar="NAME", help="one routing algorithm (default: each seed takes its own)")
    parser.add_argument("--advertisements", action="store_true", help="use advertisements in every run")
    parser.add_argument("--faults", metavar="LIST", help="none, all, or names with commas (default: as the seed says)")
    parser.add_argument("--trace", metavar="FILE", help="write what happened in a single run, as JSON lines")
    parser.add_argument(
        "--mutants", action="store_true", help="break the code on purpose and tell which bugs are noticed"
    )
    parser.set_defaults(run=simulate)


SIMULATE = Verb(
    "simulate",
    "run networks of brokers under faults and check that they keep their promises",
    """\
Run whole networks of brokers and clients in virtual time, with faults, and check the specification. One
seed fixes a run: routing, tree, wishes, faults and schedule. A run that breaks a promise is made short,
told as a story, and printed with the command that repeats it; the exit status is 1 then.

scenarios: routing (notifications reach exactly those who asked), completeness (who was told so misses
nothing), interest (watchers know who asks; replays reach one subscriber), leases (damaged tables heal),
streams (what was accepted is logged once, and durable readers get all of it), replay (the past, then what
is live), reliable (everything from the start on, in order, once), order (the same order for all), reshape
(links are replaced, and nothing is lost or comes twice).

faults: broker-crash, link-loss, client-crash, offline; in leases also message-loss, duplication, corruption,
clocks, tables; in reliable message-loss, duplication, reordering, retention; in streams disk-full, retention;
in replay retention.""",
    """\
  sluice simulate
  sluice simulate --scenario leases --runs 1000
  sluice simulate --scenario routing --routing merging --advertisements --faults link-loss,broker-crash
  sluice simulate --scenario completeness --seed 17 --trace run.jsonl
  sluice simulate --scenario routing --mutants
""",
    add_arguments,
)


def simulate(arguments: argparse.Namespace) -> int:
    """Runs what was asked for; 0 if all promises were kept."""
    from sluice.sim import command

    return command.simulate(arguments)
