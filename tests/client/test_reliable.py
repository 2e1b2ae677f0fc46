"""Reliable subscriptions of the bus: they start somewhere and miss nothing from there on, or say what is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.broker.config import ServerConfig
from sluice.broker.peering import Peering
from sluice.broker.server import Server
from sluice.client.background import Background
from sluice.client.session.tracked import MAX_DOUBLINGS, Track, Tracked
from sluice.errors import ConfigurationError
from sluice.protocol.messages import Kind, Message, Notify, Role
from sluice.protocol.questions import Failed
from tests.broker.raw import directory, played, running, until
from tests.client.test_bus import at, take
from tests.client.test_durable import fill, numbers


@played
async def test_it_starts_where_its_broker_says_and_knows_how_far_it_is(tmp_path: Path) -> None:
    async with running(**directory(tmp_path, "b")) as server, sluice.connect(at(server)) as bus:
        await fill(bus, 0, 5)
        async with bus.subscribe("even = true", delivery="reliable") as feed:
            assert await feed.complete() == feed.starts == {"b": 6}
            assert feed.positions == {"b": 6}
            await fill(bus, 5, 10)
            assert numbers(await take(feed, 2)) == [6, 8]
            assert feed.positions == {"b": 10} and not feed.gaps
        assert feed.positions == {"b": 10}
        async with bus.subscribe("even = true", start=feed.positions) as rest:
            await fill(bus, 10, 11)
            assert numbers(await take(rest, 1)) == [10]


@played
async def test_what_was_published_while_the_link_was_down_comes_and_no_gap_is_told(tmp_path: Path) -> None:
    async with (
        running(**directory(tmp_path, "b")) as server,
        sluice.connect(at(server), "ann") as ann,
        sluice.connect(at(server), "bob") as bob,
        bob.subscribe("n >= 0", delivery="reliable") as reliable,
        bob.subscribe("n >= 0") as live,
    ):
        await asyncio.gather(reliable.complete(), live.complete())
        await fill(ann, 0, 3)
        server.peers["bob"].connection.close("the test cuts this link")
        await fill(ann, 3, 20)
        await until(lambda: "bob" in server.peers)
        await asyncio.gather(reliable.complete(), live.complete())
        await fill(ann, 20, 23)
        assert numbers(await take(reliable, 23)) == [*range(23)]
        assert not reliable.gaps and len(live.gaps) == 1
        assert reliable.starts == {"b": 1}


@played
async def test_what_was_dropped_for_a_slow_client_is_read_again(tmp_path: Path) -> None:
    async with (
        running(**directory(tmp_path, "b"), outbox_bytes=2_000) as server,
        sluice.connect(at(server), "ann") as ann,
        sluice.connect(at(server), "bob", prefetch=1) as bob,
        bob.subscribe("n >= 0", delivery="reliable") as feed,
    ):
        await feed.complete()
        await fill(ann, 0, 60)
        assert server.report()["dropped"] > 0
        assert numbers(await take(feed, 60)) == [*range(60)]
        assert not feed.gaps


@played
async def test_what_the_log_holds_no_more_is_told_by_its_offsets(tmp_path: Path) -> None:
    async with (
        running(**directory(tmp_path, "b"), retain_bytes=1) as server,
        sluice.connect(at(server), "ann") as ann,
        sluice.connect(at(server), "bob") as bob,
        bob.subscribe("n >= 0", delivery="reliable") as feed,
    ):
        await feed.complete()
        await fill(ann, 0, 3)
        assert numbers(await take(feed, 3)) == [0, 1, 2]
        config = server.config
        server.config = replace(config, max_connections=1)  # bob is away for a while
        server.peers["bob"].connection.close("the test cuts this link")
        await fill(ann, 3, 20)
        store = server._store
        assert store is not None
        await until(lambda: store.first > 4)
        server.config = config
        await feed.complete()
        await fill(ann, 20, 21)
        while (event := await anext(feed))["n"] < 20:
            pass
        assert event.offset == 21
        (gap,) = feed.gaps
        assert (gap.stream, gap.subscriptions) == ("b", (feed,))
        assert gap.offsets is not None and gap.offsets.start == 4 and gap.count == len(gap.offsets)


def test_programs_without_asyncio_rely_on_it_too(tmp_path: Path) -> None:
    background = Background("broker")
    server = Server(ServerConfig(**directory(tmp_path, "b"), listen="127.0.0.1:0"))
    background.run(server.start())
    with sluice.connect(at(server)) as bus, bus.subscribe("n >= 0", delivery="reliable") as feed:
        assert feed.complete() == feed.starts == {"b": 1}
        bus.publish_many([{"n": n} for n in range(5)])
        bus.flush()
        assert [next(feed)["n"] for _ in range(5)] == [*range(5)]
        assert feed.positions == {"b": 6} and feed.gaps == []
    background.run(server.stop())
    background.stop()


# --- what is refused --------------------------------------------------------------------------------------------------


@played
async def test_a_broker_that_cannot_says_why(tmp_path: Path) -> None:
    async with running("b") as server, sluice.connect(at(server)) as bus:
        with pytest.raises(ConfigurationError, match=r"b keeps no log.*start all brokers with a data directory"):
            async with bus.subscribe("n >= 0", delivery="reliable"):
                pass
        async with bus.subscribe("n >= 0") as live:  # nothing else is disturbed
            await live.complete()
    async with (
        running(**directory(tmp_path, "b"), advertisements="covering") as server,
        sluice.connect(at(server)) as bus,
    ):
        with pytest.raises(ConfigurationError, match="steers subscriptions by advertisements"):
            async with bus.subscribe("n >= 0", delivery="reliable"):
                pass
    async with sluice.connect("memory://reliable") as bus:
        with pytest.raises(ConfigurationError, match="reliable keeps no log"):
            async with bus.subscribe("n >= 0", delivery="reliable"):
                pass


@played
async def test_a_broker_that_comes_back_and_cannot_any_more_ends_what_relied_on_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with running(**directory(tmp_path, "b")) as server:
            port = server.address.port
            bus = await stack.enter_async_context(sluice.connect(at(server)))
            feed = await stack.enter_async_context(bus.subscribe("n >= 0", delivery="reliable"))
            await feed.complete()
        async with running("b", listen=f"127.0.0.1:{port}"):
            with pytest.raises(ConfigurationError, match="b keeps no log"):
                await anext(feed)
            async with bus.subscribe("n >= 0") as live:
                await live.complete()


@pytest.mark.parametrize(
    "choices", [{"replay": "2h"}, {"last": 5}, {"durable": "d"}, {"start": "earliest"}, {"delivery": "certain"}]
)
@pytest.mark.parametrize("blocking", [False, True])
def test_what_does_not_go_together_is_refused_at_once(choices: dict[str, Any], blocking: bool) -> None:
    async def ask() -> None:
        async with sluice.connect("memory://choices") as bus:
            bus.subscribe("n >= 0", **{"delivery": "reliable", **choices})

    with pytest.raises(ConfigurationError, match=r"a reliable subscription begins now|delivery is 'certain': take one"):
        if blocking:
            with sluice.connect("memory://choices") as bus:
                bus.subscribe("n >= 0", **{"delivery": "reliable", **choices})
        else:
            asyncio.run(ask())


# --- what it costs ----------------------------------------------------------------------------------------------------


async def sent(tmp_path: Path, delivery: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[Any], Counter[str]]:
    """What a line of brokers does without faults while something is published at both ends.

    The messages between brokers, by link and type, and what brokers say that they did for reliable subscriptions.
    """
    counts: Counter[Any] = Counter()
    send = Peering.send

    def counted(peering: Peering, message: Message, job: str = "") -> None:
        if peering.role == Role.BROKER:
            counts[peering._host.name, peering.name, type(message)] += 1
        send(peering, message, job)

    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for name in "abc":
            links = tuple(str(server.address) for server in servers[-1:])
            server = running(**directory(tmp_path / delivery, name), links=links)
            servers.append(await stack.enter_async_context(server))
        await until(lambda: all(len([*server.broker.ways[Kind.BROKERS]]) == 2 for server in servers))
        a = await stack.enter_async_context(sluice.connect(at(servers[0])))
        c = await stack.enter_async_context(sluice.connect(at(servers[2])))
        feeds = [bus.subscribe("even = true", delivery=delivery) for bus in (a, c)]  # type: ignore[call-overload]
        for feed in feeds:
            await stack.enter_async_context(feed)
        for feed in feeds:
            await feed.complete()
        before = account(servers)
        with monkeypatch.context() as patch:
            patch.setattr(Peering, "send", counted)
            await asyncio.gather(fill(a, 0, 50), fill(c, 50, 100))
            for feed in feeds:
                assert sorted(numbers(await take(feed, 50))) == [*range(0, 100, 2)]
        after = account(servers)
        after.subtract(before)
        return counts, after


def account(servers: list[Server]) -> Counter[str]:
    total: Counter[str] = Counter()
    for server in servers:
        total.update(server.report()["reliable"])
    return total


@played
async def test_without_faults_as_many_notifications_travel_as_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_effort, _ = await sent(tmp_path, "best-effort", monkeypatch)
    reliable, done = await sent(tmp_path, "reliable", monkeypatch)
    notified = {key: count for key, count in reliable.items() if key[2] is Notify}
    assert notified == {key: count for key, count in best_effort.items() if key[2] is Notify}
    assert sum(notified.values()) == 4 * 25
    assert not any(done[name] for name in ("asked", "unjudged", "from_cache", "from_log")), done


def test_a_log_that_never_answers_is_asked_for_ever() -> None:
    class Silence:
        def say(self, news: object) -> None: ...

        def ask(self, to: object, question: object) -> str:
            return "ann/1"

        def answer(self, id: str, answer: object) -> None: ...

    tracked = Tracked("ann/9", "true", Silence(), 1_000)
    tracked.started("b", 1, 0.0)
    tracked.started("b", 10, 0.0)
    track = tracked._tracks["b"]
    assert isinstance(track, Track)
    for _ in range(2_000):
        tracked.told("ann/1", Failed("no way"), 0.0)
        assert 0 < track.due <= 0.25 * 2**MAX_DOUBLINGS
        tracked.tick(track.due)
