"""Safety: what must never happen, whatever fails (Def. 2.1, 2.3 and 2.4; axioms (2) to (4)).

A delivery is right if it is the first of its notification for the client, if the notification was published before, and if a
subscription that the client holds at that moment, pending or acknowledged, matches it. A client that crashed and came back
remembers nothing: for it a delivery is the first again. Eventual safety asks for the same from some time after the last
fault on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from sluice.sim.spec.history import NEVER, SUBSCRIPTIONS, History, Index, Publication
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace.trace import Notified

#: A check that looks only at what happens from a place in the trace on.
Since = Callable[[History, Index], Iterator[Violation]]


def _no_duplicate(history: History, since: Index = 0) -> Iterator[Violation]:
    for publication in history.publications:
        for client, indexes in publication.deliveries.items():
            for before, index in pairwise(indexes):
                if before >= since and history.is_clear((client,), before, index):
                    yield Violation(
                        "no-duplicate",
                        history.at(index),
                        f"{client} is notified of {publication.name} twice",
                        (history.events[publication.index], history.events[before], history.events[index]),
                    )


def _published(history: History, since: Index = 0) -> Iterator[Violation]:
    for index, publication in history.about.items():
        event = history.events[index]
        if index >= since and publication is None:
            yield Violation("published", event.at, "this was not published before", (event,))
    for index in history.repeated:
        if index >= since:
            event = history.events[index]
            says = "two notifications were published under one number: nobody can tell them apart"
            yield Violation("published", event.at, says, (event,))


def _wanted(history: History, since: Index = 0) -> Iterator[Violation]:
    for index, publication in history.about.items():
        event = history.events[index]
        if index < since or publication is None or not isinstance(event, Notified):
            continue
        says = _unwanted(history, event, index, publication)
        if says is not None:
            yield Violation("wanted", event.at, says, (history.events[publication.index], event))


def _unwanted(history: History, event: Notified, index: int, publication: Publication) -> str | None:
    """What is wrong with the subscriptions that a delivery is for."""
    row = history.matching.row(publication.record)
    for id in event.subscriptions:
        wish = history.wish_at(SUBSCRIPTIONS, event.client, id, index)
        if wish is None:
            return f"{event.client} does not hold the subscription {id}"
        if not history.matching.matches(wish.where, publication.record, row):
            return f"the subscription {id} of {event.client} does not match: {wish.where}"
    if len(set(event.subscriptions)) < len(event.subscriptions):
        return "a subscription is named twice"
    if not event.subscriptions:
        return f"{event.client} is notified for no subscription"
    return None


def _refused(history: History, since: Index = 0) -> Iterator[Violation]:
    for index, publication in history.about.items():
        event = history.events[index]
        if index < since or not isinstance(event, Notified):
            continue
        if publication is None:
            refusal = history.unsent.get((event.publisher, event.number), NEVER)
            if refusal < index:
                yield Violation(
                    "refused", event.at, "this was refused", (history.events[int(refusal)], history.events[index])
                )
            continue
        story = (history.events[publication.index], event)
        if publication.refused != NEVER:
            yield Violation("refused", event.at, f"{publication.name} was refused, and {event.client} got it", story)
        elif history.advertisements and not history.is_advertised(publication):
            says = f"{publication.name} lies outside of what {publication.client} advertises, and {event.client} got it"
            yield Violation("refused", event.at, says, story)


def _refusing(history: History) -> Iterator[Violation]:
    if not history.advertisements:
        return
    delay = history.config.delay_seconds
    for publication in history.publications:
        # Long enough before it for the client to know its link, and after it for the answer.
        since = publication.index if delay is None else history.last_before(history.at(publication.index) - 3 * delay)
        until = NEVER if delay is None else history.last_at(history.at(publication.index) + 3 * delay)
        until = history.released(until)
        broker = history.broker_of(publication.client, publication.index)
        way = (*history.ends(publication.client, publication.index), *([] if broker is None else [broker]))
        event = history.events[publication.index]
        if publication.refused == NEVER:
            if (
                not history.is_advertised(publication)
                and history.is_clear(way, since, until)
                and history.is_undisturbed(history.quiet_before(since), until)
            ):
                says = f"{publication.name} lies outside of what {publication.client} advertises, and nobody refused it"
                yield Violation("refusing", event.at, says, (event,))
            continue
        row = history.matching.row(publication.record)
        for wish in publication.advertisements:
            first = min(since, wish.start)
            if (
                history.matching.matches(wish.where, publication.record, row)
                and history.is_clear(way, first, publication.refused)
                and history.is_undisturbed(history.quiet_before(first), publication.refused)
            ):
                says = f"{publication.name} was refused, although {wish.id} advertises it: {wish.where}"
                story = (history.events[wish.start], event, history.events[int(publication.refused)])
                yield Violation("refusing", history.at(publication.refused), says, story)
                break


def recovered(history: History) -> Index:
    """From where on safety must hold again: some time after the last fault, or at the `Quiet` after it."""
    if history.last_fault is None:
        return 0
    if history.config.recovery_seconds is not None:
        time = history.at(history.last_fault) + history.config.recovery_seconds
        return max(history.last_before(time), history.last_fault) + 1
    return next((index for index in history.quiets if index > history.last_fault), NEVER)


def _eventually(history: History) -> Iterator[Violation]:
    since = recovered(history)
    parts: tuple[Since, ...] = (_no_duplicate, _published, _wanted, _refused)
    for part in parts:
        for found in part(history, since):
            says = f"{found.says} ({found.check}), although the last fault was long ago"
            yield Violation("eventually-safe", found.at, says, found.events)


NO_DUPLICATE = Check("no-duplicate", "(2.10) first line, axiom (2)", _no_duplicate)
PUBLISHED = Check("published", "(2.10) second line, axiom (3)", _published)
WANTED = Check("wanted", "(2.10) third line, axiom (4)", _wanted)
REFUSED = Check("refused", "(2.17) last line", _refused)
REFUSING = Check("refusing", "Def. 2.4: what lies outside is refused, what lies inside is not", _refusing)
EVENTUALLY_SAFE = Check("eventually-safe", "(2.15)", _eventually)
