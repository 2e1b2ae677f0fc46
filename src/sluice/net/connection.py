"""A connection that carries messages: frames in and out over asyncio, heartbeats, limits. Both ends of every link use it.

What is sent within one turn of the event loop leaves in one write. A peer that sends what is no message, that is silent for too
many heartbeats or takes as long for one message is told why (`Bye`) and cut off; nothing else is disturbed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from sluice.errors import ProtocolError
from sluice.limits import MAX_CLIENT_MESSAGE_BYTES
from sluice.protocol.packing import Piece
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import FrameReader
from sluice.protocol.wire.link import Anything, Bye, Ping
from sluice.protocol.wire.vectors import ClocksHeard, ClocksSaid

#: Bytes that may wait in the operating system's and asyncio's hands before a sender is asked to wait.
HIGH_WATER_BYTES = 1 << 20
#: A peer that was silent for so many heartbeats is gone, unless told otherwise.
SILENT_HEARTBEATS = 3


class Connection(asyncio.Protocol):
    """One end of a connection. Its owner gives it functions to call: with what came, when it can take more, when it is over."""

    def __init__(
        self,
        *,
        on_messages: Callable[[list[Anything]], None],
        on_lost: Callable[[str], None],
        on_writable: Callable[[], None] = lambda: None,
        on_made: Callable[[], None] = lambda: None,
        heartbeat_seconds: float = 5.0,
        silent_heartbeats: int = SILENT_HEARTBEATS,
        watched_heartbeats: int | None = None,
        max_message_bytes: int = MAX_CLIENT_MESSAGE_BYTES,
    ) -> None:
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._on_writable = on_writable
        self._on_made = on_made
        self._heartbeat_seconds = heartbeat_seconds
        self._silent_heartbeats = silent_heartbeats
        #: Whether the last heartbeats were missed: so many of these as may be make a peer that is gone.
        self._missed: deque[bool] = deque(maxlen=watched_heartbeats or silent_heartbeats)
        self._reader = FrameReader(max_message_bytes)
        self._said, self._heard = ClocksSaid(), ClocksHeard()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._out: list[Piece] = []
        self._out_bytes = 0
        self._flushes = False
        self._beat: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        #: When the peer last said something, and for how many heartbeats a message of its is not complete.
        self._heard_at = self._loop.time()
        self._unfinished = 0
        self._quiet = True
        self._reason = ""
        self.closed = False
        #: Set when the connection is over.
        self.over = asyncio.Event()
        self.can_write = True
        #: For the record: bytes in each direction.
        self.bytes_in = self.bytes_out = 0

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._beat = self._loop.call_later(self._heartbeat_seconds, self._heartbeat)
        self._on_made()

    def data_received(self, data: bytes) -> None:
        if self._reason and self._can_half_close:
            return  # goodbye was said: what still comes is not heard
        self.bytes_in += len(data)
        self._heard_at = self._loop.time()
        try:
            messages = [decode(type, payload, self._heard) for type, payload in self._reader.feed(data)]
        except ProtocolError as error:
            self.close(str(error))
            return
        if messages:
            self._unfinished = 0
            if isinstance(messages[-1], Bye) and not self._can_half_close:
                self._loop.call_soon(self._follow)
            if not self._reason:
                self._on_messages(messages)

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        self._on_writable()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.over.set()
        for timer in (self._beat, self._end):
            if timer is not None:
                timer.cancel()
        self._on_lost(self._reason or (f"the connection broke: {error}" if error else "the peer closed the connection"))

    # --- what its owner calls -----------------------------------------------------------------------------------------

    def send(self, message: Anything) -> None:
        """Sends a message at the end of this turn of the event loop."""
        self.send_pieces(encode(message, self._said))

    def send_pieces(self, pieces: Iterable[Piece]) -> None:
        """The same for messages that are encoded already, and have no clocks in them."""
        if self.closing:
            return
        for piece in pieces:
            self._out.append(piece)
            self._out_bytes += len(piece)
        if not self._flushes:
            self._flushes = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Sends now what waits for the end of the turn."""
        self._flushes = False
        if self._out and not self.closing and self._transport is not None:
            data = b"".join(self._out)
            was_full = not self.takes_more
            self._out.clear()
            self._out_bytes = 0
            self.bytes_out += len(data)
            self._quiet = False
            self._transport.write(data)
            if was_full and self.can_write:
                self._loop.call_soon(self._on_writable)  # the operating system took all of it, and will not say so

    @property
    def closing(self) -> bool:
        """Whether it is over, or soon will be."""
        return self.closed or bool(self._reason)

    @property
    def peer_host(self) -> str:
        """Where the other end is, as the operating system sees it."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "localhost"

    @property
    def memory_bytes(self) -> int:
        """Bytes of messages that have not come whole, or that the peer has not taken."""
        return self._reader.held + self.unsent_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not taken."""
        return self._out_bytes + (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def takes_more(self) -> bool:
        """Whether more can be sent without piling up."""
        return self.can_write and self._out_bytes < HIGH_WATER_BYTES

    def beat(self, heartbeat_seconds: float) -> None:
        """Sends and expects heartbeats in the peer's rhythm from now on."""
        self._heartbeat_seconds = heartbeat_seconds
        if self._beat is not None:
            self._beat.cancel()
            self._beat = self._loop.call_later(heartbeat_seconds, self._heartbeat)

    def allow(self, max_message_bytes: int) -> None:
        """Lets the peer say more at a time."""
        self._reader.max_message_bytes = max_message_bytes

    def pause_reading(self) -> None:
        """Takes nothing from the peer until `resume_reading`."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes from the peer again."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def close(self, reason: str, *, is_final: bool = False, elsewhere: tuple[str, ...] = ()) -> None:
        """Tells the peer why, and where else to go, and ends the connection.

        What the peer does not take within a heartbeat is given up.
        """
        if self.closing or self._transport is None:
            return
        self.send(Bye(reason, is_final, elsewhere))
        self.flush()
        self._reason = reason
        # A peer that is still sending would see a reset, and not the reason, if its bytes were not taken.
        self._transport.resume_reading()
        if self._can_half_close:
            with suppress(OSError):  # the peer is gone already, and nobody has noticed yet
                self._transport.write_eof()
        self._end = self._loop.call_later(self._heartbeat_seconds, self._transport.abort)

    @property
    def _can_half_close(self) -> bool:
        """Whether one side can end what it says and still hear the other; with TLS whoever hears `Bye` ends both."""
        return self._transport is not None and self._transport.can_write_eof()

    def _follow(self) -> None:
        """The peer has said goodbye, and waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def _heartbeat(self) -> None:
        assert self._transport is not None
        if self.closing:
            return
        self._beat = self._loop.call_later(self._heartbeat_seconds, self._heartbeat)
        if self._quiet:
            self.send(Ping())
            self.flush()  # before the next line: what is said only to be heard does not make the next time less quiet
        self._quiet = True
        now = self._loop.time()
        if not self._transport.is_reading():
            self._heard_at = now  # it may have spoken
        # Both ends have the same rhythm, but not the same time: one heartbeat without a word is nothing yet.
        self._missed.append(now - self._heard_at > 1.5 * self._heartbeat_seconds)
        self._unfinished = self._unfinished + 1 if self._reader.held else 0
        patience = f"{self._silent_heartbeats} heartbeats of {self._heartbeat_seconds} s"
        if sum(self._missed) >= self._silent_heartbeats:
            among = "" if all(self._missed) else f", among the last {len(self._missed)}"
            self.close(f"nothing was heard for {patience}{among}")
        elif self._unfinished > self._silent_heartbeats:
            self.close(f"a message took longer than {patience}")
