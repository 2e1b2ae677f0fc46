"""Leases: from any state, however damaged, the tables are right again within the bound that the configuration states.

Tables are damaged, garbage is put on links, messages are lost, doubled and changed, clocks are wrong, everything crashes. Then
all that ends, and from that moment every change of a table is watched until each broker holds what it would hold in a network
built fresh (section 3.7 of the routing thesis). How much of the bound that took is the run's `recovery`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

from sluice.protocol.events import Received
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Change, Snapshot
from sluice.sim.fresh import Tables, difference, fresh, tables_of
from sluice.sim.judge import judge_tables
from sluice.sim.plan import ClientPlan, Damage, Disturb, Garbage, Performer, Plan, Planned, StopClient
from sluice.sim.scenario import (
    ALL_FAULTS,
    CLIENT_CRASH,
    CLOCKS,
    CORRUPTION,
    DUPLICATION,
    MESSAGE_LOSS,
    TABLES,
    Choices,
    Draft,
    Outcome,
    Scenario,
)
from sluice.sim.spec import INTEREST, STABILIZING, Violation
from sluice.sim.trace import trace as said
from sluice.sim.workload import diameter
from sluice.sim.world.nodes import BrokerNode
from sluice.sim.world.world import World, recovery_seconds

SIZES = (2, 2, 3, 3, 4, 5, 6, 8, 10)


class Leases(Scenario):
    """Everything goes wrong, then time passes."""

    name = "leases"
    says = "from any damaged state the tables are right again within the bound"
    faults = ALL_FAULTS
    checks = (*STABILIZING, INTEREST)
    calm = 0.1

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Churn and all kinds of faults, most of them at the very end."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(1, 6), actions=(5, 40))
        brokers, links, clients = draft.people()
        drift = random.choice((0.001, 0.01, 0.05)) if CLOCKS in draft.options["faults"] else 0.0
        lease = _lease(random, diameter(links), draft.options["min_delay"], drift)
        draft.options |= {"drift": drift, "renew": lease.renew_seconds, "lease": lease.lease_seconds}
        churn = draft.churn(clients, watches=random.random() < 0.5)
        planned = draft.timed(churn)
        planned += draft.crashes(planned[-1][0], brokers, links, clients, churn)
        end = max(at for at, _ in planned) + random.choice((0.0, 3.0, lease.lease_seconds))
        planned += self._damages(draft, end, brokers, links, clients)
        clocks = {}
        if drift:
            names = (*brokers, *(one.name for one in clients))
            clocks = {name: (random.uniform(-1000, 1000), random.uniform(1 - drift, 1 + drift)) for name in names}
        config = draft.config(lease=lease)
        return draft.finish(config, brokers, links, clients, planned, draft.probes(churn, clients), clocks)

    def _damages(
        self,
        draft: Draft,
        end: float,
        brokers: Sequence[str],
        links: Sequence[tuple[str, str]],
        clients: Sequence[ClientPlan],
    ) -> list[Planned]:
        random = draft.random("damages")
        faults = draft.options["faults"]
        ways = [*links, *((one.at, one.name) for one in clients)]
        planned: list[Planned] = []

        def when() -> float:
            return end if random.random() < 0.7 else random.uniform(0, end)

        if TABLES in faults:
            for _ in range(random.choice((1, 3, 10, 30))):
                planned.append((when(), Damage(random.choice(brokers), random.randrange(1 << 32))))
        if CORRUPTION in faults:
            for _ in range(random.choice((1, 3, 10))):
                pair = random.choice(ways)
                sender, receiver = pair if random.random() < 0.5 else pair[::-1]
                planned.append((when(), Garbage(sender, receiver, random.randrange(1 << 32))))
        if CLIENT_CRASH in faults:
            for _ in range(random.choice((1, 1, 3))):
                planned.append((when(), StopClient(random.choice(clients).name, unnoticed=True)))
        chances = {
            name: random.choice((0.02, 0.1, 0.3)) if name in faults else 0.0
            for name in (MESSAGE_LOSS, DUPLICATION, CORRUPTION)
        }
        if any(chances.values()):
            start = random.uniform(0, end)
            planned.append((start, Disturb(*chances.values())))
            planned.append((random.choice((end, random.uniform(start, end))), Disturb()))
        return planned

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Faults, then the time that recovery may take, then a lease more in which nothing may change."""
        lease = plan.config.lease
        assert lease is not None
        performer = Performer(world)
        if not plan.options["cold"]:
            world.run(3 * plan.max_delay_seconds)
        performer.schedule(plan.actions)
        world.run(world.now + max((at for at, _ in plan.actions), default=0.0))
        world.heal()
        # The paper's bound is for damage; that somebody fell silent takes a lease to notice, and only then the news travels.
        silent = any(isinstance(action, StopClient) and action.unnoticed for _, action in plan.actions)
        bound = recovery_seconds(lease) if silent else lease.bound_seconds
        bound /= 1 - plan.options["drift"]
        recovery = Recovery(world)
        world.after_step = recovery.look
        start = world.now
        during, after = plan.probes[: len(plan.probes) // 2], plan.probes[len(plan.probes) // 2 :]
        for i, probe in enumerate(during):
            world.run(start + bound * (i + 1) / (len(during) + 1))
            performer.perform(probe)
        world.run(start + bound)
        late = recovery.differences()
        if late:
            says = f"{bound:g} s after the last fault, {late[0]}"
            outcome.violations.append(Violation("stabilises", world.now, says))
            world.run(start + 3 * bound)  # to tell how late it was
        world.after_step = None
        outcome.recovery = math.inf if recovery.is_wrong else (recovery.right_at - start) / bound
        world.trace.append(said.Quiet(world.now))
        outcome.violations += judge_tables(world)
        for probe in after:
            performer.perform(probe)
            world.run(world.now + (lease.lease_seconds + plan.max_delay_seconds * lease.diameter) / len(after))
        world.run(world.now + plan.max_delay_seconds * lease.diameter)
        late = recovery.differences()
        if late and not outcome.violations:
            outcome.violations.append(Violation("stays-right", world.now, f"without any fault, {late[0]}"))


def _lease(random: Random, diameter: int, min_delay: float, drift: float) -> LeaseConfig:
    """Times that fit the network: the lease is as short as it may be, or longer."""
    links = diameter + 2  # from client to client
    renew = random.uniform(2.0, 12.0)
    jitter = links * (1.0 - min_delay)
    # A slow clock renews late and a fast one gives up early.
    shortest = renew * (1 + drift) / (1 - drift) + jitter * (1 + drift)
    return LeaseConfig(
        renew_seconds=renew,
        lease_seconds=shortest * random.choice((1.05, 1.5, 3.0)) + 0.1,
        min_delay_seconds=min_delay,
        max_delay_seconds=1.0,
        diameter=links,
    )


class Recovery:
    """Watches every broker until all of them hold what they should."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.expected: dict[str, Tables] = fresh(world)
        #: Since when everything is right.
        self.right_at = world.now
        self._wrong: dict[str, None] = {}
        for node in world.brokers.values():
            self._look(node)

    def look(self, node: BrokerNode, event: Any) -> None:
        """Looks at a broker after a step that may have changed a table."""
        if isinstance(event, Received) and not isinstance(event.message, Change | Snapshot):
            return
        self._look(node)

    def _look(self, node: BrokerNode) -> None:
        assert node.core is not None
        if tables_of(node.core) == self.expected[node.name]:
            if node.name in self._wrong:
                del self._wrong[node.name]
                if not self._wrong:
                    self.right_at = self.world.now
        else:
            self._wrong[node.name] = None

    @property
    def is_wrong(self) -> bool:
        """Whether some broker holds something else than it should."""
        return bool(self._wrong)

    def differences(self) -> list[str]:
        """What is wrong now."""
        found = []
        for node in self.world.brokers.values():
            if node.core is not None:
                wrong = difference(node.core, self.expected[node.name])
                if wrong is not None:
                    found.append(wrong)
        return found
