"""What must be so after a run: tables that fit the last tree, nothing twice, nothing lost by hand, nobody disturbed."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.sim.broken import Broken
from sluice.sim.cugola.network import History
from sluice.sim.cugola.pattern import NOTHING


def wrong_tables(history: History) -> Iterator[Broken]:
    """The tables at the end are those that the last tree and the last subscriptions imply."""
    for dispatcher, expected in history.plan.last_tables(history.reduce).items():
        found = history.tables[dispatcher]
        for hop in dict.fromkeys((*expected, *found)):
            wanted, held = expected.get(hop, NOTHING), found.get(hop, NOTHING)
            if wanted - held:
                yield Broken("tables", f"{dispatcher} does not know that {hop} wants {_named(wanted - held)}")
            if held - wanted:
                yield Broken("tables", f"{dispatcher} thinks that {hop} wants {_named(held - wanted)}")


def disturbed(history: History) -> Iterator[Broken]:
    """Locality: where nothing happens but the substitution, only dispatchers on the chain send or get anything."""
    for dispatcher in history.off_the_path:
        yield Broken("locality", f"{dispatcher} is not on the path and is told something")


def twice(history: History) -> Iterator[Broken]:
    """No client gets an event twice."""
    for (client, number), times in history.delivered.items():
        if times > 1:
            yield Broken("twice", f"{client} gets {number} {times} times")


def lost(history: History) -> Iterator[Broken]:
    """A client that stays gets all that it wants."""
    for client, number in history.lost():
        yield Broken("lost", f"{client} never gets {number}")


def _named(patterns: frozenset[object]) -> str:
    return ", ".join(sorted(map(str, patterns)))
