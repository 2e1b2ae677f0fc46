"""A connection carries messages in order, beats while it is quiet, and tells a peer that does wrong why it ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from sluice.net.connection import HIGH_WATER_BYTES, SILENT_HEARTBEATS, Connection
from sluice.protocol.batch import Records
from sluice.protocol.messages import Notify
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import FrameReader
from sluice.protocol.wire.link import Anything, Bye, Credit, Ping
from tests.broker.raw import played, until


class End:
    """One end of a connection, and what it has seen."""

    def __init__(
        self,
        heartbeat_seconds: float = 60.0,
        max_message_bytes: int = 1 << 24,
        on_made: Callable[[], None] = lambda: None,
        silent_heartbeats: int = SILENT_HEARTBEATS,
        watched_heartbeats: int | None = None,
    ) -> None:
        self.came: list[Anything] = []
        self.turns: list[int] = []
        self.lost: str | None = None
        self.writable = 0
        self.connection = Connection(
            on_messages=self._came,
            on_lost=self._lost,
            on_writable=self._writable,
            on_made=on_made,
            heartbeat_seconds=heartbeat_seconds,
            silent_heartbeats=silent_heartbeats,
            watched_heartbeats=watched_heartbeats,
            max_message_bytes=max_message_bytes,
        )

    def _came(self, messages: list[Anything]) -> None:
        self.came += messages
        self.turns.append(len(messages))

    def _lost(self, reason: str) -> None:
        self.lost = reason

    def _writable(self) -> None:
        self.writable += 1


class Wire:
    """The other end, without any manners."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._reader = FrameReader(1 << 30)
        self.came: list[Anything] = []
        self.is_over = False

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def read(self) -> None:
        """Reads to the end."""
        while data := await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20):
            self.came += [decode(type, payload) for type, payload in self._reader.feed(data)]
        self.is_over = True


@asynccontextmanager
async def wired(end: End) -> AsyncIterator[Wire]:
    near, far = socket.socketpair()
    far.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: end.connection, near)
    try:
        yield Wire(far)
    finally:
        far.close()
        await end.connection.over.wait()


@asynccontextmanager
async def joined(near: End, far: End) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    await loop.connect_accepted_socket(lambda: near.connection, one)
    await loop.connect_accepted_socket(lambda: far.connection, other)
    yield
    near.connection.close("the test is over")
    far.connection.close("the test is over")
    await near.connection.over.wait()
    await far.connection.over.wait()


@played
async def test_messages_come_in_order_and_leave_together() -> None:
    near, far = End(), End()
    async with joined(near, far):
        for total in range(100):
            near.connection.send(Credit(total))
        assert near.connection.bytes_out == 0, "nothing leaves before the turn is over"
        await until(lambda: len(far.came) == 100)
        assert far.came == [Credit(total) for total in range(100)] and far.turns == [100]
        assert (
            near.connection.bytes_out
            == far.connection.bytes_in
            == sum(len(b"".join(encode(message))) for message in far.came)
        )


@played
async def test_who_closes_says_why() -> None:
    near, far = End(), End()
    async with joined(near, far):
        near.connection.send(Credit(1))
        near.connection.close("enough", is_final=True)
        near.connection.close("again")
        near.connection.send(Credit(2))
        assert near.connection.closing
        await until(lambda: near.lost and far.lost)
        assert far.came == [Credit(1), Bye("enough", is_final=True)]
        assert near.lost == "enough" and near.connection.closed and far.connection.closed


@played
async def test_a_peer_that_goes_without_a_word_is_noticed() -> None:
    end = End()
    async with wired(end) as wire:
        wire.socket.close()
        await until(lambda: end.lost)
        assert end.lost == "the peer closed the connection"


@played
async def test_a_peer_that_is_gone_already_cannot_be_told_why() -> None:
    end = End()
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: end.connection, near)
        far.close()
        # What is said now is answered with a reset at once, before this side has read that the other is gone.
        end.connection.close("enough")
        await end.connection.over.wait()
        assert end.lost == "enough"


@played
async def test_what_is_no_message_ends_the_connection_with_the_reason() -> None:
    for data, reason in (
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1,195,725,856 bytes"),
        (b"\0\0\0\x02\x4d\x90", "unknown type 77"),
        (b"\0\0\0\x02\x05\x90", "should be Credit cannot be read"),
        (b"".join(encode(Notify(Records.of("a", 1, [{"x": b"0" * 5_000_000}])))), "more than 1,000,000 bytes"),
    ):
        end = End(max_message_bytes=1_000_000)
        async with wired(end) as wire:
            # Much follows that nobody will look at: the reason arrives all the same.
            saying = asyncio.ensure_future(wire.say(data + b"\0" * 3_000_000))
            await wire.read()
            await saying
            (bye,) = [message for message in wire.came if not isinstance(message, Ping)]
            assert isinstance(bye, Bye) and reason in bye.reason and not bye.is_final
            wire.socket.close()
            await until(lambda end=end: end.lost)  # type: ignore[misc]
            assert end.came == [] and end.lost == bye.reason


@played
async def test_a_quiet_connection_beats() -> None:
    near, far = End(heartbeat_seconds=0.02), End(heartbeat_seconds=0.02)
    async with joined(near, far):
        await until(lambda: near.came.count(Ping()) > 10 and far.came.count(Ping()) > 10)
        assert near.lost is None and far.lost is None


@pytest.mark.parametrize("silent_heartbeats", [1, SILENT_HEARTBEATS, 6])
@played
async def test_a_silent_peer_is_cut_off(silent_heartbeats: int) -> None:
    end = End(heartbeat_seconds=0.02, silent_heartbeats=silent_heartbeats)
    async with wired(end) as wire:
        await wire.read()
        assert wire.came[:-1] == [Ping()] * (silent_heartbeats + 1), (
            "it is told at the next one that so many were missed"
        )
        assert isinstance(wire.came[-1], Bye)
        assert f"nothing was heard for {silent_heartbeats} heartbeats" in wire.came[-1].reason


@played
async def test_a_peer_that_stutters_is_cut_off_where_more_heartbeats_are_watched() -> None:
    """It says something after every second heartbeat that it has missed: three in a row never come together."""
    patient = End(heartbeat_seconds=0.05)
    strict = End(heartbeat_seconds=0.05, watched_heartbeats=6)
    async with wired(patient) as one, wired(strict) as other:
        while not strict.connection.closing:
            for wire, end in ((one, patient), (other, strict)):
                if list(end.connection._missed)[-2:] == [True, True]:
                    await wire.say(b"".join(encode(Ping())))
            await asyncio.sleep(0.005)
        await other.read()
        assert isinstance(other.came[-1], Bye)
        assert "nothing was heard for 3 heartbeats of 0.05 s, among the last" in other.came[-1].reason
        assert not patient.connection.closing


@played
async def test_a_message_that_drips_is_cut_off() -> None:
    """It says something all the time, and never finishes."""
    end = End(heartbeat_seconds=0.05)
    async with wired(end) as wire:
        reading = asyncio.ensure_future(wire.read())
        data = b"".join(encode(Notify(Records.of("a", 1, [{"x": b"0" * 3_000_000}]))))
        for byte in data:
            if wire.is_over:
                break
            try:
                await wire.say(bytes([byte]))
            except ConnectionError:
                break
            await asyncio.sleep(0.005)
        await reading
        assert isinstance(wire.came[-1], Bye) and "a message took longer" in wire.came[-1].reason
        assert end.connection.memory_bytes < 10_000


@played
async def test_a_message_that_comes_slowly_is_fine() -> None:
    end = End(heartbeat_seconds=0.2)
    async with wired(end) as wire:
        reading = asyncio.ensure_future(wire.read())
        for byte in b"".join(encode(Credit(1))):
            await wire.say(bytes([byte]))
            await asyncio.sleep(0.002)
        await until(lambda: end.came == [Credit(1)])
        end.connection.close("done")
        await reading


@played
async def test_a_peer_that_takes_nothing_is_given_up() -> None:
    end = End(heartbeat_seconds=0.05)
    async with wired(end):
        message = Notify(Records.of("a", 1, [{"x": b"0" * 500_000}]))
        while end.connection.takes_more:
            end.connection.send(message)
            await asyncio.sleep(0)
        assert HIGH_WATER_BYTES < end.connection.unsent_bytes < HIGH_WATER_BYTES + 2_000_000
        assert not end.connection.can_write
        end.connection.close("you take nothing")
        await until(lambda: end.lost)
        assert end.lost == "you take nothing" and end.connection.unsent_bytes == 0


@played
async def test_its_owner_hears_when_it_can_take_more() -> None:
    end = End()
    async with wired(end) as wire:
        while end.connection.takes_more:
            end.connection.send(Notify(Records.of("a", 1, [{"x": b"0" * 500_000}])))
            await asyncio.sleep(0)
        reading = asyncio.ensure_future(wire.read())
        await until(lambda: end.writable and end.connection.takes_more)
        end.connection.close("done")
        await reading


@played
async def test_who_is_not_read_from_is_not_silent() -> None:
    near, far = End(heartbeat_seconds=0.02), End(heartbeat_seconds=60.0)
    async with joined(near, far):
        near.connection.pause_reading()
        await until(lambda: far.came.count(Ping()) > 3 * SILENT_HEARTBEATS)
        assert near.lost is None
        far.connection.send(Credit(1))
        far.connection.flush()
        near.connection.resume_reading()
        await until(lambda: near.came or near.lost)
