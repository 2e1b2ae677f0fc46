"""Runs by chance with all faults: nothing is broken at any step, and each bug on purpose is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluice.sim.gryphon import (
    EQUAL_VECTORS,
    LITERAL,
    REPAIRED,
    Constraints,
    Guard,
    Kind,
    Raises,
    aggregate,
    constrained,
    subscriber,
    timed,
)
from sluice.sim.gryphon.aggregate import RootsChanged
from sluice.sim.gryphon.change import Advance, Change
from sluice.sim.gryphon.constrained import ConstrainedRouter
from sluice.sim.gryphon.message import Ack, Listed, Message
from sluice.sim.gryphon.publisher import Stream
from sluice.sim.gryphon.run import run
from sluice.sim.gryphon.subscriber import Subscriber
from sluice.sim.gryphon.timed import TimedLeaf, TimedRouter
from sluice.sim.gryphon.vector import Vector

#: Seeds after which a bug counts as missed.
SEEDS = 30


@pytest.mark.parametrize(
    ("guard", "seeds"),
    [
        (REPAIRED, range(100)),
        (Constraints(withholds=True), range(100, 140)),
        (Constraints(raises=Raises.NOTHING), range(140, 180)),
        (EQUAL_VECTORS, range(180, 240)),
    ],
    ids=["repaired", "withholding", "never raising", "equal vectors"],
)
def test_nothing_is_broken(guard: Guard, seeds: range) -> None:
    delivered = 0
    for seed in seeds:
        network = run(seed, guard)
        assert network.broken == [], f"seed {seed}: {network.broken[0]}"
        delivered += sum(len(one.delivered) for one in network.deliveries.values())
    assert delivered > 3 * len(seeds)


def test_a_seed_fixes_a_run() -> None:
    first, second = (
        {id: (one.start, one.end, one.delivered) for id, one in run(7, REPAIRED).deliveries.items()} for _ in range(2)
    )
    assert first == second != {}


def checks_found(guard: Guard) -> set[str]:
    """What is broken in the first run that breaks anything."""
    networks = (run(seed, guard) for seed in range(SEEDS))
    return next(({one.check for one in network.broken} for network in networks if network.broken), set())


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Kind.COVERED, "invariant 1"),
        (Kind.NOBODY_UNKNOWN, "invariant 1"),
        (Kind.STILL_COVERED, "invariant 1"),
        (Kind.BACKED, "theorem 3"),
    ],
)
def test_every_type_of_constraint_is_needed(kind: Kind, check: str) -> None:
    found = set[str]()
    for seed in range(SEEDS):
        found |= {one.check for one in run(seed, replace(REPAIRED, kinds=REPAIRED.kinds - {kind})).broken}
        if check in found:
            break
    assert check in found


def test_the_literal_text_is_broken() -> None:
    assert checks_found(LITERAL)


Patch = tuple[Any, str, Callable[[Any], Any]]


def without_new_roots(original: Any) -> Any:
    def roots_changed(before: Any, after: Any, gone: Any, is_lasting: Any) -> RootsChanged:
        told: RootsChanged = original(before, after, gone, is_lasting)
        return replace(told, added=tuple(one for one in told.added if one not in before))

    return roots_changed


def silence_wins(original: Any) -> Any:
    def better(held: Message | None, message: Message) -> Message:
        both: Message = original(held, message)
        silent = message.is_silence or (held is not None and held.is_silence)
        return replace(both, record=None) if silent else both

    return better


def without_base(original: Any) -> Any:
    def applied(self: TimedRouter, edge: Any, change: Any) -> Any:
        return original(self, edge, replace(change, base=edge.vector) if isinstance(change, Advance) else change)

    return applied


def forgetting(name: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def crash(self: Subscriber) -> None:
            original(self)
            setattr(self if hasattr(self, name) else self.leaf, name, 0)

        return crash

    return make


def trims_for_the_fastest(original: Any) -> Any:
    def acknowledge(self: Stream, ack: Ack) -> None:
        self.trimmed = max(self.trimmed, ack.cursor)

    return acknowledge


def counts_the_gone(original: Any) -> Any:
    seen: dict[tuple[int, Any], int] = {}

    def begins(self: TimedLeaf, conjunction: Any) -> tuple[int, ...]:
        known = tuple(time for (leaf, one), time in seen.items() if leaf == id(self) and one.covers(conjunction))
        seen.setdefault((id(self), conjunction), self.clock + 1)
        return known

    return begins


CONSTRAINED: dict[str, Patch] = {
    "filters while insufficient": (ConstrainedRouter, "is_sufficient", lambda _: lambda self, child, stamp: True),
    "takes silences for others": (Listed, "includes", lambda _: lambda self, asked: True),
    "keeps a silence instead of the data": (subscriber, "_better", silence_wins),
    "asks without what it needs": (
        constrained.ConstrainedLeaf,
        "needed",
        lambda _: lambda self, started: Listed(),
    ),
    "never brings back what was covered": (aggregate, "roots_changed", without_new_roots),
    "forgets unsubscriptions": (
        Change,
        "knowledge",
        lambda original: lambda self, known: original(replace(self, unsubscribed=frozenset()), known),
    ),
    "forgets its cursor in a crash": (Subscriber, "crash", forgetting("cursor")),
    "trims for the fastest": (Stream, "acknowledge", trims_for_the_fastest),
    "acknowledges too much": (Subscriber, "ack", lambda _: lambda self: Ack(self.name, self.cursor + 3)),
}

TIMED: dict[str, Patch] = {
    "filters while insufficient": (TimedRouter, "is_sufficient", lambda _: lambda self, child, stamp: True),
    "applies changes on any base": (TimedRouter, "_applied", without_base),
    "takes any snapshot": (Vector, "__ge__", lambda _: lambda self, other: True),
    "its clock goes back": (Subscriber, "crash", forgetting("clock")),
    "begins before it is told": (TimedLeaf, "_begins", lambda _: lambda self, conjunction: (max(self.clock, 1),)),
    "counts what is gone as covering": (TimedLeaf, "_begins", counts_the_gone),
    "never brings back what was covered": (timed, "roots_changed", without_new_roots),
}


@pytest.mark.parametrize(
    ("guard", "patch"),
    [
        *(pytest.param(REPAIRED, patch, id=name) for name, patch in CONSTRAINED.items()),
        *(pytest.param(EQUAL_VECTORS, patch, id=f"vectors: {name}") for name, patch in TIMED.items()),
    ],
)
def test_each_bug_is_noticed(guard: Guard, patch: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, make = patch
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    assert checks_found(guard)
