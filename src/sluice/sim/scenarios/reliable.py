"""Reliable: nothing missing and nothing twice, over nodes of one to three brokers that agree on nothing.

Brokers crash, links break between any two of them, subscriptions come and go, and several streams go in all directions at once.
Under half of the seeds some reliable subscriptions are ordered, too: these get everything in one order, the same for all of
them, and for those who ask for order alone (which only networks with one broker for each node take).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sluice.protocol.complete import CacheConfig
from sluice.protocol.events import Received
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Change, Snapshot
from sluice.protocol.reliable.config import ReliableConfig
from sluice.sim.domain import POINTS
from sluice.sim.plan import (
    ClientPlan,
    Disturb,
    Performer,
    Plan,
    Planned,
    Publish,
    Trim,
)
from sluice.sim.scenario import (
    BROKER_CRASH,
    CLIENT_CRASH,
    DUPLICATION,
    LINK_LOSS,
    MESSAGE_LOSS,
    OFFLINE,
    REORDERING,
    RETENTION,
    Choices,
    Draft,
    Outcome,
    Scenario,
)
from sluice.sim.spec import LOGGED, PAIRWISE, PUBLISHED, RELIABLE, STORED_FIRST, WANTED
from sluice.sim.spec.filters import Filters
from sluice.sim.spec.goodness import good
from sluice.sim.trace import trace as said
from sluice.sim.workload import diameter, redundant, tree
from sluice.sim.world.nodes import BrokerNode
from sluice.sim.world.world import World

#: What was worked out about filters of the small domain, for all runs.
_FILTERS = Filters(POINTS)
#: After one of these, what a broker holds of others may be something else.
_TABLES = (Change, Snapshot)

SIZES = (1, 2, 3, 3, 4, 4, 5)


class Reliable(Scenario):
    """Redundant nodes, and subscriptions that rely on them."""

    name = "reliable"
    says = "a reliable subscription gets everything from its start on, in order, once"
    faults: ClassVar[tuple[str, ...]] = (
        *(BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE),
        *(MESSAGE_LOSS, DUPLICATION, REORDERING, RETENTION),
    )
    checks = (PUBLISHED, WANTED, LOGGED, STORED_FIRST, PAIRWISE, *RELIABLE)
    calm = 0.2
    #: So long after everything is healed all has come to rest, in units of the longest delay.
    rest: ClassVar[float] = 100.0

    def plan(self, seed: int, choices: Choices) -> Plan:
        """A tree of nodes, publishers and subscribers everywhere, and everything that can fail."""
        draft = Draft(self, seed, replace(choices, advertisements=False))
        random = draft.choose(brokers=SIZES, clients=(2, 6), actions=(20, 120))
        draft.options["publishing"] = random.choice((0.5, 0.7, 0.7))
        draft.options["most"] = random.choice((1, 2, 3, 3))
        topology = draft.random("topology")
        names = tuple(f"N{i}" for i in range(draft.options["brokers"]))
        shape = tree(topology, names)
        nodes, links = redundant(topology, names, shape, draft.options["most"])
        brokers = tuple(nodes)
        clients = tuple(ClientPlan(f"c{i}", topology.choice(brokers)) for i in range(draft.options["clients"]))
        reliable = random.choice((0.5, 1.0, 1.0))
        merged = draft.options["merged"] = draft.random("merged").choice((0.0, 0.0, 0.5, 1.0))
        ordered = 0.5 if merged and draft.options["most"] == 1 else 0.0
        churn = draft.churn(clients, reliable=reliable, merged=merged, ordered=ordered)
        # Bursts, so that something is on its way whatever happens.
        burst = draft.random("bursts")
        planned: list[Planned] = []
        for at, action in draft.timed(churn):
            if isinstance(action, Publish):
                more = [churn.publish(action.client).record for _ in range(burst.choice((0, 2, 8)))]
                action = replace(action, more=tuple(more))
            planned.append((at, action))
        end = planned[-1][0]
        planned += draft.crashes(end, brokers, links, clients, churn)
        planned += draft.flapping(end, brokers, links, times=(0, 5, 20), outages=(0.1, 2.0))
        planned += self._noise(draft, end)
        if RETENTION in draft.options["faults"]:
            trims = draft.random("trims")
            for is_forced in trims.choice(((False,) * 20, (True,) * 20)):
                batches = trims.choice((1, 3, 10, 100)) if is_forced else 100
                planned.append((trims.uniform(0, end), Trim(trims.choice(brokers), batches, is_forced)))
        # What is lost between brokers is found out by digests.
        lease = LeaseConfig(renew_seconds=15.0, lease_seconds=90.0, max_delay_seconds=4.0, diameter=diameter(shape) + 2)
        is_noisy = any(name in draft.options["faults"] for name in (MESSAGE_LOSS, DUPLICATION, REORDERING))
        # Caches for those who do not rely on anything, in the same network.
        cache = draft.random("cache").choice((None, None, CacheConfig(notifications=30, seconds=8.0)))
        config = replace(
            draft.config(durable=True, lease=lease if is_noisy else None, cache=cache),
            reliable=ReliableConfig(
                silence_seconds=random.choice((0.1, 1.0, 5.0)),
                gap_seconds=random.choice((1.0, 4.0, 10.0)),
                patience_seconds=20.0,
                report_seconds=random.choice((2.0, 10.0)),
                progress_seconds=random.choice((3.0, 30.0)),
                # Nobody is out of touch for longer than that, so that nothing is lost without need.
                absence_seconds=2 * end + 1_000.0,
                cache_bytes=random.choice((200, 2_000, 100_000)),
                # Few, so that promises often wait for the disk.
                reserved_moments=draft.random("reserved").choice((0, 2, 20)),
            ),
        )
        probes = draft.probes(churn, clients)
        return draft.finish(config, brokers, links, clients, planned, probes, nodes=nodes)

    def _noise(self, draft: Draft, end: float) -> list[Planned]:
        """Messages between brokers that are lost, doubled or overtaken for a while."""
        random, faults = draft.random("noise"), draft.options["faults"]
        loss = random.choice((0.02, 0.1, 0.25)) if MESSAGE_LOSS in faults else 0.0
        twice = random.choice((0.05, 0.2)) if DUPLICATION in faults else 0.0
        late = random.choice((0.05, 0.3)) if REORDERING in faults else 0.0
        if not (loss or twice or late):
            return []
        begin = random.uniform(0, end / 2)
        return [(begin, Disturb(loss, twice, late=late)), (random.uniform(begin, end), Disturb())]

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Faults, then rest, then what must arrive without exception."""
        performer = Performer(world)
        world.after_step = lambda node, event: self._look(world, node, event, outcome)
        if not plan.options["cold"]:
            world.settle()
        performer.schedule(plan.actions)
        world.run(world.now + max((at for at, _ in plan.actions), default=0.0) + world.max_delay)
        world.heal()
        self._rest(world)
        world.trace.append(said.Quiet(world.now))
        for probe in plan.probes:
            performer.perform(probe)
            world.run(world.now + plan.max_delay_seconds / 8)
        self._rest(world)

    def _look(self, world: World, node: BrokerNode, event: object, outcome: Outcome) -> None:
        """Checks the invariant of a broker whose tables may have changed."""
        if node.core is not None and not (isinstance(event, Received) and not isinstance(event.message, _TABLES)):
            wishes = {
                name: each.core.reliable.subscribers.wishes
                for name, each in world.brokers.items()
                if each.core is not None
            }
            outcome.violations += good(node.core, wishes, _FILTERS, world.now)

    def _rest(self, world: World) -> None:
        """Nothing moves any more, and nobody waits to try again."""
        world.settle()
        world.run(world.now + self.rest * world.max_delay)
        world.settle()
