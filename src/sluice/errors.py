"""Every error Sluice raises on purpose: one root, and each message says what was wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from unicodedata import combining, east_asian_width


class SluiceError(Exception):
    """The root of all errors that Sluice raises: catch this one to catch them all."""


class ParseError(SluiceError):
    """A filter text that is not in the language; `position` is the offset of the offending character.

    >>> error = ParseError("no such function", "price > log(3)", 8)
    >>> print(error)
    no such function
      price > log(3)
              ^
    """

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"{problem}\n{_excerpt(text, position)}")


class LimitError(SluiceError):
    """A filter or a record that is legal but larger than a stated limit.

    Where a text is too large, it has `text` and the `position` from which on it is, as a `ParseError` has; else they are None.

    >>> LimitError("nested too deeply", "((((a))))", 3).position, LimitError("too many subscriptions").position
    (3, None)
    """

    def __init__(self, problem: str, text: str | None = None, position: int | None = None) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(problem if text is None or position is None else f"{problem}\n{_excerpt(text, position)}")


class NotificationError(SluiceError):
    """Something was published that cannot be read as a notification."""


class MatcherError(SluiceError):
    """A matcher was asked for what it cannot do: an unknown id, a damaged index file, a wrong table."""


class ConfigurationError(SluiceError):
    """Settings that contradict each other or name something that does not exist."""


class ProtocolError(SluiceError):
    """A peer or a program did what the protocol does not allow."""


class StoreError(SluiceError):
    """The store of a durable broker cannot be opened, read or written, or refuses what it was given."""


class SparkError(SluiceError):
    """The data pipeline cannot go on: an archive is damaged or would miss something, or Spark cannot do what was asked."""


class LinkError(SluiceError, ConnectionError):
    """There is no link to a broker and will be none: it does not answer, sent the client away, or the client is closed."""


class TrustError(LinkError):
    """The other end of a connection is not who it should be: its certificate is not trusted, or it does not speak TLS."""


class SentAwayError(LinkError):
    """A broker does not want this client, and to come again is useless: its token is wrong, say, or its name is taken."""


class RequestError(SluiceError):
    """A broker could not answer a question, or did not in time."""


class PublishError(SluiceError):
    """Publications were refused, or nobody knows whether they were accepted: `refused` has the reasons, `unknown` the numbers.

    >>> print(PublishError({3: "the disk is full"}, [4, 5]))
    3 publications were not accepted; number 3: the disk is full; unknown after a broken link: 4, 5
    """

    def __init__(self, refused: Mapping[int, str], unknown: Sequence[int]) -> None:
        self.refused = dict(refused)
        self.unknown = tuple(unknown)
        told = [f"number {number}: {reason}" for number, reason in islice(self.refused.items(), 3)]
        if unknown:
            told.append(f"unknown after a broken link: {', '.join(map(str, self.unknown[:3]))}")
        more = " and so on" if len(self.refused) > 3 or len(self.unknown) > 3 else ""
        count = len(self.refused) + len(self.unknown)
        super().__init__(f"{count:,} publications were not accepted; {'; '.join(told)}{more}")


def _excerpt(text: str, position: int, width: int = 60) -> str:
    """The line of `text` around `position`, with a caret below it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    left = max(0, column - width)
    shown = line[left : column + width]
    return f"  {shown}\n  {''.join(map(_blank, line[left:column]))}^"


def _blank(character: str) -> str:
    """Blanks as wide as a terminal shows a character."""
    if character == "\t":
        return character
    return " " * (2 if east_asian_width(character) in "WF" else 0 if combining(character) else 1)
