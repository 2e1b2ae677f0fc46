"""A drill with redundant nodes: brokers are killed with SIGKILL under load, and reliable subscriptions miss nothing.

Programs publish at some brokers of a line of nodes and rely on subscriptions at others; none of them is ever restarted or
helped. What they are told is written down as a trace, the logs are read in the end, and the specification judges both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import sluice
from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from sluice.client.subscription import ReliableSubscription
from sluice.model import parse
from sluice.sim.spec import LOGGED, PUBLISHED, RELIABLE, WANTED, check
from sluice.sim.trace import streamed
from sluice.sim.trace import trace as said
from tests.network.drill import LOOK_SECONDS, Logs, Lost, Publishing, Report, log_of, until
from tests.network.processes import started
from tests.patience import PATIENCE_SECONDS

NODES = 5
BROKERS_PER_NODE = 2
#: Where programs publish, and where they rely on what, so many notifications long; 0: to the end.
PUBLISHERS = ("b1", "b3-1", "b4-2", "b5")
SUBSCRIBERS = (
    ("b5", "number IS NOT NULL", 0),
    ("b1", "kind = 1", 0),
    ("b3-2", "kind <> 1", 0),
    ("b2-1", "kind = 2", 40),
)
#: The longest time between two bursts of a publisher: eight brokers share a machine here.
PAUSE_SECONDS = 0.1
#: How often no recovery is waited for before the next broker is killed.
HASTE = 0.3


class Story:
    """What all programs are told, in order."""

    def __init__(self) -> None:
        self.events: list[said.TraceEvent] = []
        self._start = time.monotonic()

    @property
    def now(self) -> float:
        """The time of the trace."""
        return time.monotonic() - self._start


class Relying:
    """A program with a reliable subscription, which it takes back after so many notifications and makes again, if any."""

    def __init__(self, name: str, home: str, address: str, where: str, limit: int, story: Story) -> None:
        self.name, self.home, self.where = name, home, where
        #: Where it is in each stream, and where it began.
        self.last: dict[str, int] = {}
        self.starts: dict[str, int] = {}
        self.count = 0
        self.is_over = False
        self._address, self._limit, self._story = address, limit, story

    async def run(self) -> None:
        """Listens for ever."""
        async with sluice.connect(self._address, self.name) as bus:
            while True:
                async with bus.subscribe(self.where, delivery="reliable") as events:
                    await self._listen(events)
                self._story.events.append(said.Unsubscribed(self._story.now, self.name, events.id))

    async def _listen(self, events: ReliableSubscription) -> None:
        story, written = self._story, self._story.events
        written.append(said.Subscribed(story.now, self.name, events.id, events.where.to_sql()))
        written.append(streamed.Relied(story.now, self.name, events.id))
        self.last, self.starts, count = {}, events.starts, 0
        begun: set[str] = set()
        async for event in events:
            for stream, offset in events.starts.items():
                if stream not in begun:
                    begun.add(stream)
                    written.append(streamed.Begun(story.now, self.name, events.id, stream, offset))
            for gap in events.gaps:
                raise Lost(f"{self.name} is told of a gap: {gap}")
            assert event.stream is not None and event.offset is not None
            self.last[event.stream] = event.offset
            written.append(said.Notified(story.now, self.name, *event.id, (events.id,)))
            self.count += 1
            count += 1
            if count == self._limit and not self.is_over:
                return


class Redundant:
    """One network of redundant nodes with its programs."""

    def __init__(self, network: Network, seed: int, report: Report) -> None:
        self.network = network
        self.report = report
        self.story = Story()
        self._random = Random(f"redundant/{seed}")
        at = {name: str(address) for name, address in network.addresses.items()}
        self.publishers = [
            Publishing(f"p-{home}", home, at[home], Random(f"redundant/{seed}/{home}"), pause_seconds=PAUSE_SECONDS)
            for home in PUBLISHERS
        ]
        self.subscribers = [
            Relying(f"r-{home}", home, at[home], where, limit, self.story) for home, where, limit in SUBSCRIBERS
        ]

    async def run(self, cycles: int) -> None:
        """Kills so many times, then has the specification judge what happened; raises `Lost` if it finds anything."""
        async with asyncio.TaskGroup() as group:
            listening = [group.create_task(one.run()) for one in self.subscribers]
            publishing = [group.create_task(one.run()) for one in self.publishers]
            await until(lambda: all(one.acknowledged for one in self.publishers), "all publish")
            await until(lambda: all(one.count for one in self.subscribers), "all are notified")
            for _ in range(cycles):
                await self._cycle()
            for listener in self.subscribers:
                listener.is_over = True
            for one in self.publishers:
                one.is_over = True
            await asyncio.gather(*publishing)
            logs = await self._logs()
            for listener in self.subscribers:
                await self._arrived(listener, logs)
            for task in listening:
                task.cancel()
        self.report.acknowledged += sum(one.acknowledged for one in self.publishers)
        self.report.deliveries += sum(one.count for one in self.subscribers)
        for violation in check(said.Trace(self.trace(logs)), (PUBLISHED, WANTED, LOGGED, *RELIABLE)):
            raise Lost(str(violation))

    # --- killing ------------------------------------------------------------------------------------------------------

    async def _cycle(self) -> None:
        """Some brokers die, now and then both of a node, and start again; others may die before all have recovered."""
        goal = sum(one.acknowledged for one in self.publishers) + self._random.randrange(200)
        await until(lambda: sum(one.acknowledged for one in self.publishers) >= goal, "publications are acknowledged")
        began = time.monotonic()
        victims = self._random.sample([*self.network.brokers], self._random.choice((1, 1, 2)))
        for victim in victims:
            self.network.kill(victim)
            self.report.kills[victim] += 1
        # While they are down the others of their nodes stand in for them.
        await asyncio.sleep(self._random.random() * 0.5)
        before = {one.home: one.published for one in self.publishers}
        for victim in victims:
            self.network.launch(victim)
        for victim in victims:
            await asyncio.to_thread(self.network.wait, victim)
        if self._random.random() >= HASTE:
            for listener in self.subscribers:
                for home, number in before.items():
                    await until(
                        lambda listener=listener, home=home, number=number: listener.last.get(home, 0) > number,  # type: ignore[misc]
                        f"{listener.name} gets {home} again",
                    )
        self.report.cycles += 1
        self.report.longest_recovery_seconds = max(self.report.longest_recovery_seconds, time.monotonic() - began)

    # --- judging ------------------------------------------------------------------------------------------------------

    async def _logs(self) -> Logs:
        async with sluice.connect(str(self.network.addresses["b1"])) as bus:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while {*(await bus.describe())["brokers"]} != {*self.network.brokers}:
                    await asyncio.sleep(LOOK_SECONDS)
            return {name: await log_of(bus, name) for name in self.network.brokers}

    async def _arrived(self, listener: Relying, logs: Logs) -> None:
        """Waits until a subscription has got the last that there is for it of each stream."""
        where = parse(listener.where)
        for stream, log in logs.items():
            await until(
                lambda stream=stream: stream in listener.starts,  # type: ignore[misc]
                f"{listener.name} starts in {stream}",
            )
            start = listener.starts[stream]
            wanted = [offset for offset, record in log if offset >= start and where.matches(record)]
            await until(
                lambda stream=stream, wanted=wanted: not wanted or listener.last.get(stream) == wanted[-1],  # type: ignore[misc]
                f"{listener.name} reaches the end of {stream}",
            )

    def trace(self, logs: Logs) -> Iterator[said.TraceEvent]:
        """Everything that happened. What was published is known from the logs, and stands first: when does not matter."""
        links = tuple((one, name) for name, several in self.network.topology.above.items() for one in several)
        yield said.Topology(0.0, tuple(self.network.brokers), links)
        programs = [(one.name, one.home) for one in self.publishers] + [
            (one.name, one.home) for one in self.subscribers
        ]
        for name, home in programs:
            yield said.Attached(0.0, name, home)
        for stream, log in logs.items():
            for offset, record in log:
                yield said.Published(0.0, record["publisher"], record["number"], record)
                yield streamed.Logged(0.0, stream, offset, record["publisher"], record["number"])
        yield from self.story.events
        for one in self.subscribers:
            yield from self._unwritten(one)
        yield said.Quiet(self.story.now)

    def _unwritten(self, one: Relying) -> Iterator[said.TraceEvent]:
        """The starts in streams of which nothing came."""
        mine = [event for event in self.story.events if isinstance(event, streamed.Relied) and event.client == one.name]
        id = mine[-1].subscription
        begun = {
            event.stream
            for event in self.story.events
            if isinstance(event, streamed.Begun) and event.subscription == id
        }
        for stream, offset in one.starts.items():
            if stream not in begun:
                yield streamed.Begun(self.story.now, one.name, id, stream, offset)


async def drill(data: Path, seed: int, *, cycles: int, report: Report, imports: tuple[str, ...] = ()) -> None:
    """Runs a drill on a network of its own: a line of nodes, with several brokers in each but the first and the last."""
    settings = {"log_level": "error", "imports": imports}
    net = topology("line", NODES, brokers_per_node=BROKERS_PER_NODE, data=data, settings=settings)
    async with started(net) as (network, _):
        await Redundant(network, seed, report).run(cycles)
