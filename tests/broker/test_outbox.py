"""What waits for a subscriber: as much as its credit and its policy say, and it hears of what was dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.broker.outbox import Outbox
from sluice.protocol.batch import Records
from sluice.protocol.messages import Deliver, Passed, Started
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import FrameReader
from sluice.protocol.wire.link import Anything, Dropped, Policy


def delivery(first: int, count: int = 1, size: int = 10) -> Deliver:
    return Deliver(Records.of("ann", first, [{"x": "a" * size}] * count), (("bob/1",),))


def weight(message: Deliver) -> int:
    """What a delivery weighs in an outbox."""
    outbox = Outbox(Policy.BLOCK, 1, 0)
    outbox.put(message)
    return outbox.bytes


def sent(outbox: Outbox) -> list[Anything]:
    """What goes out now."""
    reader = FrameReader(1 << 30)
    data = b"".join(piece for pieces in outbox.ready() for piece in pieces)
    return [decode(type, payload) for type, payload in reader.feed(data)]


def numbers(messages: list[Anything]) -> list[int]:
    return [number for message in messages if isinstance(message, Deliver) for number in message.batch.numbers]


def test_nothing_goes_out_without_credit() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 10_000, 0)
    outbox.put(delivery(1))
    assert sent(outbox) == [] and outbox.bytes == weight(delivery(1))
    outbox.grant(1)
    assert numbers(sent(outbox)) == [1] and outbox.bytes == 0
    outbox.put(delivery(2))
    outbox.grant(1)
    assert sent(outbox) == [], "the total counts from the beginning of the connection"
    outbox.grant(0)
    outbox.grant(2)
    assert numbers(sent(outbox)) == [2], "and never goes back"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=30))
def test_a_delivery_goes_out_whole_while_there_is_credit(steps: list[tuple[int, int]]) -> None:
    outbox = Outbox(Policy.BLOCK, 1 << 20, 0)
    put = total = 0
    gone: list[int] = []
    for count, grant in steps:
        outbox.put(delivery(put + 1, count))
        put, total = put + count, total + grant
        outbox.grant(total)
        before = len(gone)
        gone += numbers(sent(outbox))
        assert gone == [*range(1, len(gone) + 1)]
        assert len(gone) < total + 4 and (len(gone) == before or before < total), (
            "one delivery beyond the credit at most"
        )
        assert len(gone) >= min(total, put)


def test_the_oldest_are_dropped_and_the_subscriber_is_told_once() -> None:
    one = weight(delivery(1))
    outbox = Outbox(Policy.DROP_OLDEST, 3 * one, 0)
    for number in range(1, 8):
        outbox.put(delivery(number))
    assert outbox.bytes == 3 * one and outbox.dropped == 4
    assert sent(outbox) == [], "without credit it is not told either"
    outbox.grant(100)
    assert [*map(type, sent(outbox))] == [Dropped, Deliver, Deliver, Deliver]
    for number in range(8, 13):
        outbox.put(delivery(number))
    found = sent(outbox)
    assert found[0] == Dropped(2) and numbers(found) == [10, 11, 12] and outbox.dropped == 6
    assert sent(outbox) == []


def test_it_is_told_once_though_nothing_else_can_go_out() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 1, 5)
    for number in (1, 2, 3):
        outbox.put(delivery(number))
    first = next(iter(outbox.ready()))
    assert b"".join(first) == b"".join(encode(Dropped(2)))
    assert [type(message) for message in sent(outbox)] == [Deliver], "the rest, and nothing twice"


def test_what_is_dropped_is_counted_by_notification() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 1, 0)
    outbox.put(delivery(1, count=5))
    outbox.put(delivery(6, count=2))
    assert outbox.dropped == 5
    assert outbox.drop() == weight(delivery(6, count=2)) and outbox.dropped == 7 and outbox.bytes == 0


def test_one_delivery_waits_though_it_is_too_large() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 100, 10)
    outbox.put(delivery(1, size=100_000))
    assert outbox.is_full and outbox.dropped == 0 and numbers(sent(outbox)) == [1]


def state(outbox: Outbox) -> tuple[bool, bool, bool]:
    return outbox.holds_up, outbox.is_hopeless, outbox.can_drop


def test_policies() -> None:
    for policy, holds_up, is_hopeless, can_drop in (
        (Policy.DROP_OLDEST, False, False, True),
        (Policy.BLOCK, True, False, False),
        (Policy.DISCONNECT, False, True, False),
    ):
        outbox = Outbox(policy, 100, 0)
        assert state(outbox) == (False, False, False)
        outbox.put(delivery(1))
        assert state(outbox) == (holds_up, is_hopeless, can_drop)
        outbox.grant(1)
        assert numbers(sent(outbox)) == [1]
        assert state(outbox) == (False, False, False)


def test_a_remark_waits_behind_deliveries_and_needs_no_credit() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 10_000, 0)
    started, passed = Started("b", 1, ("bob/1",)), Passed({}, ("bob/1",), 7)
    outbox.put(started)
    assert sent(outbox) == [started]
    outbox.put(delivery(1))
    outbox.put(passed)
    assert sent(outbox) == []
    outbox.grant(1)
    assert [*map(type, sent(outbox))] == [Deliver, Passed] and outbox.bytes == 0 and not outbox.can_drop


def test_what_was_dropped_is_told_where_it_would_have_come_and_no_remark_is_lost() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 1, 0)
    remarks: list[Passed | Started] = [
        Passed({}, ("bob/1",), 6),
        Started("b", 1, ("bob/1",)),
        Passed({}, ("bob/1",), 7),
        Passed({"b": 4}, ("bob/2",)),
    ]
    for number, remark in enumerate(remarks, 1):
        outbox.put(delivery(number))
        outbox.put(remark)
    outbox.put(delivery(5))
    assert outbox.dropped == 4
    outbox.grant(10)
    found = sent(outbox)
    assert found[:-1] == [Dropped(2), remarks[1], Dropped(1), remarks[2], Dropped(1), remarks[3]], (
        "the last of its kind"
    )
    assert numbers(found) == [5] and outbox.bytes == 0


def test_a_slow_subscriber_collects_no_remarks() -> None:
    outbox = Outbox(Policy.DROP_OLDEST, 3 * weight(delivery(1)), 0)
    for number in range(1, 1_000):
        outbox.put(delivery(number))
        outbox.put(Passed({}, ("bob/1",), number))
    assert outbox.bytes < 6 * weight(delivery(1))
