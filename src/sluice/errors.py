"""Every error Sluice raises on purpose: one root, and each message says what was wrong, where, and what to do about it."""

from __future__ import annotations


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
    """A filter or a record that is legal but larger than a stated limit."""


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


def _excerpt(text: str, position: int, width: int = 60) -> str:
    """The line of `text` around `position`, with a caret below it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    left = max(0, column - width)
    shown = line[left : column + width]
    return f"  {shown}\n  {' ' * (column - left)}^"
