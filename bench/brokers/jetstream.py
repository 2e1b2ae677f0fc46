"""NATS JetStream as a cluster: three servers, a stream with three replicas, and clients of servers other than its leader.

Everything has the defaults of nats-server and nats-py. A publication that is not acknowledged, because there is no leader, is
sent again until it is; the server tells by its id whether it has it already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import nats
from nats.aio.msg import Msg
from nats.errors import Error
from nats.js import JetStreamContext
from nats.js.api import StorageType

from bench.brokers.client import Arrivals, Talk, paced, within
from bench.brokers.nats import SUBJECT, program, version
from bench.brokers.records import pack, timed, unpack
from bench.brokers.server import START_SECONDS, Server, ServerError, free_port, started

SERVERS = 3
STREAM = "stream"
#: How long an acknowledgement is waited for before a publication is sent again, and the pause before that.
ACKNOWLEDGE_SECONDS, AGAIN_SECONDS = 1.0, 0.25

__all__ = ["ROLES", "carrier", "serve", "version"]


@contextmanager
def serve(directory: Path) -> Iterator[Server]:
    """A cluster with its stream; the leader of the stream is the last one."""
    ports = [free_port() for _ in range(SERVERS)]
    links = [free_port() for _ in range(SERVERS)]
    with ExitStack() as stack:
        sessions = {}
        for port, link in zip(ports, links, strict=True):
            home = directory / _name(port)
            home.mkdir()
            configuration = home / "nats.conf"
            routes = ", ".join(f'"nats://127.0.0.1:{other}"' for other in links if other != link)
            configuration.write_text(
                f'server_name: "{_name(port)}"\nlisten: "127.0.0.1:{port}"\njetstream {{ store_dir: "{home}" }}\n'
                f'cluster {{ name: "bench", listen: "127.0.0.1:{link}", routes: [{routes}] }}\n'
            )
            command = [program() or "nats-server", "-c", str(configuration)]
            sessions[port] = stack.enter_context(started(command, home, {}, lambda said: "Server is ready" in said))
        # Whoever starts a cluster may be within an event loop, and a thread has no two of them.
        with ThreadPoolExecutor(1) as other_thread:
            leader = other_thread.submit(asyncio.run, _make_stream(_address(ports[0]))).result()
        ports.sort(key=lambda port: _name(port) == leader)
        processes = tuple(sessions[port] for port in ports)
        yield Server(tuple(map(_address, ports)), processes, processes)


def _name(port: int) -> str:
    return f"n{port}"


def _address(port: int) -> str:
    return f"nats://127.0.0.1:{port}"


async def _make_stream(address: str) -> str:
    """Makes the stream once the cluster is ready for it, and waits until all have a replica; returns its leader's name."""
    connection = await nats.connect(address)
    stream = connection.jetstream()
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        # Until the servers have found each other and elected a leader they refuse, or do not answer.
        with suppress(Error):
            await stream.add_stream(name=STREAM, subjects=[SUBJECT], num_replicas=SERVERS, storage=StorageType.FILE)
            found = (await stream.stream_info(STREAM)).cluster
            current = [peer for peer in found.replicas or () if peer.current] if found is not None else []
            if found is not None and found.leader is not None and len(current) == SERVERS - 1:
                await connection.close()
                return found.leader
        await asyncio.sleep(0.1)
    raise ServerError(f"the cluster has no stream with {SERVERS} replicas after {START_SECONDS:g} s")


async def carrier(server: Server) -> int:
    """The number of the server that leads the stream, to which no client may be connected."""
    connection = await nats.connect(server.address)
    found = (await connection.jetstream().stream_info(STREAM)).cluster
    await connection.close()
    last = len(server.addresses) - 1
    if found is None or not server.addresses[last].endswith(f":{(found.leader or '').removeprefix('n')}"):
        raise ServerError("the stream has changed its leader before it was to")
    return last


async def publish_paced(talk: Talk, *, address: str) -> None:
    """Publishes so many a second, each until it is acknowledged."""
    connection = await nats.connect(address)
    stream = connection.jetstream()
    async for order in talk.orders():
        await talk.go()
        first_ns = time.perf_counter_ns()
        async with asyncio.TaskGroup() as tasks:
            async for due in paced(order):
                for number in due:
                    tasks.create_task(_publish(stream, number))
        talk.found(first_ns=first_ns)
    await connection.close()


async def _publish(stream: JetStreamContext, number: int) -> None:
    payload = pack(timed(number, time.perf_counter_ns()))
    while True:
        with suppress(Error):
            await stream.publish(SUBJECT, payload, timeout=ACKNOWLEDGE_SECONDS, headers={"Nats-Msg-Id": str(number)})
            return
        await asyncio.sleep(AGAIN_SECONDS)


async def receive_steady(talk: Talk, *, address: str) -> None:
    """When each record arrives; a durable consumer, to which the servers push."""
    connection, done, arrivals = await nats.connect(address), asyncio.Event(), Arrivals(0)

    async def arrived(message: Msg) -> None:
        if arrivals.note(unpack(message.data)["id"]):
            done.set()

    await connection.jetstream().subscribe(SUBJECT, durable="reader", cb=arrived)
    async for order in talk.orders():
        arrivals = Arrivals(order.count)
        done.clear()
        await talk.go()
        await within(order.limit_seconds, done)
        talk.found(**arrivals.found())
    await connection.close()


ROLES = {"publish_paced": publish_paced, "receive_steady": receive_steady}
