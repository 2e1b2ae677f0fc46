"""What a client got in order: nothing earlier follows, over all of its links, and it says how far it is."""

from __future__ import annotations

import pytest

from sluice import parse
from sluice.client.session.commands import Delivered, Subscribe, Withheld
from sluice.client.session.session import Session
from sluice.errors import ProtocolError
from sluice.protocol.batch import Records, Stamp
from sluice.protocol.events import LinkDown, LinkUp, Received, Send
from sluice.protocol.messages import Await, Deliver, Replay, Role


def linked() -> Session:
    session = Session("c")
    session.step(LinkUp("b", Role.BROKER), 0.0)
    session.step(Subscribe("c/1", parse("n > 0"), ordered=True), 0.0)
    return session


def deliver(time: int, number: int, *more: int, ordered: bool = True, publisher: str = "p") -> Received:
    numbers = (number, *more)
    batch = Records(publisher, numbers, records=[{"n": n} for n in numbers], stamp=Stamp(time, "b"))
    return Received("b", Deliver(batch, (("c/1",),), ordered=ordered))


def told(session: Session, event: Received) -> list[tuple[type, list[int]]]:
    return [
        (type(each), [*each.batch.numbers])
        for each in session.step(event, 1.0)
        if isinstance(each, Delivered | Withheld)
    ]


def test_what_comes_in_order_is_delivered() -> None:
    session = linked()
    assert told(session, deliver(1, 1, 2)) == [(Delivered, [1, 2])]
    assert told(session, deliver(1, 3)) == [(Delivered, [3])], "more of the same batch"
    assert told(session, deliver(2, 4)) == [(Delivered, [4])]


def test_what_comes_too_late_is_withheld() -> None:
    session = linked()
    assert told(session, deliver(5, 10)) == [(Delivered, [10])]
    assert told(session, deliver(4, 1, 2, publisher="q")) == [(Withheld, [1, 2])]
    assert told(session, deliver(5, 9, 11)) == [(Withheld, [9]), (Delivered, [11])]
    assert told(session, deliver(1, 1, ordered=False, publisher="r")) == [(Delivered, [1])]
    assert told(session, deliver(6, 12)) == [(Delivered, [12])]


def test_what_something_later_of_its_publisher_has_overtaken_is_withheld() -> None:
    session = linked()
    assert told(session, deliver(0, 7, ordered=False)) == [(Delivered, [7])]
    assert told(session, deliver(5, 6, 8)) == [(Withheld, [6]), (Delivered, [8])]
    assert told(session, deliver(6, 1, publisher="q")) == [(Delivered, [1])]
    assert told(session, deliver(0, 5, ordered=False)) == [(Delivered, [5])], "a cache may send what is older"


def test_what_came_before_is_not_called_late() -> None:
    session = linked()
    assert told(session, deliver(5, 10)) == [(Delivered, [10])]
    assert told(session, deliver(5, 10)) == []


def test_over_a_new_link_it_says_how_far_it_is_before_all_else() -> None:
    session = linked()
    first = session.step(LinkUp("b", Role.BROKER), 1.0)
    assert not any(isinstance(each, Send) and isinstance(each.message, Await) for each in first)
    told(session, deliver(7, 1))
    session.step(LinkDown("b"), 1.0)
    assert session.step(LinkUp("b", Role.BROKER), 2.0)[0] == Send("b", Await(7))
    assert told(session, deliver(6, 1, publisher="q")) == [(Withheld, [1])]


def test_order_has_no_past() -> None:
    with pytest.raises(ProtocolError, match="an ordered subscription has no replay"):
        linked().step(Subscribe("c/2", parse("n > 0"), Replay(last=3), ordered=True), 0.0)
