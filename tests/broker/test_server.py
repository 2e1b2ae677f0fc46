"""A broker on real sockets: handshakes, links between brokers, and peers that say what they must not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice import parse
from sluice.broker import server as server_module
from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.client.session.commands import Publish
from sluice.errors import ConfigurationError
from sluice.limits import MAX_CLIENT_MESSAGE_BYTES, MAX_FRAME_BYTES
from sluice.protocol.batch import MARKED, Logged, Records, Stamp
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Await,
    Change,
    Deliver,
    Digest,
    Entry,
    Floor,
    Gone,
    Head,
    Kind,
    Lost,
    Missing,
    Notify,
    Passage,
    Quiet,
    Reached,
    Refused,
    Replay,
    Request,
    Role,
    Snapshot,
    Started,
    Version,
)
from sluice.protocol.questions import Describe, Described
from sluice.protocol.wire.codec import encode
from sluice.protocol.wire.link import PROTOCOL, Anything, Credit, Dropped, Elsewhere, Hello, Ping, Welcome
from tests.broker.raw import Guest, Raw, bystanders, played, running, until
from tests.fuzz_frames import besiege


def entry(text: str = "x > 1", id: str | None = "eve/1") -> Entry:
    return Entry(parse(text), id)


def subscribe(version: int = 0, *entries: Entry) -> Snapshot:
    return Snapshot(Kind.SUBSCRIPTIONS, Version(1, version), entries)


def records(first: int = 1, count: int = 1, publisher: str = "eve") -> Records:
    return Records.of(publisher, first, [{"x": 5}] * count)


# --- what is no frame, or no message at this moment -------------------------------------------------------------------

HELLO = b"".join(encode(Hello(PROTOCOL, Role.CLIENT, "eve", 1)))

#: What is said without a hello, and why the connection ends.
BEFORE_HELLO: dict[str, tuple[bytes | Anything, str]] = {
    "another protocol": (b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", "a frame of 1,195,725,856 bytes"),
    "an empty frame": (b"\0\0\0\0\0", "a frame of 0 bytes"),
    "a frame that is too large": ((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"\x01", "a frame of 4,194,305 bytes"),
    "an unknown message": (b"\0\0\0\x02\x4d\x90", "unknown type 77"),
    "a message of empty parts": (b"\0\0\0\x01\xa0" * 1_000, "fill the frames"),
    "half of a hello": (HELLO[:4] + b"\x01" + b"\xc1" * (len(HELLO) - 5), "should be Hello"),
    "a publication": (Notify(records()), "say hello first"),
    "a subscription": (subscribe(0, entry()), "say hello first"),
    "credit": (Credit(5), "say hello first"),
    "a welcome": (Welcome(PROTOCOL, "b", 1, None, 1.0), "nobody waits for your welcome"),
    "an older version": (Hello(0, Role.CLIENT, "eve", 1), f"speaks version {PROTOCOL} of the protocol, not 0"),
    "a newer version": (
        Hello(PROTOCOL + 1, Role.BROKER, "eve", 1),
        f"speaks version {PROTOCOL} of the protocol, not {PROTOCOL + 1}",
    ),
    "the broker's own name": (Hello(PROTOCOL, Role.BROKER, "b", 1), "b is the name of this broker"),
    "a name with a slash": (Hello(PROTOCOL, Role.CLIENT, "e/ve", 1), "has a slash in it"),
    "the name of a client, as a broker": (
        Hello(PROTOCOL, Role.BROKER, "bystanding-publisher", 1),
        "is the name of a client here",
    ),
}

#: What a client says that has said hello.
FROM_CLIENTS: dict[str, tuple[bytes | Anything, str]] = {
    "hello twice": (HELLO, "you have said hello before"),
    "a welcome": (Welcome(PROTOCOL, "b", 1, None, 1.0), "nobody waits for your welcome"),
    "a delivery": (Deliver(records(), (("eve/1",),)), "only brokers say Deliver"),
    "an acceptance": (Accepted(1), "only brokers say Accepted"),
    "a refusal": (Refused((1,), "no"), "only brokers say Refused"),
    "what it dropped": (Dropped(1), "only brokers say Dropped"),
    "who else is there": (Elsewhere(("a:1",)), "only brokers say Elsewhere"),
    "a table of interest": (Snapshot(Kind.INTEREST, Version(1, 0), ()), "no table of interest"),
    "a table of brokers": (Snapshot(Kind.BROKERS, Version(1, 0), (entry("TRUE", "x"),)), "no table of brokers"),
    "a foreign id": (subscribe(0, entry(id="bystanding-subscriber/1")), "is not yours"),
    "no id": (subscribe(0, entry(id=None)), "is not yours"),
    "a foreign question": (Request("bystanding-subscriber/1", "b", Describe()), "is not yours"),
    "a foreign id in a change": (
        Change(Kind.WATCHES, Version(1, 0), Version(1, 1), (entry(id="x/1"),), ()),
        "is not yours",
    ),
    "a place in a log": (Notify(records().placed(Logged("b", (1,), 0))), "only brokers say where"),
    "a passage": (
        Notify(records().placed(Logged("b", (1,), 0)), Passage("b", ((1, 1),), {})),
        "only brokers say where",
    ),
    "a silence": (Quiet(Passage("b", ((1, 1),), {})), "only brokers say Quiet"),
    "the end of a stream": (Head("b", 5, {}), "only brokers say Head"),
    "what is missing": (Missing("b", "eve", ((1, 1),), 1), "only brokers say Missing"),
    "what is gone": (Gone("b", ((1, 1),), "c"), "only brokers say Gone"),
    "how far it is": (Reached("b", {"eve": 5}), "only brokers say Reached"),
    "a start": (Started("b", 1, ("eve/1",)), "only brokers say Started"),
    "clocks": (Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), (), {"eve": 1}), "only brokers have clocks"),
    "a reliable advertisement": (
        Snapshot(Kind.ADVERTISEMENTS, Version(1, 0), (Entry(parse("x > 1"), "eve/1", reliable=True),)),
        "cannot be reliable",
    ),
    "a reliable replay": (
        subscribe(0, Entry(parse("x > 1"), "eve/1", Replay(5), reliable=True)),
        "cannot be reliable",
    ),
    "a reliable subscription where there is no log": (
        subscribe(0, Entry(parse("x > 1"), "eve/1", reliable=True)),
        "b keeps no log, so nothing can be reliable there",
    ),
    "a place in the order": (Notify(records().stamped(Stamp(5, "b"))), "only brokers say where a publication stands"),
    "a promise with a publication": (
        Notify(records().stamped(MARKED), None, 5),
        "only brokers say where a publication stands",
    ),
    "a promise": (Floor(5), "only brokers say Floor"),
    "a wish of others": (Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), (), {}, ordered=True), "that others want order"),
    "an ordered watch": (
        Snapshot(Kind.WATCHES, Version(1, 0), (Entry(parse("x > 1"), "eve/1", ordered=True),)),
        "cannot be in order",
    ),
    "a time that nobody has seen": (Await(1 << 62), "no clock is as far ahead"),
    "a record that is too large": (
        Notify(Records("eve", range(1, 2), records=[{"x": b"0" * 1_100_000}])),
        "a record takes more than",
    ),
    "columns that are none": (b"\0\0\0\x14\x20\0\0\0\0\0\0\0\x09\x96\x01\xa1e\x01\x01\xc4\0\xc0xy", "should be Notify"),
    "an endless message": (
        (MAX_FRAME_BYTES.to_bytes(4, "big") + b"\xa0" + b"\0" * (MAX_FRAME_BYTES - 1))
        * (MAX_CLIENT_MESSAGE_BYTES // MAX_FRAME_BYTES + 1),
        "a message of more than 33,554,432 bytes",
    ),
    "too many subscriptions": (
        subscribe(0, *(entry(f"x > {n}", f"eve/{n}") for n in range(6))),
        "b has its 5 subscriptions",
    ),
}


async def say(raw: Raw, said: bytes | Anything) -> str:
    """Says something wrong; returns the reason for which the connection ended."""
    raw.say(said)
    bye = await raw.end()
    assert bye is not None, "the connection ended without a reason"
    return bye.reason


@played
async def test_a_place_that_is_taken_is_named() -> None:
    async with running() as server:
        listen = f"127.0.0.1:{server.address.port}"
        with pytest.raises(ConfigurationError, match=f"c cannot listen on .*{listen}: address already in use. Let it"):
            await Server(ServerConfig(name="c", listen=listen)).start()


@played
async def test_what_must_not_be_said_ends_the_connection_and_nothing_else() -> None:
    async with running("b", max_subscriptions=5) as server, bystanders(server):
        for name, (said, reason) in BEFORE_HELLO.items():
            assert reason in await say(await Raw.to(server), said), name
        for name, (said, reason) in FROM_CLIENTS.items():
            assert reason in await say(await Raw.client(server, "eve"), said), name
        await until(lambda: len(server.peers) == 2 and not server._strangers)
        report = server.report()
        assert report["memory_bytes"] == 0 and report["tables"]["subscriptions"] == 1


@played
async def test_nothing_is_heard_after_what_ended_the_connection() -> None:
    async with running("b") as server, bystanders(server):
        raw = await Raw.to(server)
        raw.say(Hello(0, Role.CLIENT, "eve", 1), Hello(PROTOCOL, Role.CLIENT, "bystanding-publisher", 1), Credit(1))
        assert "version" in await say(raw, Credit(2))
        raw = await Raw.client(server, "eve")
        raw.say(Accepted(1), subscribe(0, entry()))
        assert "Accepted" in await say(raw, b"")
        assert server.report()["tables"]["subscriptions"] == 1


@played
async def test_a_connection_that_breaks_in_the_middle_of_a_message_leaves_nothing() -> None:
    async with running("b") as server, bystanders(server):
        message = b"".join(encode(Notify(records(count=1_000))))
        for cut in (3, 5, 50, len(message) - 1):
            raw = await Raw.client(server, "eve")
            raw.say(message[:cut])
            await until(lambda cut=cut: any(p.connection.memory_bytes == cut for p in server.peers.values()))  # type: ignore[misc]
            await raw.close()
            await until(lambda: "eve" not in server.peers)


@played
async def test_a_dripping_and_a_silent_peer_are_cut_off_while_others_go_on() -> None:
    async with running("b", heartbeat_seconds=0.1, silent_heartbeats=4) as server, bystanders(server):
        drips, silent = await Raw.client(server, "drips"), await Raw.client(server, "silent")

        async def drip() -> None:
            for byte in b"".join(encode(Notify(records(count=10_000)))):
                drips.say(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.ensure_future(drip())
        reasons = await asyncio.gather(drips.end(), silent.end())
        dripping.cancel()
        assert reasons[0] is not None and "a message took longer" in reasons[0].reason
        assert reasons[1] is not None and "nothing was heard for 4 heartbeats" in reasons[1].reason


@played
async def test_who_never_says_hello_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.1)
    async with running("b") as server, bystanders(server):
        raw = await Raw.to(server)
        raw.say(Ping())
        assert await say(raw, Ping()) == "say hello sooner"


@played
async def test_the_rest_of_messages_is_bounded_for_all_together() -> None:
    async with running("b", memory_bytes=7 << 20, outbox_bytes=1 << 20) as server, bystanders(server):
        part = (4 << 20).to_bytes(4, "big") + b"\x20" + b"\0" * (3 << 20)
        raws = [await Raw.client(server, f"eve{number}") for number in range(4)]
        for raw in raws:
            raw.say(part)
        ends = [asyncio.ensure_future(raw.end()) for raw in raws]
        await until(lambda: sum(end.done() for end in ends) == 2 and len(server.peers) == 2 + 2)
        byes = [end.result() for end in ends if end.done()]
        assert all(bye is not None and "no room" in bye.reason for bye in byes)
        for raw in raws:
            await raw.close()
        await asyncio.gather(*ends)


def test_a_broker_survives_a_siege() -> None:
    counts = asyncio.run(besiege(seconds=600, seed=0, cases=400))
    assert counts["refused"] > 100 and counts["bystanders' notifications"] > 10


# --- tables -----------------------------------------------------------------------------------------------------------


@played
async def test_a_table_on_a_wrong_base_is_asked_for_again() -> None:
    async with running("b") as server:
        raw = await Raw.client(server, "eve")
        raw.say(Change(Kind.SUBSCRIPTIONS, Version(1, 7), Version(1, 8), (entry(),), ()))
        assert (await raw.hear(Lost)).kind == Kind.SUBSCRIPTIONS
        raw.say(subscribe(8, entry()))
        assert await raw.hear(Ack) == Ack(Kind.SUBSCRIPTIONS, Version(1, 8))
        raw.say(Change(Kind.SUBSCRIPTIONS, Version(1, 8), Version(1, 9), (), (entry("x > 99"),)))
        assert (await raw.hear(Lost)).kind == Kind.SUBSCRIPTIONS, "it does not hold what is taken away"
        raw.say(Digest(Kind.SUBSCRIPTIONS, Version(1, 8), 12345))
        assert (await raw.hear(Lost)).kind == Kind.SUBSCRIPTIONS
        raw.say(subscribe(9))
        await raw.hear(Ack)
        assert server.report()["tables"]["subscriptions"] == 0
        await raw.close()


@played
async def test_numbers_that_go_back_are_not_published_again() -> None:
    async with running("b") as server:
        guest = await Guest.of(server, "bob")
        await guest.subscribe("x > 1")
        raw = await Raw.client(server, "eve")
        raw.say(Notify(records(5, 3)), Notify(records(6, 1)), Notify(records(1, 4)), Notify(records(7, 3)))
        heard = [(await raw.hear(Accepted)).number for _ in range(4)]
        assert heard == [7, 7, 7, 9]
        await until(lambda: sum(map(len, guest.batches)) >= 5)
        assert [number for batch in guest.batches for number in batch.numbers] == [5, 6, 7, 8, 9]
        raw.say(Notify(records(10, publisher="bob")))
        refused = await raw.hear(Refused)
        assert refused.numbers == (10,) and "under your own name" in refused.reason
        await raw.close()
        await guest.leave()


@played
async def test_lengths_that_are_lies_hurt_no_subscriber() -> None:
    async with running("b") as server, bystanders(server) as pair:
        honest = Records.of("eve", 1, [{"bystander": False, "n": 1}, {"bystander": False, "x": "a"}, {"x": 3}])
        lies = [length + change for length, change in zip(honest.lengths, (-1, 2, -1), strict=True)]
        watcher = await Guest.of(server, "bob")
        await watcher.subscribe("x = 'a'")
        raw = await Raw.client(server, "eve")
        raw.say(Notify(Records("eve", range(1, 4), body=honest.body, lengths=lies)))
        await until(lambda: watcher.batches or watcher.byes)
        assert [*watcher.batches[0].records] == [{"bystander": False, "x": "a"}] and not pair.subscriber.byes
        await watcher.leave()
        await raw.close()


# --- names and connections --------------------------------------------------------------------------------------------


@played
async def test_a_newer_connection_of_the_same_name_wins() -> None:
    async with running("b") as server:
        old = await Guest.of(server, "ann")
        await old.subscribe("n >= 0")
        new = await Guest.of(server, "ann")
        await until(lambda: old.lost)
        (bye,) = old.byes
        assert bye.is_final and "another connection says that it is ann" in bye.reason
        await new.subscribe("n >= 0")
        await new.published([{"n": 1}])
        await until(lambda: new.got == [1])
        assert [*server.peers] == ["ann"]
        await new.leave()


@played
async def test_refusals_are_final_unless_room_may_come() -> None:
    async with running("b", max_connections=2) as server:
        guests = [await Guest.of(server, name) for name in ("ann", "bob")]
        raw = await Raw.to(server)
        raw.say(Hello(PROTOCOL, Role.CLIENT, "eve", 1))
        bye = await raw.end()
        assert bye is not None and not bye.is_final and "has its 2 connections" in bye.reason
        again = await Guest.of(server, "bob")
        await until(lambda: guests[1].byes)
        assert again.session.broker == "b", "one may take one's own place"
        await guests[0].leave()
        await until(lambda: len(server.peers) == 1)
        guests[0] = await Guest.of(server, "eve")
        raw = await Raw.to(server)
        raw.say(Hello(7, Role.CLIENT, "zoe", 1))
        bye = await raw.end()
        assert bye is not None and bye.is_final
        await guests[0].leave()
        await again.leave()


@played
async def test_goodbye_is_answered() -> None:
    async with running("b") as server:
        guest = await Guest.of(server, "ann")
        await guest.leave()
        await until(lambda: not server.peers)
        assert guest.lost == "enough"
        other = await Guest.of(server, "bob")
        await server.stop()
        await until(lambda: other.lost)
        assert other.byes[0].reason == "b stops" and not other.byes[0].is_final


# --- links between brokers --------------------------------------------------------------------------------------------


def linked(*servers: Server) -> Callable[[], bool]:
    """Whether every broker knows a way to every other."""
    names = {server.name for server in servers}
    return lambda: all({*server.broker.ways[Kind.BROKERS], server.name} == names for server in servers)


@played
async def test_brokers_that_dial_each_other_end_with_one_link() -> None:
    async with running("a") as a, running("z", links=(str(a.address),)) as z:
        a.shape._dialler.keep(z.address)
        await until(lambda: "z" in a.peers and a.peers["z"].dials and "a" in z.peers and not z.peers["a"].dials)
        async with bystanders(a, z):
            link = a.peers["z"]
            # The other one goes on dialling, is told each time that there is a link, and changes nothing.
            await until(lambda: a.report()["uptime_seconds"] > 0.5)
        assert a.peers["z"] is link and not link.connection.closing


@played
async def test_a_link_that_would_close_a_cycle_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(running("a"))
        b = await stack.enter_async_context(running("b", links=(str(a.address),)))
        c = await stack.enter_async_context(running("c", links=(str(b.address),)))
        await until(linked(a, b, c))
        async with bystanders(a, c):
            raw = await Raw.broker(a, "d")
            raw.say(Snapshot(Kind.BROKERS, Version(1, 0), (entry("TRUE", "d"), entry("TRUE", "c"))))
            bye = await raw.end()
            assert bye is not None and "would close a cycle" in bye.reason
            raw = await Raw.broker(a, "d")
            raw.say(Snapshot(Kind.BROKERS, Version(1, 0), (entry("TRUE", "a"),)))
            assert await raw.end() is not None, "nor does another broker have its own name"
            caplog.clear()
            c.shape._dialler.keep(a.address)
            # Again and again, because it goes on dialling.
            await until(lambda: sum("refused" in record.message for record in caplog.records) >= 4)
            c.shape._dialler.drop(a.address)
            await until(linked(a, b, c))
        assert {*a.peers} == {"b"} and {*b.peers} == {"a", "c"} and {*c.peers} == {"b"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"advertisements": "covering"}, "advertisements"), ({"order_algorithm": "rooted"}, "by a root")],
)
@played
async def test_a_reliable_subscription_does_not_go_with_everything(
    tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    async with running("b", data=tmp_path, **settings) as server:
        raw = await Raw.client(server, "eve")
        told = next(one for one in raw.came if isinstance(one, Welcome)).unreliable
        assert told is not None and why in told
        assert await say(raw, subscribe(0, Entry(parse("x > 1"), "eve/1", reliable=True))) == told


@played
async def test_brokers_of_a_node_are_one_way_and_may_be_linked_to_each_other() -> None:
    """Two nodes of two brokers, every broker linked to all others: no link closes a cycle."""
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for name, node in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
            links = tuple(str(server.address) for server in servers)
            servers.append(await stack.enter_async_context(running(name, node=node, links=links)))
        await until(linked(*servers))
        await until(lambda: all(len(server.peers) == 3 for server in servers))
        a1, a2, b1, _ = servers
        assert b1.broker.directions.of("a1") == b1.broker.directions.of("a2") == "a"
        assert a1.broker.directions.is_sibling("a2") and a2.broker.directions.is_sibling("a1")
        # A third node that is linked to both of them does.
        raw = await Raw.broker(a1, "c1", "c")
        raw.say(Snapshot(Kind.BROKERS, Version(1, 0), (entry("TRUE", "c1"), entry("TRUE", "b2"))))
        bye = await raw.end()
        assert bye is not None and "would close a cycle" in bye.reason


@played
async def test_a_name_stands_for_one_node_or_one_client() -> None:
    async with running("a1", node="a") as server:
        neighbour, client = await Raw.broker(server, "b1", "b"), await Raw.client(server, "eve")
        for name, role, node, reason in (
            ("a", Role.CLIENT, None, "a stands for the node a at a1"),
            ("b", Role.CLIENT, None, "b stands for the node b at a1"),
            ("a", Role.BROKER, None, None),
            ("a", Role.BROKER, "c", "a stands for the node a at a1"),
            ("b", Role.BROKER, "c", "b stands for the node b at a1"),
            ("c1", Role.BROKER, "a1", "a1 stands for the node a at a1"),
            ("c1", Role.BROKER, "b1", "b1 stands for the node b at a1"),
            ("c1", Role.BROKER, "eve", "eve stands for a client at a1"),
            ("b2", Role.BROKER, "b", None),
            ("b", Role.BROKER, "b", None),
            ("b1", Role.BROKER, "d", None),
        ):
            raw = await Raw.to(server)
            hello = Hello(PROTOCOL, role, name, 1, node=node)
            if reason is not None:
                assert reason in await say(raw, hello)
            else:
                raw.say(hello)
                await raw.hear(Welcome)
                await raw.close()
                await until(lambda name=name: name not in server.peers or name == "b1")  # type: ignore[misc]
        await neighbour.close()
        await client.close()


@played
async def test_two_links_that_close_a_cycle_in_the_same_moment_do_not_both_stay() -> None:
    async with running("a") as a:
        d, e = await Raw.broker(a, "d"), await Raw.broker(a, "e")
        both = Snapshot(Kind.BROKERS, Version(1, 0), (entry("TRUE", "x"),))
        d.say(both)
        e.say(both)
        ends = [asyncio.ensure_future(raw.end()) for raw in (d, e)]
        await until(lambda: len(a.peers) == 1)
        assert a.broker.ways[Kind.BROKERS].get("x") in a.peers
        await d.close()
        await e.close()
        await asyncio.gather(*ends)


@played
async def test_links_come_back_and_tables_agree_again(tmp_path: Path) -> None:
    async with running("a") as a:
        settings: dict[str, Any] = {"links": (str(a.address),), "heartbeat_seconds": 0.5}
        async with running("b", **settings) as b:
            subscriber, publisher = await Guest.of(b, "bob"), await Guest.of(a, "ann")
            await subscriber.subscribe("n >= 0")
            await publisher.published([{"n": 1}])
            await until(lambda: subscriber.got == [1])
            # The link breaks: both ends are still there.
            b.peers["a"].connection._transport.abort()  # type: ignore[union-attr]
            await until(lambda: "b" not in a.peers)
            await until(lambda: "b" in a.peers and a.report()["tables"]["subscriptions"] == 1)
            await publisher.published([{"n": 2}])
            await until(lambda: subscriber.got == [1, 2])
        await until(lambda: subscriber.lost and "b" not in a.peers)
        assert a.report()["tables"]["subscriptions"] == 0
        # The broker that dials is gone and comes back, with the client.
        async with running("b", **settings) as b:
            await until(lambda: "b" in a.peers)
            await subscriber.connect(b)
            await until(lambda: a.report()["tables"]["subscriptions"] == 1)
            await publisher.published([{"n": 3}])
            await until(lambda: subscriber.got == [1, 2, 3])
            address = a.address
            await publisher.leave()
            # The broker that is dialled is gone and comes back where it was.
            await a.stop()
            await until(lambda: "a" not in b.peers)
            assert b.report()["brokers"] == ["b"]
            async with running("a", listen=f"{address.host}:{address.port}") as a_again:
                await until(lambda: "b" in a_again.peers and a_again.report()["tables"]["subscriptions"] == 1)
                publisher = await Guest.of(a_again, "ann2")
                await publisher.published([{"n": 4}])
                await until(lambda: subscriber.got == [1, 2, 3, 4])
                await publisher.leave()
            await subscriber.leave()


@played
async def test_what_a_broker_says_of_itself() -> None:
    async with running("a") as a, running("b", links=(str(a.address),)) as b, bystanders(a, b):
        guest = await Guest.of(b, "ann")
        await until(linked(a, b))
        answer = await guest.ask("a", Describe())
        assert isinstance(answer, Described)
        report = answer.report
        assert report["name"] == "a" and report["clients"] == 1 and {*report["brokers"]} == {"a", "b"}
        assert report["links"][0]["peer"] == "b" and report["tables"]["subscriptions"] == 1 and report["log"] is None
        await until(lambda: a.report()["forwarded"] > 10 and b.report()["delivered"] > 10)
        await guest.leave()


@played
async def test_a_broker_that_stops_leaves_no_connection_behind() -> None:
    async with running("b") as server:
        guests = [await Guest.of(server, f"guest{number}") for number in range(3)]
        stranger = await Raw.to(server)
        end = asyncio.ensure_future(stranger.end())
        await until(lambda: server._strangers)
    await until(lambda: all(guest.lost for guest in guests))
    bye = await end
    assert bye is not None and bye.reason == "b stops"
    assert not server.peers and not server._strangers


@played
async def test_the_times_of_a_log_never_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    times = []
    for start, ticks in ((0, (5_000_000, 3_000_000)), (2, (4_000_000, 7_000_000))):
        async with running(data=tmp_path) as server:
            eve = await Guest.of(server, "eve")
            for number, clock[0] in enumerate(ticks, start + 1):
                eve.step(Publish(Records.of("eve", number, [{"x": 5}])))
                await until(partial(_has_logged, server, number))
            await eve.leave()
            assert server._store is not None
            times = [batch.time_micros for batch in server._store.read(0)]
    assert times == [5_000, 5_000, 5_000, 7_000], "neither from one to the next nor over a restart"


def _has_logged(server: Server, offset: int) -> bool:
    return server._store is not None and server._store.head == offset
