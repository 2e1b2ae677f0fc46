"""How the verbs of the command line are told: help that fits the terminal, verbs in groups, and a guess at what was meant.

Paragraphs are folded at the width of the terminal, at most `MAX_COLUMNS`; lines that are indented stay as they are written.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from sluice.verb import Verb

#: Wider lines are hard to read.
MAX_COLUMNS = 100


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Folds what is prose and leaves examples alone."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, width=_columns(), **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_folded(paragraph, width) for paragraph in text.rstrip().split("\n\n"))


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, MAX_COLUMNS) - 2


def _folded(paragraph: str, width: int) -> str:
    """A paragraph in lines of a width; one with indented lines is no prose."""
    if "\n " in f"\n{paragraph}":
        return paragraph
    return textwrap.fill(paragraph, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A parser that says which of its flags may have been meant by one that it does not know."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What is said; it must all be known, also to the parser of a verb."""
        said, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return said, unknown

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        flag = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if flag is None:
            self.error(f"what is {unknown[0]!r} for? `{self.prog} --help` shows what it takes")
        self.error(f"there is no {flag} here{_meant(flag, self._option_string_actions)}")


def listing(groups: Mapping[str, Sequence[Verb]]) -> str:
    """The verbs under the titles of their groups, each with its summary."""
    indent = max(len(verb.name) for verbs in groups.values() for verb in verbs) + 4
    lines = []
    for title, verbs in groups.items():
        lines += ["", f"{title}:"]
        for verb in verbs:
            summary = textwrap.wrap(verb.summary, _columns() - indent)
            lines += [f"  {verb.name:<{indent - 2}}{summary[0]}", *(" " * indent + line for line in summary[1:])]
    return "\n".join(lines[1:])


def check_verb(parser: Parser, word: str, verbs: Iterable[str]) -> None:
    """Ends the program if a word is no verb, and says which one may have been meant."""
    names = [*verbs]
    if not word.startswith("-") and word not in names:
        parser.error(f"there is no verb {word!r}{_meant(word, names)}")


def _meant(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, [*known], n=1)
    return f"; did you mean {near[0]}?" if near else "; --help shows what there is"
