"""The order of all: two subscriptions that get the same two publications get them in the same order.

Order counts for a subscription and a publication if either asks for it. `pairwise` looks at every pair of subscriptions and at
all publications for which order counts for both; `per-publisher` at what each subscription gets of each publisher, where order
counts for nobody, too. `withheld`: something may come too late, and then not at all, only after something has failed, and
nothing that is published at rest does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from sluice.sim.spec.history import SUBSCRIPTIONS, History, Publication
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace.trace import Notified

#: What a subscription got, by the index of the event, in order.
Got = dict[Publication, int]


def _got(history: History) -> dict[str, Got]:
    """What each subscription got, each once, the first time."""
    found: dict[str, Got] = {}
    for index, publication in history.about.items():
        event = history.events[index]
        if publication is not None and isinstance(event, Notified):
            for id in event.subscriptions:
                found.setdefault(id, {}).setdefault(publication, index)
    return found


def _pairwise(history: History) -> Iterator[Violation]:
    events = history.events
    counting = {
        id: {each: index for each, index in got.items() if each.marked or id in history.ordered}
        for id, got in _got(history).items()
    }
    for (one, first), (other, second) in combinations(counting.items(), 2):
        before: Publication | None = None
        for publication in first:
            if publication not in second:
                continue
            if before is not None and second[publication] < second[before]:
                says = (
                    f"{one} gets {before.name} before {publication.name}, and {other} gets {publication.name} "
                    f"before {before.name}"
                )
                shown = [first[before], first[publication], second[publication], second[before]]
                yield Violation("pairwise", events[shown[-1]].at, says, tuple(events[index] for index in shown))
                break
            before = publication


def _per_publisher(history: History) -> Iterator[Violation]:
    for id, got in _got(history).items():
        last: dict[str, Publication] = {}
        for publication, index in got.items():
            if history.config.cache_notifications and not publication.marked and id not in history.ordered:
                continue  # from a cache comes what is older
            before = last.get(publication.client)
            if before is not None and before.number > publication.number:
                event = history.events[index]
                says = f"{id} gets {publication.name} after {before.name}"
                yield Violation("per-publisher", event.at, says, (history.events[got[before]], event))
            last[publication.client] = publication


def _withheld(history: History) -> Iterator[Violation]:
    quiet = history.quiet_before(len(history.events))
    for publication in history.publications:
        for id, index in publication.withheld.items():
            event = history.events[index]
            if publication.index > quiet >= 0:
                says = f"{publication.name} was published at rest, and comes too late for {id}"
                yield Violation("withheld", event.at, says, (history.events[publication.index], event))
            elif index < history.first_fault and not _is_from_cache(history, publication, id):
                says = f"{publication.name} comes too late for {id}, and nothing has failed"
                yield Violation("withheld", event.at, says, (history.events[publication.index], event))


def _is_from_cache(history: History, publication: Publication, id: str) -> bool:
    """Whether it may have come from a cache: what is older than a subscription comes behind what was newer."""
    if not history.config.cache_notifications:
        return False
    wishes = history.wishes[SUBSCRIPTIONS].get((id.rpartition("/")[0], id), ())
    return any(not wish.completed or publication.index < wish.completed[0] for wish in wishes)


PAIRWISE = Check("pairwise", "pairwise total order, Zhang et al., section 2", _pairwise)
PER_PUBLISHER = Check("per-publisher", "per-publisher order, the same", _per_publisher)
WITHHELD = Check("withheld", "weak total order: what is late is lost and told, and only after a failure", _withheld)
