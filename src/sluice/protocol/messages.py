"""What peers say to each other. A peer is a broker or a client; every link speaks these messages, in order, in both directions.

A table travels as a *versioned export* (`sluice.protocol.export`): a `Change` applies on an exact base only, a `Digest` says
where the sender stands, `Lost` asks for a `Snapshot`, an `Ack` says that a version has taken effect as far as it reaches.
Notifications travel beside the tables, in batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from sluice.model.subscription import Subscription

#: The name of a broker or a client, unique in the network.
Peer = str
#: Who asked: the name of the client and its number for the filter, as in "alice/3".
EntryId = str


class Role(IntEnum):
    """What a peer is to a broker."""

    BROKER = 0
    CLIENT = 1


class Kind(IntEnum):
    """The tables of a broker. Advertisements steer subscriptions; watches steer interest."""

    SUBSCRIPTIONS = 0
    ADVERTISEMENTS = 1
    WATCHES = 2
    INTEREST = 3


class Version(NamedTuple):
    """Where an export stands: the sender's boot counter and how many changes it has made since."""

    incarnation: int
    sequence: int


class NotificationId(NamedTuple):
    """A notification is published once: its publisher and the publisher's own count."""

    publisher: Peer
    number: int


@dataclass(frozen=True, slots=True)
class Notification:
    """One published record with its identity."""

    id: NotificationId
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Replay:
    """A wish for the past, attached to a subscription: at most `last` notifications, none older than `seconds`."""

    last: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One filter of a table. `id` says who asked, or is None where several may share the filter."""

    where: Subscription
    id: EntryId | None = None
    replay: Replay | None = None

    def sort_key(self) -> tuple[str, str]:
        """An order that does not depend on hashing."""
        return self.where.to_sql(), self.id or ""


@dataclass(frozen=True, slots=True)
class Change:
    """From version `base` of a table to `version`: one atomic step (the papers' `admin`)."""

    kind: Kind
    base: Version
    version: Version
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Digest:
    """Where the sender's export stands and what it adds up to; renews the lease if the receiver agrees."""

    kind: Kind
    version: Version
    checksum: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The receiver does not hold the base of a change, or not what a digest says: send a snapshot."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole export."""

    kind: Kind
    version: Version
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Ack:
    """A version is held, and all that had to go onward because of it is acknowledged too (the papers' `admin_ack`)."""

    kind: Kind
    version: Version


@dataclass(frozen=True, slots=True)
class Notify:
    """Notifications on their way: from a publisher to its broker, and from broker to broker."""

    notifications: tuple[Notification, ...]


class Delivery(NamedTuple):
    """A notification for a client, with the subscriptions of the client that it satisfies."""

    notification: Notification
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Notifications at their end: from a broker to a subscriber."""

    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A publication that lies outside of what its publisher advertised."""

    id: NotificationId
    reason: str


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """Past notifications for one subscription alone (section 5.2.3)."""

    subscription: EntryId
    notifications: tuple[Notification, ...]


TableMessage = Change | Digest | Lost | Snapshot | Ack
Message = TableMessage | Notify | Deliver | Refused | ReplayEvent


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link to a peer works from now on; nothing of an earlier link to it will arrive any more."""

    peer: Peer
    role: Role


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The link to a peer is gone, with all that was on it."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from a peer."""

    peer: Peer
    message: Message


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the deadline that the core asked for is here."""


Event = LinkUp | LinkDown | Received | Tick


class Send(NamedTuple):
    """The effect of a step: a message to send."""

    peer: Peer
    message: Message
