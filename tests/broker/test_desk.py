"""Questions to brokers on real sockets: ranges of a log, waiting for more, durable subscriptions, and ways that break."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from sluice.broker import desk as desk_module
from sluice.broker.server import Server
from sluice.protocol.messages import Kind
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Resume,
    Resumed,
)
from tests.broker.raw import Guest, directory, played, running, until


def fetch(
    after: int = 0, until: int | None = None, where: str = "TRUE", wait_seconds: float = 0.0, **rest: Any
) -> Fetch:
    return Fetch(after, until, where, rest.get("max_bytes", 1 << 20), wait_seconds)


def found(answer: Answer) -> list[int]:
    """The `n` of what was found; that of a record is its offset less one."""
    assert isinstance(answer, Fetched), answer
    assert [offset for batch in answer.batches for offset in (batch.logged.offsets if batch.logged else ())] == [
        record["n"] + 1 for batch in answer.batches for record in batch.records
    ]
    return [record["n"] for batch in answer.batches for record in batch.records]


def reason(answer: Answer) -> str:
    assert isinstance(answer, Failed), answer
    return answer.reason


@asynccontextmanager
async def durable(path: Path, records: int = 0, **settings: Any) -> AsyncIterator[tuple[Server, Guest]]:
    """A durable broker and a client of it that has published records, in batches of ten."""
    async with running(**directory(path, "b"), **settings) as server:
        guest = await Guest.of(server, "ann")
        for start in range(0, records, 10):
            await guest.published([{"n": n, "x": "a" * 100} for n in range(start, min(start + 10, records))])
        yield server, guest
        await guest.leave()


async def waits(server: Server, count: int = 1) -> None:
    """Returns when so many questions wait for something new."""
    await until(lambda: len(server._desk._waiting) == count)


# --- ranges -----------------------------------------------------------------------------------------------------------


@played
async def test_ranges_filters_and_pages(tmp_path: Path) -> None:
    async with durable(tmp_path, 95) as (_, guest):
        whole = await guest.ask("b", fetch())
        assert found(whole) == [*range(95)] and isinstance(whole, Fetched)
        assert (whole.through, whole.first, whole.head, whole.missing) == (95, 1, 95, ())
        assert found(await guest.ask("b", fetch(13, 27))) == [*range(13, 27)]
        assert found(await guest.ask("b", fetch(where="n % 7 = 0", until=50))) == [*range(0, 50, 7)]
        assert found(await guest.ask("b", fetch(200))) == []
        after, pages = 0, list[list[int]]()
        while after < 95:
            page = await guest.ask("b", fetch(after, max_bytes=1_500))
            assert isinstance(page, Fetched) and page.through > after
            after = page.through
            pages.append(found(page))
        assert len(pages) > 3 and [n for numbers in pages for n in numbers] == [*range(95)]
        assert found(await guest.ask("b", fetch(max_bytes=-5))) == [*range(10)], "one batch, if there is any"
        assert isinstance(await guest.ask("b", fetch(where="n >")), Failed)


@played
async def test_what_leaves_the_log_is_counted(tmp_path: Path) -> None:
    async with durable(tmp_path, 40) as (server, guest):
        assert server.report()["fetched"] == server.report()["fetched_bytes"] == 0
        await guest.ask("b", fetch(where="n % 10 = 7"))
        assert server.report()["fetched"] == 4 and 400 < server.report()["fetched_bytes"] < 800
        await guest.ask("b", fetch())
        assert server.report()["fetched"] == 44


@played
async def test_what_is_damaged_or_gone_is_named(tmp_path: Path) -> None:
    async with durable(tmp_path, 40):
        pass
    with apsw.Connection(str(tmp_path / "b" / "log.db")) as connection:
        connection.execute("UPDATE batch SET payload = zeroblob(5) WHERE first = 11")
    connection.close()
    async with durable(tmp_path) as (_, guest):
        answer = await guest.ask("b", fetch())
        assert found(answer) == [*range(10), *range(20, 40)]
        assert isinstance(answer, Fetched) and answer.missing == ((11, 20),)


# --- waiting for more -------------------------------------------------------------------------------------------------


@played
async def test_a_question_waits_for_something_that_matches(tmp_path: Path) -> None:
    async with durable(tmp_path, 10) as (server, guest):
        id = guest.inquire("b", fetch(10, where="n = 25", wait_seconds=600))
        await waits(server)
        await guest.published([{"n": n} for n in range(10, 20)])
        await waits(server)
        await guest.published([{"n": n} for n in range(20, 30)])
        answer = await guest.answer(id)
        assert found(answer) == [25] and isinstance(answer, Fetched) and answer.through == 30
        assert not server._desk._waiting and len(server._desk._wanted) == 0


@played
async def test_only_those_are_woken_whom_it_concerns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with durable(tmp_path) as (server, guest):
        ids = [guest.inquire("b", fetch(where=f"n = {n}", wait_seconds=600)) for n in range(20)]
        await waits(server, 20)
        looked: list[str] = []
        look = server._desk._look

        def noted(question: Fetch, *rest: Any) -> Fetched:
            looked.append(question.where)
            return look(question, *rest)

        monkeypatch.setattr(server._desk, "_look", noted)
        await guest.published([{"n": 7}])
        assert [record["n"] for batch in _batches(await guest.answer(ids[7])) for record in batch.records] == [7]
        assert looked == ["n = 7"] and len(server._desk._waiting) == 19
        await guest.published([{"n": n} for n in range(20)])
        for id in ids:
            assert _batches(await guest.answer(id))
        assert len(looked) == 20


def _batches(answer: Answer) -> tuple[Any, ...]:
    assert isinstance(answer, Fetched)
    return answer.batches


@played
async def test_a_wait_ends(tmp_path: Path) -> None:
    async with durable(tmp_path, 10) as (server, guest):
        id = guest.inquire("b", fetch(10, where="n < 0", wait_seconds=0.2))
        await waits(server)
        await guest.published([{"n": 10}])
        answer = await guest.answer(id)
        assert found(answer) == [] and isinstance(answer, Fetched) and answer.through == 11 == answer.head
        for seconds in (0.0, -1.0, float("nan")):
            assert found(await guest.ask("b", fetch(11, wait_seconds=seconds))) == []
        assert found(await guest.ask("b", fetch(11, 11, wait_seconds=600))) == [], "a range that ends is not waited for"
        assert found(await guest.ask("b", fetch(9, wait_seconds=600))) == [9, 10], "what is there is not waited for"


@played
async def test_who_asks_for_what_is_far_ahead_gets_nothing_before_it(tmp_path: Path) -> None:
    async with durable(tmp_path) as (server, guest):
        id = guest.inquire("b", fetch(5, where="n >= 0", wait_seconds=600))
        odd = guest.inquire("b", fetch(5, where="n % 2 = 0", wait_seconds=600))
        await waits(server, 2)
        for n in range(9):
            await guest.published([{"n": n}])
        assert found(await guest.answer(id))[0] == 5
        assert found(await guest.answer(odd))[0] == 6


@played
async def test_something_that_is_stored_while_one_looks_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with durable(tmp_path, 10) as (server, guest):
        looking, go_on = threading.Event(), threading.Event()
        look = server._desk._look

        def slow(*question: Any) -> Fetched:
            result = look(*question)
            looking.set()
            go_on.wait()
            return result

        monkeypatch.setattr(server._desk, "_look", slow)
        id = guest.inquire("b", fetch(10, where="n = 10", wait_seconds=600))
        await until(looking.is_set)
        await guest.published([{"n": 10}])
        go_on.set()
        assert found(await guest.answer(id)) == [10]


@played
async def test_waiting_questions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "MAX_REQUESTS", 5)
    async with durable(tmp_path) as (server, guest):
        first = guest.inquire("b", fetch(wait_seconds=600))
        await waits(server, 1)
        for _ in range(5):
            guest.inquire("b", fetch(wait_seconds=600))
            await asyncio.sleep(0)
        assert found(await guest.answer(first)) == [], "the oldest is answered, without anything"
        await waits(server, 5)


@played
async def test_questions_that_nobody_can_look_up_in_time_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "MAX_REQUESTS", 5)
    async with durable(tmp_path, 10) as (server, guest):
        go_on = threading.Event()
        look = server._desk._look
        monkeypatch.setattr(server._desk, "_look", lambda *question: (go_on.wait(), look(*question))[1])
        ids = [guest.inquire("b", fetch()) for _ in range(6)]
        assert "ask again later" in reason(await guest.answer(ids[5]))
        go_on.set()
        for id in ids[:5]:
            assert found(await guest.answer(id)) == [*range(10)]


# --- durable subscriptions --------------------------------------------------------------------------------------------


@played
async def test_durable_subscriptions_keep_their_place(tmp_path: Path) -> None:
    async with durable(tmp_path) as (_, guest):
        assert await guest.ask("b", Resume("news", "n > 3", {"b": 5})) == Resumed("n > 3", {"b": 5})
        assert await guest.ask("b", Resume("news", "n  >  3", {"b": 99})) == Resumed("n > 3", {"b": 5}), "it is there"
        assert await guest.ask("b", Commit("news", {"b": 8, "c": 2})) == Done()
        assert await guest.ask("b", Commit("news", {"b": 9})) == Done()
        assert "asks for n > 3" in reason(await guest.ask("b", Resume("news", "n > 4", {})))
        assert isinstance(await guest.ask("b", Resume("other", "n >", {})), Failed)
        for offset in (-1, 2**63, 2**64 - 1):
            assert "offsets count from 1" in reason(await guest.ask("b", Commit("news", {"b": offset})))
        assert await guest.ask("b", Commit("nobody", {"b": 7})) == Done(), "there is nothing to keep"
        assert await guest.ask("b", Resume("nobody", "n > 3", {"b": 1})) == Resumed("n > 3", {"b": 1})
    async with durable(tmp_path) as (_, guest):
        assert await guest.ask("b", Resume("news", "n > 3", {})) == Resumed("n > 3", {"b": 9, "c": 2})
        assert await guest.ask("b", Forget("news")) == Done()
        assert "no durable subscription 'news'" in reason(await guest.ask("b", Forget("news")))
        assert await guest.ask("b", Resume("news", "n > 4", {})) == Resumed("n > 4", {})


@played
async def test_who_holds_a_log_is_told(tmp_path: Path) -> None:
    async with durable(tmp_path) as (_, guest):
        assert await guest.ask("b", Resume("news", "n > 3", {"b": 5})) == Resumed("n > 3", {"b": 5})
        assert await guest.ask("b", Resume("archive", "TRUE", {"b": 2}, holds=True)) == Resumed("TRUE", {"b": 2})
        assert await guest.ask("b", Commit("archive", {"b": 4, "c": 9})) == Done()
        assert "'news' does not hold" in reason(await guest.ask("b", Resume("news", "n > 3", {}, holds=True)))
        assert "'archive' holds the log of b" in reason(await guest.ask("b", Resume("archive", "TRUE", {})))
    async with durable(tmp_path) as (_, guest):
        answer = await guest.ask("b", Describe())
        assert isinstance(answer, Described) and answer.report["log"]["holds"] == {"archive": 4}
        assert await guest.ask("b", Forget("archive")) == Done()
        answer = await guest.ask("b", Describe())
        assert isinstance(answer, Described) and answer.report["log"]["holds"] == {}


@played
async def test_a_broker_without_a_log_says_so() -> None:
    async with running("b") as server:
        guest = await Guest.of(server, "ann")
        for question in (fetch(), Resume("news", "n > 3", {}), Commit("news", {}), Forget("news")):
            assert "b keeps no log: start it with a data directory" in reason(await guest.ask("b", question))
        assert isinstance(await guest.ask("b", Describe()), Described)
        assert "knows no way to 'z'" in reason(await guest.ask("z", Describe()))
        await guest.leave()


# --- across brokers ---------------------------------------------------------------------------------------------------


@played
async def test_questions_find_their_way_over_three_brokers(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        c = await stack.enter_async_context(running(**directory(tmp_path, "c")))
        b = await stack.enter_async_context(running("b", links=(str(c.address),)))
        a = await stack.enter_async_context(running("a", links=(str(b.address),)))
        await until(lambda: all({*each.broker.ways[Kind.BROKERS]} | {each.name} == {*"abc"} for each in (a, c)))
        asker, publisher = await Guest.of(a, "ann"), await Guest.of(c, "bob")
        await publisher.published([{"n": n} for n in range(10)])
        assert found(await asker.ask("c", fetch(3))) == [*range(3, 10)]
        assert "b keeps no log" in reason(await asker.ask("b", fetch()))
        answer = await asker.ask("c", Describe())
        assert isinstance(answer, Described) and answer.report["name"] == "c" and answer.report["log"]["head"] == 10
        id = asker.inquire("c", fetch(10, wait_seconds=600))
        await waits(c)
        await publisher.published([{"n": 10}])
        assert found(await asker.answer(id)) == [10]
        # The way breaks while a question waits at its other end.
        id = asker.inquire("c", fetch(11, wait_seconds=600))
        await waits(c)
        b.peers["c"].connection._transport.abort()  # type: ignore[union-attr]
        assert "the way from b through c broke: ask again" in reason(await asker.answer(id))
        await until(lambda: "c" in a.broker.ways[Kind.BROKERS])
        assert found(await asker.ask("c", fetch(8))) == [8, 9, 10]
        await publisher.published([{"n": 11}])  # the question that nobody waits for any more disturbs nobody
        # Whoever asks goes: nothing is left of its question on the way.
        asker.inquire("c", fetch(12, wait_seconds=600))
        await waits(c)
        await asker.leave()
        await until(lambda: not a.broker.requests)
        await publisher.published([{"n": 12}])
        await until(lambda: not (b.broker.requests or c.broker.requests))
        await publisher.leave()
