"""What a subscriber gets: the record as a dictionary, and where it comes from.

An event holds on to the batch it came in and looks up its identity and its place in a log only when somebody asks.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from sluice.protocol.batch import Batch, NotificationId, Peer

if TYPE_CHECKING:
    from sluice.client.subscription import AnySubscription

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event(dict[str, Any]):
    """A notification: a dictionary with an identity.

    >>> from sluice.protocol.batch import Logged, Records
    >>> batch = Records("alice", [7], records=[{"price": 5}], logged=Logged("b1", [17], 1_700_000_000_000_000))
    >>> event = Event.of(batch, 0, batch.records[0], ())
    >>> event, event["price"], event.id.publisher, event.id.number, event.stream, event.offset, event.time.year
    ({'price': 5}, 5, 'alice', 7, 'b1', 17, 2023)
    """

    __slots__ = ("_batch", "_row", "subscriptions")

    #: Whether it is of the past, and came because the subscription wished for that.
    replayed: ClassVar[bool] = False

    _batch: Batch
    _row: int
    #: The subscriptions of this connection that it satisfies.
    subscriptions: tuple[AnySubscription, ...]

    @classmethod
    def of(cls, batch: Batch, row: int, record: Any, subscriptions: tuple[AnySubscription, ...]) -> Event:
        """The event in one row of a batch."""
        event = cls(record)
        event._batch = batch
        event._row = row
        event.subscriptions = subscriptions
        return event

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """Into another process goes the record alone: subscriptions belong to this one."""
        return dict, (dict(self),)

    @property
    def id(self) -> NotificationId:
        """Who published it, and the publisher's own count: no two notifications have the same."""
        return self._batch.id(self._row)

    @property
    def stream(self) -> Peer | None:
        """The broker whose log has it; None if it is in no log."""
        logged = self._batch.logged
        return None if logged is None else logged.stream

    @property
    def offset(self) -> int | None:
        """Its place in that log."""
        logged = self._batch.logged
        return None if logged is None else logged.offsets[self._row]

    @property
    def time(self) -> datetime | None:
        """When that broker took it in."""
        logged = self._batch.logged
        return None if logged is None else _EPOCH + timedelta(microseconds=logged.time_micros)


class PastEvent(Event):
    """The same, replayed to one subscription alone."""

    __slots__ = ()

    replayed: ClassVar[bool] = True
