"""The subscriber's broker: what its clients are told."""

from __future__ import annotations

from sluice.model import parse
from sluice.protocol.messages import Entry, Passed, Started
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.subscribers import Piece, Subscribers


def test_clients_are_told_how_far_they_are_when_they_have_come_further() -> None:
    subscribers = Subscribers("b", 0, ReliableConfig())
    subscribers.update("ann", [Entry(parse("price > 5"), "ann/1", reliable=True)], ())
    assert [*subscribers.progress()] == [], "it has not started anywhere"
    clock = subscribers.clocks["b"]
    assert [*subscribers.hear("s", 3, clock, 0, 0.0)] == [("ann", Started("s", 4, ("ann/1",)))]
    assert [*subscribers.progress()] == [("ann", Passed({"s": 3}, ("ann/1",)))]
    assert [*subscribers.progress()] == []
    assert [*subscribers.take("s", Piece(((4, 9),), None, clock), 0.0)] == [], "a silence says nothing to a client"
    assert [*subscribers.progress()] == [("ann", Passed({"s": 9}, ("ann/1",)))]
    assert [*subscribers.progress()] == []
