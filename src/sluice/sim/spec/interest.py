"""Who is interested: what watchers are told, and what histories send to one subscription alone (sections 5.2.3 and 5.2.4).

At rest, that is at every `Quiet` and at the end of the trace, a watcher has been told exactly of the subscriptions of others
that overlap one of its watches, as `Subscription.overlaps` says. At any time it is told of nothing that nobody asked for, of
nothing twice, and that something is gone only if it was told of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.sim.spec.history import SUBSCRIPTIONS, WATCHES, Element, History, Wish
from sluice.sim.spec.matching import same
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace.trace import ClientDown, Interested, Notified, Replayed, Uninterested

#: What each watcher was told and not told to forget: the index of the event, by the id of the subscription.
Told = dict[str, dict[str, int]]


def _told(history: History) -> Iterator[Violation]:
    known: dict[str, list[Wish]] = {}
    for (_, id), wishes in history.wishes[SUBSCRIPTIONS].items():
        known.setdefault(id, []).extend(wishes)
    told: Told = {}
    for index, event in _in_order(history):
        match event:
            case Interested(at, client, subscription, where):
                mine = told.setdefault(client, {})
                candidates = [wish for wish in known.get(subscription, ()) if wish.start < index]
                if subscription in mine:
                    earlier = history.events[mine[subscription]]
                    yield Violation("told", at, f"{client} is told of {subscription} twice", (earlier, event))
                elif not candidates:
                    yield Violation("told", at, f"nobody ever subscribed under the id {subscription}", (event,))
                elif not any(same(wish.where, where) for wish in candidates):
                    says = f"{subscription} was never a subscription to this, but to {candidates[-1].where}"
                    yield Violation("told", at, says, (history.events[candidates[-1].start], event))
                elif all(wish.client == client for wish in candidates):
                    yield Violation("told", at, f"{client} is told of a subscription of its own", (event,))
                mine[subscription] = index
            case Uninterested(at, client, subscription):
                if told.setdefault(client, {}).pop(subscription, None) is None:
                    says = f"{client} is told that {subscription} is gone, of which it was not told"
                    yield Violation("told", at, says, (event,))
            case ClientDown(_, client):
                told.pop(client, None)


def _in_order(history: History) -> Iterator[tuple[int, object]]:
    """What watchers were told, and when they forgot it all."""
    crashes = [int(down) for element, spans in history.downs.items() if isinstance(element, str) for down, _ in spans]
    for index in sorted({*history.interest, *(place for place in crashes if place >= 0)}):
        yield index, history.events[index]


def _interest(history: History) -> Iterator[Violation]:
    places = [*history.quiets]
    if history.is_undisturbed(history.quiets[-1] if history.quiets else 0, len(history.events)):
        places.append(len(history.events))
    told: Told = {}
    events = [*_in_order(history)]
    place = 0
    for rest in places:
        while place < len(events) and events[place][0] < rest:
            index, event = events[place]
            match event:
                case Interested(_, client, subscription, _):
                    told.setdefault(client, {})[subscription] = index
                case Uninterested(_, client, subscription):
                    told.get(client, {}).pop(subscription, None)
                case ClientDown(_, client):
                    told.pop(client, None)
            place += 1
        yield from _compare(history, told, rest)


def _compare(history: History, told: Told, rest: int) -> Iterator[Violation]:
    """What watchers know at rest against what they should."""
    at = history.times[min(rest, len(history.times) - 1)] if history.times else 0.0
    watches: dict[str, list[Wish]] = {}
    for watch in history.active(WATCHES, rest):
        watches.setdefault(watch.client, []).append(watch)
    subscriptions = [*history.active(SUBSCRIPTIONS, rest)] if watches else []
    for watcher in sorted({*watches, *told}):
        knows = told.get(watcher, {})
        allowed: dict[str, Wish] = {}
        for wish in subscriptions:
            if wish.client == watcher:
                continue
            watching = [w for w in watches.get(watcher, ()) if history.matching.overlaps(w.where, wish.where)]
            if not watching:
                continue
            allowed[wish.id] = wish
            if wish.id not in knows and history.is_clear(_way(history, watcher, wish.client, rest), rest, rest):
                says = f"{watcher} watches {watching[0].where} and was not told of {wish.id}: {wish.where}"
                story = (history.events[watching[0].start], history.events[wish.start])
                yield Violation("interest", at, says, story)
        for id, index in knows.items():
            if id not in allowed and history.is_clear(history.ends(watcher, rest), rest, rest):
                says = f"{watcher} still believes in the subscription {id}, which it does not watch or which is no more"
                yield Violation("interest", at, says, (history.events[index],))


def _way(history: History, a: str, b: str, index: int) -> tuple[Element, ...]:
    path = history.path(history.broker_of(a, index), history.broker_of(b, index))
    return (*history.ends(a, index), *(path or ()), *history.ends(b, index))


def _replay(history: History) -> Iterator[Violation]:
    config = history.config
    for index, publication in history.about.items():
        event = history.events[index]
        if publication is None or not isinstance(event, Replayed):
            continue
        wish = history.wish_at(SUBSCRIPTIONS, event.client, event.subscription, index)
        story = (history.events[publication.index], event)
        if wish is None:
            says = f"{event.client} does not hold the subscription {event.subscription}"
            yield Violation("replay", event.at, says, story)
        elif not history.matching.matches(wish.where, publication.record):
            yield Violation("replay", event.at, f"the subscription does not match: {wish.where}", story)
    if config.delay_seconds is None or (config.cache_notifications and config.cache_seconds is None):
        return
    # What was long past when it was replayed, nobody can get as news any more.
    fresh = (len(history.brokers) + 2) * config.delay_seconds + (config.cache_seconds or 0.0)
    for publication in history.publications:
        if not publication.replays:
            continue
        for client, deliveries in publication.deliveries.items():
            for index in deliveries:
                late = history.at(index) > history.at(publication.index) + fresh
                if late and index > publication.replays[0] and isinstance(history.events[index], Notified):
                    says = f"{publication.name} was replayed to one subscription, and {client} gets it as news"
                    shown = (history.events[publication.replays[0]], history.events[index])
                    yield Violation("replay", history.at(index), says, shown)


TOLD = Check("told", "section 5.2.4: nothing is told that is not so", _told)
INTEREST = Check("interest", "section 5.2.4: at rest a watcher knows exactly who is interested", _interest)
REPLAY = Check("replay", "section 5.2.3: a replay reaches the one subscription that it is for", _replay)
