"""Order without loss at the subscriber's broker: who is told how far all streams are, and which streams are asked."""

from __future__ import annotations

import math

from sluice.model import parse
from sluice.protocol.batch import Batch, Logged, Peer, Records
from sluice.protocol.messages import Entry, Passed, Ready
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.moments import Moments
from sluice.protocol.reliable.subscribers import Piece, Subscribers, ToClient


def relying(*streams: Peer) -> tuple[Subscribers, Moments]:
    """A broker with one ordered subscription that has started in some streams, all at the moment 1."""
    subscribers = Subscribers("b", 0, ReliableConfig(gap_seconds=1.0, patience_seconds=3.0))
    subscribers.update("ann", [Entry(parse("n > 0"), "ann/1", reliable=True, ordered=True)], ())
    moments = Moments("b", subscribers, ReliableConfig(gap_seconds=1.0, patience_seconds=3.0))
    for stream in streams:
        hear(subscribers, stream, 0, 1)
    assert [*subscribers.ready(streams)] == [("ann", Ready(("ann/1",)))]
    return subscribers, moments


def hear(subscribers: Subscribers, stream: Peer, offset: int, moment: int) -> None:
    for _ in subscribers.hear(stream, offset, subscribers.clocks["b"], moment, 0.0):
        pass


def take(subscribers: Subscribers, stream: Peer, offset: int, moment: int, *, is_whole: bool = True) -> None:
    batch: Batch = Records.of("eve", moment, [{"n": moment}]).placed(Logged(stream, [offset], 0, moment))
    piece = Piece(((offset, offset),), batch, subscribers.clocks["b"], moment=moment if is_whole else 0)
    for _ in subscribers.take(stream, piece, 0.0):
        pass


def told(messages: list[ToClient]) -> list[int]:
    assert all(client == "ann" and isinstance(message, Passed) for client, message in messages)
    return [message.moment for _, message in messages if isinstance(message, Passed)]


def asked(moments: Moments, now: float = 0.0) -> list[tuple[Peer, int]]:
    found = [*moments.ask(now)]
    assert all(each.by == "b" and not each.runs for each in found)
    return [(each.stream, each.moment) for each in found]


def test_a_client_is_told_what_all_streams_are_past() -> None:
    subscribers, moments = relying("s", "t")
    assert told([*moments.settle(0)]) == [1] and not subscribers.behind
    take(subscribers, "s", 1, 5)
    assert told([*moments.settle(0)]) == [] and [*moments.waits_for] == ["t"] and asked(moments) == [("t", 5)]
    hear(subscribers, "t", 0, 8)
    assert told([*moments.settle(0)]) == [5] and [*moments.waits_for] == []


def test_one_question_at_a_time_is_asked_until_it_is_answered() -> None:
    subscribers, moments = relying("s", "t")
    assert told([*moments.settle(0)]) == [1]
    for moment in (5, 6):
        take(subscribers, "s", moment - 4, moment)
        assert told([*moments.settle(0)]) == []
        assert asked(moments) == ([("t", 5)] if moment == 5 else [])
    assert moments.deadline == 1.0 and asked(moments, 1.0) == [("t", 6)] and moments.deadline == 3.0
    assert asked(moments, 3.0) == [("t", 6)] and moments.deadline == 6.0
    hear(subscribers, "t", 0, 6)
    assert told([*moments.settle(0)]) == [6] and moments.deadline == math.inf


def test_an_answer_counts_when_all_before_it_has_come() -> None:
    subscribers, moments = relying("s", "t")
    assert told([*moments.settle(0)]) == [1]
    take(subscribers, "s", 1, 5)
    hear(subscribers, "t", 2, 8)
    assert told([*moments.settle(0)]) == []
    take(subscribers, "t", 1, 3)
    take(subscribers, "t", 2, 4)
    assert told([*moments.settle(0)]) == [5]


def test_a_part_of_what_was_stored_together_tells_nothing() -> None:
    subscribers, moments = relying("s")
    assert told([*moments.settle(0)]) == [1]
    take(subscribers, "s", 1, 5, is_whole=False)
    assert told([*moments.settle(0)]) == [] and asked(moments) == [("s", 5)]


def test_its_own_stream_is_as_far_as_this_broker_promises() -> None:
    subscribers, moments = relying("b", "s")
    assert told([*moments.settle(2)]) == [1]
    take(subscribers, "s", 1, 5)
    assert told([*moments.settle(4)]) == [4] and moments.own == 5 and asked(moments) == []
    assert told([*moments.settle(5)]) == [5] and moments.own == 0


def test_who_starts_in_a_stream_hears_of_it_how_far_it_is() -> None:
    subscribers, moments = relying("s")
    take(subscribers, "s", 1, 5)
    assert told([*moments.settle(0)]) == [5]
    piece = Piece(((4, 7),), None, subscribers.clocks["b"])
    assert [type(message).__name__ for _, message in subscribers.take("t", piece, 0.0)] == ["Started"]
    assert told([*moments.settle(0)]) == [] and asked(moments) == [("t", 5)], "its client may read what is in the log"
    hear(subscribers, "t", 7, 9)
    assert told([*moments.settle(0)]) == [5] and [*moments.waits_for] == ["s"] and asked(moments) == [("s", 9)]
    hear(subscribers, "s", 1, 9)
    assert told([*moments.settle(0)]) == [9] and not moments.waits_for


def test_who_leaves_waits_for_nothing() -> None:
    subscribers, moments = relying("s", "t")
    take(subscribers, "s", 1, 5)
    assert told([*moments.settle(0)]) == [1] and [*moments.waits_for] == ["t"]
    subscribers.update("ann", (), [Entry(parse("n > 0"), "ann/1", reliable=True, ordered=True)])
    assert [*moments.settle(0)] == [] and moments.deadline == math.inf and not moments.waits_for
