"""A verb of the command line: what it is called, what its help says and what it takes. Each stands with what it is a face of.

To describe a verb is cheap: what does its work is imported when it runs, so that `sluice --help` is quick. Here are also what
verbs have in common: how numbers are read, and how far something is, for people who watch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb; `sluice.cli` lists them all."""

    name: str
    summary: str
    description: str
    examples: str
    #: Says what it takes, and sets `run` to what does it: a function of the arguments that returns the exit status.
    add_arguments: Callable[[argparse.ArgumentParser], None]

    def add_to(self, verbs: Any) -> None:
        """Makes it one of the verbs of a parser."""
        self.add_arguments(
            verbs.add_parser(
                self.name,
                help=self.summary,
                description=self.description,
                epilog=f"examples:\n{self.examples}",
            )
        )


def whole(text: str) -> int:
    """A number of things, which may be none.

    >>> whole("0")
    0
    """
    return _at_least(0, text)


def count(text: str) -> int:
    """A number of things, of which there is at least one."""
    return _at_least(1, text)


def positive(text: str) -> float:
    """A number above 0, of seconds, say."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("should be more than 0")
    return number


def progress_bar(*columns: Any) -> Progress:
    """A bar on standard error for people who watch, and nothing at all for anybody else; to be used with `with`."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"should be at least {least}")
    return number
