"""One table: `sent[H] == reduce(alpha(H))`, steered or not, one change for each neighbour at a time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.match import filterset
from sluice.protocol.batch import Peer
from sluice.protocol.export import Export
from sluice.protocol.messages import Change, Entry, Kind, Version
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.reduce import ALGORITHMS, Reducer, RoutingOptions, algorithm
from sluice.protocol.route.table import Outlet, Relevance, Table
from tests.protocol.drive import entry, list_of
from tests.protocol.route.some import Some

PEERS = ("a", "b", "c")


def make(name: str) -> Reducer:
    return algorithm(name)(RoutingOptions())


def table_of(name: str, kind: Kind = Kind.SUBSCRIPTIONS, steering: Table | None = None) -> Table:
    """A table with three neighbours."""
    table = Table(kind, lambda: make(name), Directions("me"), steering)
    for peer in PEERS:
        table.replica(peer, 0.0)
        table.tell(peer, 1, tuple)
    return table


def apply(table: Table, peer: Peer, added: list[Entry], removed: list[Entry]) -> dict[Peer, Change]:
    """A peer's entries change; returns what each neighbour is told."""
    replica = table.replicas[peer]
    for each in removed:
        del replica.entries[each]
    replica.entries.update(dict.fromkeys(added))
    found = list(table.update(peer, added, removed))
    assert len(dict(found)) == len(found), "one change for each neighbour"
    assert peer not in dict(found), "nobody is told what it has told itself"
    return dict(found)


def expected(name: str, entries: list[Entry]) -> list[Entry]:
    reducer = make(name)
    told = dict.fromkeys(reducer.start())
    come, go = reducer.update(entries, ())
    assert not go
    return list_of({**told, **dict.fromkeys(come)})


@pytest.mark.parametrize("steered", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=8)
@given(st.integers(0, 2**32), st.sampled_from([0, 24]))
def test_everybody_is_told_what_the_others_told(name: str, steered: bool, seed: int, scan_up_to: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
        some = Some(random.Random(seed))
        steering = table_of("simple", Kind.ADVERTISEMENTS) if steered else None
        table = table_of(name, steering=steering)
        replicas = {peer: dict(export.sent) for peer, export in table.exports.items()}

        def hear(changes: dict[Peer, Change]) -> None:
            for peer, change in changes.items():
                for each in change.removed:
                    del replicas[peer][each]
                for each in change.added:
                    assert each not in replicas[peer]
                    replicas[peer][each] = None

        for _ in range(some.random.randint(1, 10)):
            peer = some.random.choice(PEERS)
            target = steering if steering is not None and some.random.random() < 0.4 else table
            held = target.replicas[peer].entries
            added = [some.entry() for _ in range(some.random.randrange(3))]
            # The same entry may come from two sides for a moment.
            others = [each for other in PEERS for each in target.replicas[other].entries if each not in held]
            added += some.random.sample(others, min(len(others), some.random.randrange(2)))
            removed = some.random.sample(list(held), min(len(held), some.random.randrange(4)))
            changes = apply(target, peer, added, removed)
            if target is table:
                hear(changes)
            else:
                turned = dict(table.steer(peer, added, removed, table.contents))
                assert set(turned) <= {peer}
                hear(turned)
        for peer in PEERS:
            alpha = [each for other in PEERS if other != peer for each in table.replicas[other].entries]
            if steering is not None:
                ways = [each.where for each in steering.replicas[peer].entries]
                alpha = [each for each in alpha if any(way.overlaps(each.where) for way in ways)]
            some.random.shuffle(alpha)
            told = list_of(table.exports[peer].sent)
            assert told == list_of(replicas[peer]) == expected(name, alpha)
        assert list(table.rebuild(table.contents)) == [], "to work it out anew changes nothing"


def test_a_change_that_matters_to_nobody_is_told_to_nobody() -> None:
    table = table_of("covering")
    assert set(apply(table, "a", [entry("x > 1", "k/1")], [])) == {"b", "c"}
    assert apply(table, "a", [entry("x > 2", "k/2")], []) == {}
    assert apply(table, "a", [], [entry("x > 2", "k/2")]) == {}


def test_what_is_uncovered_travels_with_what_uncovers_it() -> None:
    table = table_of("covering")
    apply(table, "a", [entry("x > 1", "k/1"), entry("x > 2", "k/2")], [])
    changes = apply(table, "a", [], [entry("x > 1", "k/1")])
    assert {(each.added, each.removed) for each in changes.values()} == {((entry("x > 2"),), (entry("x > 1"),))}
    assert set(changes) == {"b", "c"}


def test_a_cover_is_seen_from_each_neighbour_differently() -> None:
    """What a covers by b's filter is still told to b, which does not hear its own."""
    table = table_of("covering")
    apply(table, "b", [entry("x > 1")], [])
    changes = apply(table, "a", [entry("x > 5", "k/1")], [])
    assert set(changes) == {"b"} and changes["b"].added == (entry("x > 5"),)


def test_a_new_neighbour_is_told_all_at_once() -> None:
    table = table_of("covering")
    apply(table, "a", [entry("x > 1", "k/1"), entry("y > 1", "k/2")], [])
    table.replica("d", 0.0)
    table.tell("d", 1, table.contents)
    assert list_of(table.exports["d"].sent) == [entry("x > 1"), entry("y > 1")]
    assert not table.exports["d"].is_settled


def test_a_neighbour_that_comes_back_is_told_by_higher_versions() -> None:
    table = table_of("covering")
    apply(table, "a", [entry("x > 1", "k/1")], [])
    last = table.exports["b"].version
    table.stop_telling("b")
    assert table.stop_hearing("b") == ([], [])
    assert "b" not in table.exports and "b" not in table.replicas
    assert set(apply(table, "a", [entry("y > 1", "k/2")], [])) == {"c"}
    table.replica("b", 0.0)
    table.tell("b", 1, table.contents)
    assert table.exports["b"].version > last
    assert list_of(table.exports["b"].sent) == [entry("x > 1"), entry("y > 1")]


def test_to_stop_hearing_gives_up_what_was_told() -> None:
    table = table_of("simple")
    apply(table, "a", [entry("x > 1", "k/1")], [])
    assert table.stop_hearing("a") == ([], [entry("x > 1", "k/1")])
    assert list(table.contents()) == [] and table.stop_hearing("a") == ([], [])
    table.stop_telling("nobody")
    assert list(table.exports) == list(PEERS)
    assert table.replica("a", 5.0).renewed == 5.0 and table.replica("a", 7.0).renewed == 5.0


def test_rebuild_repairs_what_was_told() -> None:
    table = table_of("simple")
    apply(table, "a", [entry("x > 1", "k/1")], [])
    table.exports["b"].sent.clear()
    table.exports["b"].sent[entry("y > 1", "k/9")] = None
    ((peer, change),) = table.rebuild(table.contents)
    assert (peer, change.added, change.removed) == ("b", (entry("x > 1", "k/1"),), (entry("y > 1", "k/9"),))


def test_rebuild_repairs_what_was_worked_out() -> None:
    """A reducer that has lost its memory is replaced by a new one."""
    table = table_of("covering")
    apply(table, "a", [entry("x > 1", "k/1"), entry("x > 2", "k/2")], [])
    table._outlets["b"]._reducer = make("covering")
    assert list(table.rebuild(table.contents)) == []
    assert apply(table, "a", [], [entry("x > 1", "k/1")])["b"].added == (entry("x > 2"),)


def test_relevance_follows_both_sides() -> None:
    relevance = Relevance()
    low, high, other = entry("x < 5", "k/1"), entry("x > 7", "k/2"), entry("y = 1", "k/3")
    assert relevance.update([low, high, other], []) == ([], [])
    assert relevance.steer([entry("x = 3")], []) == ([low, other], [])
    assert relevance.steer([entry("x BETWEEN 4 AND 8")], []) == ([high], [])
    assert relevance.steer([], [entry("x = 3")]) == ([], [])
    assert relevance.steer([entry("x = 8")], [entry("x BETWEEN 4 AND 8")]) == ([], [low])
    assert relevance.update([], [low, high]) == ([], [high])
    assert relevance.steer([], [entry("x = 8")]) == ([], [other])


def test_relevance_counts_an_entry_that_comes_from_two_sides() -> None:
    relevance = Relevance()
    one = entry("x = 1", "k/1")
    relevance.steer([entry("true")], [])
    assert relevance.update([one], []) == ([one], []) and relevance.update([one], []) == ([], [])
    assert relevance.update([], [one]) == ([], []) and relevance.update([], [one]) == ([], [one])


def test_a_table_that_is_not_steered_turns_for_nobody() -> None:
    outlet = Outlet(Export(Kind.SUBSCRIPTIONS, Version(1, 0)), lambda: make("simple"), steered=False)
    assert outlet.steer([entry("x = 1")], []) is None
    assert list(table_of("simple").steer("nobody", [entry("x = 1")], [], tuple)) == []


def test_a_neighbour_that_steers_by_nothing_costs_nothing() -> None:
    watches = table_of("simple", Kind.WATCHES)
    table = table_of("simple", Kind.INTEREST, watches)
    looks: list[int] = []

    def contents() -> list[tuple[Peer, Entry]]:
        looks.append(1)
        return list(table.contents())

    def is_idle() -> bool:
        return table._outlets["d"].is_idle

    one, two = entry("x = 1", "k/1"), entry("x = 2", "k/2")
    apply(table, "a", [one, two], [])
    table.tell("d", 1, contents)
    assert not looks and is_idle()
    three = entry("x = 3", "k/3")
    apply(table, "a", [three], [])
    relevance = table._outlets["d"]._relevance
    assert relevance is not None and not len(relevance._waiting), "it does not follow what cannot concern it"
    watch = entry("x < 2", "d/1")
    watches.replica("d", 0.0).entries[watch] = None
    ((_, change),) = table.steer("d", [watch], [], contents)
    assert change.added == (one,) and len(looks) == 1 and not is_idle()
    del watches.replicas["d"].entries[watch]
    ((_, change),) = table.steer("d", [], [watch], contents)
    assert change.removed == (one,) and len(looks) == 1 and is_idle()
    assert apply(table, "a", [], [one]) == {}
