"""A trace put in order for the checks: who asked for what and when, what became of each publication, and what was down.

Everything is found in one pass and known by its index in the trace, because several events may share a time. The sets S_X, A_X
and P_X of the specification are spans of indexes here: something is active from the event that began it to the one that
ended it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from sluice.sim.spec.matching import Matching
from sluice.sim.trace.ordered import Marked, Ordered, Withheld
from sluice.sim.trace.trace import (
    FAULTS,
    Advertised,
    Attached,
    BrokerDown,
    BrokerUp,
    ClientDown,
    ClientUp,
    Completed,
    Configured,
    Corrupted,
    Interested,
    LinkHealed,
    LinkLost,
    Notified,
    Published,
    Quiet,
    Record,
    Refused,
    Replayed,
    Subscribed,
    Tampered,
    Topology,
    Trace,
    TraceEvent,
    Unadvertised,
    Uninterested,
    Unsubscribed,
    Unwatched,
    Watched,
)

#: An index in the trace; infinity for what never comes.
Index = float
NEVER: Final = math.inf

SUBSCRIPTIONS, ADVERTISEMENTS, WATCHES = "subscriptions", "advertisements", "watches"

#: A broker or client by its name, a link by the names of its ends in alphabetical order.
Element = str | tuple[str, str]


def link(a: str, b: str) -> Element:
    """The link between two peers."""
    return (a, b) if a < b else (b, a)


class Wish:
    """Something that a client asked for: a subscription, an advertisement or a watch, from when to when."""

    __slots__ = ("client", "completed", "end", "id", "start", "where")

    def __init__(self, client: str, id: str, where: str, start: int) -> None:
        self.client = client
        self.id = id
        self.where = where
        self.start = start
        self.end: Index = NEVER
        #: When the client was told that it is complete; more than once if a link was lost in between.
        self.completed: list[int] = []

    def is_active(self, index: Index) -> bool:
        """Whether it is asked for at that place in the trace."""
        return self.start < index < self.end

    def lasts(self, index: Index) -> bool:
        """Whether it is still asked for after that place."""
        return self.end == NEVER or self.end > index


class Publication:
    """A published notification and whom it reached."""

    __slots__ = (
        "advertisements",
        "client",
        "deliveries",
        "index",
        "marked",
        "number",
        "record",
        "refused",
        "replays",
        "withheld",
    )

    def __init__(self, client: str, number: int, record: Record, index: int) -> None:
        self.client = client
        self.number = number
        self.record = record
        self.index = index
        #: What its publisher advertised at that moment.
        self.advertisements: tuple[Wish, ...] = ()
        self.refused: Index = NEVER
        #: The indexes of `Notified` for each client.
        self.deliveries: dict[str, list[int]] = {}
        #: The indexes of `Replayed`.
        self.replays: list[int] = []
        #: Whether everybody is to get it in the order of all.
        self.marked = False
        #: For which subscriptions it came too late for that, and the index at which their client was told.
        self.withheld: dict[str, int] = {}

    @property
    def name(self) -> str:
        """How people call it."""
        return f"{self.client}#{self.number}"


class History:
    """All that a trace says, by subject."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.times: list[float] = []
        self.config = Configured(0.0)
        #: Whether publications are held against advertisements.
        self.advertisements = False
        #: Every wish, by its kind, then by client and id, oldest first.
        self.wishes: dict[str, dict[tuple[str, str], list[Wish]]] = {SUBSCRIPTIONS: {}, ADVERTISEMENTS: {}, WATCHES: {}}
        #: What is asked for at the place that is being read, by kind and client.
        self._live: dict[str, dict[str, dict[str, Wish]]] = {SUBSCRIPTIONS: {}, ADVERTISEMENTS: {}, WATCHES: {}}
        self.publications: list[Publication] = []
        #: The times of the publications.
        self.publication_times: list[float] = []
        self.brokers: tuple[str, ...] = ()
        #: `Published` events that name a notification that was published before.
        self.repeated: list[int] = []
        #: What each `Notified` and each `Replayed` is about; None if nothing such was published.
        self.about: dict[int, Publication | None] = {}
        #: Refusals of what was never published: the client had no broker.
        self.unsent: dict[tuple[str, int], int] = {}
        #: Acknowledgements of what nobody asks for.
        self.stray: list[int] = []
        #: The subscriptions that are to get everything in the order of all.
        self.ordered: set[str] = set()
        #: Whether order counts for anybody.
        self.is_ordered = False
        #: The places of `Interested` and `Uninterested`.
        self.interest: list[int] = []
        #: From when to when something was down.
        self.downs: dict[Element, list[tuple[Index, Index]]] = {}
        #: When memories or messages were tampered with, or the tree changed.
        self.disturbances: list[int] = []
        self.first_fault: Index = NEVER
        self.last_fault: int | None = None
        self.quiets: list[int] = []
        self.matching = Matching()
        self._attached: dict[str, list[tuple[int, str]]] = {}
        self._parents: dict[str, str | None] = {}
        self._depths: dict[str, int] = {}
        self._paths: dict[tuple[str, str], tuple[Element, ...] | None] = {}
        self._latest: dict[tuple[str, int], Publication] = {}

    @classmethod
    def of(cls, trace: Trace) -> History:
        """The history that a trace tells."""
        history = cls()
        history._read(trace.events)
        return history

    # Reading

    def _read(self, events: list[TraceEvent]) -> None:
        self.events = events
        self.times = [event.at for event in events]
        configured = False
        for index, event in enumerate(events):
            # In the order of how often they occur.
            match event:
                case Notified(_, client, publisher, number, _):
                    publication = self.about[index] = self._latest.get((publisher, number))
                    if publication is not None:
                        publication.deliveries.setdefault(client, []).append(index)
                case Published(_, client, number, record):
                    publication = Publication(client, number, record, index)
                    publication.advertisements = tuple(self._live[ADVERTISEMENTS].get(client, {}).values())
                    if (client, number) in self._latest:
                        self.repeated.append(index)
                    self._latest[client, number] = publication
                    self.publications.append(publication)
                    self.publication_times.append(event.at)
                case Completed(_, client, kind, id):
                    self._complete(kind.lower(), client, id, index)
                case Subscribed(_, client, id, where):
                    self._begin(SUBSCRIPTIONS, client, id, where, index)
                case Unsubscribed(_, client, id):
                    self._end(SUBSCRIPTIONS, client, id, index)
                case Advertised(_, client, id, where):
                    self._begin(ADVERTISEMENTS, client, id, where, index)
                case Unadvertised(_, client, id):
                    self._end(ADVERTISEMENTS, client, id, index)
                case Watched(_, client, id, where):
                    self._begin(WATCHES, client, id, where, index)
                case Unwatched(_, client, id):
                    self._end(WATCHES, client, id, index)
                case Refused(_, client, number):
                    publication = self._latest.get((client, number))
                    if publication is None:
                        self.unsent[client, number] = index
                    else:
                        publication.refused = min(publication.refused, index)
                case Replayed(_, _, _, publisher, number):
                    publication = self.about[index] = self._latest.get((publisher, number))
                    if publication is not None:
                        publication.replays.append(index)
                case Interested() | Uninterested():
                    self.interest.append(index)
                case Marked(_, client, number):
                    self._latest[client, number].marked = self.is_ordered = True
                case Withheld(_, _, publisher, number, ids):
                    publication = self.about[index] = self._latest.get((publisher, number))
                    if publication is not None:
                        publication.withheld.update(dict.fromkeys(ids, index))
                case Ordered(_, client, id):
                    self.ordered.add(id)
                    self.is_ordered = True
                case Attached(_, client, broker):
                    self._attached.setdefault(client, []).append((index, broker))
                    if len(self._attached[client]) > 1:
                        self._down(client, index)
                        self._up(client, index)
                case Configured():
                    self.config = event
                    configured = True
                case Topology(_, brokers, links):
                    if self._parents:
                        self.disturbances.append(index)
                    self._plant(brokers, links)
                case Quiet():
                    self.quiets.append(index)
                case _:
                    self._fault(event, index)
            if type(event) in FAULTS:
                self.first_fault = min(self.first_fault, index)
                self.last_fault = index
        if self.config.delay_seconds is not None:
            self._links_come_up()
        self.advertisements = self.config.advertisements if configured else bool(self.wishes[ADVERTISEMENTS])

    def _fault(self, event: TraceEvent, index: int) -> None:
        match event:
            case BrokerDown(_, broker):
                self._down(broker, index)
            case BrokerUp(_, broker):
                self._up(broker, index)
            case LinkLost(_, a, b):
                self._down(link(a, b), index)
            case LinkHealed(_, a, b):
                self._up(link(a, b), index)
            case ClientDown(_, client):
                self._down(client, index)
                for live in self._live.values():
                    for wish in live.pop(client, {}).values():
                        wish.end = index
            case ClientUp(_, client):
                self._up(client, index)
            case Corrupted() | Tampered():
                self.disturbances.append(index)

    def _begin(self, kind: str, client: str, id: str, where: str, index: int) -> None:
        live = self._live[kind].setdefault(client, {})
        known = live.get(id)
        if known is not None:
            if known.where == where:
                return  # asking again for the same changes nothing
            known.end = index
        live[id] = Wish(client, id, where, index)
        self.wishes[kind].setdefault((client, id), []).append(live[id])

    def _end(self, kind: str, client: str, id: str, index: int) -> None:
        wish = self._live[kind].get(client, {}).pop(id, None)
        if wish is not None:
            wish.end = index

    def _complete(self, kind: str, client: str, id: str, index: int) -> None:
        wish = self._live.get(kind, {}).get(client, {}).get(id)
        if wish is None:
            self.stray.append(index)
        else:
            wish.completed.append(index)

    def _down(self, element: Element, index: int) -> None:
        spans = self.downs.setdefault(element, [])
        if not spans or spans[-1][1] != NEVER:
            spans.append((index, NEVER))

    def _up(self, element: Element, index: int) -> None:
        spans = self.downs.get(element)
        if spans and spans[-1][1] == NEVER:
            spans[-1] = (spans[-1][0], index)

    def _plant(self, brokers: tuple[str, ...], links: tuple[tuple[str, str], ...]) -> None:
        """Makes the tree one with a root, in which paths are easily found."""
        self.brokers = brokers
        neighbours: dict[str, list[str]] = {name: [] for name in brokers}
        for a, b in links:
            neighbours[a].append(b)
            neighbours[b].append(a)
        self._parents, self._depths, self._paths = {}, {}, {}
        for root in brokers:
            if root in self._parents:
                continue
            self._parents[root], self._depths[root] = None, 0
            queue = [root]
            for name in queue:
                for other in neighbours[name]:
                    if other not in self._parents:
                        self._parents[other], self._depths[other] = name, self._depths[name] + 1
                        queue.append(other)

    def _links_come_up(self) -> None:
        """With delays that count, the links of the tree come up at the beginning like links that heal."""
        for index, event in enumerate(self.events):
            if isinstance(event, Topology):
                for a, b in event.links:
                    self.downs.setdefault(link(a, b), []).insert(0, (-1, index))
                return

    # Asking

    def at(self, index: Index) -> float:
        """The time of an event; infinity after the end of the trace."""
        return self.times[int(index)] if index < len(self.times) else NEVER

    def last_before(self, time: float) -> int:
        """The index of the last event before a time; -1 before the first one."""
        return bisect_left(self.times, time) - 1

    def last_at(self, time: float) -> Index:
        """The index of the last event up to a time; infinity for a time that is not known."""
        return NEVER if time == NEVER else bisect_right(self.times, time) - 1

    def released(self, until: Index) -> Index:
        """When something that would be there at a place is there if it may be held back for the sake of order.

        A question goes to the far end of the network and its answer comes back. When something fails on the way it is asked
        again.
        """
        delay = self.config.delay_seconds
        if not self.is_ordered:
            return until
        if delay is None or self.first_fault != NEVER:
            return NEVER
        return self.last_at(self.at(until) + 2 * len(self.brokers) * delay)

    def quiet_before(self, index: Index) -> int:
        """The last place before an index at which everything was at rest; -1 if there is none."""
        place = bisect_left(self.quiets, index)
        return self.quiets[place - 1] if place else -1

    def wish_at(self, kind: str, client: str, id: str, index: int) -> Wish | None:
        """What a client asked for under an id at that place."""
        for wish in reversed(self.wishes[kind].get((client, id), ())):
            if wish.start < index:
                return wish if wish.end > index else None
        return None

    def active(self, kind: str, index: Index) -> Iterator[Wish]:
        """All that anybody asked for at that place."""
        return (wish for wishes in self.wishes[kind].values() for wish in wishes if wish.is_active(index))

    def is_advertised(self, publication: Publication) -> bool:
        """Whether a publication lay inside its publisher's advertisements when it was published."""
        row = self.matching.row(publication.record)
        return any(self.matching.matches(wish.where, publication.record, row) for wish in publication.advertisements)

    # What was down

    def broker_of(self, client: str, index: Index) -> str | None:
        """The broker that a client is at; None if the trace does not tell."""
        found = None
        for since, broker in self._attached.get(client, ()):
            if since < index or found is None:
                found = broker
        return found

    def ends(self, client: str, index: Index) -> tuple[Element, ...]:
        """A client and its link."""
        broker = self.broker_of(client, index)
        return (client,) if broker is None else (client, link(client, broker))

    def path(self, a: str | None, b: str | None) -> tuple[Element, ...] | None:
        """The brokers and links between two brokers, both included; None if no links lead there."""
        if a is None or b is None or not self._parents:
            return tuple(name for name in (a, b) if name is not None)
        if (a, b) not in self._paths:
            self._paths[a, b] = self._find_path(a, b)
        return self._paths[a, b]

    def _find_path(self, a: str, b: str) -> tuple[Element, ...] | None:
        if a not in self._parents or b not in self._parents:
            return None
        found: dict[Element, None] = {a: None, b: None}
        while a != b:
            if self._depths[a] < self._depths[b]:
                a, b = b, a
            above = self._parents[a]
            if above is None:
                return None
            found[link(a, above)] = None
            found[above] = None
            a = above
        return tuple(found)

    def way(self, a: str | None, b: str | None) -> tuple[Element, ...] | None:
        """The brokers and links that a publication may pass, each as often as it does, at most."""
        root = self.config.root
        up, down = (self.path(a, b), ()) if root is None else (self.path(a, root), self.path(root, b))
        return None if up is None or down is None else (*up, *down)

    def is_clear(self, elements: tuple[Element, ...], since: Index, until: Index) -> bool:
        """Whether all of these were up from one place in the trace to another, both included."""
        for element in elements:
            spans = self.downs.get(element)
            if spans:
                # They are in order and apart: the last that began in time is also the last that ended.
                place = bisect_right(spans, until, key=_began)
                if place and spans[place - 1][1] > since:
                    return False
        return True

    def last_healed(self, element: Element, before: Index) -> Index | None:
        """When something came up last."""
        spans = self.downs.get(element, [])
        place = bisect_left(spans, before, key=_ended)
        return spans[place - 1][1] if place else None

    def is_undisturbed(self, since: Index, until: Index) -> bool:
        """Whether nothing was tampered with from one place to another."""
        place = bisect_left(self.disturbances, since)
        return place == len(self.disturbances) or self.disturbances[place] > until


def _began(span: tuple[Index, Index]) -> Index:
    return span[0]


def _ended(span: tuple[Index, Index]) -> Index:
    return span[1]
