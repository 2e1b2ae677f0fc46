"""The blocking face does what the bus does, with timeouts; memory:// is a broker in this process."""

from __future__ import annotations

import asyncio
import threading
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

import sluice
from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.client.background import Background
from sluice.client.memory import Embedded
from sluice.errors import LinkError, NotificationError, PublishError, RequestError
from sluice.protocol.messages import Replay
from tests.broker.raw import directory, running
from tests.client.test_bus import at, take
from tests.patience import PATIENCE_SECONDS


def test_publish_and_subscribe() -> None:
    with sluice.connect("memory://quotes") as bus, sluice.connect("memory://quotes", "ann") as ann:
        assert ann.name == "ann" and bus.broker() == "quotes"
        with bus.subscribe("price > 100") as quotes:
            quotes.complete(timeout=PATIENCE_SECONDS)
            first = ann.publish({"symbol": "IBM", "price": 121.5})
            assert ann.publish({"price": 99}, timeout=PATIENCE_SECONDS) == first + 1
            assert ann.publish_many([{"price": 101}, {"price": 102}]) == first + 3
            ann.publish_arrow(pa.RecordBatch.from_pydict({"price": [103, 104]}))
            assert ann.published == first + 5
            ann.flush(timeout=PATIENCE_SECONDS)
            quote = next(quotes)
            assert quote == {"symbol": "IBM", "price": 121.5} and quote.id == ("ann", first)
            prices = [quote["price"]]
            for quote in quotes:
                prices.append(quote["price"])
                if quote["price"] == 103:
                    break
            assert prices == [121.5, 101, 102, 103]
            assert quotes.get(timeout=PATIENCE_SECONDS)["price"] == 104
            with pytest.raises(TimeoutError):
                quotes.get(timeout=0.01)
            assert quotes.gaps == [] and str(quotes.where) == "price > 100" and quotes.id.startswith(bus.name)
            ann.publish_many([{"price": 105}, {"price": 106}])
            assert next(quotes)["price"] == 105
            ann.publish_arrow(pa.RecordBatch.from_pydict({"price": [107, 108]}))
            batches = quotes.batches()
            assert next(batches) == [{"price": 106}]
            rows = next(batches)
            assert isinstance(rows, pa.RecordBatch) and rows.num_rows == 2
        assert [*quotes] == []  # it is over
        with pytest.raises(NotificationError):
            bus.publish({"price": object()})


def test_everything_of_a_connection() -> None:
    with sluice.connect("memory://") as bus, bus.subscribe("n > 0") as some, bus.subscribe("n > 1") as more:
        some.complete()
        more.complete()
        bus.publish_many([{"n": 1}, {"n": 2}])
        events = bus.events()
        assert [len(next(events).subscriptions), len(next(events).subscriptions)] == [1, 2]


def test_interest_and_advertisements() -> None:
    with sluice.connect("memory://") as bus, sluice.connect("memory://") as other:
        with bus.advertise("n > 0") as advertisement, bus.watch("n > 0") as interest:
            advertisement.complete(timeout=PATIENCE_SECONDS)
            interest.complete(timeout=PATIENCE_SECONDS)
            with pytest.raises(TimeoutError):
                interest.get(timeout=0.01)
            with other.subscribe("n = 5", last=1) as wanted:
                (entry,) = next(interest).added
                assert entry.id == wanted.id and entry.replay == Replay(last=1)
                assert [*interest.subscriptions] == [wanted.id]
            assert [entry.id for entry in interest.get(timeout=PATIENCE_SECONDS).removed] == [wanted.id]
        assert [*interest] == []


def test_questions() -> None:
    with sluice.connect("memory://") as bus:
        assert bus.describe(timeout=PATIENCE_SECONDS)["clients"] == 1
        with pytest.raises(RequestError, match="keeps no log"):
            bus.forget("accounting")
        with pytest.raises(RequestError, match="keeps no log"):
            next(bus.fetch("memory"))


def test_many_threads_publish_each_in_its_order() -> None:
    with sluice.connect("memory://") as bus, bus.subscribe("true") as everything:
        everything.complete()
        numbers: dict[int, list[int]] = {}

        def publish(thread: int) -> None:
            numbers[thread] = [bus.publish({"thread": thread, "n": n}) for n in range(2_000)]

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        got = [next(everything) for _ in range(6_000)]
        for thread in threads:
            thread.join()
        for number, given in numbers.items():
            mine = [event for event in got if event["thread"] == number]
            assert [event["n"] for event in mine] == [*range(2_000)]
            assert [event.id.number for event in mine] == given
        assert sorted(chain.from_iterable(numbers.values())) == [*range(1, 6_001)]


def test_leaving_the_block_sends_what_was_published() -> None:
    with sluice.connect("memory://") as bus, bus.subscribe("true") as everything:
        everything.complete()
        for publish in (1, 100, 10_000):
            with sluice.connect("memory://") as publisher:
                for n in range(publish):
                    publisher.publish({"n": n})
            assert [next(everything)["n"] for _ in range(publish)] == [*range(publish)]


def test_what_could_not_leave_is_told(tmp_path: Path) -> None:
    """The broker is gone: the end of the block says so."""
    background = Background("test")
    server = Server(ServerConfig(name="b", listen="127.0.0.1:0"))
    background.run(server.start())
    with pytest.raises(PublishError) as caught, sluice.connect(at(server), close_seconds=0.1) as bus:
        background.run(server.stop())
        background.stop()
        for n in range(1_000):
            bus.publish({"n": n})
    assert len(caught.value.unknown) == 1_000


def test_the_end() -> None:
    before = threading.active_count()
    with sluice.connect("memory://") as bus:
        pass
    assert threading.active_count() == before
    with pytest.raises(LinkError, match="no broker"), sluice.connect("127.0.0.1:1", connect_seconds=0.1):
        pass
    assert threading.active_count() == before
    with pytest.raises(LinkError, match="closed"):
        bus.publish({"n": 1})


def test_durable_subscriptions(tmp_path: Path) -> None:
    background = Background("test")
    stop: asyncio.Event = asyncio.Event()
    address: list[str] = []
    ready = threading.Event()

    async def serve() -> None:
        async with running(**directory(tmp_path, "b")) as server:
            address.append(at(server))
            ready.set()
            await stop.wait()

    served = background.start(serve())
    assert ready.wait(60)
    try:
        with sluice.connect(address[0]) as bus:
            with bus.subscribe("n >= 0", durable="d") as feed:
                feed.complete()
                bus.publish_many([{"n": n} for n in range(10)])
                bus.flush()
                assert [next(feed)["n"] for _ in range(3)] == [0, 1, 2]
                assert feed.positions == {"b": 3}
                feed.commit(timeout=PATIENCE_SECONDS)
                assert feed.positions == {"b": 4}
                assert next(feed)["n"] == 3
            with pytest.raises(ZeroDivisionError), bus.subscribe("n >= 0", durable="d") as feed:
                assert [next(feed)["n"] for _ in range(3)] == [4, 5, 6]
                raise ZeroDivisionError  # the last one was not handled
            with bus.subscribe("n >= 0", durable="d") as feed:
                assert next(feed.batches()) == [{"n": 6}, {"n": 7}, {"n": 8}, {"n": 9}]
            with bus.subscribe("n >= 0", start=feed.positions) as feed:
                bus.publish({"n": 10})
                assert next(feed)["n"] == 10
            reading = bus.fetch("b", 3, 6)
            assert [event["n"] for batch in reading for event in batch] == [2, 3, 4] and reading.missing == []
            bus.forget("d")
    finally:
        background.call(stop.set)
        served.result(60)
        background.stop()


def test_a_refusal_is_told_at_the_end_of_the_block(tmp_path: Path) -> None:
    with pytest.raises(PublishError), sluice.connect("memory://") as bus:
        bus._run(_refuse(bus), None)


async def _refuse(bus: sluice.BlockingBus) -> None:
    from sluice.client.session.commands import PublishRefused
    from sluice.protocol.batch import NotificationId

    bus._outbox._publisher.refused(PublishRefused(NotificationId(bus.name, 1), "the disk is full"))


def test_one_broker_for_all_threads_and_loops_of_a_process() -> None:
    async def visit(n: int) -> int:
        async with sluice.connect("memory://shared") as bus, bus.subscribe("n >= 0") as feed:
            await feed.complete()
            both.wait(60)
            await bus.publish({"n": n})
            return sum(event["n"] for event in await take(feed, 2))

    both = threading.Barrier(2)
    sums: list[int] = []
    threads = [threading.Thread(target=lambda n=n: sums.append(asyncio.run(visit(n)))) for n in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [7, 7]
    assert not Embedded._all


def test_a_broker_in_memory_is_gone_with_its_last_user() -> None:
    with sluice.connect("memory://a") as one:
        first = one.describe()["incarnation"]
        with sluice.connect("memory://a") as two, sluice.connect("memory://b") as other:
            assert two.describe()["incarnation"] == first
            assert other.broker() == "b"
            one.publish({"n": 1})
        assert one.describe()["clients"] == 1
    with sluice.connect("memory://a") as again:
        assert again.describe()["incarnation"] != first
    with pytest.raises(sluice.ConfigurationError, match="no name of a broker"), sluice.connect("memory://no slash/"):
        pass
    assert not Embedded._all
