"""Where a query stands: it goes on where it stopped, fairly, and a batch that is run again reads the same."""

from __future__ import annotations

import pytest

from sluice.errors import RequestError
from sluice.protocol.batch import Peer
from sluice.spark.offsets import Position, advance, ranges


def at(start: int, next_offset: int) -> Position:
    return {"from": start, "next": next_offset}


def earliest(stream: Peer, held: range) -> int:
    return held.start


def latest(stream: Peer, held: range) -> int:
    return held.stop


def test_a_stream_begins_where_it_is_told_and_goes_on_from_there() -> None:
    held = {"b1": range(5, 11)}
    assert advance({}, held, earliest) == {"b1": at(5, 11)}
    begun = advance({}, held, latest)
    assert begun == {"b1": at(11, 11)} and ranges({}, begun) == {}
    more = advance(begun, {"b1": range(7, 21)}, earliest)
    assert more == {"b1": at(11, 21)} and ranges(begun, more) == {"b1": range(11, 21)}
    assert advance(more, {"b1": range(7, 21)}, earliest) == more, "nothing new is no new batch"


def test_the_first_batch_knows_where_it_began() -> None:
    """Spark forgets where a query started before it has committed a batch; by then the log may begin later, or be longer."""
    end = advance({}, {"b1": range(5, 11)}, earliest)
    assert ranges({}, end) == {"b1": range(5, 11)}


def test_what_cannot_be_reached_stays_where_it_is_and_what_is_new_is_begun() -> None:
    start = {"b1": at(1, 11)}
    end = advance(start, {"b2": range(1, 4)}, earliest)
    assert end == {"b1": at(1, 11), "b2": at(1, 4)} and ranges(start, end) == {"b2": range(1, 4)}


def test_a_limit_is_shared_by_what_waits() -> None:
    start, held = (
        {"b1": at(1, 1), "b2": at(1, 1), "b3": at(1, 11)},
        {"b1": range(1, 901), "b2": range(1, 101), "b3": range(1, 11)},
    )
    end = advance(start, held, earliest, max_rows=100)
    assert {stream: len(each) for stream, each in ranges(start, end).items()} == {"b1": 90, "b2": 10}
    assert advance(start, held, earliest, max_rows=1_000) == advance(start, held, earliest)
    rounds = 0
    while end != (end := advance(end, held, earliest, max_rows=7)):
        rounds += 1
    assert end == {"b1": at(1, 901), "b2": at(1, 101), "b3": at(1, 11)} and rounds <= 130


def test_another_log_is_noticed() -> None:
    start = {"b1": at(1, 100)}
    with pytest.raises(RequestError, match=r"the log of b1 ends at offset 9, and 99 was read.*fail_on_loss=false"):
        advance(start, {"b1": range(1, 10)}, earliest)
    end = advance(start, {"b1": range(1, 10)}, earliest, fail_on_loss=False)
    assert ranges(start, end) == {"b1": range(1, 10)}
