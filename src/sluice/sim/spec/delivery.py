"""Liveness: what must arrive (Def. 2.1 and 2.4, axioms (5) and (6)), on traces that end.

A trace is to be checked when the network is at rest, so that what has not come by its end will not come. A notification is
*owed* to a subscription that matches it if the subscription was there in time, still is when it should have come, and nothing
on the way failed. In time means: before a `Quiet` that precedes the publication (`live`); before its acknowledgement
(`complete`); with caches, before its request (`cached`). With advertisements the same goes for one of the publisher's
advertisements that matches. Nothing failed means:

- the subscriber, its link, all brokers and links on the path, the publisher and its link were up from the moment of the request
  to the moment at which the notification should have been there, and nobody's memory or messages were tampered with;
- and the brokers and links on the path had come up long enough before the request for their neighbours to know of each other.
  An acknowledgement that crosses a link while another one further on comes up cannot tell of it. Over a path of L links with
  a delay of at most D each, that time is (L + 3) D, with advertisements (2 L + 3) D. Where there is a root that puts
  publications in order, the path leads over it.

It should have been there (L + 3) D after the publication. If D is not known, the whole trace from the last `Quiet` before the
request to its end must be free of faults on the way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluice.sim.spec.history import (
    ADVERTISEMENTS,
    NEVER,
    SUBSCRIPTIONS,
    History,
    Index,
    Publication,
    Wish,
    link,
)
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace.trace import Notified


@dataclass(frozen=True, slots=True)
class Promise:
    """A wish that counts for a publication: asked for at `request`, said to be complete at `since`."""

    wish: Wish
    request: Index
    since: Index
    #: Whether everything was at rest at the request.
    at_rest: bool = False


#: The promise that a wish holds for a publication, if it does.
Rule = Callable[[History, Wish, Publication], Promise | None]


def _owed(
    history: History, name: str, subscribed: Rule, advertised: Rule, *, by_client: bool = False
) -> Iterator[Violation]:
    """What is owed and never came; `by_client`: it is enough if it came for any subscription of the client."""
    for publication, wish in _not_reached(history):
        if by_client and wish.client in publication.deliveries:
            continue
        wanted = subscribed(history, wish, publication)
        if wanted is None:
            continue
        if history.advertisements:
            row = history.matching.row(publication.record)
            offers = [
                advertised(history, offer, publication)
                for offer in publication.advertisements
                if history.matching.matches(offer.where, publication.record, row)
            ]
        else:
            offers = [Promise(wish, wanted.request, wanted.since, wanted.at_rest)]
        for offer in offers:
            if offer is not None and _nothing_failed(history, publication, wanted, offer):
                yield _missing(history, name, publication, wanted)
                break


def _missing(history: History, name: str, publication: Publication, wanted: Promise) -> Violation:
    wish = wanted.wish
    events = history.events
    story = [events[wish.start], *([] if wanted.at_rest else [events[int(wanted.since)]]), events[publication.index]]
    deliveries = publication.deliveries.get(wish.client, [])
    if deliveries:
        says = f"{wish.client} is notified of {publication.name}, but not for its subscription {wish.id}: {wish.where}"
        story += [events[index] for index in deliveries]
    else:
        says = f"{wish.client} never gets {publication.name}, which its subscription {wish.id} matches: {wish.where}"
    story.sort(key=lambda event: event.at)
    return Violation(name, history.at(publication.index), says, tuple(story))


def _not_reached(history: History) -> Iterator[tuple[Publication, Wish]]:
    """Every publication with the matching subscriptions that were active then and for which it was never delivered."""
    begins: dict[int, Wish] = {}
    ends: dict[Index, list[Wish]] = {}
    for wishes in history.wishes[SUBSCRIPTIONS].values():
        for wish in wishes:
            begins[wish.start] = wish
            ends.setdefault(wish.end, []).append(wish)
    changes = sorted({*begins, *(int(end) for end in ends if end != NEVER)})
    active: dict[str, dict[Wish, None]] = {}
    place = 0
    for publication in history.publications:
        while place < len(changes) and changes[place] < publication.index:
            index = changes[place]
            for wish in ends.get(index, ()):
                del active[wish.where][wish]
                if not active[wish.where]:
                    del active[wish.where]
            if index in begins:
                active.setdefault(begins[index].where, {})[begins[index]] = None
            place += 1
        row = history.matching.row(publication.record)
        for where, wishes_of_text in active.items():
            if history.matching.matches(where, publication.record, row):
                for wish in wishes_of_text:
                    if not _has_reached(history, publication, wish):
                        yield publication, wish


def _has_reached(history: History, publication: Publication, wish: Wish) -> bool:
    """Whether it came, or came too late for the order of all, of which `withheld` is the judge."""
    if wish.id in publication.withheld:
        return True
    for index in publication.deliveries.get(wish.client, ()):
        event = history.events[index]
        if isinstance(event, Notified) and wish.id in event.subscriptions:
            return True
    return False


def _nothing_failed(history: History, publication: Publication, wanted: Promise, offer: Promise) -> bool:
    subscriber, publisher = wanted.wish.client, publication.client
    index = publication.index
    path = history.way(history.broker_of(publisher, index), history.broker_of(subscriber, index))
    if path is None:
        return False
    links = sum(isinstance(element, tuple) for element in path)
    request = min(wanted.request, offer.request)
    delay = history.config.delay_seconds
    if delay is None:
        known: Index = request if wanted.at_rest else history.quiet_before(request)
        before, until = index, NEVER
    else:
        # A client notices a little later than the trace that its link has come or gone.
        before = history.last_before(history.at(index) - 3 * delay)
        until = history.last_at(max(history.at(index), history.at(wanted.since)) + (links + 3) * delay)
        settling = ((2 * links if history.advertisements else links) + 3) * delay
        known = request if wanted.at_rest else history.last_before(history.at(request) - settling)
        known = max(known, history.quiet_before(request))
    until = history.released(until)
    if wanted.at_rest:
        before = max(before, int(request))
    if history.advertisements:
        before = min(before, int(offer.request))
    return (
        wanted.wish.lasts(until)
        and (not history.advertisements or offer.wish.lasts(until))
        and publication.refused == NEVER
        and history.is_clear(path, known, until)
        and history.is_clear(history.ends(subscriber, index), wanted.request, until)
        and history.is_clear(history.ends(publisher, index), before, until)
        and history.is_undisturbed(history.quiet_before(request + 1), until)
    )


def _at_rest(history: History, wish: Wish, publication: Publication) -> Promise | None:
    quiet = history.quiet_before(publication.index)
    return Promise(wish, quiet, quiet, at_rest=True) if quiet >= 0 and wish.is_active(quiet) else None


def _acknowledged_before(history: History, wish: Wish, publication: Publication) -> Promise | None:
    place = bisect_left(wish.completed, publication.index)
    if not place:
        return None
    since = wish.completed[place - 1]
    request: Index = wish.start
    broker = history.broker_of(wish.client, since)
    delay = history.config.delay_seconds
    if broker is not None and delay is not None:
        # At a new link the client asks again; what comes some time later is the answer to that.
        healed = history.last_healed(link(wish.client, broker), since)
        if healed is not None and healed > request and history.at(healed) + 2 * delay < history.at(since):
            request = healed
    return Promise(wish, request, since)


def _requested_before(history: History, wish: Wish, publication: Publication) -> Promise | None:
    """With caches: what is published while the acknowledgement is on its way comes too, if no cache had to drop it."""
    place = bisect_left(wish.completed, publication.index)
    if place or not wish.completed:
        return None
    config = history.config
    since = wish.completed[0]
    published, complete = history.at(publication.index), history.at(since)
    if config.cache_seconds is not None and complete - published > config.cache_seconds:
        return None
    # Of those published a little earlier, some may reach a broker later and take the room.
    earlier = -NEVER if config.delay_seconds is None else published - (len(history.brokers) + 2) * config.delay_seconds
    times = history.publication_times
    if bisect_right(times, complete) - bisect_left(times, earlier) > config.cache_notifications:
        return None
    return Promise(wish, wish.start, since)


def _live(history: History) -> Iterator[Violation]:
    return _owed(history, "live", _at_rest, _at_rest)


def _complete(history: History) -> Iterator[Violation]:
    return _owed(history, "complete", _acknowledged_before, _acknowledged_before)


def _cached(history: History) -> Iterator[Violation]:
    if not history.config.cache_notifications:
        return iter(())
    # What came for another subscription before the broker knew of this one must not come again.
    return _owed(history, "cached", _requested_before, _acknowledged_before, by_client=True)


def _acknowledged(history: History) -> Iterator[Violation]:
    kinds = (SUBSCRIPTIONS, ADVERTISEMENTS) if history.advertisements else (SUBSCRIPTIONS,)
    end = len(history.events)
    for kind in kinds:
        for wish in history.active(kind, end):
            broker = history.broker_of(wish.client, end)
            way = (*history.ends(wish.client, end), *([] if broker is None else [broker]))
            if not wish.completed and history.is_clear(way, end, end):
                event = history.events[wish.start]
                says = f"{wish.client} was never told that {wish.id} of its {kind} is complete"
                yield Violation("acknowledged", event.at, says, (event,))
    for index in history.stray:
        event = history.events[index]
        yield Violation("acknowledged", event.at, "this is complete, and nobody asks for it", (event,))


LIVE = Check("live", "(2.11), with advertisements (2.18): after a Quiet", _live)
ACKNOWLEDGED = Check("acknowledged", "axiom (5)", _acknowledged)
COMPLETE = Check("complete", "axiom (6); (2.11) and (2.18) from the acknowledgements on", _complete)
CACHED = Check("cached", "axiom (6) from the request on, with caches", _cached)
