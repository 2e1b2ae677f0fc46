"""A STOMP 1.2 client, as much of one as the benchmark needs: connect, subscribe, send, and a callback for each message.

It parses whatever has arrived in one go and calls back for every frame, on the event loop and without threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

_END_OF_HEADERS = b"\n\n"
_LENGTH = b"\ncontent-length:"


class StompError(Exception):
    """The server sent an error frame, or ended the connection; the message says what it said."""


class Stomp(asyncio.Protocol):
    """One connection."""

    def __init__(self, message: Callable[[bytes], None]) -> None:
        self._message = message
        self._buffer = bytearray()
        self._receipts: dict[bytes, asyncio.Future[None]] = {}
        self._transport: asyncio.Transport | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    @classmethod
    async def connect(cls, address: str, message: Callable[[bytes], None]) -> Stomp:
        """Connects to `host:port`; `message` is called with the body of each message."""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(message), host, int(port))
        accepted = connection._receipts[b"connected"] = loop.create_future()
        connection.send("CONNECT", {"accept-version": "1.2", "host": host, "heart-beat": "0,0"})
        await accepted
        return connection

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Sends a frame."""
        assert self._transport is not None
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        if body:
            lines.append(f"content-length:{len(body)}")
        self._transport.write("\n".join(lines).encode() + _END_OF_HEADERS + body + b"\0")

    async def drained(self) -> None:
        """Waits while the server takes less than is sent."""
        await self._drained.wait()

    async def processed(self, command: str, headers: Mapping[str, str]) -> None:
        """Sends a frame and waits until the server has processed it, and so all frames before it."""
        name = f"receipt-{len(self._receipts)}"
        receipt = self._receipts[name.encode()] = asyncio.get_running_loop().create_future()
        self.send(command, {**headers, "receipt": name})
        await receipt

    def close(self) -> None:
        """Ends the connection."""
        assert self._transport is not None
        self._receipts.clear()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        """Of the event loop."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Of the event loop."""
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Of the event loop."""
        self._fail(f"the connection ended: {exc}")

    def data_received(self, data: bytes) -> None:
        """Takes all whole frames from what has arrived."""
        buffer = self._buffer
        buffer += data
        start, end = 0, len(buffer)
        while True:
            while start < end and buffer[start] in b"\r\n":
                start += 1
            headers_end = buffer.find(_END_OF_HEADERS, start)
            if headers_end < 0:
                break
            body = headers_end + 2
            length = buffer.find(_LENGTH, start, headers_end)
            if length < 0:
                stop = buffer.find(b"\0", body)
            else:
                value = length + len(_LENGTH)
                line_end = buffer.find(b"\n", value, headers_end + 1)
                stop = body + int(buffer[value:line_end])
            if stop < 0 or stop >= end:
                break
            self._frame(bytes(buffer[start:headers_end]), bytes(buffer[body:stop]))
            start = stop + 1
        del buffer[:start]

    def _frame(self, head: bytes, body: bytes) -> None:
        command = head[: head.find(b"\n")] if b"\n" in head else head
        match command:
            case b"MESSAGE":
                self._message(body)
            case b"CONNECTED":
                self._receipts[b"connected"].set_result(None)
            case b"RECEIPT":
                self._receipts[head.partition(b"receipt-id:")[2].partition(b"\n")[0]].set_result(None)
            case _:
                self._fail(head.decode(errors="replace"))

    def _fail(self, reason: str) -> None:
        for receipt in self._receipts.values():
            if not receipt.done():
                receipt.set_exception(StompError(reason))
