"""Links break: a client comes back by itself, asks again for all it wants, and says what it may have missed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import sluice
from sluice.errors import LinkError, PublishError, RequestError
from sluice.net.connection import Connection
from sluice.protocol.messages import Ack, Change, Kind, Snapshot
from sluice.protocol.wire.link import PROTOCOL, Anything, Bye, Hello, Ping, Welcome
from tests.broker.raw import directory, played, running, until
from tests.client.test_bus import at, take


class Script:
    """A broker that does what a test says: one function hears everything that is said to it."""

    def __init__(self, hears: Callable[[Connection, Anything], None]) -> None:
        self._hears = hears
        self.address = ""
        self.connections: list[Connection] = []

    def _connected(self) -> Connection:
        connection = Connection(on_messages=lambda said: self._said(connection, said), on_lost=lambda reason: None)
        self.connections.append(connection)
        return connection

    def _said(self, connection: Connection, messages: list[Anything]) -> None:
        for message in messages:
            self._hears(connection, message)


@asynccontextmanager
async def scripted(hears: Callable[[Connection, Anything], None]) -> AsyncIterator[Script]:
    script = Script(hears)
    server = await asyncio.get_running_loop().create_server(script._connected, "127.0.0.1", 0)
    script.address = f"sluice://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        for connection in script.connections:
            connection.close("the test is over")
            await connection.over.wait()
        await server.wait_closed()


def welcoming(connection: Connection, message: Anything) -> None:
    """Says welcome and acknowledges every table, as a broker without a log."""
    if isinstance(message, Hello):
        connection.send(Welcome(PROTOCOL, "b", 1, None, 5.0))
    elif isinstance(message, Snapshot | Change):
        connection.send(Ack(message.kind, message.version))


@played
async def test_nobody_there() -> None:
    async with running() as server:
        address = at(server)
    with pytest.raises(LinkError, match=r"no broker at sluice://127.0.0.1.*Is it running"):
        async with sluice.connect(address, connect_seconds=0.2):
            pass
    assert issubclass(LinkError, ConnectionError)


@played
async def test_somebody_there_who_says_nothing() -> None:
    async with scripted(lambda connection, message: None) as script:
        with pytest.raises(LinkError, match="no broker"):
            async with sluice.connect(script.address, connect_seconds=0.2):
                pass


@played
async def test_somebody_there_who_is_no_broker() -> None:
    async with scripted(lambda connection, message: connection.send(Ping())) as script:
        with pytest.raises(LinkError, match="a welcome of protocol"):
            async with sluice.connect(script.address, connect_seconds=0.5):
                pass


@played
async def test_a_client_waits_for_a_broker_that_is_about_to_start() -> None:
    async with running() as server:
        port = server.address.port

    async def late() -> None:
        async with sluice.connect(f"127.0.0.1:{port}", connect_seconds=60) as bus:
            assert await bus.broker() == "b"

    client = asyncio.create_task(late())
    await asyncio.sleep(0)
    async with running(listen=f"127.0.0.1:{port}"):
        await client


@played
async def test_who_is_sent_away_for_good_stays_away() -> None:
    def rejects(connection: Connection, message: Anything) -> None:
        if isinstance(message, Hello):
            connection.close("your name is taken", is_final=True)

    async with scripted(rejects) as script:
        with pytest.raises(LinkError, match="your name is taken"):
            async with sluice.connect(script.address):
                pass
        assert len(script.connections) == 1


@played
async def test_a_name_belongs_to_who_came_last() -> None:
    async with running() as server, sluice.connect(at(server), "ann") as first, first.subscribe("true") as feed:
        await feed.complete()
        async with sluice.connect(at(server), "ann"):
            with pytest.raises(LinkError, match="another connection says that it is ann"):
                await anext(feed)
            with pytest.raises(LinkError):
                await first.publish({"n": 1})


@played
async def test_after_a_restart_everything_goes_on_and_the_gap_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[sluice.Gap] = []
    begin = datetime.now(UTC)
    async with running() as server:
        port = server.address.port
        async with (
            sluice.connect(at(server), on_gap=told.append) as bus,
            sluice.connect(at(server), "ann") as ann,
            bus.subscribe("n >= 0") as numbers,
            bus.subscribe("n > 1") as more,
        ):
            await numbers.complete()
            await more.complete()
            await ann.publish({"n": 1})
            assert await take(numbers, 1) == [{"n": 1}]
            await server.stop()
            with caplog.at_level(logging.WARNING, "sluice.client"):
                async with running(listen=f"127.0.0.1:{port}"):
                    await numbers.complete()
                    await more.complete()
                    await ann.publish({"n": 2})
                    assert await take(numbers, 1) == [{"n": 2}] == await take(more, 1)
            gap, *others = told
            assert not others and gap.subscriptions == (numbers, more) and gap.reason == "b stops"
            assert begin <= gap.since <= gap.until <= datetime.now(UTC)
            assert gap.count is None and "may be missing between" in str(gap)
            assert [*numbers.gaps] == [*more.gaps] == [gap]
            assert str(gap) in caplog.text


@played
async def test_what_was_never_complete_has_no_gap() -> None:
    acknowledges = False

    def hears(connection: Connection, message: Anything) -> None:
        if acknowledges or not isinstance(message, Snapshot | Change):
            welcoming(connection, message)

    async with scripted(hears) as script, sluice.connect(script.address) as bus, bus.subscribe("true") as feed:
        script.connections[0].close("again")
        acknowledges = True
        await feed.complete()
        assert not feed.gaps


@played
async def test_interest_goes_with_the_link_and_comes_back() -> None:
    async with running() as server:
        port = server.address.port
        async with (
            sluice.connect(at(server)) as bus,
            sluice.connect(at(server)) as other,
            bus.watch("n > 0") as interest,
            other.subscribe("n = 5") as wanted,
        ):
            await interest.complete()
            await wanted.complete()
            assert [entry.id for entry in (await anext(interest)).added] == [wanted.id]
            await server.stop()
            await until(lambda: not interest.subscriptions)
            async with running(listen=f"127.0.0.1:{port}"):
                await until(lambda: interest.subscriptions)


@played
async def test_a_client_that_must_not_reconnect_ends() -> None:
    async with running() as server, sluice.connect(at(server), reconnect=False) as bus, bus.subscribe("true") as feed:
        await feed.complete()
        await bus.publish({"n": 1})
        await bus.flush()
        server.peers[bus.name].connection.close("go")
        assert await take(feed, 1) == [{"n": 1}]  # what came before the end is not lost
        with pytest.raises(LinkError, match="go"):
            await anext(feed)
        for work in (feed.complete, bus.describe):
            with pytest.raises(LinkError, match="go"):
                await work()
        assert len(server.peers) == 0


@played
async def test_a_client_gives_up_after_its_time() -> None:
    async with (
        running() as server,
        sluice.connect(at(server), give_up_seconds=0.1) as bus,
        bus.subscribe("true") as feed,
    ):
        await feed.complete()
        await server.stop()
        with pytest.raises(LinkError, match=r"no link to .* for 0.1 s"):
            await anext(feed)


@played
async def test_publishing_goes_on_when_the_link_does() -> None:
    async with running() as server:
        port = server.address.port
        async with sluice.connect(at(server), "ann") as ann:
            first = await ann.publish({"n": 0})
            await ann.flush()
            await server.stop()
            waiting = [asyncio.create_task(ann.publish({"n": n})) for n in range(1, 4)]
            await asyncio.sleep(0)
            async with running(listen=f"127.0.0.1:{port}") as again:
                assert await asyncio.gather(*waiting) == [*range(first + 1, first + 4)]
                await ann.flush()
                assert again.report()["published"] == 3


@played
async def test_what_a_broker_without_a_log_did_not_accept_is_unknown() -> None:
    async with scripted(welcoming) as script, sluice.connect(script.address) as bus:
        await bus.publish_many([{"n": 1}, {"n": 2}])
        flushing = asyncio.create_task(bus.flush())
        await asyncio.sleep(0)
        script.connections[0].close("lost")
        with pytest.raises(PublishError, match="unknown after a broken link: 1, 2") as caught:
            await flushing
        assert caught.value.unknown == (1, 2)


@played
async def test_what_a_durable_broker_did_not_accept_is_sent_again(tmp_path: Path) -> None:
    settings = directory(tmp_path, "b")
    async with running(**settings) as server:
        port = server.address.port
        async with sluice.connect(at(server), "ann") as ann:
            assert ann.published == 0
            for n in range(500):
                await ann.publish({"n": n})
                if n == 250:
                    for peering in [*server.peers.values()]:
                        peering.connection.close("a hiccup")
            await ann.flush()
        assert server.report()["log"]["head"] == 500
    async with running(**settings, listen=f"127.0.0.1:{port}") as server, sluice.connect(at(server), "ann") as ann:
        assert ann.published == 500  # a named publisher goes on counting where its broker is
        assert await ann.publish({"n": 500}) == 501
        await ann.flush()
        numbers = [event["n"] async for batch in ann.fetch("b") for event in batch]
        assert numbers == [*range(501)]


@played
async def test_a_question_that_the_link_swallowed_is_told() -> None:
    async with scripted(welcoming) as script, sluice.connect(script.address) as bus:
        asking = asyncio.create_task(bus.describe())
        await asyncio.sleep(0)
        script.connections[0].close("lost")
        with pytest.raises(RequestError, match="lost"):
            await asking


@played
async def test_credit_is_granted_as_the_program_takes() -> None:
    async with running() as server, sluice.connect(at(server), prefetch=8) as bus, bus.subscribe("true") as feed:
        await feed.complete()
        grants = server.peers[bus.name].outbox
        await bus.publish_many([{"n": n} for n in range(6)])
        await until(lambda: feed.inbox.waiting())
        assert grants._credit == 8
        await take(feed, 1)
        await until(lambda: grants._credit == 14)  # a batch counts as taken when its first event is


@played
async def test_what_waits_counts_against_the_credit_of_the_next_link() -> None:
    async with running() as server:
        port = server.address.port
        async with sluice.connect(at(server), prefetch=8) as bus, bus.subscribe("true") as feed:
            await feed.complete()
            await bus.publish_many([{"n": n} for n in range(6)])
            await bus.flush()
            await until(lambda: feed.inbox.waiting())
            await server.stop()
            async with running(listen=f"127.0.0.1:{port}") as again:
                await feed.complete()
                assert again.peers[bus.name].outbox._credit == 2
                await take(feed, 6)
                await until(lambda: again.peers[bus.name].outbox._credit == 8)


@played
async def test_an_on_gap_that_fails_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fails(gap: sluice.Gap) -> None:
        raise ValueError("oops")

    async with (
        scripted(welcoming) as script,
        sluice.connect(script.address, on_gap=fails) as bus,
        bus.subscribe("true") as feed,
    ):
        await feed.complete()
        script.connections[0].close("again")
        await until(lambda: feed.gaps)
        assert "on_gap has failed" in caplog.text


@played
async def test_a_client_beats_as_its_broker_does() -> None:
    async with (
        running(heartbeat_seconds=0.05) as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("true") as feed,
    ):
        await feed.complete()
        link = server.peers[bus.name]
        await until(lambda: server.report()["uptime_seconds"] > 20 * 0.05)
        assert server.peers[bus.name] is link and not feed.gaps  # who says nothing for three beats is cut off


@played
async def test_a_later_life_of_a_name_is_not_mistaken_for_the_earlier_one() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("n >= 0") as numbers:
        await numbers.complete()
        for life in range(3):
            async with sluice.connect(at(server), "ann") as ann:
                await ann.publish_many([{"n": life}, {"n": life + 0.5}])
        events = await take(numbers, 6)
        assert [event["n"] for event in events] == [0, 0.5, 1, 1.5, 2, 2.5]
        assert len({event.id for event in events}) == 6


@played
async def test_what_is_published_just_when_the_link_breaks_waits_for_the_next_one() -> None:
    async with running() as server, sluice.connect(at(server)) as bus:
        connection = bus._engine.link.connection
        assert connection is not None and connection._transport is not None
        await bus.publish({"n": 1})
        await bus.flush()
        connection._transport.abort()  # known in the next turn of the loop, before what is published now leaves
        await bus.publish({"n": 2})
        await until(lambda: bus._engine.link.connection not in (None, connection))
        await bus.flush()
        assert server.report()["published"] == 2


@played
async def test_who_leases_hears_that_its_clients_are_there() -> None:
    async with (
        running(lease_seconds=20.0, renew_seconds=0.05) as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("true") as feed,
    ):
        await feed.complete()
        replica = server.broker.tables[Kind.SUBSCRIPTIONS].replicas[bus.name]
        first = replica.renewed
        await until(lambda: replica.renewed > first)
        assert not feed.gaps


@played
async def test_a_bye_that_is_not_final_is_a_pause() -> None:
    byes = 0

    def hears(connection: Connection, message: Anything) -> None:
        nonlocal byes
        if isinstance(message, Hello) and byes < 3:
            byes += 1
            connection.send(Bye("later", False))
            connection.close("later")
        else:
            welcoming(connection, message)

    async with scripted(hears) as script, sluice.connect(script.address) as bus:
        assert await bus.broker() == "b" and len(script.connections) == 4
