"""The bus against a real broker: what is published comes, once, in order, to those who asked for it."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import sluice
from sluice.client.publisher import MAX_BODY_BYTES, MAX_UNACCEPTED
from sluice.client.session.commands import Inquire
from sluice.errors import ConfigurationError, LinkError, NotificationError, PublishError, RequestError
from sluice.protocol.batch import Records
from sluice.protocol.questions import ReplayEvent
from tests.broker.raw import Guest, played, running, until


async def take(events: Any, count: int) -> list[Any]:
    """The first so many of what comes."""
    return [await anext(events) for _ in range(count)]


def at(server: Any) -> str:
    return str(server.address)


@played
async def test_what_is_published_comes_to_those_who_asked() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, sluice.connect(at(server), "ann") as ann:
        where = "symbol = 'IBM' AND price > 120"
        async with bus.subscribe(where) as quotes:
            await quotes.complete()
            first = await ann.publish({"symbol": "IBM", "price": 121.5})
            await ann.publish({"symbol": "IBM", "price": 119})
            last = await ann.publish({"symbol": "IBM", "price": 122, "nested": {"list": [1, 2]}})
            quote, other = await take(quotes, 2)
            assert quote == {"symbol": "IBM", "price": 121.5}
            assert other == {"symbol": "IBM", "price": 122, "nested": {"list": [1, 2]}}
            assert (quote.id, other.id) == (("ann", first), ("ann", last)) and last == first + 2 == ann.published
            assert quote.subscriptions == (quotes,)
            assert quote.stream is quote.offset is quote.time is None


@dataclass
class Quote:
    symbol: str
    price: float


@played
async def test_whatever_is_a_record_can_be_published() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("price > 1") as quotes:
        await quotes.complete()
        await bus.publish(Quote("IBM", 5.5))
        await bus.publish_many([{"price": 6}, Quote("SAP", 7)])
        records = await take(quotes, 3)
        assert [record["price"] for record in records] == [5.5, 6, 7]
        with pytest.raises(NotificationError):
            await bus.publish({"price": object()})
        with pytest.raises(NotificationError):
            await bus.publish_many([{"price": 8}, 9])
        assert await bus.publish_many([]) == bus.published == 3
        await bus.publish({"price": 10})
        assert (await anext(quotes))["price"] == 10


@played
async def test_an_event_can_go_into_another_process() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("true") as feed:
        await feed.complete()
        await bus.publish({"n": [1, {"m": 2}]})
        event = await anext(feed)
        elsewhere = pickle.loads(pickle.dumps(event))
        assert elsewhere == event == {"n": [1, {"m": 2}]} and type(elsewhere) is dict


@played
async def test_a_notification_comes_once_with_all_its_subscriptions() -> None:
    async with (
        running() as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("n >= 0") as all_of_them,
        bus.subscribe("n % 2 = 0") as even,
        bus.subscribe("n = 2") as two,
    ):
        for subscription in (all_of_them, even, two):
            await subscription.complete()
        await bus.publish_many({"n": n} for n in range(4))
        # What waits with the subscriptions when somebody asks for everything comes along, once.
        await until(lambda: all_of_them.inbox.waiting())
        events = bus.events()
        got = await take(events, 4)
        assert [event["n"] for event in got] == [0, 1, 2, 3]
        assert [event.subscriptions for event in got] == [
            (all_of_them, even),
            (all_of_them,),
            (all_of_them, even, two),
            (all_of_them,),
        ]
        await bus.publish({"n": 4})
        assert (await anext(bus.events())).subscriptions == (all_of_them, even)
        assert not even.inbox.waiting()


@played
async def test_each_subscription_has_its_own_iterator() -> None:
    async with (
        running() as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("n % 2 = 0") as even,
        bus.subscribe("n % 3 = 0") as thirds,
    ):
        await even.complete()
        await thirds.complete()
        await bus.publish_many({"n": n} for n in range(10))
        assert [event["n"] for event in await take(even, 5)] == [0, 2, 4, 6, 8]
        got = await take(thirds, 4)
        assert [event["n"] for event in got] == [0, 3, 6, 9]
        assert got[2].subscriptions == (even, thirds)


@played
async def test_batches_have_what_came_together() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("n > 1") as big:
        await big.complete()
        await bus.publish_many([{"n": 1}, {"n": 2}, {"n": 3}])
        table = pa.RecordBatch.from_pydict({"n": [1, 5, 6], "s": ["a", None, "c"]})
        await bus.publish_arrow(table)
        await bus.publish_arrow(pa.Table.from_batches([table.slice(1)]))
        batches = big.batches()
        assert await anext(batches) == [{"n": 2}, {"n": 3}]
        rows = await anext(batches)
        assert isinstance(rows, pa.RecordBatch) and rows.to_pylist() == [{"n": 5, "s": None}, {"n": 6, "s": "c"}]
        # One by one, rows are events as any other.
        assert await take(big, 1) == [{"n": 5}]
        assert await anext(batches) == [{"n": 6, "s": "c"}]


@played
async def test_arrow_that_cannot_be_published_is_refused_here() -> None:
    async with running() as server, sluice.connect(at(server)) as bus:
        with pytest.raises(NotificationError):
            await bus.publish_arrow(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
        with pytest.raises(NotificationError, match="a row takes"):
            await bus.publish_arrow(pa.RecordBatch.from_pydict({"a": ["x" * MAX_BODY_BYTES]}))
        assert bus.published == 0


@played
async def test_much_arrow_leaves_in_parts() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("n >= 0") as everything:
        await everything.complete()
        large = pa.RecordBatch.from_pydict({"n": range(5_000), "text": ["x" * 1_000] * 5_000})
        many = pa.RecordBatch.from_pydict({"n": range(5_000, 75_000)})
        assert await bus.publish_arrow(large) == 5_000
        assert await bus.publish_arrow(many) == 75_000
        got: list[int] = []
        async for batch in everything.batches():
            assert isinstance(batch, pa.RecordBatch)
            got += batch.column("n").to_pylist()
            if len(got) == 75_000:
                break
        assert got == [*range(75_000)]


@played
async def test_flush_tells_what_was_refused() -> None:
    async with running(advertisements="simple") as server, sluice.connect(at(server)) as bus:
        await bus.flush()
        async with bus.advertise("kind = 'news'") as advertisement:
            await advertisement.complete()
            await bus.publish({"kind": "news"})
            await bus.flush()
            await bus.publish({"kind": "weather"})
            await bus.publish({"kind": "news"})
            with pytest.raises(PublishError, match="advertise it first") as caught:
                await bus.flush()
            assert [*caught.value.refused] == [2] and caught.value.unknown == ()
            await bus.flush()  # what was told is told


@played
async def test_a_watcher_sees_who_comes_and_goes() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, sluice.connect(at(server), "bob") as bob:
        assert bob.name == "bob"
        async with bus.watch("price > 100") as dear, bus.watch("price < 10") as cheap:
            await dear.complete()
            await cheap.complete()
            async with bob.subscribe("price > 50") as subscription:
                await subscription.complete()
                change = await anext(dear)
                assert [str(entry.where) for entry in change.added] == ["price > 50"] and not change.removed
                async with bus.watch("price > 200") as late:
                    assert [*late.subscriptions] == [subscription.id]  # another watch had brought it
                    assert (await anext(late)).added == change.added
            change = await anext(dear)
            assert [entry.id for entry in change.removed] == [subscription.id] and not dear.subscriptions
            # Who came and went while nobody looked has not been there.
            async with bob.subscribe("price > 60") as short:
                await short.complete()
                await until(lambda: dear.subscriptions)
            await until(lambda: not dear.subscriptions)
            async with bob.subscribe("price > 70") as longer:
                await longer.complete()
                assert [str(entry.where) for entry in (await anext(dear)).added] == ["price > 70"]
            assert not cheap.subscriptions


@played
async def test_a_replay_comes_to_the_subscription_that_wished_for_it() -> None:
    async with running() as server, sluice.connect(at(server)) as bus:
        history = await Guest.of(server, "history")
        async with bus.subscribe("n > 0", last=2) as wished, bus.subscribe("n > 0") as other:
            await wished.complete()
            await other.complete()
            past = Records.of("old", 1, [{"n": 1}, {"n": 2}])
            history.step(Inquire("history/1", wished.id, ReplayEvent((past,), through={})))
            await wished.replayed()
            assert await take(wished, 2) == [{"n": 1}, {"n": 2}]
            await bus.publish({"n": 3})
            assert await take(other, 1) == [{"n": 3}] == await take(wished, 1)
        await history.leave()


@played
async def test_a_slow_program_gets_everything_through_little_credit() -> None:
    async with (
        running(outbox_bytes=1 << 24) as server,
        sluice.connect(at(server), prefetch=7, policy="block") as bus,
        sluice.connect(at(server)) as publisher,
        bus.subscribe("n % 2 = 0") as even,
        bus.subscribe("n >= 0") as all_of_them,
    ):
        await even.complete()
        await all_of_them.complete()
        for n in range(2_000):
            await publisher.publish({"n": n})
        await publisher.flush()
        # Both at once: the subscriptions of a connection share what may wait for it.
        halves, wholes = await asyncio.gather(take(even, 1_000), take(all_of_them, 2_000))
        assert [event["n"] for event in halves] == [*range(0, 2_000, 2)]
        assert [event["n"] for event in wholes] == [*range(2_000)]
        assert not even.gaps and not all_of_them.gaps


@played
async def test_who_is_too_slow_is_told_how_many_are_missing() -> None:
    told: list[sluice.Gap] = []
    async with (
        running(outbox_bytes=4_096) as server,
        sluice.connect(at(server), prefetch=1, on_gap=told.append) as bus,
        sluice.connect(at(server)) as publisher,
        bus.subscribe("n >= 0") as slow,
    ):
        await slow.complete()
        for n in range(500):
            await publisher.publish({"n": n})
            await publisher.flush()
        got = [(await anext(slow))["n"]]
        while got[-1] < 499:
            got.append((await anext(slow))["n"])
        assert got == sorted(set(got)) and len(got) < 500
        assert sum(gap.count or 0 for gap in slow.gaps) == 500 - len(got)
        assert told == [*slow.gaps] and all(gap.subscriptions == (slow,) for gap in told)
        assert "notifications are missing" in str(told[0])


@played
async def test_a_publisher_waits_while_too_much_is_not_accepted() -> None:
    async with running() as server, sluice.connect(at(server)) as bus:
        server.peers[bus.name].connection.pause_reading()

        async def publish() -> None:
            for n in range(2 * MAX_UNACCEPTED):
                await bus.publish({"n": n})

        task = asyncio.create_task(publish())
        await until(lambda: bus.published >= MAX_UNACCEPTED)
        for _ in range(20):
            await asyncio.sleep(0)
        assert bus.published == MAX_UNACCEPTED
        server.peers[bus.name].connection.resume_reading()
        await task
        await bus.flush()
        assert bus.published == 2 * MAX_UNACCEPTED


@played
async def test_the_end_of_a_connection() -> None:
    async with running() as server:
        async with sluice.connect(at(server)) as bus, sluice.connect(at(server)) as other:
            assert bus.name != other.name
            async with other.subscribe("true") as everything:
                await everything.complete()
                async with bus.subscribe("true") as ending:
                    await bus.publish({"n": 1})
                    await everything.complete()
                with pytest.raises(StopAsyncIteration):
                    await anext(ending)
                assert await anext(everything) == {"n": 1}
        with pytest.raises(LinkError, match="closed"):
            await bus.publish({"n": 1})
        with pytest.raises(LinkError, match="closed"):
            await bus.broker()
        with pytest.raises(LinkError, match="closed"):
            async with bus.subscribe("true"):
                pass


@played
async def test_leaving_the_block_sends_what_was_published() -> None:
    async with running() as server, sluice.connect(at(server)) as bus, bus.subscribe("true") as everything:
        await everything.complete()
        async with sluice.connect(at(server)) as publisher:
            for n in range(1_000):
                await publisher.publish({"n": n})
        assert [event["n"] for event in await take(everything, 1_000)] == [*range(1_000)]


@played
async def test_questions() -> None:
    async with running() as server, sluice.connect(at(server), "ann") as bus:
        assert await bus.broker() == "b" and bus.name == "ann"
        assert (await bus.describe())["name"] == (await bus.describe("b"))["name"] == "b"
        with pytest.raises(RequestError, match="no way to 'nobody'"):
            await bus.describe("nobody")
        with pytest.raises(RequestError, match="keeps no log"):
            await bus.forget("accounting")
        with pytest.raises(RequestError, match="keeps no log"):
            await anext(bus.fetch("b"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"policy": "wait"}, "no policy"),
        ({"prefetch": 0}, "prefetch"),
        ({"name": "a/b"}, "slash"),
        ({"name": ""}, "characters"),
        ({"connect_seconds": 0}, "connect_seconds"),
        ({"address": "http://b"}, "sluice://host:port"),
    ],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        sluice.connect(**options)


@played
async def test_replay_and_logs_exclude_each_other() -> None:
    async with running() as server, sluice.connect(at(server)) as bus:
        with pytest.raises(ConfigurationError, match="replay"):
            bus.subscribe("true", last=1, start="earliest")  # type: ignore[call-overload]
        with pytest.raises(sluice.ParseError):
            bus.subscribe("price >")
