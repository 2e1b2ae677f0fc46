"""What is asked of brokers and of subscribers, and what they answer; a `Request` carries a question, a `Reply` the answer.

Logs are read by questions, durable subscriptions kept, brokers asked how they are, histories replayed, and networks reshaped
(`sluice.protocol.rewiring`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.protocol.batch import Batch, Peer, Place
from sluice.protocol.rewiring import Order, Ordered


@dataclass(frozen=True, slots=True)
class Fetch:
    """What does the log of your stream hold after one offset, up to another, that satisfies a filter?"""

    after: int
    until: int | None
    where: str
    max_bytes: int
    #: How long the broker may wait for something to come if there is nothing.
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Resume:
    """Where did the durable subscription of this name stop? If there is none it is made, and begins after `start`."""

    name: str
    where: str
    start: Mapping[Peer, int]
    #: Whether the broker must keep in its own log what this subscription has not read of it, whatever the retention.
    holds: bool = False
    #: Where it stands, as far as others know: of what they and this broker know the larger counts.
    reached: Mapping[Peer, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recall:
    """Where did the durable subscription of this name stop, if you know? It may have been at another broker since."""

    name: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The durable subscription of this name is done with everything up to these offsets."""

    name: str
    positions: Mapping[Peer, int]


@dataclass(frozen=True, slots=True)
class Forget:
    """The durable subscription of this name is over."""

    name: str


@dataclass(frozen=True, slots=True)
class Describe:
    """How are you?"""


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """Past notifications for one subscription alone (section 5.2.3), put to whoever holds it: will you take these?

    They come in the order of their places. One without any notifications asks how far the subscriber is.
    """

    batches: tuple[Batch, ...] = ()
    #: The place that they follow; None: they are the first.
    after: Place | None = None
    #: Said with the last of them: up to which offset of each stream the replay is complete.
    through: Mapping[Peer, int] | None = None
    #: Offsets before `through` that the history should have and does not: a stream, the first and the last of them.
    missing: tuple[tuple[Peer, int, int], ...] = ()


Question = Fetch | Resume | Recall | Commit | Forget | Describe | ReplayEvent | Order


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a log holds: all that satisfies the filter up to offset `through`, without what is damaged or gone."""

    batches: tuple[Batch, ...]
    through: int
    #: The first and the last offset that the log holds.
    first: int
    head: int
    #: Ranges of offsets that were asked for and are gone: damaged, or past their retention.
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a durable subscription stopped in each stream, and what it asks for."""

    where: str
    positions: Mapping[Peer, int]


@dataclass(frozen=True, slots=True)
class Done:
    """It is done, and on disk."""


@dataclass(frozen=True, slots=True)
class Described:
    """A broker's own account of itself."""

    report: Mapping[str, Any]


#: What a broker without a log says to whoever wants to read it: to ask again is useless.
NO_LOG = "keeps no log"


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no answer, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Replaying:
    """The place up to which a subscriber has taken a replay: what follows it is to come next, unless the replay is over."""

    after: Place | None
    is_over: bool = False


Answer = Fetched | Resumed | Done | Ordered | Described | Failed | Replaying
