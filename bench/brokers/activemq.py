"""ActiveMQ: one topic, and for each subscription a consumer with a selector, over STOMP.

The broker keeps nothing on disk and has no connector but STOMP.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers.client import Talk, within
from bench.brokers.records import keyed, keys_of, pack
from bench.brokers.server import Server, free_port, listens, started
from bench.brokers.stomp import Stomp

HOME = Path("/usr/share/activemq")
DESTINATION = "/topic/quotes"
#: A topic drops nothing for a consumer that is behind by less than this.
PREFETCH = 1_000_000

_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="
         http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
         http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" useJmx="false" persistent="false"
          advisorySupport="false" schedulerSupport="false" dataDirectory="{directory}/data">
    <systemUsage><systemUsage><memoryUsage><memoryUsage limit="512 mb"/></memoryUsage></systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}?transport.defaultHeartBeat=0,0"/>
    </transportConnectors>
  </broker>
</beans>
"""

_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=Console
appender.console.type=Console
appender.console.name=Console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%5p | %m%n
"""


def version() -> str | None:
    """The version of the broker; None if it or Java is not installed."""
    if not shutil.which("java"):
        return None
    jars = sorted(Path("/usr/share/java").glob("activemq-broker-[0-9]*.jar"))
    return jars[-1].stem.rpartition("-")[2] if jars and (HOME / "bin" / "activemq.jar").exists() else None


@contextmanager
def serve(directory: Path) -> Iterator[Server]:
    """A broker that keeps everything in memory."""
    port = free_port()
    (directory / "activemq.xml").write_text(_CONFIGURATION.format(directory=directory, port=port))
    (directory / "log4j2.properties").write_text(_LOGGING)
    properties = {
        "activemq.home": HOME,
        "activemq.base": directory,
        "activemq.conf": directory,
        "activemq.data": directory / "data",
        "activemq.classpath": directory,
        "java.io.tmpdir": directory,
        "log4j2.configurationFile": directory / "log4j2.properties",
    }
    command = [
        # Of the collectors and connectors that were tried on two cores, these were the fastest.
        *("java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", *(f"-D{name}={value}" for name, value in properties.items())),
        *("-jar", str(HOME / "bin" / "activemq.jar"), "start", f"xbean:file:{directory}/activemq.xml"),
    ]
    with started(command, directory, {}, lambda _: listens(port)) as session:
        yield Server((f"127.0.0.1:{port}",), (session,))


async def publish_keyed(talk: Talk, *, address: str, keys: int) -> None:
    """Publishes records with their key as a property, which is all that a selector sees."""
    connection = await Stomp.connect(address, lambda _: None)
    async for order in talk.orders():
        messages = [({"destination": DESTINATION, "key": one["key"]}, pack(one)) for one in keyed(order.count, keys)]
        await talk.go()
        first_ns = time.perf_counter_ns()
        for headers, body in messages:
            connection.send("SEND", headers, body)
            await connection.drained()
        talk.found(first_ns=first_ns)
    connection.close()


async def receive_keyed(talk: Talk, *, address: str, connections: int, connection: int, keys: int) -> None:
    """Subscribes to its keys, one selector each, and counts what arrives."""
    left, last_ns, done = 0, 0, asyncio.Event()

    def arrived(_: bytes) -> None:
        nonlocal left, last_ns
        left -= 1
        if not left:
            last_ns = time.perf_counter_ns()
            done.set()

    line = await Stomp.connect(address, arrived)
    subscriptions = [
        {"destination": DESTINATION, "id": key, "selector": f"key = '{key}'", "activemq.prefetchSize": f"{PREFETCH}"}
        for key in keys_of(connection, connections, keys)
    ]
    for subscription in subscriptions[:-1]:
        line.send("SUBSCRIBE", subscription)
    # Frames are processed in order: the receipt of the last stands for all.
    await line.processed("SUBSCRIBE", subscriptions[-1])
    async for order in talk.orders():
        left = order.count
        done.clear()
        await talk.go()
        await within(order.limit_seconds, done)
        talk.found(last_ns=last_ns, missing=left)
    line.close()


ROLES = {"publish_keyed": publish_keyed, "receive_keyed": receive_keyed}
