"""Events that come together have the effects that they would have had one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.broker import Broker, BrokerConfig
from sluice.client.session.commands import Advertise, Publish, Subscribe, Unsubscribe, Watch
from sluice.client.session.session import Session
from sluice.match import filterset
from sluice.protocol.batch import Batch, Logged, Records
from sluice.protocol.complete import CacheConfig
from sluice.protocol.events import Effect, Event, LinkDown, LinkUp, NotStored, Received, Send, Store, Stored
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Change,
    Deliver,
    Halted,
    Kind,
    Notify,
    Refused,
    Role,
    Snapshot,
    Version,
)
from sluice.sim.fresh import tables_of
from tests.protocol.drive import entry
from tests.protocol.route.some import Some

CLIENTS = ("alice", "bob")
BROKERS = ("north", "south")


class Story:
    """Things that may happen around one broker, in an order that the peers agree with."""

    def __init__(self, source: random.Random, durable: bool) -> None:
        self.random = source
        self.some = Some(source)
        self.sessions = {name: Session(name) for name in CLIENTS}
        self.versions = dict.fromkeys(BROKERS, 0)
        self.numbers = dict.fromkeys(BROKERS, 0)
        self.told: dict[str, list[Any]] = {name: [] for name in BROKERS}
        self.durable = durable

    def begin(self) -> Iterator[Event]:
        for name in CLIENTS:
            yield LinkUp(name, Role.CLIENT)
            for effect in self.sessions[name].step(LinkUp("b", Role.BROKER, 0 if self.durable else None), 0.0):
                if isinstance(effect, Send):
                    yield Received(name, effect.message)
        for name in BROKERS:
            yield LinkUp(name, Role.BROKER)
            yield Received(name, Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), ()))

    def event(self) -> Event:
        name = self.random.choice((*CLIENTS, *CLIENTS, *BROKERS))
        return self.of_client(name) if name in CLIENTS else self.of_broker(name)

    def of_client(self, name: str) -> Event:
        session = self.sessions[name]
        held = list(session.entries[Kind.SUBSCRIPTIONS])
        command: Any
        match self.random.randrange(9):
            case 0 | 1:
                command = Subscribe(session.new_id(), self.some.filter())
            case 2 if held:
                command = Unsubscribe(self.random.choice(held))
            case 3:
                command = Advertise(session.new_id(), self.some.filter())
            case 4:
                command = Watch(session.new_id(), self.some.filter())
            case _:
                command = Publish(session.batch(self.records()))
        (message,) = [effect.message for effect in session.step(command, 0.0) if isinstance(effect, Send)]
        return Received(name, message)

    def of_broker(self, name: str) -> Event:
        if self.random.random() < 0.6:
            first = self.numbers[name] + 1
            batch = Records.of(f"far-{name}", first, self.records())
            self.numbers[name] = batch.numbers[-1]
            return Received(name, Notify(batch))
        version = self.versions[name]
        self.versions[name] += 1
        added, removed = [entry(self.some.filter().to_sql())], self.told[name][:1]
        added = [] if added[0] in self.told[name] else added
        self.told[name] = [*self.told[name][1:], *added]
        return Received(
            name, Change(Kind.SUBSCRIPTIONS, Version(1, version), Version(1, version + 1), tuple(added), tuple(removed))
        )

    def records(self) -> list[dict[str, Any]]:
        return [dict(each) for each in self.some.records([self.some.filter()])[: self.random.randint(1, 3)]]


def answers(effects: Sequence[Effect]) -> Iterator[Event]:
    """What neighbours say to what they were told, and a disk to what it was given: a part of it does not find room."""
    failing: set[str] = set()
    for effect in effects:
        if isinstance(effect, Send) and effect.peer in BROKERS and isinstance(effect.message, Change):
            yield Received(effect.peer, Ack(effect.message.kind, effect.message.version))
        if isinstance(effect, Store):
            batch, after, moment = effect
            if batch.publisher in failing or batch.numbers[-1] % 3 == 0:
                failing.add(batch.publisher)
                yield NotStored(batch, after, "full", moment)
            else:
                yield Stored(batch.placed(Logged("b", batch.numbers, 0, moment)))


def outcome(effects: Sequence[Effect]) -> object:
    """What the peers come to know, in order. Acknowledgements may come together; they and refusals may overtake the rest."""
    said: dict[str, list[object]] = {}
    last: dict[object, object] = {}
    others: list[object] = []
    for effect in effects:
        match effect:
            case Send(peer, Accepted() | Ack() as message):
                last[peer, type(message), getattr(message, "kind", None)] = message
            case Send(peer, Refused() | Halted() as message):
                others.append((peer, message))
            case Send(peer, Notify(batch)):
                said.setdefault(peer, []).extend((note, _place(batch)) for note in batch)
            case Send(peer, Deliver() as message):
                said.setdefault(peer, []).extend((each, _place(message.batch)) for each in message.deliveries)
            case Send(peer, message):
                said.setdefault(peer, []).append(message)
            case _:
                others.append(effect)
    return said, last, others


def _place(batch: Batch) -> str | None:
    return None if batch.logged is None else batch.logged.stream


@pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])
@pytest.mark.parametrize("cache", [None, CacheConfig()], ids=["", "cache"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), scan=st.booleans())
def test_together_is_as_one_by_one(cache: CacheConfig | None, durable: bool, seed: int, scan: bool) -> None:
    source = random.Random(seed)
    advertisements = source.choice((None, "covering"))
    config = BrokerConfig(advertisements=advertisements, cache=cache, durable=durable)
    story = Story(source, durable)
    one, other = Broker("b", config), Broker("b", config)
    effects: list[Effect] = []
    together: list[Effect] = []
    with pytest.MonkeyPatch.context() as patch:
        if not scan:
            patch.setattr(filterset, "SCAN_UP_TO", 0)
        for event in story.begin():
            assert one.step(event, 0.0) == other.step(event, 0.0)
        events = [story.event() for _ in range(30)]
        while events:
            for event in events:
                effects += one.step(event, 0.0)
            rest = events
            while rest:
                count = source.randint(1, len(rest))
                together += other.step_all(rest[:count], 0.0)
                rest = rest[count:]
            assert outcome(effects) == outcome(together)
            events = [*answers(effects)]
            effects, together = [], []
    assert tables_of(one) == tables_of(other)


def test_a_link_that_goes_and_comes_is_seen_in_order() -> None:
    broker = Broker("b", BrokerConfig())
    subscribed = Snapshot(Kind.SUBSCRIPTIONS, Version(1, 1), (entry("x > 1", "alice/1"),))

    def published(number: int) -> Received:
        return Received("bob", Notify(Records.of("bob", number, [{"x": 2}])))

    effects = broker.step_all(
        [
            LinkUp("alice", Role.CLIENT),
            LinkUp("bob", Role.CLIENT),
            published(1),
            Received("alice", subscribed),
            published(2),
            published(3),
            LinkDown("alice"),
            published(4),
            LinkUp("alice", Role.CLIENT),
            Received("alice", subscribed),
            published(5),
        ],
        0.0,
    )
    delivered = [
        effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Deliver)
    ]
    assert [number for message in delivered for number in message.batch.numbers] == [2, 3, 5]


def test_what_comes_together_is_matched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker("b", BrokerConfig())
    asked: list[int] = []
    find = type(broker.forwarding).find

    def spy(self: Any, batches: Sequence[Batch]) -> Any:
        asked.append(len(batches))
        return find(self, batches)

    monkeypatch.setattr(type(broker.forwarding), "find", spy)
    broker.step_all([LinkUp("alice", Role.CLIENT), LinkUp("bob", Role.CLIENT)], 0.0)
    wish = Snapshot(Kind.SUBSCRIPTIONS, Version(1, 1), (entry("true", "alice/1"),))
    numbered = [Received("bob", Notify(Records.of("bob", number, [{"x": number}]))) for number in range(1, 6)]
    broker.step_all([*numbered[:3], Received("alice", wish), *numbered[3:]], 0.0)
    assert asked == [3, 2]
