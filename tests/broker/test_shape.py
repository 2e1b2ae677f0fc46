"""Links of running brokers are replaced: the new shape outlives restarts, and what cannot be done is told with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice import parse
from sluice.broker.config import LINKS_FILE
from sluice.broker.server import Server
from sluice.client.bus import Bus
from sluice.client.reshape import add, remove, replace, tree_of
from sluice.client.subscription import LiveSubscription
from sluice.client.tree import Replacement
from sluice.errors import RequestError
from sluice.protocol.messages import Change, Entry, Kind, Version
from sluice.protocol.reshape.messages import Dial, HangUp
from sluice.protocol.rewiring import Replace
from tests.broker.raw import played, running, until
from tests.client.test_move import line
from tests.network.processes import Relay

Servers = dict[str, Server]


def known(server: Server) -> set[str]:
    return {server.name, *server.broker.ways[Kind.BROKERS]}


def neighbours(server: Server) -> set[str]:
    return {peering.name for peering in server.peers.values() if peering.node is not None}


async def change(server: Server, *said: Any) -> None:
    """Has a link replaced."""
    async with sluice.connect(str(server.address)) as bus:
        tree = await tree_of(bus)
        await replace(bus, tree, tree.replacement(*said), lambda news: None)


@asynccontextmanager
async def durable_line(data: Path, ports: dict[str, int]) -> AsyncIterator[Servers]:
    """a, b and c in a row; each at the port that it had before."""
    async with AsyncExitStack() as stack:
        servers: Servers = {}
        for name, above in (("a", None), ("b", "a"), ("c", "b")):
            links = () if above is None else (f"127.0.0.1:{ports[above]}",)
            server = await stack.enter_async_context(
                running(name, data=data / name, fsync=False, links=links, listen=f"127.0.0.1:{ports.get(name, 0)}")
            )
            servers[name] = server
            ports[name] = server.address.port
        await until(lambda: all(known(server) == {"a", "b", "c"} for server in servers.values()))
        yield servers


@played
async def test_a_restart_comes_back_in_the_new_shape(tmp_path: Path) -> None:
    ports: dict[str, int] = {}
    async with durable_line(tmp_path, ports) as servers:
        await change(servers["b"], "b", "c", "a", "c")
        await until(lambda: neighbours(servers["a"]) == {"b", "c"} and neighbours(servers["c"]) == {"a"})
        broken = servers["a"].peers["c"]
        broken.connection.close("a hiccup")
        await until(lambda: servers["a"].peers.get("c") not in (None, broken))  # it is dialled again
        await until(lambda: all(known(server) == {"a", "b", "c"} for server in servers.values()))
        (link,) = servers["c"].report()["links"]
        assert link["from"] == "dialled by it" and servers["a"].report()["links"][1]["from"] == "added at run time"
    async with durable_line(tmp_path, ports) as servers:
        assert neighbours(servers["b"]) == {"a"} and neighbours(servers["c"]) == {"a"}
    (tmp_path / "c" / LINKS_FILE).unlink()
    async with durable_line(tmp_path, ports) as servers:
        # It dials as it is configured to, and the other end knows better.
        await until(lambda: neighbours(servers["b"]) == {"a"} and neighbours(servers["c"]) == {"a"})
        assert servers["c"].links.dialled == []


@played
async def test_a_new_broker_may_be_known_two_ways_while_there_are_two_trees() -> None:
    news = Change(Kind.BROKERS, Version(1, 0), Version(1, 1), (Entry(parse("TRUE"), "c"),), ())
    async with line("a", "b", "c") as (a, _, _), running("d", links=(str(a.address),)):
        await until(lambda: "d" in known(a))
        objection = a.objection(a.peers["d"], news)
        assert objection is not None and "would close a cycle" in objection
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(a.broker.reshape, "job", object())
            assert a.objection(a.peers["d"], news) is None


@played
async def test_a_link_that_was_replaced_can_be_added_again() -> None:
    async with line("a", "b", "c") as (a, b, c), sluice.connect(str(b.address)) as bus:
        await change(a, "a", "b", "a", "c")
        await remove(bus, "b", "c")
        await until(lambda: known(b) == {"b"} and known(a) == {"a", "c"})
        await add(bus, "b", str(a.address))
        await until(lambda: known(a) == known(b) == known(c) == {"a", "b", "c"})
        assert neighbours(a) == {"b", "c"}


@played
async def test_whoever_cannot_be_reached_is_told() -> None:
    async with line("a", "b", "c") as (a, b, c), sluice.connect(str(a.address)) as bus:
        tree = await tree_of(bus)
        tree.addresses["c"] = "sluice://127.0.0.1:1"
        with pytest.raises(RequestError, match="a cannot reach c"):
            await replace(bus, tree, Replacement("b", "c", "a", "c"), lambda news: None)
        tree.addresses["c"] = str(b.address)
        with pytest.raises(RequestError, match="there is a link to a already"):
            await replace(bus, tree, Replacement("b", "c", "a", "c"), lambda news: None)
        assert neighbours(a) == {"b"} and neighbours(c) == {"b"}
        assert [job["stage"] for job in b.report()["orders"].values()] == ["refused", "refused"]


@played
async def test_brokers_that_dial_each_other_for_jobs_have_one_link(caplog: pytest.LogCaptureFixture) -> None:
    async with line("a", "b", "c") as (a, b, c):
        caplog.clear()
        caplog.set_level("INFO")
        for here, there, job in ((a, c, "a/1"), (c, a, "c/1")):
            here.shape.do(Dial(there.name, str(there.address), job))
        await until(lambda: "c" in a.peers and "a" in c.peers)
        await until(lambda: not a.shape.wants("c") and not c.shape.wants("a"))
        assert a.peers["c"].dials and not c.peers["a"].dials, "that of the smaller name counts"
        assert [record.message for record in caplog.records].count("link-up") == 2, "neither resets the other"
        assert {*a.peers["c"].jobs} == {"a/1"} and {*c.peers["a"].jobs} == {"a/1", "c/1"}
        assert known(b) == {"a", "b", "c"}, "it is no part of the tree"
        link = c.peers["a"]
        c.shape.do(HangUp("a", "a/1"))
        await asyncio.sleep(0)
        assert not link.connection.closing, "another job needs it"
        c.shape.do(HangUp("a", "c/1"))
        await until(lambda: "c" not in a.peers and "a" not in c.peers)


@played
async def test_an_order_to_a_stranger_is_refused() -> None:
    async with running("a") as server, sluice.connect(str(server.address)) as bus:
        await bus.ask("a", Replace("b", "a", "c", "127.0.0.1:1"))
        await until(lambda: [job["stage"] for job in server.report()["orders"].values()] == ["refused"])


@played
async def test_a_link_that_is_not_there_is_told_by_both_ends_and_can_be_given_up() -> None:
    async with running("a") as a, AsyncExitStack() as stack:
        b = await stack.enter_async_context(running("b", links=(str(a.address), "127.0.0.1:1")))
        await until(lambda: known(a) == {"a", "b"})
        (never,) = b.report()["missing_links"]
        assert (never["peer"], never["address"]) == (None, "sluice://127.0.0.1:1") and not a.report()["missing_links"]
        await until(lambda: b.report()["missing_links"][0]["reason"])
        async with sluice.connect(str(b.address)) as bus:
            with pytest.raises(RequestError, match="b has no link to z"):
                await remove(bus, "b", "z")
            await a.stop()
            await until(lambda: "a" not in b.peers)
            assert [link["peer"] for link in b.report()["missing_links"]] == ["a", None]
            await remove(bus, "b", "a")
            assert [link["peer"] for link in b.report()["missing_links"]] == [None]
            assert a.address not in b.links.dialled
    async with running("a") as a, sluice.connect(str(a.address)) as bus:
        async with running("b", links=(str(a.address),)):
            await until(lambda: "b" in known(a))
        await until(lambda: "b" not in a.peers)
        (link,) = a.report()["missing_links"]
        assert link == {"peer": "b", "address": None, "reason": "waits to be dialled by it"}
        with pytest.raises(RequestError, match="b is who dials it: remove it there"):
            await remove(bus, "a", "b")


# --- repair -----------------------------------------------------------------------------------------------------------


@played
async def test_what_is_taken_away_for_good_is_not_repaired() -> None:
    """The link in the middle is taken away by order; then one end of what is left leaves."""
    settings: dict[str, Any] = {"repair": True, "hold_seconds": 1_000.0}
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for name in ("a", "b", "c", "d"):
            links = tuple(str(server.address) for server in servers[-1:])
            servers.append(await stack.enter_async_context(running(name, links=links, **settings)))
        a, b, c, d = servers
        await until(lambda: all(known(server) == {"a", "b", "c", "d"} for server in servers))
        bus = await stack.enter_async_context(sluice.connect(str(b.address)))
        await remove(bus, "b", "c")
        await until(lambda: known(a) == known(b) == {"a", "b"} and known(c) == known(d) == {"c", "d"})
        d.leave()
        await d.stop()
        await until(lambda: known(c) == {"c"})
        for server in servers[:3]:
            assert server.report()["reshape"]["held"] == 0 and server.report()["missing_links"] == []


async def reaches(publisher: Bus, feed: LiveSubscription, n: int) -> None:
    """Waits until what is published here comes there: while the way is repaired it is lost."""
    publishing = asyncio.create_task(publish_on(publisher, n))
    while (await anext(feed))["n"] != n:
        pass
    publishing.cancel()


async def publish_on(publisher: Bus, n: int) -> None:
    while True:
        await publisher.publish({"n": n})
        await asyncio.sleep(0.02)


async def nobody_there(*_: object) -> None:
    raise ConnectionError("nobody is there")


async def answers(bus: Bus, broker: str) -> bool:
    """Whether a broker can be asked."""
    try:
        return bool((await bus.describe(broker))["name"] == broker)
    except RequestError:
        return False


@played
async def test_a_broker_that_was_cut_off_is_back_without_a_storm() -> None:
    """b1, b2, b3 and b4 in a row: both links of b2 are cut, the others take it for dead, and then it is back, as a leaf."""
    settings: dict[str, Any] = {"repair": True, "hold_seconds": 6.0}
    async with AsyncExitStack() as stack:
        b2 = await stack.enter_async_context(running("b2", **settings))
        relay = Relay(b2.address)
        await relay.start()
        stack.push_async_callback(relay.stop)
        b1 = await stack.enter_async_context(running("b1", links=(str(relay.address),), **settings))
        b3 = await stack.enter_async_context(running("b3", links=(str(relay.address),), **settings))
        b4 = await stack.enter_async_context(running("b4", links=(str(b3.address),), **settings))
        servers = (b1, b2, b3, b4)
        await until(lambda: all(known(server) == {"b1", "b2", "b3", "b4"} for server in servers))
        await until(lambda: {*b1.broker.reshape.mending.repair.around["b2"]} == {"b3"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(b2.shape._dialler, "open", nobody_there)
            relay.cut()
            await until(lambda: neighbours(b1) == {"b3"} and neighbours(b3) == {"b1", "b4"})
            # What is held leads nowhere, and there is another way, of which b1 hears in a moment.
            async with sluice.connect(str(b1.address)) as bus:
                while not await answers(bus, "b4"):
                    assert b1.broker.held, "as long as anything is held"
                    await asyncio.sleep(0.01)
        relay.heal()
        await until(lambda: neighbours(b1) == {"b2", "b3"})
        await until(lambda: not any(server.report()["reshape"]["broken"] for server in servers))
        await until(lambda: all(known(server) == {"b1", "b2", "b3", "b4"} for server in servers))
        assert [server.report()["reshape"]["held"] for server in servers] == [1, 2, 1, 0], "each link broke once"
        assert not any(server.report()["missing_links"] for server in servers)


@played
async def test_a_link_that_is_cut_and_a_broker_that_dies_are_replaced() -> None:
    """b1, b2, b3 and b4 in a row: the link in the middle is cut for good, then b2 dies, and is back."""
    settings: dict[str, Any] = {"repair": True, "hold_seconds": 2.0}
    async with AsyncExitStack() as stack:
        b1 = await stack.enter_async_context(running("b1", **settings))
        b2 = await stack.enter_async_context(running("b2", links=(str(b1.address),), **settings))
        relay = Relay(b2.address)
        await relay.start()
        stack.push_async_callback(relay.stop)
        b3 = await stack.enter_async_context(running("b3", links=(str(relay.address),), **settings))
        b4 = await stack.enter_async_context(running("b4", links=(str(b3.address),), **settings))
        await until(lambda: all(known(server) == {"b1", "b2", "b3", "b4"} for server in (b1, b2, b3, b4)))
        bus = await stack.enter_async_context(sluice.connect(str(b1.address)))
        feed = await stack.enter_async_context(bus.subscribe("n > 0"))
        await feed.complete()
        far = await stack.enter_async_context(sluice.connect(str(b3.address)))
        relay.cut()
        await until(lambda: neighbours(b2) == {"b1", "b4"} and neighbours(b3) == {"b4"})
        await reaches(far, feed, 1)
        await until(lambda: "b4" in b1.broker.reshape.mending.repair.around["b2"])
        await b2.stop()  # without a word of leaving
        await until(lambda: neighbours(b1) == {"b4"} and neighbours(b4) == {"b1", "b3"})
        await reaches(far, feed, 2)
        again = await stack.enter_async_context(running("b2", links=(str(b1.address),), **settings))
        await until(lambda: all(known(server) == {"b1", "b2", "b3", "b4"} for server in (b1, again, b3, b4)))
        assert neighbours(again) == {"b1"} and not feed.gaps
