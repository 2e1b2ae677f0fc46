"""Streams: what a durable broker has accepted survives it, once and in order, and durable readers get all of it.

Brokers crash while their disks are busy, disks are full for a while, links break between a publication and its acknowledgement,
readers and their brokers crash between a page and the note that it was read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sluice.sim.domain import TEXTS
from sluice.sim.judge import judge_tables
from sluice.sim.plan import FillDisk, FreeDisk, Performer, Plan, Planned, Publish, Trim
from sluice.sim.scenario import (
    BROKER_CRASH,
    CLIENT_CRASH,
    DISK_FULL,
    LINK_LOSS,
    OFFLINE,
    RETENTION,
    Choices,
    Draft,
    Outcome,
    Scenario,
)
from sluice.sim.spec import ACKNOWLEDGED, LIVE, NO_DUPLICATE, PUBLISHED, STREAMS, WANTED, Violation
from sluice.sim.trace import trace as said
from sluice.sim.world.world import World

SIZES = (1, 2, 2, 3, 3, 4, 5, 6)


class Streams(Scenario):
    """Durable brokers, publishers that send again, and readers that go on where they stopped."""

    name = "streams"
    says = "what was accepted is logged once and in order, and durable readers get all of it"
    faults: ClassVar[tuple[str, ...]] = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE, DISK_FULL, RETENTION)
    # What is sent again is held against what is advertised by then, so that `REFUSED` has nothing to say here.
    checks = (NO_DUPLICATE, PUBLISHED, WANTED, LIVE, ACKNOWLEDGED, *STREAMS)
    calm = 0.1
    #: So long after everything is healed all has come to rest, in units of the longest delay: pauses after failures are over.
    rest: ClassVar[float] = 40.0

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Publishers and readers, and everything that can fail between them."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(2, 6), actions=(10, 80))
        draft.options["publishing"] = random.choice((0.7, 0.9))
        draft.options["readers"] = random.randint(1, 3)
        brokers, links, clients = draft.people()
        texts = ("true", *TEXTS)
        holding = draft.random("holds")
        clients = tuple(
            replace(one, reads=random.choice(texts), holds=holding.random() < 0.3)
            if i < draft.options["readers"]
            else one
            for i, one in enumerate(clients)
        )
        churn = draft.churn(clients)
        planned: list[Planned] = []
        for at, action in draft.timed(churn):
            if isinstance(action, Publish):
                more = tuple(churn.publish(action.client).record for _ in range(random.choice((0, 0, 1, 4))))
                action = replace(action, more=more)
            planned.append((at, action))
        end = planned[-1][0]
        planned += draft.crashes(end, brokers, links, clients, churn)
        planned += self._disks(draft, end, brokers)
        probes = draft.probes(churn, clients)
        return draft.finish(draft.config(durable=True), brokers, links, clients, planned, probes)

    def _disks(self, draft: Draft, end: float, brokers: tuple[str, ...]) -> list[Planned]:
        """Disks that are full for a while, and logs that lose their oldest part."""
        random = draft.random("disks")
        planned: list[Planned] = []
        if DISK_FULL in draft.options["faults"]:
            for _ in range(random.choice((1, 2, 4))):
                name, at = random.choice(brokers), random.uniform(0, end)
                planned += [
                    (at, FillDisk(name)),
                    (at + random.choice((0.5, 3.0, 10.0)) * random.random(), FreeDisk(name)),
                ]
        if RETENTION in draft.options["faults"]:
            for _ in range(random.choice((2, 4, 8))):
                planned.append((random.uniform(0, end), Trim(random.choice(brokers), random.choice((1, 3, 10, 30)))))
        return planned

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
        outcome.violations += judge_tables(world)
        for probe in plan.probes:
            performer.perform(probe)
            world.run(world.now + plan.max_delay_seconds / 8)
        self._rest(world)
        for name, node in world.clients.items():
            if node.reader is not None and not node.reader.is_open:
                outcome.violations.append(Violation("caught-up", world.now, f"{name} never learns where to go on"))

    def _rest(self, world: World) -> None:
        """Nothing moves any more, and nobody waits to try again."""
        world.settle()
        world.run(world.now + self.rest * world.max_delay)
        world.settle()
