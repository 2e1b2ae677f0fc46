"""Where a notification goes next, with the index made late or early."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.match import filterset
from sluice.protocol.export import Export
from sluice.protocol.messages import Entry, Kind, Peer, Version
from sluice.protocol.route.forward import Forwarding
from sluice.protocol.route.reduce import RoutingOptions, algorithm
from sluice.protocol.route.table import Table
from tests.protocol.drive import entry
from tests.protocol.route.some import Some


def table_of() -> Table:
    return Table(Kind.SUBSCRIPTIONS, lambda: algorithm("simple")(RoutingOptions()))


def give(table: Table, peer: Peer, entries: list[Entry]) -> None:
    export = Export(Kind.SUBSCRIPTIONS, Version(1, 0))
    export.change(entries, [])
    table.replica(peer, 0.0)
    table.replicas[peer].snapshot(export.snapshot())


def test_a_notification_goes_to_each_peer_for_its_entries() -> None:
    table = table_of()
    give(table, "alice", [entry("x > 1", "alice/1"), entry("x > 5", "alice/2"), entry("x > 2", "alice/3")])
    give(table, "b", [entry("x > 1")])
    forwarding = Forwarding(table)
    assert forwarding.find([{"x": 3}, {"x": 0}]) == [
        {"alice": [entry("x > 1", "alice/1"), entry("x > 2", "alice/3")], "b": [entry("x > 1")]},
        {},
    ]
    assert forwarding.find([]) == []


@pytest.mark.parametrize("scan_up_to", [0, 24])
@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_the_index_follows_the_table(scan_up_to: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
        some = Some(random.Random(seed))
        table = table_of()
        for peer in "abc":
            table.replica(peer, 0.0)
        forwarding = Forwarding(table)
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
            expected = [
                {
                    peer: {each for each in replica.entries if each.where.matches(record)}
                    for peer, replica in table.replicas.items()
                }
                for record in records
            ]
            for _ in range(2):
                found = [{peer: set(each) for peer, each in one.items()} for one in forwarding.find(records)]
                assert found == [{peer: each for peer, each in one.items() if each} for one in expected]
                if some.random.random() < 0.2:
                    forwarding.reset()


def test_a_reset_makes_a_damaged_index_anew() -> None:
    table = table_of()
    give(table, "b", [entry("x > 1")])
    forwarding = Forwarding(table)
    forwarding.find([{"x": 3}])
    assert forwarding._index is not None
    forwarding._index.remove(("b", entry("x > 1")))
    assert forwarding.find([{"x": 3}]) == [{}]
    forwarding.reset()
    assert forwarding.find([{"x": 3}]) == [{"b": [entry("x > 1")]}]
