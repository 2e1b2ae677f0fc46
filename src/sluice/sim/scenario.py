"""A scenario expands one seed into a whole run and judges what came of it.

As in TigerBeetle's simulator a run has two phases. In the first, faults happen while clients subscribe and publish, and only
what must always hold is asked for. Then the faults end, everything heals and comes to rest, and from there on everything must
be right: the tables, and the fate of some last publications.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from sluice.broker.core.config import BrokerConfig
from sluice.errors import SluiceError
from sluice.model.statistics import Statistics
from sluice.protocol.complete import CacheConfig
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.reshape.messages import Stage
from sluice.protocol.route.policy import Policy, Ratio, Traffic
from sluice.protocol.route.reduce import RoutingOptions
from sluice.sim.domain import POINTS, TEXTS
from sluice.sim.judge import judge_demand, judge_moving_tables, judge_tables, judge_trace
from sluice.sim.plan import (
    FAULTS,
    Action,
    ClientPlan,
    HealLink,
    LoseLink,
    Performer,
    Plan,
    Planned,
    Publish,
    StartBroker,
    StartClient,
    StopBroker,
    StopClient,
)
from sluice.sim.spec import ALL, Check, Violation
from sluice.sim.trace import trace as said
from sluice.sim.trace.trace import Trace
from sluice.sim.workload import Churn, spread, tree
from sluice.sim.world.shape import Circle
from sluice.sim.world.world import NeverQuiet, World

#: The routing algorithms that a seed chooses from.
ROUTINGS = ("flooding", "simple", "identity", "covering", "merging", "imperfect")
#: What can go wrong, by the names that the command line knows.
BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE = "broker-crash", "link-loss", "client-crash", "offline"
MESSAGE_LOSS, DUPLICATION, CORRUPTION, CLOCKS, TABLES = "message-loss", "duplication", "corruption", "clocks", "tables"
DISK_FULL, RETENTION, REORDERING = "disk-full", "retention", "reordering"
ALL_FAULTS = (
    *(BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE),
    *(MESSAGE_LOSS, DUPLICATION, CORRUPTION, CLOCKS, TABLES),
    *(DISK_FULL, RETENTION, REORDERING),
)

#: How often a run without faults is looked at while messages are on their way.
GLANCES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What is not left to the seed."""

    routing: str | None = None
    advertisements: bool | None = None
    #: Names of faults that may happen; None: the seed chooses among those of the scenario.
    faults: tuple[str, ...] | None = None


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    events: int = 0
    deliveries: int = 0
    faults: int = 0
    #: How many links were replaced by others, all the way.
    replaced: int = 0
    #: How long the tables took to be right again, as a share of the bound; only where leases are tested.
    recovery: float | None = None


class Scenario(ABC):
    """One part of what the network promises, and how it is put to the test."""

    name: ClassVar[str]
    #: One line for people.
    says: ClassVar[str]
    #: What can go wrong here.
    faults: ClassVar[tuple[str, ...]]
    #: What must hold of the trace.
    checks: ClassVar[tuple[Check, ...]] = ALL
    #: The share of seeds under which nothing goes wrong.
    calm: ClassVar[float] = 0.35

    @abstractmethod
    def plan(self, seed: int, choices: Choices) -> Plan:
        """What will happen under a seed."""

    def run(self, seed: int, choices: Choices | None = None) -> Outcome:
        """Plans and carries out the run of a seed."""
        return self.execute(self.plan(seed, choices or Choices()))

    def execute(self, plan: Plan) -> Outcome:
        """Carries out a plan and judges it."""
        outcome = Outcome(plan, faults=sum(isinstance(action, FAULTS) for _, action in plan.actions))
        world: World | None = None
        try:
            world = plan.build()
            outcome.trace = world.trace
            self.perform(world, plan, outcome)
        except SluiceError as error:
            at = world.now if world is not None else 0.0
            check = {NeverQuiet: "never-quiet", Circle: "tree"}.get(type(error), "core-error")
            outcome.violations.insert(0, Violation(check, at, str(error), ()))
        else:
            outcome.violations += judge_trace(world, self.checks_of(plan))
        if world is not None:
            outcome.events = world.events
            outcome.replaced = world.shape.ended[Stage.DONE]
            outcome.deliveries = sum(len(node.deliveries) for node in world.clients.values())
        return outcome

    def checks_of(self, plan: Plan) -> tuple[Check, ...]:
        """What must hold of the trace of a plan."""
        return self.checks

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """The two phases. Scenarios with another rhythm have their own."""
        performer = Performer(world)
        if not plan.options["cold"]:
            world.settle()
            if not outcome.faults:
                self._glance(world, plan, outcome)
        performer.schedule(plan.actions)
        world.settle()
        world.heal()
        world.settle()
        world.trace.append(said.Quiet(world.now))
        outcome.violations += judge_tables(world) + judge_demand(world)
        for probe in plan.probes:
            performer.perform(probe)
            world.run(world.now + plan.max_delay_seconds / 8)
        world.settle()

    def _glance(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Looks at the tables now and then while messages are on their way."""
        random = Random(f"{plan.seed}/glances")
        end = max((at for at, _ in plan.actions), default=0.0)

        def look() -> None:
            outcome.violations += judge_moving_tables(world)

        for _ in range(GLANCES):
            world.call(world.now + random.uniform(0, end), look)


@dataclass(slots=True)
class Draft:
    """The common part of planning: options first, then the tree, the clients and what they do."""

    scenario: Scenario
    seed: int
    choices: Choices
    options: dict[str, Any] = field(default_factory=dict)

    def random(self, name: str) -> Random:
        """A source of chance for one purpose: what is drawn for one does not change another."""
        return Random(f"{self.scenario.name}/{self.seed}/{name}")

    def choose(self, *, brokers: Sequence[int], clients: tuple[int, int], actions: tuple[int, int]) -> Random:
        """Draws the options that every scenario has; what the user chose replaces what was drawn."""
        random, choices = self.random("options"), self.choices
        options = self.options
        options["routing"] = random.choice(ROUTINGS)
        options["advertisements"] = random.choice((None, None, None, "simple", "identity", "covering", "merging"))
        if choices.routing is not None:
            options["routing"] = choices.routing
        if choices.advertisements is not None:
            options["advertisements"] = (options["advertisements"] or "covering") if choices.advertisements else None
        options["brokers"] = random.choice(brokers)
        options["clients"] = random.randint(*clients)
        options["actions"] = random.randint(*actions)
        options["texts"] = random.choice((4, 8, 16, 40))
        options["pace"] = random.choice((0.05, 0.3, 1.0, 4.0))
        options["min_delay"] = random.choice((0.0, 0.1, 0.9, 1.0))
        options["publishing"] = random.choice((0.2, 0.5, 0.8))
        # Whether the first wishes come while the links are still coming up.
        options["cold"] = random.random() < 0.25
        options["faults"] = self._faults(random)
        return random

    def _faults(self, random: Random) -> tuple[str, ...]:
        drawn = tuple(name for name in self.scenario.faults if random.random() < 0.5)
        calm = random.random() < self.scenario.calm
        if self.choices.faults is not None:
            return tuple(name for name in self.scenario.faults if name in self.choices.faults)
        return () if calm else drawn

    def config(
        self, *, cache: CacheConfig | None = None, lease: LeaseConfig | None = None, durable: bool = False
    ) -> BrokerConfig:
        """How the brokers work; an imperfect merger wastes little or much, by either measure."""
        policy: Policy = self.random("policy").choice(
            (Ratio(1.5), Ratio(4.0), Traffic(Statistics.of(POINTS), budget=0.05))
        )
        return BrokerConfig(
            routing=self.options["routing"],
            advertisements=self.options["advertisements"],
            options=RoutingOptions(policy=policy),
            cache=cache,
            lease=lease,
            durable=durable,
        )

    def people(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[ClientPlan, ...]]:
        """The brokers, the tree and the clients."""
        random = self.random("topology")
        brokers = tuple(f"B{i}" for i in range(self.options["brokers"]))
        links = tree(random, brokers)
        clients = tuple(ClientPlan(f"c{i}", random.choice(brokers)) for i in range(self.options["clients"]))
        return brokers, links, clients

    def churn(self, clients: Sequence[ClientPlan], **more: Any) -> Churn:
        """Clients that do things, with a few texts of the common pool."""
        random = self.random("workload")
        texts = random.sample(TEXTS, self.options["texts"])
        return Churn(
            random,
            [one.name for one in clients],
            texts,
            advertises=self.options["advertisements"] is not None,
            publishing=self.options["publishing"],
            **more,
        )

    def timed(self, churn: Churn) -> list[Planned]:
        """What the clients do, with times."""
        random = self.random("times")
        actions = churn.start() + [churn.next() for _ in range(self.options["actions"])]
        return spread(random, actions, 0.0, self.options["pace"])

    def flapping(
        self,
        end: float,
        brokers: Sequence[str],
        links: Sequence[tuple[str, str]],
        *,
        times: Sequence[int],
        outages: Sequence[float],
    ) -> list[Planned]:
        """Brokers and links that fail and come back at once, again and again, while much is on its way."""
        random, faults = self.random("flapping"), self.options["faults"]
        planned: list[Planned] = []
        for _ in range(random.choice(times)):
            at = random.uniform(0, end)
            back = at + random.choice(outages) * random.random()
            if BROKER_CRASH in faults:
                name = random.choice(brokers)
                planned += [(at, StopBroker(name)), (back, StartBroker(name))]
            if LINK_LOSS in faults and links:
                link = random.choice(links)
                planned += [(at, LoseLink(*link)), (back, HealLink(*link))]
        return planned

    def crashes(
        self,
        end: float,
        brokers: Sequence[str],
        links: Sequence[tuple[str, str]],
        clients: Sequence[ClientPlan],
        churn: Churn,
    ) -> list[Planned]:
        """Brokers, links and clients that fail some time before the end and mostly come back."""
        random = self.random("faults")
        planned: list[Planned] = []
        attachments = [(one.at, one.name) for one in clients]
        for kind in self.options["faults"]:
            for _ in range(random.choice((1, 1, 2, 4))):
                at = random.uniform(0, end)
                back = at + random.choice((0.0, 0.5, 3.0, 20.0)) * random.random()
                fail: Action
                repair: Action
                if kind == BROKER_CRASH:
                    name = random.choice(brokers)
                    fail, repair = StopBroker(name), StartBroker(name)
                elif kind == LINK_LOSS and links:
                    a, b = random.choice(links)
                    fail, repair = LoseLink(a, b), HealLink(a, b)
                elif kind == OFFLINE:
                    a, b = random.choice(attachments)
                    fail, repair = LoseLink(a, b), HealLink(a, b)
                elif kind == CLIENT_CRASH:
                    name = random.choice(clients).name
                    fail, repair = StopClient(name), StartClient(name)
                else:
                    continue
                planned.append((at, fail))
                if random.random() < 0.8:
                    planned.append((back, repair))
        # Those who come back want something again.
        for at, action in list(planned):
            if isinstance(action, StartClient):
                for _ in range(random.randrange(4)):
                    planned.append((at + random.random(), churn.next(action.client)))
        return planned

    def probes(self, churn: Churn, clients: Sequence[ClientPlan]) -> tuple[Publish, ...]:
        """What is published when everything is at rest."""
        random = self.random("probes")
        return tuple(churn.publish(random.choice(clients).name) for _ in range(12))

    def finish(
        self,
        config: BrokerConfig,
        brokers: tuple[str, ...],
        links: tuple[tuple[str, str], ...],
        clients: tuple[ClientPlan, ...],
        planned: Sequence[Planned],
        probes: tuple[Publish, ...],
        clocks: Mapping[str, tuple[float, float]] | None = None,
        nodes: Mapping[str, str] | None = None,
    ) -> Plan:
        """The plan, in order of time."""
        return Plan(
            scenario=self.scenario.name,
            seed=self.seed,
            options=dict(self.options),
            config=config,
            brokers=brokers,
            links=links,
            clients=clients,
            actions=tuple(sorted(planned, key=lambda one: one[0])),
            probes=probes,
            min_delay_seconds=self.options["min_delay"],
            max_delay_seconds=1.0,
            clocks=clocks or {},
            nodes=nodes or {},
        )


SCENARIOS: dict[str, Scenario] = {}


def register_scenario(scenario: Scenario) -> Scenario:
    """Makes a scenario known under its name."""
    SCENARIOS[scenario.name] = scenario
    return scenario


def scenario_named(name: str) -> Scenario:
    """The scenario with a name."""
    from sluice.sim import scenarios  # noqa: F401  registers them

    if name not in SCENARIOS:
        raise SluiceError(f"there is no scenario {name!r}: take one of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
