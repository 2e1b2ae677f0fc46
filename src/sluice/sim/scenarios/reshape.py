"""Reshaping: links are replaced while clients subscribe and publish, and nobody notices but the brokers between.

On trees of every shape, under every routing algorithm, with and without advertisements, one link after the other or several at
a time are replaced by others, alive or broken, while links and brokers fail. Afterwards every table is that of a network built
fresh in the new shape. While nothing fails nothing is lost, nothing comes twice, and in runs in which nothing else happens no
broker off the way hears of it; if an inner broker dies, nobody hears anything in vain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

from sluice.protocol.complete import CacheConfig
from sluice.protocol.events import Received
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import Notify
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reshape.channel import link_of
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.messages import Stage
from sluice.protocol.route.directions import Plane
from sluice.sim.judge import judge_demand, judge_tables
from sluice.sim.locality import Locality
from sluice.sim.plan import HealLink, LoseLink, Performer, Plan, Planned, Replace, StopBroker, Watch
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Outcome, Scenario
from sluice.sim.spec import (
    CACHED,
    INTERESTS,
    LIVENESS,
    LOGGED,
    PAIRWISE,
    PUBLISHED,
    RELIABLE,
    SAFETY,
    STORED_FIRST,
    WANTED,
    WITHHELD,
    Check,
    Violation,
)
from sluice.sim.trace import trace as said
from sluice.sim.world.nodes import BrokerNode
from sluice.sim.world.world import World, recovery_seconds

#: Mostly small trees, in which a job is over soon; a chain has three brokers at least.
SIZES = (*(3, 4, 5, 6, 7) * 5, 8, 10, 12, 16, 24, 40, 60)
#: What these reduce again may come out differently, so that somebody off the way may have to be told.
MERGERS = {"merging", "imperfect"}
#: No job takes longer unless something has failed.
PATIENCE_SECONDS = 1_000.0
#: Within this time a link is replaced by another, if brokers do that by themselves.
HOLD_SECONDS = 400.0


class Reshape(Scenario):
    """Links that are replaced by others."""

    name = "reshape"
    says = "links are replaced under traffic, and nothing is lost or comes twice"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)
    checks = (*SAFETY, *LIVENESS, *INTERESTS, PAIRWISE, WITHHELD)
    calm = 0.6

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Churn, and orders to replace links."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(2, 10), actions=(10, 100))
        options = draft.options
        options["cold"] = False
        # A job takes a few seconds.
        options["pace"] = random.choice((0.05, 1.0, 4.0, 10.0))
        options["watches"] = random.random() < 0.3
        # What clients ask for beside the ordinary: order, streams without gaps; or tables that are believed for a while only.
        options["asks"] = random.choice(("nothing", "nothing", "nothing", "order", "order", "streams", "leases"))
        if options["asks"] == "streams":
            options["advertisements"] = None
        # Whether nothing happens while links are replaced, so that who is told something is told because of that.
        options["still"] = not options["faults"] and random.random() < 0.3
        # Whether brokers replace links that break by themselves, while nobody orders anything.
        options["repairs"] = not options["faults"] and random.random() < 0.4
        options["breaks"] = random.choice((0.0, 0.0, 0.5, 1.0)) if not options["still"] else 0.0
        options["replaced"] = (
            random.choice((6, 24, 48) if options["still"] else (1, 4, 12, 24)) + options["brokers"] // 2
        )
        # Whether brokers keep what has passed for those who come later, and whether some clients do for those who ask.
        options["cache"] = random.random() < 0.2
        options["past"] = options["asks"] == "nothing" and random.random() < 0.5
        brokers, links, clients = draft.people()
        algorithm = draft.random("algorithm")
        options["algorithm"] = algorithm.choice(("floors", "rooted"))
        options["root"] = algorithm.choice((None, *brokers)) if options["algorithm"] == "rooted" else None
        if options["past"]:
            clients = tuple(replace(one, keeps_past=algorithm.random() < 0.5) for one in clients)
        churn = draft.churn(
            clients,
            watches=options["watches"],
            past=0.5 if options["past"] else 0.0,
            ordered=0.6 if options["asks"] == "order" else 0.0,
            marked=0.2 if options["asks"] == "order" else 0.0,
            reliable=0.7 if options["asks"] == "streams" else 0.0,
        )
        planned = draft.timed(churn)
        if options["past"]:
            # Who keeps the past must learn of everybody who asks for it.
            keepers = [one.name for one in clients if one.keeps_past]
            planned += [(0.0, Watch(name, -1 - i, "true")) for i, name in enumerate(keepers)]
        end = max(at for at, _ in planned)
        planned += draft.crashes(end, brokers, links, clients, churn)
        if not options["still"]:
            planned += (
                self._failures(draft, end, brokers, links) if options["repairs"] else self._replacements(draft, end)
            )
        lease = LeaseConfig(renew_seconds=150.0, lease_seconds=400.0, max_delay_seconds=1.0, diameter=len(brokers) + 1)
        config = replace(
            draft.config(
                cache=CacheConfig(notifications=10_000, seconds=1e6) if options["cache"] else None,
                lease=lease if options["asks"] == "leases" else None,
                durable=options["asks"] == "streams",
            ),
            order_algorithm=options["algorithm"],
            order_root=options["root"],
            reliable=ReliableConfig(
                silence_seconds=0.5,
                gap_seconds=4.0,
                patience_seconds=20.0,
                report_seconds=10.0,
                absence_seconds=1e6,
                progress_seconds=200.0,
            ),
            reshape=ReshapeConfig(
                patience_seconds=PATIENCE_SECONDS, repairs=options["repairs"], hold_seconds=HOLD_SECONDS
            ),
        )
        return draft.finish(config, brokers, links, clients, planned, draft.probes(churn, clients))

    def checks_of(self, plan: Plan) -> tuple[Check, ...]:
        """Streams are stored first and come again after a failure; what else holds of them is checked elsewhere.

        On the way to a root publications may overtake each other where a broker flips: what comes too late is withheld, and
        told. What was published before anybody asked for order has no place in it: no cache brings it to those who do.
        """
        if plan.config.durable:
            return (PUBLISHED, WANTED, LOGGED, STORED_FIRST, *RELIABLE)
        left_out = []
        if plan.config.order_algorithm == "rooted":
            left_out.append(WITHHELD)
        if plan.options["asks"] == "order":
            left_out.append(CACHED)
        return tuple(check for check in self.checks if check not in left_out)

    def _replacements(self, draft: Draft, end: float) -> list[Planned]:
        random = draft.random("replacements")
        planned: list[Planned] = []
        for _ in range(draft.options["replaced"]):
            breaks = random.uniform(0.0, 4.0) if random.random() < draft.options["breaks"] else None
            planned.append((random.uniform(0, end), Replace(random.randrange(1 << 32), breaks)))
        return planned

    def _failures(
        self, draft: Draft, end: float, brokers: tuple[str, ...], links: tuple[tuple[str, str], ...]
    ) -> list[Planned]:
        """Links that break and brokers that die for good, one after the other."""
        random = draft.random("failures")
        planned: list[Planned] = []
        at = random.uniform(0, end)
        for _ in range(random.choice((1, 1, 2)) if len(brokers) > 5 else 1):
            if random.random() < 0.3:
                planned.append((at, StopBroker(random.choice(brokers))))
            else:
                link = random.choice(links)
                # It may be needed again when the next one breaks.
                planned += [(at, LoseLink(*link)), (at + 4 * HOLD_SECONDS, HealLink(*link))]
            at += 8 * HOLD_SECONDS
        return planned

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Churn and orders, then rest, then what must arrive without exception."""
        performer = Performer(world)
        world.shape.is_changing = True
        # On a chain a message may pass through all brokers where there were few before.
        delay_seconds = None if plan.config.durable else world.max_delay * len(world.brokers)
        world.trace.events[0] = replace(world.stage()[0], delay_seconds=delay_seconds)
        world.after_step = partial(self._look, world, outcome)
        world.settle()
        performer.schedule(plan.actions)
        world.settle()
        if plan.options["repairs"] and not plan.options["still"]:
            self._rest(world)
            outcome.violations += self._judge_repair(world)
        world.heal()
        self._rest(world)
        if plan.options["still"]:
            self._replace_one_by_one(world, plan, outcome)
        if plan.options["still"] and plan.options["repairs"]:
            self._let_one_die(world, plan, outcome)
            self._take_one_away(world, plan, outcome)
        mended = world.shape.mend()
        self._rest(world, seconds=self._tail_seconds(world))
        if mended and BROKER_CRASH not in plan.options["faults"]:
            says = f"{mended} links are missing, and no broker has forgotten anything"
            outcome.violations.append(Violation("tree", world.now, says))
        outcome.violations += self._judge_shape(world, outcome)
        world.shape.tell()
        world.trace.append(said.Quiet(world.now))
        if not outcome.violations:
            outcome.violations += judge_tables(world) + judge_demand(world)
        for probe in plan.probes:
            performer.perform(probe)
            world.run(world.now + plan.max_delay_seconds / 8)
        self._rest(world, seconds=self._tail_seconds(world))

    def _rest(self, world: World, *, seconds: float = 0.0) -> None:
        """Nothing moves any more, no broker waits for a job or holds a link, and then some time passes."""
        world.settle()
        end = world.now + PATIENCE_SECONDS + 16 * HOLD_SECONDS
        while (due := min(node.core.reshape.deadline for node in world.brokers.values() if node.core)) < end:
            world.run(due)
            world.settle()
        world.run(world.now + seconds)
        world.settle()

    def _tail_seconds(self, world: World) -> float:
        """How long it takes until all is told that only time brings: what is missing is asked for, leases run out."""
        lease = world.config.lease
        return (
            100.0 + 4 * len(world.brokers)
            if world.config.durable
            else 0.0
            if lease is None
            else recovery_seconds(lease)
        )

    def _look(self, world: World, outcome: Outcome, node: BrokerNode, event: object) -> None:
        """Nothing comes the new way to a broker that does not send anything there yet."""
        core = node.core
        if core is None or not isinstance(event, Received) or not isinstance(event.message, Notify):
            return
        job = core.reshape.job
        if job is not None and not job.is_flipped and core.directions.plane(event.peer) == Plane.NEW:
            says = f"{node.name} has not flipped, and gets {event.message} from {event.peer}"
            outcome.violations.append(Violation("flips-first", world.now, says))

    def _replace_one_by_one(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Replaces links at rest, and looks who hears of it."""
        for number in range(plan.options["replaced"]):
            order = world.shape.draw(plan.seed * 100 + number)
            if order is None:
                continue
            locality = Locality(world)
            world.shape.submit(order)
            world.settle()
            done = world.shape.orders[order.job]
            if done.stage != Stage.DONE:
                says = f"{order} came to {done.stage}, though nothing has failed: {done.reason}"
                outcome.violations.append(Violation("replaces", world.now, says))
            merges = MERGERS & {plan.config.routing, plan.config.advertisements}
            beside = list(locality.vain(done.path)) if merges else locality.beside(done.path)
            if beside:
                says = f"{order} concerns {done.path} alone, and {beside} was told of tables"
                outcome.violations.append(Violation("local", world.now, says))
        world.on_send = None

    def _let_one_die(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Has a broker die for good, at rest: its neighbours find together, and others hear only of what is gone."""
        neighbours = Counter(name for link in world.shape.tree for name in link)
        # When the root of an order dies all have to hear of the next one.
        inner = [name for name, links in neighbours.items() if links > 1 and name != world.root]
        if not inner:
            return
        name = Random(f"{plan.seed}/dies").choice(inner)
        way = [name, *(a if b == name else b for a, b in world.shape.tree if name in (a, b))]
        locality = Locality(world)
        world.stop_broker(name)
        self._rest(world)
        outcome.violations += self._judge_repair(world)
        vain = list(locality.vain(way))
        if vain:
            says = f"{name} is dead, its neighbours are {way[1:]}, and {vain} was told of tables in vain"
            outcome.violations.append(Violation("local", world.now, says))
        world.on_send = None
        world.start_broker(name)
        self._rest(world)

    def _take_one_away(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """Takes a link away by hand, at rest: nobody replaces it."""
        link = Random(f"{plan.seed}/goes").choice(world.shape.tree)
        world.shape.take_away(*link)
        self._rest(world)
        if link[1] in world.shape.side(link[0], ("", "")):
            says = f"the link {link} was taken away by hand, and still there is a way: {world.shape.tree}"
            outcome.violations.append(Violation("taken", world.now, says))
        world.shape.mend()
        self._rest(world)

    def _judge_repair(self, world: World) -> list[Violation]:
        """All that are up have found together, without those that are not."""
        alive = [name for name, node in world.brokers.items() if node.core is not None]
        neighbours: dict[str, list[str]] = {name: [] for name in alive}
        for a, b in world.shape.tree:
            if a in neighbours and b in neighbours and world.links[a, b].is_open:
                neighbours[a].append(b)
                neighbours[b].append(a)
        seen = {alive[0]: None}
        for name in (queue := alive[:1]):
            for other in neighbours[name]:
                if other not in seen:
                    seen[other] = None
                    queue.append(other)
        if len(seen) == len(alive):
            return []
        return [Violation("repairs", world.now, f"{sorted(seen)} are cut off from the rest of {alive}")]

    def _judge_shape(self, world: World, outcome: Outcome) -> list[Violation]:
        found = []
        for name, node in world.brokers.items():
            if node.core is not None and node.core.reshape.job is not None:
                says = f"{name} still takes part in {node.core.reshape.job.id}"
                found.append(Violation("ends", world.now, says))
            if node.core is not None and len({*map(link_of, node.core.roles)}) < len(node.core.roles):
                says = f"{name} has several channels for a link: {list(node.core.roles)}"
                found.append(Violation("ends", world.now, says))
        for order in world.shape.unfinished():
            found.append(Violation("ends", world.now, f"{order.plan} never ends: {order.stage}"))
        if not outcome.faults and not outcome.plan.options["breaks"] and world.shape.ended[Stage.FAILED]:
            found.append(Violation("replaces", world.now, "a job failed, though nothing else has"))
        for pair, link in world.links.items():
            if link.is_open and pair[1] in world.brokers and len(link.members) < 2:
                found.append(Violation("tree", world.now, f"the link {pair} is open, and no part of the tree"))
        return found
