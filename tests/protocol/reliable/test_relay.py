"""A broker on the way: what it knows too little of it passes on, and what it leaves out it accounts for."""

from __future__ import annotations

import pytest

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.protocol.batch import Batch, Logged, Records
from sluice.protocol.complete import CacheConfig
from sluice.protocol.events import LinkUp, Received, Tick
from sluice.protocol.messages import (
    Ack,
    Clocks,
    Deliver,
    Kind,
    Message,
    Missing,
    Notify,
    Passage,
    Quiet,
    Role,
    Snapshot,
    Version,
)
from tests.protocol.drive import entry, sends


def batch(*prices: int, first: int = 1) -> Batch:
    records = Records.of("alice", first, [{"price": price} for price in prices])
    return records.placed(Logged("p", range(first, first + len(prices)), 0))


def inner(cache: CacheConfig | None = None) -> Broker:
    """A broker between the stream's broker p and two others, x and y, of which it has heard nothing yet."""
    broker = Broker("b", BrokerConfig(durable=True, cache=cache))
    for name in ("p", "x", "y"):
        broker.step(LinkUp(name, Role.BROKER), 0.0)
    return broker


def tell(broker: Broker, peer: str, text: str | None, clocks: Clocks, *brokers: str) -> None:
    """A peer says what is wanted behind it, and which brokers lie there."""
    entries = () if text is None else (entry(text),)
    broker.step(Received(peer, Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), entries, clocks)), 0.0)
    names = tuple(entry("true", name) for name in brokers)
    broker.step(Received(peer, Snapshot(Kind.BROKERS, Version(1, 0), names)), 0.0)


def passed(broker: Broker, clocks: Clocks, *prices: int, first: int = 1) -> dict[str, list[Message]]:
    """What goes on when the stream's broker sends something, silences included."""
    notify = Notify(batch(*prices, first=first), Passage("p", ((first, first + len(prices) - 1),), clocks))
    found: dict[str, list[Message]] = {}
    for send in [*sends(broker, Received("p", notify)), *sends(broker, Tick(), now=100.0)]:
        if isinstance(send.message, Notify | Quiet | Deliver):
            found.setdefault(send.peer, []).append(send.message)
    return found


def prices(messages: list[Message]) -> list[int]:
    return [row["price"] for each in messages if isinstance(each, Notify | Deliver) for row in each.batch.records]


def test_what_nobody_wants_is_left_out_and_accounted_for() -> None:
    broker = inner()
    tell(broker, "x", "price > 5", {"x": 3}, "x")
    tell(broker, "y", None, {}, "y")
    found = passed(broker, {"x": 3}, 9, 1)
    [message] = found.pop("x")
    assert isinstance(message, Notify) and prices([message]) == [9]
    assert message.passage == Passage("p", ((1, 2),), {"x": 3}) and not found
    assert passed(broker, {"x": 2}, 1, first=3) == {"x": [Quiet(Passage("p", ((3, 3),), {"x": 2}))]}


@pytest.mark.parametrize("held", [{}, {"x": 2}])
def test_who_knows_too_little_passes_everything_on(held: Clocks) -> None:
    broker = inner()
    tell(broker, "x", "price > 5", held, "x")
    tell(broker, "y", None, {}, "y")
    found = passed(broker, {"x": 3}, 9, 1)
    assert found.keys() == {"x"} and prices(found["x"]) == [9, 1]


def test_a_broker_of_which_nothing_is_known_may_lie_anywhere() -> None:
    broker = inner()
    tell(broker, "x", "price > 5", {"x": 3}, "x")
    tell(broker, "y", None, {}, "y")
    found = passed(broker, {"z": 1}, 9, 1)
    assert prices(found["x"]) == prices(found["y"]) == [9, 1]


@pytest.mark.parametrize("told", ["x1", "x2"])
def test_a_broker_that_is_back_gets_nothing_for_whom_it_has_no_way_to_yet(told: str) -> None:
    broker = Broker("b", BrokerConfig(durable=True))
    broker.step(LinkUp("p", Role.BROKER), 0.0)
    for name in ("x1", "x2"):
        broker.step(LinkUp(name, Role.BROKER, node="x"), 0.0)
    tell(broker, told, "price > 5", {"z": 3}, "z")
    assert passed(broker, {"z": 3}, 9).keys() == {told}
    other = {"x1": "x2", "x2": "x1"}[told]
    tell(broker, other, "price > 5", {"z": 3}, "z")
    both = passed(broker, {"z": 3}, 9, first=2)
    assert both.keys() == {broker.directions.choose("x", "p")}


def test_caches_keep_what_others_rely_on_too() -> None:
    broker = inner(CacheConfig())
    tell(broker, "x", "price > 5", {"x": 3}, "x")
    passed(broker, {"x": 3}, 9, 1)
    broker.step(LinkUp("bob", Role.CLIENT), 0.0)
    asked = Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), (entry("price < 5", "bob/1"),))
    answers = [send.message for send in sends(broker, Received("bob", asked)) if send.peer == "bob"]
    assert prices(answers) == [1], "it was published before the subscription was complete"
    again = passed(broker, {"x": 3}, 9, 1)
    assert prices(again["x"]) == [9], "somebody may rely on it"
    assert "bob" not in again, "bob has it already"


def test_what_comes_again_for_one_is_there_for_the_next_who_has_missed_it() -> None:
    broker = inner()
    tell(broker, "p", None, {}, "p")
    tell(broker, "x", "price > 5", {"x": 3}, "x")
    tell(broker, "y", "price > 5", {"y": 4}, "y")

    def ask(by: str, clock: int) -> list[str]:
        missing = Missing("p", by, ((1, 1),), clock)
        return [send.peer for send in sends(broker, Received(by, missing)) if not isinstance(send.message, Ack)]

    assert ask("x", 3) == ["p"]
    again = Notify(batch(9), Passage("p", ((1, 1),), {"x": 3}, "x"))
    assert [send.peer for send in sends(broker, Received("p", again))] == ["x"]
    assert ask("y", 4) == ["y"], "it need not come from the log once more"
