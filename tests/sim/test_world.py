"""The world: links keep order and delays, faults do what they say, time is what the clocks show, a seed fixes a run."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.errors import SluiceError
from sluice.model.parse import parse
from sluice.protocol.events import LinkDown, LinkUp, Received, Tick
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Kind
from sluice.sim.trace import trace as said
from sluice.sim.world.world import CoreError, NeverQuiet, World

EVERYTHING = parse("true")


def pair(seed: int = 0, **more: Any) -> World:
    """Two brokers, a subscriber to everything at one and a publisher at the other, at rest."""
    world = World(seed, min_delay_seconds=0.5, max_delay_seconds=2.0, **more)
    world.add_broker("a")
    world.add_broker("b")
    world.add_link("a", "b")
    world.add_client("reader", "a")
    world.add_client("writer", "b")
    world.command("reader", client.Subscribe("reader/1", EVERYTHING))
    world.settle()
    return world


def publish(world: World, number: int) -> None:
    world.publish("writer", {"n": number})


def received(world: World) -> list[int]:
    return [notification.record["n"] for notification, _ in world.clients["reader"].deliveries]


class Spy:
    """Writes down the events of every core, with the true time."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[float, str, Any]] = []
        step = World.step

        def spy(this: World, node: Any, event: Any) -> None:
            if this is world and node.core is not None:
                self.seen.append((world.now, node.name, event))
            step(this, node, event)

        monkeypatch.setattr(World, "step", spy)

    def of(self, name: str, *kinds: type) -> list[Any]:
        return [event for _, node, event in self.seen if node == name and isinstance(event, kinds)]


@pytest.mark.parametrize("seed", range(5))
def test_links_keep_the_order_whatever_the_delays(seed: int) -> None:
    world = pair(seed)
    for number in range(100):
        world.run(world.now + 0.01)
        publish(world, number)
    world.settle()
    assert received(world) == list(range(100))


def test_delays_are_within_their_bounds() -> None:
    world = pair()
    for number in range(50):
        start = world.now
        publish(world, number)
        world.settle()
        assert 3 * 0.5 <= world.now - start <= 3 * 2.0


def test_what_is_on_a_link_that_breaks_is_lost_and_nothing_arrives_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    spy = Spy(world, monkeypatch)
    publish(world, 1)
    world.run(world.now + 0.4)
    world.lose_link("a", "b")
    world.settle()
    publish(world, 2)
    world.settle()
    assert received(world) == []
    world.heal_link("a", "b")
    world.settle()
    publish(world, 3)
    world.settle()
    assert received(world) == [3]
    for end in ("a", "b"):
        news = [event for event in spy.of(end, LinkUp, LinkDown, Received) if event.peer in ("a", "b")]
        assert isinstance(news[0], LinkDown) or any(isinstance(one, Received) for one in news[:1])
        down = next(i for i, event in enumerate(news) if isinstance(event, LinkDown))
        assert isinstance(news[down + 1], LinkUp)
        assert sum(isinstance(event, LinkDown | LinkUp) for event in news) == 2


def test_a_link_that_comes_and_goes_at_once_still_tells_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    spy = Spy(world, monkeypatch)
    for _ in range(3):
        world.lose_link("a", "b")
        world.heal_link("a", "b")
    world.settle()
    for end, other in (("a", "b"), ("b", "a")):
        news = [event for event in spy.of(end, LinkUp, LinkDown) if event.peer == other]
        assert [type(event) for event in news] == [LinkDown, LinkUp] * (len(news) // 2)
        assert news
    publish(world, 1)
    world.settle()
    assert received(world) == [1]


def test_a_broker_that_crashes_comes_back_empty_and_learns_everything_again() -> None:
    world = pair()
    node = world.brokers["a"]
    old = node.core
    world.stop_broker("a")
    world.settle()
    publish(world, 1)
    world.settle()
    assert [one.name for one in world.brokers.values() if not one.is_up] == ["a"]
    assert received(world) == []
    world.start_broker("a")
    assert all(one.is_up for one in world.brokers.values())
    assert node.core is not old and node.incarnation == 2
    world.settle()
    publish(world, 2)
    world.settle()
    assert received(world) == [2]


def test_a_client_that_vanishes_is_cleaned_up_after(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    world.stop_client("reader")
    assert world.command("reader", client.Unsubscribe("reader/1")) is False
    world.settle()
    for node in world.brokers.values():
        assert node.core is not None
        for kind, table in node.core.tables.items():
            assert kind == Kind.BROKERS or not list(table.contents())
    world.start_client("reader")
    assert world.clients["reader"].incarnation == 2
    world.settle()
    publish(world, 1)
    world.settle()
    assert received(world) == []


def test_a_client_that_vanishes_unnoticed_is_believed_in_until_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    spy = Spy(world, monkeypatch)
    world.stop_client("reader", unnoticed=True)
    publish(world, 1)
    world.settle()
    core = world.brokers["a"].core
    assert core is not None and "reader" in core.roles and not spy.of("a", LinkDown)
    world.start_client("reader")
    world.settle()
    assert [type(event) for event in spy.of("a", LinkDown, LinkUp)] == [LinkDown, LinkUp]
    assert received(world) == []


def test_clocks_may_be_wrong() -> None:
    lease = LeaseConfig(renew_seconds=10, lease_seconds=30, max_delay_seconds=1, diameter=3)
    world = World(0, BrokerConfig(lease=lease), max_delay_seconds=1.0)
    world.add_broker("slow", offset=-500.0, rate=0.5)
    world.add_broker("fast", offset=70.0, rate=2.0)
    ticks: dict[str, list[float]] = {"slow": [], "fast": []}
    world.after_step = lambda node, event: ticks[node.name].append(world.now) if isinstance(event, Tick) else None
    world.run(100.0)
    assert len(ticks["slow"]) == pytest.approx(100 * 0.5 / 10, abs=1)
    assert len(ticks["fast"]) == pytest.approx(100 * 2.0 / 10, abs=1)


def test_a_core_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()

    def broken(self: Broker, events: object, now: float) -> list[object]:
        raise ValueError("broken")

    monkeypatch.setattr(Broker, "step_all", broken)
    publish(world, 1)
    with pytest.raises(CoreError, match=r"broker b at Received.*ValueError: broken"):
        world.settle()


def test_a_core_that_speaks_on_no_link_is_told_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    world.send(world.brokers["a"], "writer", None)  # type: ignore[arg-type]
    assert [says.split(":")[0] for _, _, says in world.complaints] == ["a speaks to writer, to which it has no link"]


def test_a_deadline_that_never_moves_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = pair()
    monkeypatch.setattr(Broker, "deadline", 3.0)
    publish(world, 1)
    with pytest.raises(CoreError, match=r"stays at 3\.0"):
        world.settle()


def test_messages_that_never_end_are_noticed() -> None:
    world = pair()

    def again() -> None:
        world.call(world.now + 1, again)

    again()
    with pytest.raises(NeverQuiet):
        world.settle(limit=1000)


def test_names_are_unique() -> None:
    world = pair()
    with pytest.raises(SluiceError, match="already"):
        world.add_client("a", "b")


def test_the_trace_tells_what_happened() -> None:
    world = pair()
    publish(world, 7)
    world.settle()
    kinds = [type(event) for event in world.trace]
    for kind in (said.Attached, said.Subscribed, said.Completed, said.Published, said.Notified):
        assert kind in kinds
    assert list(world.trace)[-1] == said.Notified(world.now, "reader", "writer", 1, ("reader/1",))


def test_one_seed_one_trace() -> None:
    def run(seed: int) -> str:
        world = pair(seed)
        publish(world, 1)
        world.lose_link("a", "b")
        world.settle()
        return world.trace.hash()

    assert run(1) == run(1)
    assert run(1) != run(2)
