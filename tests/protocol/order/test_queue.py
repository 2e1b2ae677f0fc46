"""Queues: stamps decide, and nothing of one publisher overtakes the rest of it."""

from __future__ import annotations

from sluice.protocol.batch import Records, Stamp
from sluice.protocol.messages import Deliver
from sluice.protocol.order.queue import Queue


def delivery(publisher: str, number: int) -> Deliver:
    return Deliver(Records.of(publisher, number, [{"n": number}]), (("c/1",),))


def names(queue: Queue, limit: float) -> list[str]:
    released = (held.message.batch for held in queue.release(limit))
    return [f"{batch.publisher}{batch.numbers[0]}" for batch in released]


def test_stamps_decide_and_not_the_arrival() -> None:
    queue = Queue()
    queue.hold(delivery("a", 1), Stamp(2, "y"), 0.0)
    queue.hold(delivery("b", 1), Stamp(2, "x"), 0.5)
    queue.hold(delivery("c", 1), Stamp(1, "z"), 1.0)
    queue.hold(delivery("d", 1), Stamp(3, "x"), 1.0)
    assert (len(queue), queue.oldest) == (4, 0.0)
    assert names(queue, 0) == []
    assert names(queue, 2) == ["c1", "b1", "a1"]
    assert names(queue, 3) == ["d1"] and not queue


def test_parts_of_one_batch_are_in_the_order_of_their_numbers() -> None:
    queue = Queue()
    for number in (3, 1, 2):
        queue.hold(delivery("a", number), Stamp(5, "x"), 0.0)
    assert names(queue, 5) == ["a1", "a2", "a3"]


def test_what_is_not_ordered_waits_behind_its_publisher_only() -> None:
    queue = Queue()
    queue.hold(delivery("a", 1), Stamp(5, "x"), 0.0)
    queue.hold(delivery("b", 1), Stamp(6, "x"), 0.0)
    assert not queue.follow(delivery("c", 1), 0.0)
    assert queue.follow(delivery("a", 2), 0.0)
    queue.hold(delivery("a", 3), Stamp(7, "x"), 0.0)
    assert queue.follow(delivery("a", 4), 0.0)
    assert names(queue, 5) == ["a1", "a2"]
    assert names(queue, 9) == ["b1", "a3", "a4"]
    assert not queue.follow(delivery("a", 5), 0.0)
