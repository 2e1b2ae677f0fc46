"""What each neighbour is told: is it `reduce(alpha(H))`, worked out anew in the plainest way, and has it arrived?

alpha(H) is all that a broker holds from peers other than H; in a table that is steered, only what overlaps the steering entries
that came from H. Simple routing tells all of it, identity one of each, covering the boxes that no other covers; of mergers only
the meaning is checked, and that none is superfluous. Both checks hold when the network is at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, Kind, Role
from sluice.sim.spec.filters import Filters, members
from sluice.sim.spec.tables import Configuration
from sluice.sim.spec.violation import Violation

#: What is wrong with what was sent, given what should have been reduced.
Rule = Callable[[Filters, list[Entry], list[Entry]], Iterator[str]]


def agreement(configuration: Configuration) -> list[Violation]:
    """Where a broker does not hold what its neighbour believes to have told it."""
    found = []
    for broker, neighbour in configuration.directed():
        for kind, table in configuration.brokers[broker].tables.items():
            export = table.exports.get(neighbour)
            sent = set() if export is None else set(export.sent)
            held = set(configuration.entries(neighbour, kind, broker))
            if sent != held:
                says = f"{neighbour} holds other {kind.name.lower()} of {broker} than it was told: "
                says += "; ".join([*_list("missing", sent - held), *_list("too much", held - sent)])
                found.append(Violation("agreement", configuration.at, says))
    return found


def _list(word: str, entries: Iterable[Entry]) -> list[str]:
    texts = sorted(f"{entry.id}: {entry.where}" if entry.id else str(entry.where) for entry in entries)
    return [f"{word} {', '.join(texts)}"] if texts else []


def reduction(configuration: Configuration, routing: str, advertisements: str | None = None) -> list[Violation]:
    """Where what a broker tells a peer is not what its algorithm should make of what it holds.

    `routing` and `advertisements` are the names of the algorithms, as the brokers are configured.
    """
    steering = Kind.ADVERTISEMENTS if advertisements is not None else None
    algorithms: list[tuple[Kind, str, Kind | None]] = [
        (Kind.SUBSCRIPTIONS, routing, steering),
        (Kind.WATCHES, "covering", None),
        (Kind.INTEREST, "simple", Kind.WATCHES),
    ]
    if advertisements is not None:
        algorithms.append((Kind.ADVERTISEMENTS, advertisements, None))
    found = []
    for broker in configuration.brokers:
        for kind, algorithm, steered_by in algorithms:
            rule = _RULES.get(algorithm, _covers_at_least)
            for peer, sent in _told(configuration, broker, kind):
                whole = _alpha(configuration, broker, kind, peer, steered_by)
                for says in rule(configuration.filters, whole, sent):
                    told = f"{broker} tells {peer} of its {kind.name.lower()}"
                    found.append(Violation("reduction", configuration.at, f"{told} by {algorithm} routing: {says}"))
    return found


def _told(configuration: Configuration, broker: Peer, kind: Kind) -> Iterator[tuple[Peer, list[Entry]]]:
    exports = configuration.brokers[broker].tables[kind].exports
    peers = [*configuration.neighbours[broker], *(configuration.local[broker] if kind == Kind.INTEREST else ())]
    for peer in peers:
        export = exports.get(peer)
        yield peer, [] if export is None else list(export.sent)


def _alpha(configuration: Configuration, broker: Peer, kind: Kind, peer: Peer, steered_by: Kind | None) -> list[Entry]:
    view, filters = configuration.brokers[broker], configuration.filters
    whole: dict[Entry, None] = {}
    for other in view.tables[kind].replicas:
        if other != peer:
            whole.update(dict.fromkeys(configuration.entries(broker, kind, other)))
    if kind == Kind.INTEREST:
        for other in view.tables[Kind.SUBSCRIPTIONS].replicas:
            if other != peer and view.roles.get(other) == Role.CLIENT:
                whole.update(dict.fromkeys(configuration.entries(broker, Kind.SUBSCRIPTIONS, other)))
    if kind == Kind.ADVERTISEMENTS and broker == configuration.root:
        whole[Entry(Subscription([EVERYTHING]), broker)] = None
    # That a client wants order concerns its own broker alone.
    whole = {replace(entry, reliable=False, ordered=False): None for entry in whole}
    if steered_by is None:
        return list(whole)
    steering = filters.set_of(entry.where for entry in configuration.entries(broker, steered_by, peer))
    return [entry for entry in whole if filters.overlaps_any(filters.number(entry.where), steering)]


# What the algorithms promise


def _flooding(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    if [entry.where.to_sql() for entry in sent] != ["true"]:
        yield f"it should say TRUE and nothing else, not {', '.join(str(entry.where) for entry in sent) or 'nothing'}"


def _simple(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    yield from _list("missing", set(whole) - set(sent))
    yield from _list("too much", set(sent) - set(whole))


def _identity(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    wanted, told = {entry.where for entry in whole}, {entry.where for entry in sent}
    yield from _list("missing", map(Entry, wanted - told))
    yield from _list("too much", map(Entry, told - wanted))
    if len(told) < len(sent):
        yield "the same filter twice"


def _covering(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    parts = {part for entry in whole for part in filters.parts(filters.number(entry.where))}
    told = [filters.number(entry.where) for entry in sent]
    for number in told:
        if number not in parts:
            yield f"nobody has asked for {filters[number]}"
    yield from _superfluous(filters, told)
    for number in sorted(parts):
        if not any(filters.covers(other, number) for other in told):
            yield f"nothing covers {filters[number]}"


def _merging(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    yield from _imperfect(filters, whole, sent)
    wasted = filters.matching(_set(filters, sent)) & ~filters.matching(_set(filters, whole))
    if wasted:
        yield f"nobody has asked for {dict(filters.point(wasted))}"


def _imperfect(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    yield from _covers_at_least(filters, whole, sent)
    yield from _superfluous(filters, [filters.number(entry.where) for entry in sent])


def _covers_at_least(filters: Filters, whole: list[Entry], sent: list[Entry]) -> Iterator[str]:
    told = _set(filters, sent)
    for number in members(_set(filters, whole)):
        if not filters.is_covered(number, told):
            missed = filters.matching(1 << number) & ~filters.matching(told)
            if missed:
                yield f"{filters[number]} is left out, for example {dict(filters.point(missed))}"
            elif not filters.points:
                yield f"{filters[number]} is left out, as far as can be shown"


def _superfluous(filters: Filters, told: list[int]) -> Iterator[str]:
    if len(set(told)) < len(told):
        yield "the same filter twice"
    for number in told:
        for other in told:
            if other != number and filters.covers(other, number):
                yield f"{filters[number]} is superfluous beside {filters[other]}"
                break


def _set(filters: Filters, entries: list[Entry]) -> int:
    return filters.set_of(entry.where for entry in entries)


_RULES: dict[str, Rule] = {
    "flooding": _flooding,
    "simple": _simple,
    "identity": _identity,
    "covering": _covering,
    "merging": _merging,
    "imperfect": _imperfect,
}
