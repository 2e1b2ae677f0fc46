"""What peers say to each other. A peer is a broker or a client; every link speaks these messages, in order, in both directions.

A table travels as a *versioned export* (`sluice.protocol.export`): a `Change` applies on an exact base only, a `Digest` says
where the sender stands, `Lost` asks for a `Snapshot`, an `Ack` says that a version has taken effect as far as it reaches.
Notifications travel beside the tables, in batches; what a reliable subscriber must know of them travels as a `Passage`
(`sluice.protocol.reliable`), what puts them in one order for all as a `Floor` (`sluice.protocol.order`). Questions find their
way to a broker by its name, or to a subscriber by its subscription, and the answers come back the same way: those are in
`sluice.protocol.questions`. What brokers say to reshape their tree is in `sluice.protocol.reshape.messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Notification, Peer
from sluice.protocol.questions import Answer, Question
from sluice.protocol.reshape.messages import Reshaping

#: Who asked: the name of the client and its number for the filter, as in "alice/3".
EntryId = str


class Role(IntEnum):
    """What a peer is to a broker."""

    BROKER = 0
    CLIENT = 1


class Kind(IntEnum):
    """The tables of a broker. Advertisements steer subscriptions; watches steer interest; brokers tell who is where."""

    SUBSCRIPTIONS = 0
    ADVERTISEMENTS = 1
    WATCHES = 2
    INTEREST = 3
    BROKERS = 4


class Version(NamedTuple):
    """Where an export stands: the sender's boot counter and how many changes it has made since."""

    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A wish for the past, attached to a subscription: at most `last` notifications, none older than `seconds`."""

    last: int | None = None
    seconds: float | None = None


#: For each broker with reliable subscribers, the time of its own clock up to which its subscriptions are known.
Clocks = Mapping[Peer, int]
NO_CLOCKS: Clocks = MappingProxyType({})
#: Offsets of a stream: the first and the last of each stretch, rising, with at least one offset between two stretches.
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One filter of a table. `id` says who asked, or is None where several may share the filter."""

    where: Subscription
    id: EntryId | None = None
    replay: Replay | None = None
    #: Whether its broker is to deliver without gaps; a matter between a client and its broker alone.
    reliable: bool = False
    #: Whether its broker is to deliver in the order of all; a matter between these two as well.
    ordered: bool = False

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
    #: The clocks that are others now; 0: the table says nothing any more of that broker.
    clocks: Clocks = field(default_factory=dict)
    #: Whether somebody behind the sender wants what is published in the order of all, from this version on.
    ordered: bool = False


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
    clocks: Clocks = field(default_factory=dict)
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """A version is held, and all that had to go onward because of it is acknowledged too (the papers' `admin_ack`)."""

    kind: Kind
    version: Version


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a stream that a message accounts for.

    Those of its offsets that are not in the batch of the message are *silent*: nobody wants them whose subscription the
    clocks know of.
    """

    stream: Peer
    runs: Runs
    clocks: Clocks
    #: The broker that has missed it and for which alone it comes again; None: it comes for the first time.
    to: Peer | None = None


@dataclass(frozen=True, slots=True)
class Notify:
    """Notifications on their way: from a publisher to its broker, and from broker to broker."""

    batch: Batch
    #: None where nobody further on needs to know of every offset.
    passage: Passage | None = None
    #: What a `Floor` would say behind it, from a broker that goes on to say more; None: who wants to know has to ask.
    floor: int | None = None


@dataclass(frozen=True, slots=True)
class Quiet:
    """A passage in which all is silent."""

    passage: Passage


@dataclass(frozen=True, slots=True)
class Head:
    """The last offset that a stream has; what follows it will know of these clocks, and has a later moment than this."""

    stream: Peer
    offset: int
    clocks: Clocks
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """A broker with reliable subscribers has missed offsets of a stream, or knows too little of them.

    Without any offsets it asks where the stream ends.
    """

    stream: Peer
    by: Peer
    runs: Runs
    #: The time of its clock that the answer has to know of.
    clock: int
    #: The moment that the end of the stream is to be past; 0: whichever.
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets that were missed and that the log of their stream does not hold any more."""

    stream: Peer
    runs: Runs
    to: Peer


@dataclass(frozen=True, slots=True)
class Reached:
    """How far brokers with reliable subscribers are in a stream: up to there they need nothing any more."""

    stream: Peer
    offsets: Mapping[Peer, int]


@dataclass(frozen=True, slots=True)
class Floor:
    """Whatever is stamped and follows on this link has a later time."""

    time: int


@dataclass(frozen=True, slots=True)
class Await:
    """Somebody waits for the floor of this link to reach a time: stamp nothing any more with that time, or an earlier one.

    A client says it that has seen so much already.
    """

    time: int


class Delivery(NamedTuple):
    """A notification for a client, with the subscriptions of the client that it satisfies."""

    notification: Notification
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Notifications at their end: from a broker to a subscriber, each once, with all of its subscriptions that it satisfies.

    Few combinations of subscriptions are usual, so each is said once: `which` has the number of its combination for every
    notification, or is empty where there is only one.
    """

    batch: Batch
    combinations: tuple[tuple[EntryId, ...], ...]
    which: Sequence[int] = ()
    #: Whether it is for reliable subscriptions, which get each stream in order and without gaps.
    reliable: bool = False
    #: Whether it comes in the order of all: nothing that is ordered and has an earlier stamp may follow.
    ordered: bool = False

    @property
    def deliveries(self) -> Iterator[Delivery]:
        """One by one."""
        for row, notification in enumerate(self.batch):
            yield Delivery(notification, self.combinations[self.which[row] if self.which else 0])


@dataclass(frozen=True, slots=True)
class Started:
    """From an offset of a stream on, reliable subscriptions of a client get everything."""

    stream: Peer
    offset: int
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Reliable subscriptions of a client have started in every stream that its broker knows of."""

    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets of a stream that reliable subscriptions should have got and that are lost: their stream does not hold them."""

    stream: Peer
    runs: Runs
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """Up to these offsets of streams, reliable subscriptions of a client have got everything that is theirs.

    So have they of every stream in which they have started, up to a moment in the order of all.
    """

    offsets: Mapping[Peer, int]
    subscriptions: tuple[EntryId, ...]
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The broker has taken in what this publisher published, up to a number; a durable one has it on disk."""

    number: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Publications that the broker does not take; a durable one takes nothing behind them before the publisher says `Heard`."""

    numbers: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Halted:
    """Nothing that this publisher has sent was stored from a number on, nor will be before it says `Heard`."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """The publisher knows what was not taken or not stored; what it says from now on it says knowing that."""


@dataclass(frozen=True, slots=True)
class Request:
    """A question to one broker, or to the holder of one subscription, passed on towards it."""

    #: The name of the client that asks and a number of its own, as in "alice/7".
    id: EntryId
    #: The name of the broker, or the id of the subscription.
    to: Peer | EntryId
    question: Question


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, on its way back."""

    id: EntryId
    answer: Answer


TableMessage = Change | Digest | Lost | Snapshot | Ack
#: What brokers say to each other for reliable subscribers, beside what they notify of.
ReliableMessage = Quiet | Head | Missing | Gone | Reached
#: What brokers say to each other to put publications in one order.
OrderMessage = Floor | Await
#: What a broker says to its client alone.
ClientMessage = Deliver | Started | Ready | Skipped | Passed | Accepted | Refused | Halted
Message = TableMessage | Notify | ReliableMessage | OrderMessage | Reshaping | ClientMessage | Heard | Request | Reply
