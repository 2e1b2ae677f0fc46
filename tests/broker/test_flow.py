"""Flow control on real sockets: credit, the three policies, and a broker whose memory is bounded whoever stops reading."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluice.net.address import Address
from sluice.protocol.batch import Rows
from sluice.protocol.questions import Describe, Described
from sluice.protocol.wire.link import Policy
from tests.broker.raw import Guest, bystanders, played, running, until

KIB = 1 << 10
MIB = 1 << 20


def numbered(start: int, end: int, size: int = 1_000) -> list[dict[str, Any]]:
    return [{"n": n, "x": "a" * size} for n in range(start, end)]


def publish_each(guest: Guest, start: int, end: int, size: int = 1_000) -> None:
    """Publishes records one by one, so that each is a delivery of its own."""
    for record in numbered(start, end, size):
        guest.publish([record])


async def round_trip(guest: Guest, broker: str = "b") -> None:
    """What the broker has sent before is here when this is over."""
    await guest.ask(broker, Describe())


@played
async def test_credit_is_kept_to() -> None:
    async with running("b") as server:
        subscriber, publisher = await Guest.of(server, "bob", credit=5), await Guest.of(server, "ann")
        await subscriber.subscribe("n >= 0")
        publish_each(publisher, 0, 12)
        await until(lambda: publisher.accepted == 12)
        for granted in (5, 6, 9):
            subscriber.grant(granted)
            await round_trip(subscriber)
            assert subscriber.got == [*range(granted)]
        subscriber.grant(1_000)
        await until(lambda: len(subscriber.got) == 12)
        assert server.report()["memory_bytes"] == 0
        # Several in one delivery are not torn apart: the next one waits instead.
        subscriber.grant(1_001)
        await publisher.published(numbered(12, 20))
        await round_trip(subscriber)
        assert subscriber.got == [*range(20)]
        await subscriber.leave()
        await publisher.leave()


@played
async def test_a_delivery_beyond_the_credit_makes_the_next_one_wait() -> None:
    async with running("b") as server:
        subscriber, publisher = await Guest.of(server, "bob", credit=1), await Guest.of(server, "ann")
        await subscriber.subscribe("n >= 0")
        for start in (0, 10, 20):
            await publisher.published(numbered(start, start + 10))
        await round_trip(subscriber)
        assert subscriber.got == [*range(10)]
        subscriber.grant(10)
        await round_trip(subscriber)
        assert subscriber.got == [*range(10)], "all of this credit is used up already"
        subscriber.grant(11)
        await until(lambda: subscriber.got == [*range(20)])
        await subscriber.leave()
        await publisher.leave()


@played
async def test_drop_oldest_loses_the_oldest_and_says_how_many() -> None:
    async with running("b", outbox_bytes=20 * KIB) as server, bystanders(server):
        slow, publisher = await Guest.of(server, "slow", credit=3), await Guest.of(server, "ann")
        quick = await Guest.of(server, "quick")
        for guest in (slow, quick):
            await guest.subscribe("n >= 0 AND bystander IS NULL")
        publish_each(publisher, 0, 200)
        await until(lambda: len(quick.got) == 200)
        await round_trip(slow)
        assert slow.got == [0, 1, 2] and slow.dropped == 0
        assert 0 < server.peers["slow"].outbox.bytes <= 20 * KIB
        slow.grant(1_000)
        await until(lambda: slow.got[-1] == 199)
        assert slow.dropped == 200 - len(slow.got) > 100
        assert slow.got == [0, 1, 2, *range(200 - len(slow.got) + 3, 200)], "the newest are left, in order"
        assert quick.got == [*range(200)] and quick.dropped == 0
        assert server.report()["dropped"] == slow.dropped
        await slow.leave()
        assert server.report()["dropped"] == slow.dropped, "it is remembered"
        await quick.leave()
        await publisher.leave()


@played
async def test_disconnect_ends_the_slow_one_only() -> None:
    async with running("b", outbox_bytes=20 * KIB) as server, bystanders(server):
        slow = await Guest.of(server, "slow", credit=3, policy=Policy.DISCONNECT)
        publisher, quick = await Guest.of(server, "ann"), await Guest.of(server, "quick")
        for guest in (slow, quick):
            await guest.subscribe("n >= 0 AND bystander IS NULL")
        publish_each(publisher, 0, 100)
        await until(lambda: slow.lost and len(quick.got) == 100)
        (bye,) = slow.byes
        assert "chosen to be disconnected" in bye.reason and not bye.is_final
        assert slow.got == [0, 1, 2] and slow.dropped == 0
        await until(lambda: "slow" not in server.peers)
        assert server.report()["memory_bytes"] == 0
        await slow.connect(server)
        publish_each(publisher, 100, 102)
        await until(lambda: slow.got == [0, 1, 2, 100, 101])
        for guest in (slow, quick, publisher):
            await guest.leave()


@played
async def test_block_holds_publishers_up_until_it_drains() -> None:
    async with running("b", outbox_bytes=20 * KIB, patience_seconds=600) as server:
        slow = await Guest.of(server, "slow", credit=3, policy=Policy.BLOCK)
        publisher, quick = await Guest.of(server, "ann"), await Guest.of(server, "quick")
        for guest in (slow, quick):
            await guest.subscribe("n >= 0")
        publish_each(publisher, 0, 15)
        await until(lambda: publisher.accepted == 15)
        for number in range(15, 300):
            publish_each(publisher, number, number + 1)
            await asyncio.sleep(0)
        await until(lambda: server.peers["ann"].held)
        await round_trip(quick)
        assert publisher.accepted < 300 and len(quick.got) < 300
        assert server.peers["slow"].outbox.bytes < 25 * KIB
        await quick.subscribe("n < 0")  # nobody else is held up
        slow.grant(5)
        await round_trip(slow)
        assert publisher.accepted < 300 and server.peers["slow"].outbox.bytes < 200 * KIB, "a portion more, not all"
        slow.grant(10_000)
        await until(lambda: publisher.accepted == 300)
        await until(lambda: len(slow.got) == 300 == len(quick.got))
        assert slow.got == quick.got == [*range(300)] and slow.dropped == 0
        assert not server._holds and not server.peers["ann"].held
        for guest in (slow, quick, publisher):
            await guest.leave()


@played
async def test_what_is_held_is_bounded_for_all_publishers_together() -> None:
    async with running("b", outbox_bytes=20 * KIB, memory_bytes=8 * MIB, patience_seconds=600) as server:
        slow = await Guest.of(server, "slow", credit=3, policy=Policy.BLOCK)
        await slow.subscribe("n >= 0")
        publishers = [await Guest.of(server, f"ann{number}") for number in range(8)]
        for start in range(0, 400, 20):
            for publisher in publishers:
                publish_each(publisher, start, start + 20, 4_000)
            await asyncio.sleep(0.001)
            # What one read of a socket brings may come on top of it.
            assert sum(peering.held_bytes for peering in server.peers.values()) < 2 * MIB + 8 * 300 * KIB
        await until(lambda: len(server._held) == 8)
        slow.grant(10_000)
        await until(lambda: all(publisher.accepted == 400 for publisher in publishers) and len(slow.got) == 8 * 400)
        assert all(not peering.held_bytes for peering in server.peers.values())
        for guest in (slow, *publishers):
            await guest.leave()


@played
async def test_patience_with_one_who_holds_publishers_up_ends() -> None:
    async with running("b", outbox_bytes=20 * KIB, patience_seconds=0.2) as server:
        slow = await Guest.of(server, "slow", credit=3, policy=Policy.BLOCK)
        publisher, quick = await Guest.of(server, "ann"), await Guest.of(server, "quick")
        for guest in (slow, quick):
            await guest.subscribe("n >= 0")
        publish_each(publisher, 0, 300)
        await until(lambda: slow.lost)
        assert "publishers have waited for you long enough" in slow.byes[0].reason
        await until(lambda: publisher.accepted == 300 and len(quick.got) == 300)
        assert quick.got == [*range(300)]
        await quick.leave()
        await publisher.leave()


@played
async def test_who_waits_for_itself_gets_its_credit_through() -> None:
    """A publisher that is held up by itself, as the slow subscriber that it also is."""
    async with running("b", outbox_bytes=20 * KIB, patience_seconds=600) as server:
        guest = await Guest.of(server, "ann", credit=3, policy=Policy.BLOCK)
        await guest.subscribe("n >= 0")
        publish_each(guest, 0, 300)
        await until(lambda: server.peers["ann"].held)
        while len(guest.got) < 300:
            guest.grant(len(guest.got) + 3)
            await round_trip(guest) if not server.peers["ann"].held else await asyncio.sleep(0.001)
        assert guest.got == [*range(300)] and guest.accepted == 300
        await guest.leave()


@played
async def test_memory_is_bounded_for_all_slow_subscribers_together() -> None:
    bound = 2 * MIB
    async with running("b", outbox_bytes=MIB, memory_bytes=bound, patience_seconds=600) as server, bystanders(server):
        policies = [Policy.DROP_OLDEST] * 6 + [Policy.BLOCK]
        slow = [await Guest.of(server, f"slow{n}", credit=0, policy=policy) for n, policy in enumerate(policies)]
        publisher = await Guest.of(server, "ann")
        for guest in slow:
            await guest.subscribe("n >= 0 AND bystander IS NULL")
        largest = 0
        for n in range(0, 1_000):
            await publisher.published(numbered(n, n + 1, 4_000))
            largest = max(largest, server.report()["memory_bytes"])
        assert bound * 0.9 < largest <= bound
        blocking = slow[-1]
        assert not blocking.lost or "no room" in blocking.byes[0].reason
        for guest in slow[:-1]:
            guest.grant(10_000)
        await until(lambda: all(guest.got and guest.got[-1] == 999 for guest in slow[:-1]))
        assert all(guest.dropped + len(guest.got) == 1_000 for guest in slow[:-1])
        for guest in (*slow, publisher):
            if not guest.lost:
                await guest.leave()


@played
async def test_one_who_stops_reading_is_bounded_and_the_others_get_everything() -> None:
    async with running("b", outbox_bytes=256 * KIB) as server, bystanders(server):
        stuck, quick = await Guest.of(server, "stuck"), await Guest.of(server, "quick")
        publisher = await Guest.of(server, "ann")
        for guest in (stuck, quick):
            await guest.subscribe("n >= 0 AND bystander IS NULL")
        stuck.connection.pause_reading()
        for start in range(0, 20_000, 100):
            await publisher.published(numbered(start, start + 100))
            peering = server.peers["stuck"]
            assert peering.outbox.bytes < 512 * KIB and peering.connection.unsent_bytes < 2 * MIB
        await until(lambda: len(quick.got) == 20_000)
        assert quick.got == [*range(20_000)]
        stuck.connection.resume_reading()
        await until(lambda: stuck.got and stuck.got[-1] == 19_999)
        assert stuck.dropped == 20_000 - len(stuck.got) > 0 and stuck.got == sorted({*stuck.got})
        for guest in (stuck, quick, publisher):
            await guest.leave()


# --- a process of its own ---------------------------------------------------------------------------------------------


class Process:
    """A broker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, address: Address) -> None:
        self.process = process
        self.address = address

    @property
    def resident_bytes(self) -> int:
        """The most memory that it has ever taken."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * KIB


@asynccontextmanager
async def process(**settings: object) -> AsyncIterator[Process]:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = (
        sys.executable,
        "-m",
        "sluice",
        "broker",
        "--name=b",
        "--listen=127.0.0.1:0",
        "--log-format=json",
        *flags,
    )
    started = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert started.stderr is not None
    try:
        while True:
            line = json.loads(await started.stderr.readline())
            if "address" in line:
                break
        reading = asyncio.ensure_future(started.stderr.read())
        yield Process(started, Address.of(line["address"]))
    finally:
        started.terminate()
        await started.wait()
        await reading


def checked(guest: Guest, seen: int) -> int:
    """How many more have come: all of them, in order."""
    count = 0
    for batch in guest.batches:
        assert isinstance(batch, Rows)
        numbers = batch.table.column("n").to_pylist()
        assert numbers == [*range(seen + count, seen + count + len(numbers))]
        count += len(numbers)
    guest.news.clear()
    return count


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
@played
async def test_a_million_notifications_past_one_who_stopped() -> None:
    count, batch = 1_000_000, 20_000
    async with process(outbox_bytes=8 * MIB, memory_bytes=32 * MIB) as broker:
        stuck, quick = await Guest.of(broker, "stuck"), await Guest.of(broker, "quick")
        publisher = await Guest.of(broker, "ann")
        for guest in (stuck, quick):
            await guest.subscribe("n >= 0")
        text = pa.array(["a" * 200] * batch)
        seen = 0

        async def publish(start: int) -> None:
            table = pa.RecordBatch.from_arrays([pa.array(range(start, start + batch)), text], ["n", "x"])
            first = publisher.session.published + 1
            await publisher.published(Rows("ann", range(first, first + batch), table=table))

        await publish(-batch * 2)
        before = broker.resident_bytes
        stuck.connection.pause_reading()
        for start in range(0, count, batch):
            await publish(start)
            seen += checked(quick, seen)
        while seen < count:
            await until(lambda: quick.batches)
            seen += checked(quick, seen)
        assert quick.dropped == 0
        # What was published takes 200 MiB and more.
        assert broker.resident_bytes - before < 80 * MIB
        answer = await quick.ask("b", Describe())
        assert isinstance(answer, Described) and answer.report["memory_bytes"] < 16 * MIB
        assert answer.report["dropped"] > count // 2
        stuck.connection.resume_reading()
        await until(lambda: stuck.dropped)
        for guest in (stuck, quick, publisher):
            await guest.leave()
