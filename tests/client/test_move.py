"""Clients move: to another broker that they know of, when theirs leaves or is gone for long, with all they asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.broker.server import Server
from sluice.client.places import Places
from sluice.errors import ConfigurationError, PublishError, RequestError
from sluice.net.connection import Connection
from sluice.protocol.messages import Kind
from sluice.protocol.wire.link import PROTOCOL, Anything, Hello, Welcome
from tests.broker.raw import Guest, directory, played, running, until
from tests.client.test_bus import at, take
from tests.client.test_link import scripted, welcoming


@asynccontextmanager
async def line(*names: str, data: Path | None = None, **settings: Any) -> AsyncIterator[list[Server]]:
    """Brokers in a row, each of which has dialled the one before it, and that know of each other."""
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for name in names:
            links = (str(servers[-1].address),) if servers else ()
            own = directory(data, name) if data is not None else {"name": name}
            servers.append(await stack.enter_async_context(running(links=links, **own, **settings)))
        await until(lambda: all(len([*server.broker.ways[Kind.BROKERS]]) == len(names) - 1 for server in servers))
        yield servers


async def leave(server: Server) -> None:
    """Has a broker leave for good."""
    server.leave()
    await server.stop()


# --- which places -----------------------------------------------------------------------------------------------------


def test_a_client_stays_for_a_while_and_then_looks_around() -> None:
    places = Places(["sluice://a:1", "sluice://b:1"], 5.0)
    assert places.candidates(0.0) == ["sluice://a:1", "sluice://b:1"]
    places.arrived("sluice://b:1")
    places.told(["sluice://c:1", "sluice://a:1", "no address at all:x"])
    places.lost(10.0)
    assert places.candidates(14.0) == ["sluice://b:1"]
    assert places.candidates(15.0) == ["sluice://b:1", "sluice://a:1", "sluice://c:1"]


def test_who_is_told_to_go_goes_at_once() -> None:
    places = Places(["sluice://a:1"], None)
    places.arrived("sluice://a:1")
    places.lost(10.0, ["sluice://c:1"])
    assert places.candidates(10.0) == ["sluice://c:1", "sluice://a:1"]
    places.arrived("sluice://c:1")
    places.lost(20.0)
    assert places.candidates(1_000.0) == ["sluice://c:1"], "it does not move by itself"


def test_nobody_is_led_away_from_tls() -> None:
    places = Places(["sluices://a:1"], 0.0)
    places.arrived("sluices://a:1")
    places.told(["sluice://b:1", "sluices://c:1"])
    places.lost(0.0)
    assert places.candidates(0.0) == ["sluices://a:1", "sluices://c:1"]


def test_addresses_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="no broker is named"):
        sluice.connect([])
    with pytest.raises(ConfigurationError, match="name it alone"):
        sluice.connect("memory://a,sluice://b")
    with pytest.raises(ConfigurationError, match="move_seconds is -1"):
        sluice.connect("a:1", move_seconds=-1)


# --- moving -----------------------------------------------------------------------------------------------------------


@played
async def test_the_first_that_answers_is_taken() -> None:
    async with running("gone") as server:
        address = at(server)
    async with running("there") as server, sluice.connect(f"{address}, {at(server)}") as bus:
        assert await bus.broker() == "there"


@played
async def test_clients_hear_who_else_is_there() -> None:
    async with running("a") as a:
        before = await Guest.of(a, "ann")
        async with running("b", links=(str(a.address),), listen="0.0.0.0:0") as b:
            # A broker that listens everywhere can be dialled where it came from.
            expected = (f"sluice://127.0.0.1:{b.address.port}",)
            await until(lambda: before.elsewhere == expected)
            after = await Guest.of(a, "bob")
            await until(lambda: after.elsewhere == expected)
            there = await Guest.of(b, "cid")
            await until(lambda: there.elsewhere == (str(a.address),))


@played
async def test_a_broker_that_leaves_sends_its_clients_to_its_neighbours() -> None:
    async with (
        line("a", "b") as (a, b),
        sluice.connect(at(b), move_seconds=None) as bus,
        bus.subscribe("n >= 0") as numbers,
        sluice.connect(at(a)) as other,
    ):
        await numbers.complete()
        await until(lambda: b._neighbours)
        await leave(b)
        await until(lambda: bus.name in a.peers)
        await numbers.complete()
        await other.publish({"n": 1})
        assert await take(numbers, 1) == [{"n": 1}]
        assert await bus.broker() == "a"
        (gap,) = numbers.gaps
        assert gap.reason == "b leaves"


@played
async def test_a_broker_that_is_gone_is_left_after_a_while() -> None:
    async with line("a", "b") as (a, b), sluice.connect(at(b), move_seconds=0.05) as bus, bus.watch("true"):
        await until(lambda: b.peers[bus.name].role)
        await b.stop()
        await until(lambda: bus.name in a.peers)
        assert await bus.broker() == "a"


@played
async def test_who_is_sent_away_elsewhere_waits_for_its_own_broker() -> None:
    def rejects(connection: Connection, message: Anything) -> None:
        if isinstance(message, Hello):
            connection.close("this token is wrong", is_final=True)

    async with scripted(rejects) as script, running("b") as server:
        port = server.address.port
        async with sluice.connect([at(server), script.address], move_seconds=0.0) as bus:
            await server.stop()
            await until(lambda: len(script.connections) >= 2)
            async with running("b", listen=f"127.0.0.1:{port}"):
                assert await bus.describe()


# --- publishers -------------------------------------------------------------------------------------------------------


@played
async def test_a_publisher_goes_on_elsewhere_and_nothing_counts_twice(tmp_path: Path) -> None:
    async with line("a", "b", data=tmp_path) as (a, b), sluice.connect(at(b), "ann") as ann:
        await until(lambda: b._neighbours)
        for n in range(600):
            await ann.publish({"n": n})
            if n == 300:
                leaving = asyncio.create_task(leave(b))
        await leaving
        await ann.flush()
        assert await ann.broker() == "a"
        async with running(**directory(tmp_path, "b"), links=(str(a.address),)):
            await until(lambda: "b" in a.peers)
            found = [event["n"] for stream in "ba" async for batch in ann.fetch(stream) for event in batch]
        assert found == [*range(600)]


@played
async def test_numbers_that_another_broker_knows_are_not_mistaken_for_new_ones(tmp_path: Path) -> None:
    """Somebody of this name has published more at the other broker, in an earlier life."""

    def silent(connection: Connection, message: Anything) -> None:
        if isinstance(message, Hello):
            connection.send(Welcome(PROTOCOL, "z", 1, 0, 5.0))

    async with running(**directory(tmp_path, "a")) as a, scripted(silent) as script:
        async with sluice.connect(at(a), "ann") as ann:
            await ann.publish_many([{"n": n} for n in range(5)])
        async with sluice.connect([script.address, at(a)], "ann", move_seconds=0.0) as ann:
            await ann.publish_many([{"n": 10}, {"n": 11}])
            script.connections[0].close("gone", elsewhere=(at(a),))
            with pytest.raises(PublishError) as caught:
                await ann.flush()
            assert caught.value.unknown == (1, 2)
            assert await ann.publish({"n": 12}) == 6
            await ann.flush()
        assert a.report()["log"]["head"] == 6


# --- subscribers ------------------------------------------------------------------------------------------------------


@played
async def test_a_durable_subscription_carries_its_positions(tmp_path: Path) -> None:
    async with line("a", "b", "c", data=tmp_path) as (a, b, c), sluice.connect(at(a)) as other:
        await until(lambda: c._neighbours)
        async with (
            sluice.connect(at(c)) as bus,
            bus.subscribe("n >= 0", durable="mine", start="earliest") as numbers,
        ):
            await other.publish_many([{"n": n} for n in range(10)])
            assert [event["n"] for event in await take(numbers, 5)] == [*range(5)]
            await leave(c)
            assert [event["n"] for event in await take(numbers, 5)] == [*range(5, 10)]
            await numbers.commit()
            assert await bus.broker() == "b"
        async with sluice.connect(at(b)) as bus, bus.subscribe("n >= 0", durable="mine", start="earliest") as numbers:
            await other.publish({"n": 10})
            assert [event["n"] for event in await take(numbers, 1)] == [10], "the new broker knows where it is"


@played
async def test_a_durable_subscription_is_found_at_whatever_broker_it_was(tmp_path: Path) -> None:
    async with line("a", "b", data=tmp_path) as (a, b), sluice.connect(at(a)) as bus:
        await bus.publish_many([{"n": n} for n in range(6)])
        await bus.flush()
        for server, wanted in ((a, [0, 1]), (b, [2, 3]), (a, [4, 5])):
            async with (
                sluice.connect(at(server)) as one,
                one.subscribe("n >= 0", durable="mine", start="earliest") as numbers,
            ):
                assert [event["n"] for event in await take(numbers, 2)] == wanted
        await bus.forget("mine")
        async with (
            sluice.connect(at(b)) as one,
            one.subscribe("n >= 0", durable="mine", start="earliest") as numbers,
        ):
            assert [event["n"] for event in await take(numbers, 1)] == [0], "it is forgotten everywhere"
        with pytest.raises(RequestError, match="no durable subscription"):
            await bus.forget("nothing")


@played
async def test_a_reliable_subscription_has_no_gap_when_its_client_moves(tmp_path: Path) -> None:
    async with line("a", "b", data=tmp_path) as (a, b), sluice.connect(at(a), "ann") as ann:
        await until(lambda: b._neighbours)
        async with sluice.connect(at(b)) as bus, bus.subscribe("n >= 0", delivery="reliable") as numbers:
            await numbers.complete()
            for n in range(300):
                await ann.publish({"n": n})
                if n == 100:
                    await ann.flush()
                    leaving = asyncio.create_task(leave(b))
            await leaving
            assert [event["n"] for event in await take(numbers, 300)] == [*range(300)]
            assert not numbers.gaps and await bus.broker() == "a"


@played
async def test_an_ordered_subscription_keeps_the_order_when_its_client_moves() -> None:
    async with line("a", "b") as (a, b), sluice.connect(at(a), "ann") as ann, sluice.connect(at(a)) as stays:
        await until(lambda: b._neighbours)
        async with (
            sluice.connect(at(b)) as moves,
            moves.subscribe("n >= 0", order="total") as moving,
            stays.subscribe("n >= 0", order="total") as staying,
        ):
            await moving.complete()
            await staying.complete()
            await ann.publish_many([{"n": n} for n in range(5)], order="total")
            assert [event["n"] for event in await take(moving, 5)] == [*range(5)]
            await leave(b)
            await until(lambda: moves.name in a.peers)
            await moving.complete()
            await ann.publish_many([{"n": n} for n in range(5, 10)], order="total")
            assert [event["n"] for event in await take(moving, 5)] == [*range(5, 10)]
            assert [event["n"] for event in await take(staying, 10)] == [*range(10)]


@played
async def test_a_scripted_broker_is_believed_when_it_says_who_else_is_there() -> None:
    async with running("b") as server:

        def leads(connection: Connection, message: Anything) -> None:
            welcoming(connection, message)
            if isinstance(message, Hello):
                connection.close("go on there", elsewhere=("nonsense:x", at(server)))

        async with scripted(leads) as script, sluice.connect(script.address) as bus:
            await until(lambda: bus.name in server.peers)
