"""Who wants what: what programs build on watching the subscriptions of others (sections 5.2.3 and 5.2.4).

`Demand` tells a producer whether anybody would get a record before it makes it (quenching). A `Factory` starts producers when
they are first needed and stops them when they are not. A `History` keeps the recent past and answers subscriptions that wish
to have some of it. All three are fed with interest as it comes and goes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sluice.errors import ConfigurationError
from sluice.limits import MAX_ANSWERED
from sluice.match.filterset import FilterSet
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Notification
from sluice.protocol.messages import Entry, EntryId

K = TypeVar("K", bound=Hashable)


class Demand:
    """The subscriptions of others that overlap what is watched.

    >>> from sluice import parse
    >>> demand = Demand()
    >>> demand.update([Entry(parse("symbol = 'IBM' AND price > 100"), "alice/1")], [])
    >>> demand.wants({"symbol": "IBM", "price": 120}), demand.wants({"symbol": "SUN", "price": 120})
    (True, False)
    """

    def __init__(self) -> None:
        self._filters: FilterSet[EntryId] = FilterSet()

    def __len__(self) -> int:
        return len(self._filters)

    def __iter__(self) -> Iterator[EntryId]:
        return iter(self._filters)

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Follows a change of interest."""
        for entry in removed:
            if entry.id is not None and entry.id in self._filters:
                self._filters.remove(entry.id)
        for entry in added:
            if entry.id is not None and entry.id not in self._filters:
                self._filters.add(entry.id, entry.where)

    def wants(self, record: object) -> bool:
        """Whether somebody would get this record: if not, there is no need to make or to publish it."""
        return bool(self._filters.matching(record))

    def wanted_by(self, where: Subscription) -> list[EntryId]:
        """Who would get some of what matches a filter."""
        return self._filters.overlapping(where)


@dataclass(frozen=True, slots=True)
class Start(Generic[K]):
    """A service is needed."""

    service: K


@dataclass(frozen=True, slots=True)
class Stop(Generic[K]):
    """A service is not needed any more."""

    service: K


class Factory(Generic[K]):
    """Says which services are needed, from what each of them publishes and what others want.

    >>> from sluice import parse
    >>> factory = Factory({"ibm": parse("symbol = 'IBM'"), "sun": parse("symbol = 'SUN'")})
    >>> wish = Entry(parse("symbol = 'IBM' AND price > 100"), "alice/1")
    >>> factory.update([wish], []), factory.update([], [wish])
    ([Start(service='ibm')], [Stop(service='ibm')])
    """

    def __init__(self, services: Mapping[K, Subscription]) -> None:
        self._services: FilterSet[K] = FilterSet()
        for service, publishes in services.items():
            self._services.add(service, publishes)
        self._needed: dict[EntryId, list[K]] = {}
        self._users: dict[K, int] = {}

    @property
    def running(self) -> list[K]:
        """The services that are needed now, in the order in which they were first needed."""
        return list(self._users)

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> list[Start[K] | Stop[K]]:
        """Follows a change of interest: what to start and what to stop. Starts first: a service that goes on is left alone."""
        before = list(self._users)
        for entry in added:
            if entry.id is not None and entry.id not in self._needed:
                needed = self._needed[entry.id] = self._services.overlapping(entry.where)
                for service in needed:
                    self._users[service] = self._users.get(service, 0) + 1
        for entry in removed:
            for service in self._needed.pop(entry.id or "", ()):
                self._users[service] -= 1
                if not self._users[service]:
                    del self._users[service]
        started: list[Start[K] | Stop[K]] = [Start(service) for service in self._users if service not in before]
        return started + [Stop(service) for service in before if service not in self._users]


class History:
    """The recent past in memory: at most `limit` notifications, none older than `seconds`.

    >>> from sluice import parse
    >>> from sluice.protocol.batch import NotificationId
    >>> from sluice.protocol.messages import Replay
    >>> history = History(limit=100)
    >>> for number, price in enumerate([90, 120, 130]):
    ...     history.record(Notification(NotificationId("bob", number), {"price": price}), now=float(number))
    >>> wish = Entry(parse("price > 100"), "alice/1", Replay(last=1))
    >>> [each.record for each in history.answer(wish, now=3.0)]
    [{'price': 130}]
    """

    def __init__(self, limit: int = 10_000, seconds: float | None = None) -> None:
        if limit < 1 or (seconds is not None and not seconds > 0):
            raise ConfigurationError(f"a history of {limit} notifications for {seconds} s keeps nothing")
        self._seconds = seconds
        self._kept: deque[tuple[float, Notification]] = deque(maxlen=limit)
        self._answered: OrderedDict[EntryId, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def record(self, notification: Notification, now: float) -> None:
        """Keeps a notification."""
        self._kept.append((now, notification))
        self._trim(now)

    def answer(self, entry: Entry, now: float) -> tuple[Notification, ...]:
        """What a subscription wishes to have of the past, oldest first.

        Nothing if it has no such wish, or if it was answered before: interest comes again after a link was lost.
        """
        if entry.replay is None or entry.id is None or entry.id in self._answered:
            return ()
        self._answered[entry.id] = None
        if len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)
        self._trim(now)
        oldest = float("-inf") if entry.replay.seconds is None else now - entry.replay.seconds
        found = [each for at, each in self._kept if at >= oldest and entry.where.matches(each.record)]
        if entry.replay.last is not None:
            found = found[max(0, len(found) - entry.replay.last) :]
        return tuple(found)

    def _trim(self, now: float) -> None:
        while self._seconds is not None and self._kept and self._kept[0][0] <= now - self._seconds:
            self._kept.popleft()
