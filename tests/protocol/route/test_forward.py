"""Where a notification goes next, with the index made late or early."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.match import filterset
from sluice.protocol.batch import Batch, Peer, Records, Rows
from sluice.protocol.export import Export
from sluice.protocol.messages import Entry, EntryId, Kind, Version
from sluice.protocol.route import forward
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.forward import Forwarding, Route
from sluice.protocol.route.reduce import RoutingOptions, algorithm
from sluice.protocol.route.table import Table
from tests.protocol.drive import entry
from tests.protocol.route.some import Some

Pairs = dict[Peer, list[tuple[int, tuple[EntryId, ...]]]]


def table_of() -> Table:
    return Table(Kind.SUBSCRIPTIONS, lambda: algorithm("simple")(RoutingOptions()), Directions("me"))


def give(table: Table, peer: Peer, entries: list[Entry]) -> None:
    export = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
    export.change(entries, [])
    table.replica(peer, 0.0)
    table.replicas[peer].snapshot(export.snapshot())


def found(forwarding: Forwarding, records: list[Any]) -> Pairs:
    """For each peer the rows that are for it, and its subscriptions."""
    (routes,) = forwarding.find([Records.of("p", 1, records)])
    return as_pairs(routes)


def as_pairs(routes: dict[Peer, Route]) -> Pairs:
    """Every row of a route with its subscriptions."""
    return {
        peer: [(row, ids[which[place] if which else 0]) for place, row in enumerate(rows)]
        for peer, (rows, ids, which) in routes.items()
    }


def test_a_notification_goes_to_each_peer_for_its_entries() -> None:
    table = table_of()
    give(table, "alice", [entry("x > 1", "alice/1"), entry("x > 5", "alice/2"), entry("x > 2", "alice/3")])
    give(table, "b", [entry("x > 1")])
    forwarding = Forwarding(table, Directions("me"))
    assert found(forwarding, [{"x": 3}, {"x": 0}, {"x": 9}]) == {
        "alice": [(0, ("alice/1", "alice/3")), (2, ("alice/1", "alice/2", "alice/3"))],
        "b": [(0, ()), (2, ())],
    }
    assert found(forwarding, []) == {} and [*forwarding.find([])] == []


@pytest.mark.parametrize("many", [0, 256])
@pytest.mark.parametrize("scan_up_to", [0, 24])
def test_batches_of_any_form_are_matched_together(scan_up_to: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
    monkeypatch.setattr(forward, "MANY", many)
    table = table_of()
    give(table, "alice", [entry("x > 1", "alice/1"), entry("x > 5", "alice/2")])
    forwarding = Forwarding(table, Directions("me"))
    rows = Rows("q", range(1, 4), table=pa.RecordBatch.from_pylist([{"x": 2}, {"x": 0}, {"x": 7}]))
    batches: list[Batch] = [Records.of("p", 1, [{"x": 0}]), Records.of("p", 2, [{"x": 3}, {"x": 9}])]
    plain = [{}, {"alice": [(0, ("alice/1",)), (1, ("alice/1", "alice/2"))]}]
    assert [as_pairs(routes) for routes in forwarding.find(batches)] == plain
    mixed = [*plain, {"alice": [(0, ("alice/1",)), (2, ("alice/1", "alice/2"))]}]
    assert [as_pairs(routes) for routes in forwarding.find([*batches, rows])] == mixed


@pytest.mark.parametrize("many", [0, 256])
@pytest.mark.parametrize("scan_up_to", [0, 24])
@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_the_index_follows_the_table(scan_up_to: int, many: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
        patch.setattr(forward, "MANY", many)
        some = Some(random.Random(seed))
        table = table_of()
        for peer in "abc":
            table.replica(peer, 0.0)
        forwarding = Forwarding(table, Directions("me"))
        for _ in range(8):
            peer = some.random.choice("abc")
            held = table.replicas[peer].entries
            added = [some.entry() for _ in range(some.random.randrange(4))]
            removed = some.random.sample(list(held), min(len(held), some.random.randrange(3)))
            for each in removed:
                del held[each]
            held.update(dict.fromkeys(added))
            forwarding.update(peer, added, removed)
            records = some.records([each.where for each in added])[:8]
            expected: dict[Peer, list[tuple[int, set[EntryId]]]] = {}
            for row, record in enumerate(records):
                for other, replica in table.replicas.items():
                    matching = [each for each in replica.entries if each.where.matches(record)]
                    if matching:
                        ids = {each.id for each in matching if each.id is not None}
                        expected.setdefault(other, []).append((row, ids))
            for _ in range(2):
                routes = found(forwarding, records)
                assert {peer: [(row, set(ids)) for row, ids in pairs] for peer, pairs in routes.items()} == expected
                if some.random.random() < 0.2:
                    forwarding.reset()


def test_a_reset_makes_a_damaged_index_anew() -> None:
    table = table_of()
    give(table, "b", [entry("x > 1")])
    forwarding = Forwarding(table, Directions("me"))
    found(forwarding, [{"x": 3}])
    assert forwarding._index is not None
    forwarding._index.remove(("b", entry("x > 1")))
    assert found(forwarding, [{"x": 3}]) == {}
    forwarding.reset()
    assert found(forwarding, [{"x": 3}]) == {"b": [(0, ())]}
