"""NATS: nats-server with nats-py, and JetStream for what is to last.

One subject carries all messages. Nothing may be dropped: the limits of waiting messages, of the server and of the client, are
raised beyond what is published.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import StorageType

from bench.brokers.client import Talk, latencies, paced, within
from bench.brokers.records import pack, plain, timed, unpack
from bench.brokers.server import Server, free_port, started

SUBJECT = "quotes"
#: Acknowledgements that a publisher may wait for at once. With four and sixteen times as many it is no faster.
WINDOW = 4_000


def program() -> str | None:
    """Where the server is; None if it is not installed."""
    return shutil.which("nats-server", path="/usr/sbin:/usr/local/bin:/usr/bin")


def version() -> str | None:
    """The version of the server; None if it is not installed."""
    server = program()
    if server is None:
        return None
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    return said.rpartition("v")[2].strip()


@contextmanager
def serve(directory: Path, *, synchronous_files: bool = False) -> Iterator[Server]:
    """A server with JetStream in the directory.

    This version has no setting for when it writes files through to the disk: it acknowledges without waiting for that, and
    calls fsync from a timer, a minute or more apart. `synchronous_files` marks its directory so that the file system writes
    through every write; that is stricter than anything the server can be told.
    """
    port, store = free_port(), directory / "jetstream"
    store.mkdir()
    if synchronous_files:
        subprocess.run(["chattr", "+S", str(store)], check=True)
    configuration = directory / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_pending: 1GB\nwrite_deadline: "60s"\njetstream {{ store_dir: "{store}" }}\n'
    )
    command = [program() or "nats-server", "-c", str(configuration)]
    with started(command, directory, {}, lambda said: "Server is ready" in said) as session:
        yield Server((f"nats://127.0.0.1:{port}",), (session,))


async def _connected(address: str) -> Client:
    return await nats.connect(address, pending_size=8 * 2**20, skip_subject_validation=True)


async def publish(talk: Talk, *, address: str, packs: bool) -> None:
    """Publishes one by one: bytes that were packed before, or records that it packs."""
    connection = await _connected(address)
    async for order in talk.orders():
        records = plain(order.count)
        payloads: list[Any] = records if packs else [pack(record) for record in records]
        await talk.go()
        first_ns = time.perf_counter_ns()
        if packs:
            for record in payloads:
                await connection.publish(SUBJECT, pack(record))
        else:
            for payload in payloads:
                await connection.publish(SUBJECT, payload)
        await connection.flush(60)
        talk.found(first_ns=first_ns)
    await connection.close()


async def receive(talk: Talk, *, address: str, unpacks: bool) -> None:
    """Counts what arrives, and unpacks it if asked to."""
    connection, left, last_ns, done = await _connected(address), 0, 0, asyncio.Event()

    async def opaque(_: Msg) -> None:
        nonlocal left, last_ns
        left -= 1
        if not left:
            last_ns = time.perf_counter_ns()
            done.set()

    async def unpacked(message: Msg) -> None:
        unpack(message.data)
        await opaque(message)

    # Without limits: nothing that has arrived is dropped.
    await connection.subscribe(SUBJECT, cb=unpacked if unpacks else opaque, pending_msgs_limit=0, pending_bytes_limit=0)
    await connection.flush()
    async for order in talk.orders():
        left = order.count
        done.clear()
        await talk.go()
        await within(order.limit_seconds, done)
        talk.found(last_ns=last_ns, missing=left)
    await connection.close()


async def publish_paced(talk: Talk, *, address: str) -> None:
    """Publishes so many a second, each with the time at which it was sent."""
    connection = await _connected(address)
    async for order in talk.orders():
        await talk.go()
        first_ns = time.perf_counter_ns()
        async for due in paced(order):
            for number in due:
                await connection.publish(SUBJECT, pack(timed(number, time.perf_counter_ns())))
        talk.found(first_ns=first_ns)
    await connection.close()


async def receive_timed(talk: Talk, *, address: str) -> None:
    """How long each message was under way."""
    connection, taken, count, last_ns, done = await _connected(address), list[int](), 0, 0, asyncio.Event()

    async def arrived(message: Msg) -> None:
        nonlocal last_ns
        last_ns = time.perf_counter_ns()
        taken.append(last_ns - unpack(message.data)["sent_ns"])
        if len(taken) == count:
            done.set()

    await connection.subscribe(SUBJECT, cb=arrived, pending_msgs_limit=0, pending_bytes_limit=0)
    await connection.flush()
    async for order in talk.orders():
        count = order.count
        taken.clear()
        done.clear()
        await talk.go()
        await within(order.limit_seconds, done)
        talk.found(last_ns=last_ns, missing=count - len(taken), **latencies(taken))
    await connection.close()


async def publish_durable(talk: Talk, *, address: str) -> None:
    """Publishes to a stream on disk, with a window of acknowledgements that it waits for; done when all have come."""
    connection = await _connected(address)
    stream = connection.jetstream(timeout=60, publish_async_max_pending=WINDOW)
    await stream.add_stream(name="stream", subjects=[SUBJECT], storage=StorageType.FILE)
    async for order in talk.orders():
        await stream.purge_stream("stream")
        payloads = [pack(record) for record in plain(order.count)]
        await talk.go()
        first_ns = time.perf_counter_ns()
        futures = [await stream.publish_async(SUBJECT, payload) for payload in payloads]
        acknowledged = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), order.limit_seconds)
        last_ns = time.perf_counter_ns()
        missing = sum(isinstance(one, BaseException) for one in acknowledged)
        talk.found(first_ns=first_ns, last_ns=last_ns, missing=missing)
    await connection.close()


ROLES = {
    "publish": publish,
    "receive": receive,
    "publish_paced": publish_paced,
    "receive_timed": receive_timed,
    "publish_durable": publish_durable,
}
