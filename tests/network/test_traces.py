"""The real network against the specification: seven broker processes, every routing algorithm, with and without advertisements.

What clients do and are told is recorded as a trace and judged by the checks that judge simulated runs. In the middle of each
run something fails: a link between brokers, the link of a client, or a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from random import Random

import pytest

from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from sluice.sim.domain import TEXTS, parsed
from sluice.sim.plan import Action, Publish
from sluice.sim.spec import ALL, check
from sluice.sim.spec.violation import Check
from sluice.sim.trace import trace as said
from sluice.sim.trace.trace import Trace
from sluice.sim.workload import Churn
from tests.network.processes import Relay, restart, started
from tests.network.recorder import Client, Recorder
from tests.patience import PATIENCE_SECONDS

ROUTINGS = ("flooding", "simple", "identity", "covering", "merging", "imperfect")
BROKERS = 7
#: At every broker one client, and at some another one.
CLIENTS = 10
#: The broker whose link to the one above it is cut, and the one that is killed: each has brokers on both sides.
CUT, KILLED = "b2", "b3"
#: With caches nothing is missed from the request on; every other network has one.
CACHE = {"cache_notifications": 10_000, "cache_seconds": 1_000.0}


@dataclass(frozen=True, slots=True)
class Setting:
    """How a network is run."""

    routing: str
    advertisements: bool

    @property
    def number(self) -> int:
        return 2 * ROUTINGS.index(self.routing) + self.advertisements

    @property
    def is_cached(self) -> bool:
        return self.number % 4 in (0, 3)

    @property
    def of_brokers(self) -> dict[str, object]:
        """The settings of all brokers."""
        return {
            "log_level": "error",
            # Nothing fails but what the test has fail: also where a process waits long for its turn, no link is taken for dead.
            "heartbeat_seconds": PATIENCE_SECONDS,
            "routing": self.routing,
            "advertisements": "covering" if self.advertisements else None,
            **(CACHE if self.is_cached else {}),
        }


#: Every routing once in make test, with or without advertisements, and the rest in make soak.
SETTINGS = [Setting(routing, advertisements) for routing in ROUTINGS for advertisements in (False, True)]


class Run:
    """One run of a network: what the clients do is fixed by its seed, when it happens is not."""

    def __init__(self, setting: Setting, network: Network, relay: Relay | None = None) -> None:
        self.setting = setting
        self.network = network
        self.relay = relay
        self.recorder = Recorder()
        self.random = Random(f"traces/{setting.number}")
        names = [f"c{number}" for number in range(CLIENTS)]
        self.churn = Churn(
            self.random,
            names,
            self.random.sample(TEXTS, 16),
            advertises=setting.advertisements,
            watches=True,
            publishing=0.6,
        )

    @property
    def clients(self) -> list[Client]:
        return [*self.recorder.clients.values()]

    async def begin(self, without: Sequence[str] = (), *, moves: bool = False) -> None:
        """Connects the clients to a network in which everybody knows everybody; nobody is at the brokers left out.

        Clients stay where they are, unless they may move when their broker is gone.
        """
        brokers = [name for name in self.network.brokers if name not in without]
        cache = CACHE if self.setting.is_cached else {}
        self.recorder.write(said.Configured(0.0, advertisements=self.setting.advertisements, **cache))  # type: ignore[arg-type]
        links = tuple((above, name) for name, (above,) in self.network.topology.above.items())
        self.recorder.write(said.Topology(0.0, tuple(self.network.brokers), links))
        for number in range(CLIENTS):
            broker = brokers[number % len(brokers)]
            await self.recorder.add(f"c{number}", broker, self.network.addresses[broker], moves=moves)
        await self.all_know_all()
        for action in self.churn.start():
            self.recorder.clients[action.client].perform(action)  # type: ignore[union-attr]

    async def all_know_all(self) -> None:
        await self.recorder.until_brokers_know(self.network.brokers, self.clients)

    async def live(self, actions: int) -> None:
        """All clients do things at once, each its own in order; now and then one waits until its broker has followed."""
        planned = [self.churn.next() for _ in range(actions)]
        planned.sort(key=lambda action: action.client)  # type: ignore[union-attr]
        async with asyncio.TaskGroup() as group:
            for name, mine in groupby(planned, lambda action: action.client):  # type: ignore[union-attr]
                group.create_task(self._act(self.recorder.clients[name], [*mine], self.random.random()))

    async def _act(self, client: Client, actions: Sequence[Action], seed: float) -> None:
        random = Random(seed)
        for publishes, group in groupby(actions, lambda action: isinstance(action, Publish)):
            if publishes and random.random() < 0.5:
                records = [action.record for action in group if isinstance(action, Publish)]
                client.publish(records, in_columns=random.random() < 0.5)
            else:
                for action in group:
                    client.perform(action)
            if random.random() < 0.5:
                await client.settled()
            else:
                await asyncio.sleep(0)

    async def rest(self) -> None:
        """Until nothing moves; what was lost by then is told by the specification, not by a clock."""
        await self.recorder.rest(advertisements=self.setting.advertisements)

    # --- what fails ---------------------------------------------------------------------------------------------------

    async def lose_a_link(self) -> None:
        """A link between brokers is cut, both sides notice, and it heals; the clients go on all the time."""
        (above,) = self.network.topology.above[CUT]
        ends = [client for client in self.clients if client.broker in (CUT, above)]
        living = asyncio.create_task(self.live(150))
        assert self.relay is not None
        self.recorder.write(said.LinkLost(self.recorder.now, CUT, above))
        self.relay.cut()
        for client in ends:
            while {*await client.brokers()} >= {*self.network.brokers}:
                await asyncio.sleep(0)
        await living
        living = asyncio.create_task(self.live(150))
        self.relay.heal()
        self.recorder.write(said.LinkHealed(self.recorder.now, CUT, above))
        await living
        await self.all_know_all()

    async def lose_clients(self) -> None:
        """The links of some clients break, and come back by themselves."""
        for client in self.random.sample(self.clients, 5):
            living = asyncio.create_task(self.live(60))
            await asyncio.sleep(0)
            client.cut()
            await living
        await self.recorder.until(lambda: all(client.session.broker for client in self.clients), "all are back")

    async def kill_a_broker(self) -> None:
        """A broker is killed and started again; its clients come back by themselves."""
        living = asyncio.create_task(self.live(150))
        await asyncio.sleep(0)
        self.recorder.write(said.BrokerDown(self.recorder.now, KILLED))
        self.network.kill(KILLED)
        await living
        living = asyncio.create_task(self.live(150))
        await restart(self.network, KILLED)
        self.recorder.write(said.BrokerUp(self.recorder.now, KILLED))
        await living
        await self.recorder.until(lambda: all(client.session.broker for client in self.clients), "all are back")
        await self.all_know_all()


async def recorded(setting: Setting) -> Trace:
    """The trace of a run of a real network."""
    async with started(topology("tree", BROKERS, settings=setting.of_brokers), CUT) as (network, relays):
        run = Run(setting, network, relays[CUT])
        await run.begin()
        try:
            await run.live(400)
            await run.rest()
            await run.live(200)
            await run.rest()
            # Before anything has failed nothing may be missing.
            judge(run.recorder.trace)
            await (run.lose_a_link, run.lose_clients, run.kill_a_broker)[setting.number % 3]()
            await run.rest()
            await run.live(200)
            await run.rest()
        finally:
            await run.recorder.close()
        return run.recorder.trace


def judge(trace: Trace, checks: Sequence[Check] = ALL) -> None:
    violations = check(trace, checks)
    assert not violations, "\n".join(map(str, violations[:5]))


@pytest.mark.parametrize(
    "setting",
    [pytest.param(one, marks=() if place % 8 in (0, 7) else pytest.mark.long) for place, one in enumerate(SETTINGS)],
    ids=str,
)
def test_a_real_network_keeps_what_the_specification_promises(setting: Setting) -> None:
    trace = asyncio.run(recorded(setting))
    judge(trace)
    kinds = {type(event) for event in trace}
    assert {said.Notified, said.Completed, said.Interested, said.Uninterested, said.Unsubscribed} <= kinds
    assert (said.Refused in kinds) == setting.advertisements
    assert said.BrokerDown in kinds or said.LinkLost in kinds
    if setting.routing == "covering":
        the_judge_sees_one_delivery_that_is_missing_or_wrong(trace)


# --- the judge sees ---------------------------------------------------------------------------------------------------


def owed_deliveries(trace: Trace) -> list[int]:
    """Where somebody is notified of what it could not have missed: all had come to rest, and nothing is taken back later."""
    last_fault = max(index for index, event in enumerate(trace) if type(event) in said.FAULTS)
    quiet = next(index for index, event in enumerate(trace) if index > last_fault and isinstance(event, said.Quiet))
    kept: dict[str, str] = {}
    offers: dict[str, list[str]] = {}
    for event in trace.events[:quiet]:
        if isinstance(event, said.Subscribed | said.Advertised):
            kept[event.id] = event.where
    for event in trace:
        if isinstance(event, said.Unsubscribed | said.Unadvertised):
            kept.pop(event.id, None)
    for event in trace:
        if isinstance(event, said.Advertised) and event.id in kept:
            offers.setdefault(event.client, []).append(event.where)
    records = {(one.client, one.number): one.record for one in trace.events[quiet:] if isinstance(one, said.Published)}
    with_offers = any(isinstance(event, said.Advertised) for event in trace)
    return [
        index
        for index, event in enumerate(trace)
        if isinstance(event, said.Notified)
        and (record := records.get((event.publisher, event.number))) is not None
        and any(id in kept for id in event.subscriptions)
        and (not with_offers or any(parsed(where).matches(record) for where in offers.get(event.publisher, ())))
    ]


def broken(trace: Trace, index: int, *instead: said.TraceEvent) -> set[str]:
    """The checks that find something when one event is replaced."""
    events = [*trace.events[:index], *instead, *trace.events[index + 1 :]]
    return {violation.check for violation in check(Trace(events), ALL)}


def the_judge_sees_one_delivery_that_is_missing_or_wrong(trace: Trace) -> None:
    owed = owed_deliveries(trace)
    assert len(owed) >= 50
    for index in Random("deliveries").sample(owed, 4):
        event = trace[index]
        assert isinstance(event, said.Notified)
        assert broken(trace, index, event) == set()
        assert "live" in broken(trace, index)
        assert "no-duplicate" in broken(trace, index, event, event)
        assert "published" in broken(trace, index, replace(event, number=1_000_000))
        assert "wanted" in broken(trace, index, replace(event, subscriptions=()))
        assert "wanted" in broken(trace, index, replace(event, subscriptions=("c0/1000",)))
        other = next(one for one in trace if isinstance(one, said.Published) and not one.record)
        assert "live" in broken(trace, index, replace(event, publisher=other.client, number=other.number))
