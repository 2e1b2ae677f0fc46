"""Reliable: nothing missing and nothing twice, over nodes of one to three brokers that agree on nothing.

Brokers crash, links break between any two of them, subscriptions come and go, and several streams go in all directions at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sluice.protocol.reliable.config import ReliableConfig
from sluice.sim import trace as said
from sluice.sim.plan import ClientPlan, Performer, Plan
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Outcome, Scenario
from sluice.sim.spec import LOGGED, PUBLISHED, RELIABLE, STORED_FIRST, WANTED
from sluice.sim.workload import redundant, tree
from sluice.sim.world import World

SIZES = (1, 2, 3, 3, 4, 4, 5, 6)


class Reliable(Scenario):
    """Redundant nodes, and subscriptions that rely on them."""

    name = "reliable"
    says = "a reliable subscription gets everything from its start on, in order, once"
    faults: ClassVar[tuple[str, ...]] = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)
    checks = (PUBLISHED, WANTED, LOGGED, STORED_FIRST, *RELIABLE)
    calm = 0.2
    #: So long after everything is healed all has come to rest, in units of the longest delay.
    rest: ClassVar[float] = 200.0

    def plan(self, seed: int, choices: Choices) -> Plan:
        """A tree of nodes, publishers and subscribers everywhere, and everything that can fail."""
        draft = Draft(self, seed, replace(choices, advertisements=False))
        random = draft.choose(brokers=SIZES, clients=(2, 6), actions=(20, 120))
        draft.options["publishing"] = random.choice((0.5, 0.7, 0.9))
        draft.options["most"] = random.choice((1, 2, 2, 3))
        topology = draft.random("topology")
        names = tuple(f"N{i}" for i in range(draft.options["brokers"]))
        nodes, links = redundant(topology, names, tree(topology, names), draft.options["most"])
        brokers = tuple(nodes)
        clients = tuple(ClientPlan(f"c{i}", topology.choice(brokers)) for i in range(draft.options["clients"]))
        churn = draft.churn(clients, reliable=random.choice((0.3, 0.7, 1.0)))
        planned = draft.timed(churn)
        planned += draft.crashes(planned[-1][0], brokers, links, clients, churn)
        config = replace(
            draft.config(durable=True),
            reliable=ReliableConfig(
                silence_seconds=random.choice((0.1, 1.0, 5.0)),
                gap_seconds=random.choice((1.0, 4.0, 10.0)),
                patience_seconds=20.0,
                report_seconds=random.choice((2.0, 10.0)),
                cache_bytes=random.choice((200, 2_000, 100_000)),
            ),
        )
        probes = draft.probes(churn, clients)
        return draft.finish(config, brokers, links, clients, planned, probes, nodes=nodes)

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Faults, then rest, then what must arrive without exception."""
        performer = Performer(world)
        if not plan.options["cold"]:
            world.settle()
        performer.schedule(plan.actions)
        world.settle()
        world.heal()
        self._rest(world)
        world.trace.append(said.Quiet(world.now))
        for probe in plan.probes:
            performer.perform(probe)
            world.run(world.now + plan.max_delay_seconds / 8)
        self._rest(world)

    def _rest(self, world: World) -> None:
        """Nothing moves any more, and nobody waits to try again."""
        world.settle()
        world.run(world.now + self.rest * world.max_delay)
        world.settle()
