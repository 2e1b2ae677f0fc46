"""What a program asks of its session (commands), and what it is told (upcalls)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.client.session.seam import SeamNews
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, NotificationId, Peer
from sluice.protocol.messages import Deliver, Delivery, Entry, EntryId, Kind, Replay
from sluice.protocol.questions import Answer, Question


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Asks for what matches a filter, and for a part of its past if a replay is wished."""

    id: EntryId
    where: Subscription
    replay: Replay | None = None
    #: Whether nothing may be missing from its start on.
    reliable: bool = False
    #: Whether everything is to come in the order of all.
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Takes a subscription back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Advertise:
    """Says what will be published."""

    id: EntryId
    where: Subscription


@dataclass(frozen=True, slots=True)
class Unadvertise:
    """Takes an advertisement back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Watch:
    """Asks who is interested in anything that overlaps a filter."""

    id: EntryId
    where: Subscription


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Takes a watch back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes records, under the numbers that they have."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Inquire:
    """Asks a broker something, or, as histories do, the holder of a subscription."""

    id: EntryId
    to: Peer | EntryId
    question: Question


@dataclass(frozen=True, slots=True)
class Proceed:
    """The program has room for more of the past of a subscription that was `Full`."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Lagged:
    """The broker has dropped something: subscriptions with a past read it from the logs."""


Command = Inquire | Subscribe | Unsubscribe | Advertise | Unadvertise | Watch | Unwatch | Publish | Proceed | Lagged


@dataclass(frozen=True, slots=True)
class Completed:
    """What was asked for under this id has taken effect everywhere; nothing is missed from now on."""

    kind: Kind
    id: EntryId


@dataclass(frozen=True, slots=True)
class Delivered:
    """Notifications came; `combinations` and `which` say for which subscriptions, as in `Deliver`."""

    batch: Batch
    combinations: tuple[tuple[EntryId, ...], ...]
    which: Sequence[int] = ()

    @property
    def deliveries(self) -> Iterator[Delivery]:
        """One by one."""
        return Deliver(self.batch, self.combinations, self.which).deliveries


@dataclass(frozen=True, slots=True)
class Withheld:
    """Notifications came too late: they precede what was delivered, and order counts for them. These subscriptions match."""

    batch: Batch
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """Records were published, as far as this client can do it."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class PublishAccepted:
    """The broker has everything up to a number; a durable one has it on disk."""

    number: int


@dataclass(frozen=True, slots=True)
class PublishUnknown:
    """The link to a broker that keeps no log broke before it said whether it has this."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """A publication was not accepted, and why."""

    id: NotificationId
    reason: str


@dataclass(frozen=True, slots=True)
class InterestChanged:
    """Subscriptions of others that overlap what is watched came or went."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to an inquiry came, or the reason why there is none."""

    id: EntryId
    answer: Answer


Upcall = (
    Completed
    | Delivered
    | Withheld
    | Published
    | PublishAccepted
    | PublishUnknown
    | PublishRefused
    | InterestChanged
    | Told
    | SeamNews
)
