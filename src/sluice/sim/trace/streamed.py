"""What happens to streams, as a trace tells it: what is accepted and logged, what durable readers read, and what disks do.

A stream is the log of one broker and has its name; its offsets are 1, 2, 3 and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A publisher is told that its broker has everything up to a number on disk, but for what was refused."""

    at: float
    client: str
    number: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A publication is on the disk of a broker; nobody may know it yet."""

    at: float
    stream: str
    offset: int
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A durable reader begins, or goes on after these offsets; a stream that is not named it reads from its beginning."""

    at: float
    client: str
    where: str
    positions: Record


@dataclass(frozen=True, slots=True)
class Held:
    """A durable reader knows that what it has not read of a stream is kept."""

    at: float
    client: str
    stream: str


@dataclass(frozen=True, slots=True)
class Read:
    """A durable reader has got a publication and handled it."""

    at: float
    client: str
    stream: str
    offset: int
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A durable reader is told that offsets are gone, from the first to the last of them."""

    at: float
    client: str
    stream: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Noted:
    """A durable reader is told that it is on disk how far it is."""

    at: float
    client: str
    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class Wished:
    """A subscription asks for the past: so many notifications at most, or all that there are."""

    at: float
    client: str
    subscription: str
    last: int


@dataclass(frozen=True, slots=True)
class Past:
    """The past of a subscription has come, as far as these offsets: what is beyond comes as it was published."""

    at: float
    client: str
    subscription: str
    positions: Record


@dataclass(frozen=True, slots=True)
class Skipped:
    """A subscription is told that it will not get offsets of a stream, or, without a stream, that its past will not come."""

    at: float
    client: str
    subscription: str
    stream: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Relied:
    """A subscription is to be reliable."""

    at: float
    client: str
    subscription: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A reliable subscription is told that it gets everything of a stream from an offset on: its start."""

    at: float
    client: str
    subscription: str
    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A log begins with this offset from now on: what was before is past its retention, or, if it was forced, twice that."""

    at: float
    stream: str
    first: int
    is_forced: bool = True


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The disk of a broker takes nothing from now on."""

    at: float
    broker: str


@dataclass(frozen=True, slots=True)
class DiskFree:
    """It has room again."""

    at: float
    broker: str


_OfReaders = Opened | Held | Read | Missed | Noted
_OfSubscriptions = Wished | Past | Skipped | Relied | Begun
Streamed = Accepted | Logged | _OfReaders | _OfSubscriptions | Trimmed | DiskFull | DiskFree


def tell(event: Streamed) -> str:
    """An event in words.

    >>> tell(Logged(1.0, "b", 7, "bob", 3))
    'bob#3 is logged as b:7'
    """
    match event:
        case Accepted(_, client, number):
            return f"{client} is told that all up to {client}#{number} is accepted"
        case Logged(_, stream, offset, publisher, number):
            return f"{publisher}#{number} is logged as {stream}:{offset}"
        case Opened(_, client, where, positions):
            after = " ".join(f"{stream}:{offset}" for stream, offset in positions.items()) or "the beginning"
            return f"{client} reads {where} after {after}"
        case Held(_, client, stream):
            return f"{client} holds {stream}"
        case Read(_, client, stream, offset, publisher, number):
            return f"{client} reads {stream}:{offset}, {publisher}#{number}"
        case Missed(_, client, stream, first, last):
            return f"{client} is told that {stream}:{first} to {last} are gone"
        case Noted(_, client, stream, offset):
            return f"{client} is told that its position {stream}:{offset} is noted"
        case Wished(_, client, subscription, last):
            return f"{client} wishes for the last {last} of {subscription}"
        case Past(_, client, subscription, positions):
            after = " ".join(f"{stream}:{offset}" for stream, offset in positions.items()) or "nothing"
            return f"{client} has the past of {subscription} up to {after}"
        case Skipped(_, client, subscription, stream, first, last):
            gone = f"{stream}:{first} to {last} are gone" if stream else "its past does not come"
            return f"{client} is told for {subscription} that {gone}"
        case Relied(_, client, subscription):
            return f"{client} relies on {subscription}"
        case Begun(_, client, subscription, stream, offset):
            return f"{client} is told that {subscription} starts at {stream}:{offset}"
        case Trimmed(_, stream, first, _):
            return f"the log of {stream} begins with {first} now"
        case DiskFull(_, broker):
            return f"the disk of {broker} is full"
        case DiskFree(_, broker):
            return f"the disk of {broker} has room again"
    assert_never(event)
