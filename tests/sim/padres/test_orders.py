"""Runs by chance without faults: who keeps order on every seed, who does not, and that every bug is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluice.sim.padres import ALGORITHMS, Algorithm, Plan, Publication, broken, compare, run
from sluice.sim.padres.floors import Floors
from sluice.sim.padres.published import Published
from sluice.sim.padres.rooted import Rooted
from sluice.sim.padres.skeen import Open, Skeen

#: Seeds after which a bug counts as missed.
SEEDS = 60


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("floors", range(300)),
        ("rooted", range(300)),
        ("sequencer", range(200)),
        ("skeen", range(60)),
    ],
)
def test_nothing_is_broken(name: str, seeds: range) -> None:
    delivered = 0
    for seed in seeds:
        history = run(Plan.drawn(seed), ALGORITHMS[name])
        assert broken(history) == [], f"seed {seed}"
        delivered += sum(map(len, history.delivered.values()))
    assert delivered > 50 * len(seeds)


def test_the_same_seeds_break_fifo_and_the_published_algorithm() -> None:
    """A third to three quarters of the runs; nothing but order is broken, so the listings are read as they are meant."""
    names = ("fifo", "published, exact, whole queue", "published, exact, progressive", "published, fast, whole queue")
    tallies = compare((Plan.drawn(seed) for seed in range(60)), {name: ALGORITHMS[name] for name in names})
    assert all(set(tally.broken) == {"pairwise order"} for tally in tallies.values())
    shares = [tallies[name].share("pairwise order") for name in names]
    fifo, whole, progressive, fast = shares
    assert 0.25 < whole < progressive <= fifo
    assert abs(fast - whole) < 0.1
    assert tallies["fifo"].degree < 0.95


def test_cost_of_order() -> None:
    """What the decision says about delays and messages, where links take constant time and much is under way."""
    names = ("floors", "rooted", "skeen", "published, fast, progressive")
    plans = [Plan.drawn(seed, delays="constant", interval=0.5) for seed in range(40)]
    tallies = compare(plans, {name: ALGORITHMS[name] for name in names})
    assert tallies["rooted"].control == 0
    assert tallies["rooted"].mean_added < 1 < tallies["floors"].mean_added < tallies["skeen"].mean_added
    assert tallies["floors"].added_at(0.95) < tallies["skeen"].added_at(0.95)
    assert all(tally.degree == 1.0 for name, tally in tallies.items() if not name.startswith("published"))


def test_floors_add_at_most_two_journeys() -> None:
    for seed in range(60):
        plan = Plan.drawn(seed, delays="constant")
        history = run(plan, Floors)
        tree = plan.tree
        diameter = max(tree.distance(one, other) for one in tree.brokers for other in tree.brokers)
        for name, got in history.delivered.items():
            home = next(one.broker for one in plan.subscribers if one.name == name)
            for publication, time in got:
                way = tree.distance(plan.publisher[publication.publisher].broker, home)
                assert time - history.published[publication] - way <= 2 * diameter + 1e-9


def test_floors_send_less_per_publication_under_load() -> None:
    calm, busy = (
        compare([Plan.drawn(seed, interval=interval) for seed in range(30)], {"floors": Floors})["floors"]
        for interval in (20.0, 0.2)
    )
    assert busy.control_per_publication < calm.control_per_publication


def first_broken(algorithm: Algorithm, faults: bool = False) -> set[str]:
    """The checks that fail in the first run in which any does."""
    found = (broken(run(Plan.drawn(seed, faults=faults), algorithm)) for seed in range(SEEDS))
    return next(({one.check for one in each} for each in found if each), set())


class OutOfTurn(Skeen):
    """Decides each publication when its own proposals are there, also before an earlier one of the same publisher."""

    def _propose(self, publication: Publication, opened: Open) -> None:
        if not opened.awaited and opened.origin is None:
            self._end(publication, opened.time)
        else:
            super()._propose(publication, opened)


class Impatient(Rooted):
    """Delivers to its own subscribers before the root has given a publication its place."""

    def publish(self, publication: Publication) -> None:
        for hop in self.place.wanting(publication.value):
            if not self.place.is_broker(hop):
                self.deliver(hop, publication)
        super().publish(publication)


class Forgetful(Rooted):
    """Once it is root, does not think of what it had sent up."""

    def lose(self, neighbour: str) -> None:
        self._pending.clear()
        super().lose(neighbour)


class Hasty(Rooted):
    """Once it is root, begins with what it had sent up, whether it has come down since or not."""

    def receive(self, sender: str, message: Any) -> None:
        pending = dict(self._pending)
        super().receive(sender, message)
        self._pending |= pending


class StandingClock(Floors):
    """Does not learn from the times of others."""

    def receive(self, sender: str, message: Any) -> None:
        clock = self._clock
        super().receive(sender, message)
        self._clock = clock


class LastComeFirst(Floors):
    """Waits as it should, and then delivers the newest first."""

    def _settle(self) -> None:
        done = len(self._effects)
        super()._settle()
        self._effects[done:] = self._effects[done:][::-1]


class Unheld(Published):
    """Sets the flags and never delays anybody: the listing of algorithm 3, line 3."""

    def _wait(self, publication: Publication, hop: str, *rest: Any) -> None:
        super()._wait(publication, hop, *rest)
        if hop in self._queues:
            self._queues[hop].is_delayed = False


def patched(cls: type[Floors], name: str, replacement: Callable[..., Any]) -> type[Floors]:
    return type(f"{cls.__name__} with another {name}", (cls,), {name: replacement})


BUGS: dict[str, tuple[Algorithm, str]] = {
    "floors: promises what others may undercut": (
        patched(Floors, "_floor_for", lambda self, neighbour: self._clock),
        "pairwise order",
    ),
    "floors: promises one too much": (
        patched(Floors, "_floor_for", lambda self, neighbour: Floors._floor_for(self, neighbour) + 1),
        "pairwise order",
    ),
    "floors: asks nobody": (patched(Floors, "_ask", lambda self, *_: None), "lost"),
    "floors: hears no promise": (patched(Floors, "_hear", lambda self, *_: None), "lost"),
    "floors: its clock stands still": (StandingClock, "pairwise order"),
    "floors: delivers the newest first": (LastComeFirst, "publisher order"),
    "rooted: delivers before the root does": (Impatient, "twice"),
    "skeen: decides out of turn": (OutOfTurn, "publisher order"),
}


@pytest.mark.parametrize(("algorithm", "check"), BUGS.values(), ids=BUGS)
def test_each_bug_is_noticed(algorithm: Algorithm, check: str) -> None:
    assert check in first_broken(algorithm)


FAULTY: dict[str, tuple[Algorithm, str]] = {
    "floors: waits for who is gone": (patched(Floors, "lose", lambda self, neighbour: None), "lost"),
    "rooted: does not become root": (type("Headless", (Rooted,), {"lose": lambda self, neighbour: None}), "lost"),
    "rooted: forgets what it had sent up": (Forgetful, "lost"),
    "rooted: sends down again": (Hasty, "twice"),
    "skeen: waits for who is gone": (type("Waiting", (Skeen,), {"lose": lambda self, neighbour: None}), "lost"),
}


@pytest.mark.parametrize(("algorithm", "check"), FAULTY.values(), ids=FAULTY)
def test_each_bug_that_needs_a_fault_is_noticed(algorithm: Algorithm, check: str) -> None:
    assert check in first_broken(algorithm, faults=True)


def test_a_client_that_is_not_delayed_does_not_wait() -> None:
    """Without that correction the published algorithm is no better than FIFO."""
    plans = [Plan.drawn(seed) for seed in range(40)]
    tallies = compare(plans, {"fifo": ALGORITHMS["fifo"], "unheld": Unheld})
    assert tallies["unheld"].broken == tallies["fifo"].broken


def test_a_seed_fixes_a_run() -> None:
    first, second = (run(Plan.drawn(7), Floors) for _ in range(2))
    assert first.delivered == second.delivered
    assert (first.carried, first.control) == (second.carried, second.control)
    assert first.carried > 0
