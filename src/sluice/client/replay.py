"""How people say how much of the past they wish for: a time such as "2h", a count, or both."""

from __future__ import annotations

import math
from datetime import timedelta

from sluice.broker.settings import parse_duration
from sluice.errors import ConfigurationError
from sluice.limits import MAX_LAST
from sluice.protocol.messages import Replay

#: A time to look back: "90s", "15m", "2h", "3d", a timedelta, or seconds.
Duration = str | timedelta | float


def seconds_of(duration: Duration) -> float:
    """A time in seconds.

    >>> seconds_of("2h"), seconds_of("1.5m"), seconds_of(timedelta(days=1)), seconds_of(90)
    (7200.0, 90.0, 86400.0, 90.0)
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    else:
        seconds = parse_duration(duration) if isinstance(duration, str) else float(duration)
    if not 0 < seconds < math.inf:
        raise ConfigurationError(f"the last {duration} cannot be replayed: it must be a time, and more than 0")
    return seconds


def wish(replay: Duration | None, last: int | None) -> Replay | None:
    """What a subscription says of the past that it wishes for; None: nothing."""
    if last is not None and not 1 <= last <= MAX_LAST:
        raise ConfigurationError(
            f"last is {last}: a replay has 1 to {MAX_LAST:,} notifications; a longer one has a time"
        )
    if replay is None and last is None:
        return None
    return Replay(last, None if replay is None else seconds_of(replay))
