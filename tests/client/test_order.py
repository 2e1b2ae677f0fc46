"""Order as programs ask for it: in subscriptions, in publications, and what is refused with the reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.broker.config import ServerConfig
from sluice.client.bus import Bus
from sluice.errors import ConfigurationError
from sluice.protocol.batch import Records, Stamp
from sluice.protocol.messages import Deliver
from tests.broker.raw import directory, played, running, until
from tests.client.test_bus import at, take
from tests.patience import PATIENCE_SECONDS


async def fill(bus: Bus, *numbers: int, **more: Any) -> None:
    await bus.publish_many([{"n": n} for n in numbers], **more)
    await bus.flush()


@played
async def test_subscriptions_in_order_get_all_of_it() -> None:
    async with running("b") as server, sluice.connect(at(server)) as ann, sluice.connect(at(server)) as bob:
        async with ann.subscribe("n > 0", order="total") as one, bob.subscribe("n > 0", order="total") as other:
            await asyncio.gather(one.complete(), other.complete())
            for n in range(1, 21):
                await (ann, bob)[n % 2].publish({"n": n})
            seen = [[event["n"] for event in await take(each, 20)] for each in (one, other)]
            assert seen[0] == seen[1] and sorted(seen[0]) == [*range(1, 21)]
            account = (await ann.describe())["order"]
            assert account["subscriptions"] == 2 and account["stamped"] == 20
        await until(lambda: server.broker.order.account(0.0)["subscriptions"] == 0)


@played
async def test_publications_in_order_and_others_keep_the_order_of_their_publisher() -> None:
    async with running("b") as server, sluice.connect(at(server)) as bus, bus.subscribe("n > 0") as feed:
        await feed.complete()
        for n in range(1, 31):
            await bus.publish({"n": n}, order="total" if n % 3 == 0 else "none")
        assert [event["n"] for event in await take(feed, 30)] == [*range(1, 31)]
        await fill(bus, 31, 32, order="total")
        assert [event["n"] for event in await take(feed, 2)] == [31, 32]
        assert server.broker.order.stamped == 12


@played
async def test_a_setting_puts_everything_in_order() -> None:
    async with running("b", order="total") as server, sluice.connect(at(server)) as bus, bus.subscribe("n > 0") as feed:
        await feed.complete()
        await fill(bus, 1, 2)
        assert [event["n"] for event in await take(feed, 2)] == [1, 2]
        assert server.broker.order.stamped == 2


@played
async def test_what_comes_too_late_is_withheld_and_told_also_after_a_broken_link() -> None:
    late = Records.of("eve", 1, [{"n": 7}]).stamped(Stamp(1, "a"))
    async with (
        running("b") as server,
        sluice.connect(at(server), "ann") as ann,
        sluice.connect(at(server), "bob") as bob,
        bob.subscribe("n > 0", order="total") as feed,
        bob.subscribe("n > 0") as other,
    ):
        await asyncio.gather(feed.complete(), other.complete())
        await fill(ann, 1)
        await fill(ann, 2)
        assert len(await take(feed, 2)) == 2
        for gaps in (1, 3):
            # As if it came over a link that was gone for a while.
            server.peers["bob"].send(Deliver(late, ((feed.id, other.id),), ordered=True))
            server.peers["bob"].connection.flush()
            await until(lambda gaps=gaps: len(feed.gaps) == gaps)  # type: ignore[misc]
            assert feed.gaps[-1].count == 1 and "too late" in feed.gaps[-1].reason and [*other.gaps] == [*feed.gaps]
            if gaps == 1:
                server.peers["bob"].connection.close("the test cuts this link")
                await until(lambda: len(feed.gaps) == 2)
        await fill(ann, 8)
        assert [event["n"] for event in await take(feed, 1)] == [8]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"delivery": "reliable", "replay": "2h"}, "that of what is live"),
        ({"replay": "2h"}, "that of what is live"),
        ({"last": 3}, "that of what is live"),
        ({"durable": "d"}, "that of what is live"),
        ({"start": "earliest"}, "that of what is live"),
    ],
)
def test_what_does_not_go_together_is_refused_at_once(more: dict[str, Any], why: str) -> None:
    with sluice.connect("memory://order-refused") as bus, pytest.raises(ConfigurationError, match=why):
        bus.subscribe("n > 0", order="total", **more)


def test_there_are_two_orders() -> None:
    with sluice.connect("memory://order-names") as bus:
        with pytest.raises(ConfigurationError, match="order is 'causal': take one of none, total"):
            bus.subscribe("n > 0", order="causal")  # type: ignore[call-overload]
        with pytest.raises(ConfigurationError, match="take one of none, total"):
            bus.publish({"n": 1}, order="causal")  # type: ignore[arg-type]
        with bus.subscribe("n > 0", order="total") as feed:
            feed.complete()
            bus.publish({"n": 1}, order="total")
            bus.publish({"n": 2})
            assert [next(feed)["n"], next(feed)["n"]] == [1, 2]
    with pytest.raises(ConfigurationError, match="order is 'causal'"):
        ServerConfig(name="b", order="causal")


@played
async def test_reliable_ordered_and_other_subscriptions_of_one_client(tmp_path: Path) -> None:
    async with (
        running(**directory(tmp_path, "b")) as server,
        sluice.connect(at(server), "ann") as ann,
        sluice.connect(at(server), "bob") as bob,
        bob.subscribe("n > 0", delivery="reliable", order="total") as both,
        bob.subscribe("n > 0", delivery="reliable") as reliable,
        bob.subscribe("n > 0", order="total") as ordered,
        bob.subscribe("n > 0") as plain,
    ):
        feeds = (both, reliable, ordered, plain)
        await asyncio.gather(*(feed.complete() for feed in feeds))
        for n in range(1, 21):
            await (ann, bob)[n % 2].publish({"n": n})
        await asyncio.gather(ann.flush(), bob.flush())
        server.peers["bob"].connection.close("the test cuts this link")
        await fill(ann, 21, 22)
        await until(lambda: "bob" in server.peers)
        await asyncio.gather(*(feed.complete() for feed in feeds))
        await fill(ann, 23)
        seen = [[event["n"] for event in await take(feed, 23)] for feed in (both, reliable)]
        assert seen[0] == seen[1] and sorted(seen[0]) == [*range(1, 24)], "one stream is in order anyway"
        assert not both.gaps and both.waits_for == [] and both.positions == {"b": 24}
        in_order = [event["n"] for event in await take(ordered, 21)]
        assert in_order == [n for n in seen[0] if n in in_order], "each once, and no other order"
        await take(plain, 21)
        account = await bob.describe()
        assert account["reliable"]["ordered"] == 1 and account["waits_for"] == []


@played
async def test_a_broker_of_a_node_of_several_takes_what_is_reliable_and_ordered(tmp_path: Path) -> None:
    where = directory(tmp_path, "hub1")
    async with (
        running(**where, node="hub") as server,
        sluice.connect(at(server)) as bus,
        bus.subscribe("n > 0", delivery="reliable", order="total") as feed,
    ):
        await feed.complete()
        await fill(bus, 1, 2)
        assert [event["n"] for event in await take(feed, 2)] == [1, 2]
    async with running("b") as server, sluice.connect(at(server)) as bus:
        with pytest.raises(ConfigurationError, match="b keeps no log"):
            await bus.subscribe("n > 0", delivery="reliable", order="total").__aenter__()


@played
async def test_a_broker_of_a_node_of_several_refuses_order() -> None:
    reason = "one of several brokers of the node hub"
    async with running("hub1", node="hub") as server, sluice.connect(at(server)) as bus:
        with pytest.raises(ConfigurationError, match=reason):
            await bus.subscribe("n > 0", order="total").__aenter__()
        for publish in (bus.publish({"n": 1}, order="total"), bus.publish_many([{"n": 1}], order="total")):
            with pytest.raises(ConfigurationError, match=reason):
                await publish
    with pytest.raises(ConfigurationError, match=f"order is total, but hub1 is {reason}"):
        ServerConfig(name="hub1", node="hub", order="total")


@played
async def test_a_broker_refuses_order_when_it_knows_of_a_node_of_several() -> None:
    """However far away that is."""
    async with running("far") as far, running("near", links=(at(far),)) as near, sluice.connect(at(near)) as before:
        feed = await before.subscribe("n > 0", order="total").__aenter__()
        async with running("hub1", node="hub", links=(at(far),)), sluice.connect(at(near)) as bus:
            await until(lambda: "hub1" in near.report()["brokers"])
            async with sluice.connect(at(near)) as after:
                with pytest.raises(ConfigurationError, match="hub1 is one of several brokers of its node"):
                    await after.subscribe("n > 0", order="total").__aenter__()
            # Who was welcome before is told when it asks.
            with pytest.raises(ConfigurationError, match="hub1 is one of several"):
                async with asyncio.timeout(PATIENCE_SECONDS), bus.subscribe("n > 0", order="total") as late:
                    await late.complete()
        assert not feed.gaps
