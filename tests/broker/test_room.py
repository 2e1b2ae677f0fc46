"""What is held back for order takes room: it counts, publishers wait for it, and where that does not help the oldest go."""

from __future__ import annotations

import asyncio

import pytest

from sluice import parse
from sluice.broker.server import Server
from sluice.client.session.commands import Completed, Subscribe
from sluice.protocol.batch import Records, Stamp
from sluice.protocol.messages import Ack, Await, Change, Floor, Kind, Notify, Snapshot, Version
from sluice.protocol.wire.link import Policy
from tests.broker.raw import Guest, Raw, played, running, until

KIB = 1 << 10


def record(n: int) -> dict[str, object]:
    return {"n": n, "x": "a" * 1_000}


async def ordered(server: Server, neighbour: Raw, policy: Policy = Policy.DROP_OLDEST) -> Guest:
    """A subscriber whose neighbour promises nothing yet: all that it gets is held back."""
    guest = await Guest.of(server, "bob", policy=policy)
    guest.step(Subscribe("bob/1", parse("n >= 0"), ordered=True))
    neighbour.say(Ack(Kind.SUBSCRIPTIONS, (await neighbour.hear(Change)).version))
    await until(lambda: any(isinstance(one, Completed) for one in guest.news))
    return guest


async def promise(neighbour: Raw) -> None:
    """Answers all questions."""
    while True:
        neighbour.say(Floor((await neighbour.hear(Await)).time))


@played
async def test_publishers_wait_while_much_is_held_back_and_nothing_is_lost() -> None:
    async with running("b", memory_bytes=400 * KIB, outbox_bytes=200 * KIB) as server:
        neighbour = await Raw.broker(server, "c")
        neighbour.say(Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), ()))
        subscriber, publisher = await ordered(server, neighbour), await Guest.of(server, "ann")
        for n in range(300):
            publisher.publish([record(n)])
            await asyncio.sleep(0)
        await until(lambda: server.peers["ann"].held)
        report = server.report()
        assert 100 * KIB < report["memory_bytes"] == report["order"]["waiting_bytes"] < 200 * KIB
        assert report["order"]["waiting"] == publisher.accepted < 150 and subscriber.got == []
        promises = asyncio.ensure_future(promise(neighbour))
        await until(lambda: len(subscriber.got) == 300)
        promises.cancel()
        assert subscriber.got == [*range(300)] and subscriber.dropped == 0
        assert server.report()["memory_bytes"] == 0
        await neighbour.close()


@pytest.mark.parametrize("policy", Policy)
@played
async def test_what_others_publish_goes_when_there_is_no_room_and_nobody_is_cut_off(policy: Policy) -> None:
    async with running("b", memory_bytes=200 * KIB, outbox_bytes=100 * KIB) as server:
        neighbour = await Raw.broker(server, "c")
        neighbour.say(Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), ()))
        subscriber = await ordered(server, neighbour, policy)
        for n in range(300):
            neighbour.say(Notify(Records.of("far", n + 1, [record(n)]).stamped(Stamp(n + 1, "c")), floor=0))
        await until(lambda: server.report()["order"]["waiting"] + subscriber.dropped == 300)
        assert 100 * KIB < server.report()["memory_bytes"] <= 200 * KIB
        neighbour.say(Floor(300))
        await until(lambda: subscriber.got and subscriber.got[-1] == 299)
        assert subscriber.got == [*range(subscriber.dropped, 300)] and subscriber.lost is None
        assert server.report()["dropped"] == subscriber.dropped > 100
        await neighbour.close()


@played
async def test_what_is_held_back_for_one_who_leaves_takes_no_room_any_more() -> None:
    async with running("b") as server:
        neighbour = await Raw.broker(server, "c")
        neighbour.say(Snapshot(Kind.SUBSCRIPTIONS, Version(1, 0), ()))
        subscriber = await ordered(server, neighbour)
        publisher = await Guest.of(server, "ann")
        await publisher.published([record(1)])
        assert server.report()["memory_bytes"] > 1_000
        await subscriber.leave()
        await until(lambda: server.report()["memory_bytes"] == 0)
        await neighbour.close()
