"""LinkBook that are changed at run time: they are there after a restart, and those that were taken away are not."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import sluice
from sluice.broker.config import ServerConfig
from sluice.broker.linkbook import LinkBook
from sluice.broker.security import Security
from sluice.broker.server import Server
from sluice.errors import ConfigurationError
from sluice.net.address import Address
from sluice.protocol.messages import Kind
from sluice.protocol.questions import Answer, Done, Failed, Question
from sluice.protocol.reshape.messages import Mark
from sluice.protocol.rewiring import Connect, Leave, Part, Replace
from tests.broker.raw import Guest, played, running, until

A, B, C = (Address.of(f"h:{port}") for port in (1, 2, 3))


def test_what_was_changed_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "below" / "links.json"
    links = LinkBook([A, B], file)
    assert links.dialled == [A, B] and not file.exists()
    links.add("c", C)
    links.remove("a", A)
    again = LinkBook([A, B], file)
    assert again.dialled == [B, C]
    assert [again.source(each) for each in (B, C, None)] == ["configuration", "added at run time", "dialled by it"]
    again.add("a", A)
    again.remove("c", C)
    again.remove("z", None, Mark(3, is_member=False))  # whom nobody here dials
    assert LinkBook([A, B], file).marks == {"z": Mark(3, is_member=False)}
    assert LinkBook([A, B], file).dialled == [A, B]
    assert json.loads(file.read_text()) == {"added": {}, "removed": {}, "marks": {"z": [3, False]}}


def test_a_file_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    for text in ("", "[]", '{"added": {"a": "nowhere:x"}, "removed": {}}', '{"added": []}'):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"links.json does not say .*: remove it"):
            LinkBook([A], file)


async def ask(server: Server, question: Question) -> Answer:
    guest = await Guest.of(server, "operator")
    answer = await guest.ask(server.name, question)
    guest.connection.close("thank you")
    await guest.connection.over.wait()
    return answer


def are_linked(*servers: Server) -> bool:
    names = {server.name for server in servers}
    return all({*server.broker.ways[Kind.BROKERS], server.name} == names for server in servers)


@played
async def test_a_link_is_added_and_comes_back(tmp_path: Path) -> None:
    async with running("a") as a:
        async with running("b", data=tmp_path / "b") as b:
            assert await ask(b, Connect(str(a.address))) == Done()
            await until(lambda: are_linked(a, b))
            assert isinstance(again := await ask(b, Connect(str(a.address))), Failed) and "already" in again.reason
            (link,) = b.report()["links"]
            assert (link["peer"], link["from"]) == ("a", "added at run time")
            assert a.report()["links"][0]["from"] == "dialled by it"
        async with running("b", data=tmp_path / "b") as b:
            await until(lambda: are_linked(a, b))


@played
async def test_a_link_that_is_taken_away_is_not_dialled_again(tmp_path: Path) -> None:
    """Whichever end is told: the one that dials, or the other one."""
    for teller in "ab":
        data = tmp_path / teller
        async with running("a") as a:
            async with running("b", data=data, links=(str(a.address),)) as b:
                await until(lambda: are_linked(a, b))
                told, other = (a, "b") if teller == "a" else (b, "a")
                assert await ask(told, Part(other)) == Done()
                await until(lambda: not a.peers and not b.peers)
                assert b.report()["link_changes"]["removed"] == {"a": str(a.address)}
                assert isinstance(none := await ask(told, Part(other)), Failed) and "no link" in none.reason
            async with running("b", data=data, links=(str(a.address),)) as b:
                assert b.links.dialled == []
                assert await ask(b, Connect(str(a.address))) == Done()
            async with running("b", data=data, links=(str(a.address),)) as b:
                await until(lambda: are_linked(a, b))
                assert b.report()["links"][0]["from"] == "configuration"


@played
async def test_what_cannot_be_linked_is_told() -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(running("a"))
        b = await stack.enter_async_context(running("b", links=(str(a.address),)))
        c = await stack.enter_async_context(running("c", links=(str(b.address),)))
        await until(lambda: are_linked(a, b, c))
        for address, problem in (
            (str(a.address), "would close a cycle"),
            (str(c.address), "c is the name of this broker"),
            ("127.0.0.1:1", ""),
            ("nowhere:x", "no address"),
        ):
            answer = await ask(c, Connect(address))
            assert isinstance(answer, Failed) and problem in answer.reason
        assert {*c.peers} == {"b"} and c.links.account() == {"added": {}, "removed": {}, "marks": {}}


@played
async def test_a_broker_that_leaves_is_not_dialled_any_more(tmp_path: Path) -> None:
    async with running("a", links_file=tmp_path / "a.json") as a:
        async with running("b") as b:
            assert await ask(a, Connect(str(b.address))) == Done()
            await until(lambda: are_linked(a, b))
            assert await ask(b, Leave()) == Done()
            await b.serve_forever()
        await until(lambda: not a.peers)
        assert a.links.dialled == []


@played
async def test_links_of_a_node_with_several_brokers_are_not_replaced() -> None:
    async with running("x-1", node="x") as server:
        answer = await ask(server, Replace("a", "x-1", "b", "h:1"))
        assert isinstance(answer, Failed) and "one of several brokers of the node x" in answer.reason


@played
async def test_operators_are_known_by_their_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'ann = "{"a" * 32}"\nbob = "{"b" * 32}"\n')
    tokens.chmod(0o600)
    async with (
        running("a", tokens_file=tokens, operators=("ann",)) as server,
        sluice.connect(str(server.address), token="a" * 32) as ann,
        sluice.connect(str(server.address), token="b" * 32) as bob,
    ):
        for order in (Part("z"), Connect("h:1"), Replace("z", "a", "y", "h:1"), Leave()):
            refused = await bob.ask("a", order)
            assert isinstance(refused, Failed) and "bob must not reshape this network" in refused.reason
        taken = await ann.ask("a", Part("z"))
        assert isinstance(taken, Failed) and "no link to z" in taken.reason
    with pytest.raises(ConfigurationError, match="who holds no token"):
        Security.of(ServerConfig(name="a", tokens_file=tokens, operators=("eve",)))
    with pytest.raises(ConfigurationError, match="known by their tokens"):
        ServerConfig(name="a", operators=("eve",))


@played
async def test_an_order_is_remembered() -> None:
    async with running("a") as server:
        await ask(server, Replace("b", "a", "c", "127.0.0.1:1"))
        await asyncio.sleep(0)
        assert len(server.report()["orders"]) == 1
