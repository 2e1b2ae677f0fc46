"""Structured logs of a broker: an event and its fields, as a line of text or as a JSON object a line, on standard error.

`log` says what happened; `set_up` decides once, when a process begins, how that looks and how much of it is kept. A program
that embeds a broker does not call `set_up` and gets the records through Python's own logging. What is said again and again,
because a neighbour is not there for a day, say, is shown once a minute.
"""

from __future__ import annotations

import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

_logger = logging.getLogger("sluice.broker")

#: For how long a warning is not shown again.
QUIET_SECONDS = 60.0


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: object) -> None:
    """Says that something happened: a name with dashes, and what belongs to it. `error` is shown with its traceback.

    >>> log("link-up", peer="b2", role="broker")
    """
    _logger.log(level, event, exc_info=error, extra={"fields": fields})


def set_up(broker: str, *, level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Makes all that Sluice logs in this process go to standard error, or to a stream, in the form "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.addFilter(_Repetitions())
    handler.setFormatter(_JsonFormatter(broker) if form == "json" else _TextFormatter(broker))
    logger = logging.getLogger("sluice")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


class _Repetitions(logging.Filter):
    """Holds a warning back that was shown in the last minute; the next one that is shown says how many were not."""

    def __init__(self) -> None:
        super().__init__()
        #: When a warning was shown, and how often it came since then.
        self._shown: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it."""
        if record.levelno != logging.WARNING:
            return True
        fields = getattr(record, "fields", {})
        said = f"{record.getMessage()} {fields}"
        since, held = self._shown.get(said, (float("-inf"), 0))
        if record.created - since < QUIET_SECONDS:
            self._shown[said] = since, held + 1
            return False
        if held:
            record.fields = {**fields, "times": held + 1}
        self._shown = {
            other: shown for other, shown in self._shown.items() if record.created - shown[0] < QUIET_SECONDS
        }
        self._shown[said] = record.created, 0
        return True


class _Formatter(logging.Formatter, ABC):
    def __init__(self, broker: str) -> None:
        super().__init__()
        self.broker = broker

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "broker": self.broker,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else None
        return self.shown(line, trace)

    @abstractmethod
    def shown(self, line: Mapping[str, Any], trace: str | None) -> str:
        """What happened, as one line, with a traceback if there is one."""


class _JsonFormatter(_Formatter):
    def shown(self, line: Mapping[str, Any], trace: str | None) -> str:
        # What is no JSON, such as an address, is shown as its text: a log never fails because of what it tells.
        return json.dumps({**line, **({"traceback": trace} if trace else {})}, default=str)


class _TextFormatter(_Formatter):
    def shown(self, line: Mapping[str, Any], trace: str | None) -> str:
        time, level, broker, event, *fields = line.items()
        words = [time[1], f"{level[1]:<7}", broker[1], event[1]]
        words += [f"{name}={_quoted(str(value))}" for name, value in fields]
        return " ".join(words) + (f"\n{trace}" if trace else "")


def _quoted(text: str) -> str:
    """A value in one word, so that a line can be taken apart again."""
    return text if text and text.isprintable() and not set(text) & {" ", '"', "="} else json.dumps(text)
