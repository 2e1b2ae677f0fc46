"""RabbitMQ: a headers exchange, one queue for each connection, and for each subscription a binding of that queue.

A queue for each subscription instead, ten thousand of them, was tried: it is no faster, and takes much longer to set up. The
clients use pika.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel

from bench.brokers.client import Talk, within
from bench.brokers.records import keyed, keys_of, pack
from bench.brokers.server import Server, free_port, listens, started

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
EXCHANGE = "quotes"


def version() -> str | None:
    """The version of the broker; None if it is not installed."""
    if not (PROGRAM.exists() and shutil.which("epmd")):
        return None
    return PROGRAM.resolve().parent.parent.name.rpartition("-")[2]


@contextmanager
def serve(directory: Path) -> Iterator[Server]:
    """A broker, and the port mapper that every Erlang node needs."""
    port, mapper_port = free_port(), free_port()
    (directory / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nlog.console.level = warning\n")
    (directory / "plugins").write_text("[].\n")
    environment = {
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": f"{mapper_port}",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_DIST_PORT": f"{free_port()}",
        # Its threads would otherwise wait by spinning, on cores that the clients need.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"
        ),
    }
    with (
        started(["epmd"], directory, environment, lambda _: listens(mapper_port)) as mapper,
        started([str(PROGRAM)], directory, environment, lambda _: listens(port)) as session,
    ):
        yield Server((f"127.0.0.1:{port}",), (session, mapper))


def _parameters(address: str) -> pika.ConnectionParameters:
    host, _, port = address.rpartition(":")
    return pika.ConnectionParameters(host, int(port), heartbeat=0)


async def _channel(address: str) -> tuple[AsyncioConnection, Channel]:
    """An open connection with one channel."""
    opened: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    connection = AsyncioConnection(
        _parameters(address),
        on_open_callback=lambda made: made.channel(on_open_callback=opened.set_result),
        on_open_error_callback=lambda _, error: opened.set_exception(ConnectionError(str(error))),
    )
    return connection, await opened


async def publish_keyed(talk: Talk, *, address: str, keys: int) -> None:
    """Publishes records with their key as a header, which is all that a headers exchange sees."""
    connection, channel = await _channel(address)
    async for order in talk.orders():
        messages = [(pika.BasicProperties(headers={"key": one["key"]}), pack(one)) for one in keyed(order.count, keys)]
        await talk.go()
        first_ns = time.perf_counter_ns()
        for properties, body in messages:
            channel.basic_publish(EXCHANGE, "", body, properties)
            await asyncio.sleep(0)
        talk.found(first_ns=first_ns)
    connection.close()


async def receive_keyed(talk: Talk, *, address: str, connections: int, connection: int, keys: int) -> None:
    """Binds its keys and counts what arrives."""
    left, last_ns, done, bound = 0, 0, asyncio.Event(), asyncio.Event()

    def arrived(*_: object) -> None:
        nonlocal left, last_ns
        left -= 1
        if not left:
            last_ns = time.perf_counter_ns()
            done.set()

    line, channel = await _channel(address)
    channel.exchange_declare(EXCHANGE, "headers")
    queue = f"queue-{connection}"
    channel.queue_declare(queue, exclusive=True)
    for key in keys_of(connection, connections, keys):
        channel.queue_bind(queue, EXCHANGE, arguments={"x-match": "all", "key": key})
    channel.basic_consume(queue, arrived, auto_ack=True)
    # Methods of a channel are processed in order: the answer to the last stands for all.
    channel.basic_qos(prefetch_count=0, callback=lambda _: bound.set())
    await bound.wait()
    async for order in talk.orders():
        left = order.count
        done.clear()
        await talk.go()
        await within(order.limit_seconds, done)
        talk.found(last_ns=last_ns, missing=left)
    line.close()


ROLES = {"publish_keyed": publish_keyed, "receive_keyed": receive_keyed}
