"""The shape of a simulated network: which links belong to the tree, as its brokers say, and orders to change that.

Brokers dial each other, hang up, and say which links are part of the tree; what they have said survives their crashes, as what
is written to a disk does. An order that is refused for the moment is given again a few times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, assert_never

from sluice.errors import SluiceError
from sluice.protocol.messages import Role
from sluice.protocol.reshape.messages import (
    AGAIN,
    Allow,
    Dial,
    HangUp,
    JobId,
    LinkAdded,
    LinkRemoved,
    Mark,
    Plan,
    Reshaped,
    ReshapeEffect,
    Stage,
    Substitute,
    Unreachable,
)
from sluice.sim.trace import trace as said
from sluice.sim.world.links import Direction, Link
from sluice.sim.world.nodes import BrokerNode

if TYPE_CHECKING:
    from sluice.sim.world.world import World

#: How often an order is given before whoever gives it loses patience.
ATTEMPTS = 6


class Circle(SluiceError):
    """Both ends of a link hold it to be part of the tree, and so there is none."""


@dataclass(slots=True)
class Order:
    """Somebody wants a link to be replaced."""

    plan: Plan
    #: In which of its lives the broker has got it.
    life: int
    attempt: int = 1
    stage: Stage | None = None
    #: The brokers that were touched.
    path: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage in (Stage.DONE, Stage.REFUSED, Stage.FAILED)


class Shape:
    """The links of a world that come and go."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"{world.seed}/shape")
        self.orders: dict[JobId, Order] = {}
        #: Whether links are replaced in this run, so that the trace has to tell of the shape now and then.
        self.is_changing = False
        #: How the jobs ended, one by one.
        self.ended: Counter[Stage] = Counter()

    def link(self, a: str, b: str) -> Link | None:
        """The link between two brokers, if there ever was one."""
        return self._world.links.get((a, b)) or self._world.links.get((b, a))

    @property
    def tree(self) -> list[tuple[str, str]]:
        """The links that both ends hold to be part of the tree."""
        return [
            pair for pair, link in self._world.links.items() if link.b.role == Role.BROKER and len(link.members) == 2
        ]

    def side(self, of: str, without: tuple[str, str]) -> list[str]:
        """The brokers that are reached from one, itself first, if one link is left out."""
        neighbours: dict[str, list[str]] = {}
        for a, b in self.tree:
            if (a, b) != without:
                neighbours.setdefault(a, []).append(b)
                neighbours.setdefault(b, []).append(a)
        seen = {of: None}
        for name in (queue := [of]):
            for other in neighbours.get(name, ()):
                if other not in seen:
                    seen[other] = None
                    queue.append(other)
        return list(seen)

    def joined(self, way: Direction) -> None:
        """A link of the tree came up: who does not know better takes it for one from now on."""
        receiver = way.receiver
        if isinstance(receiver, BrokerNode):
            mark = receiver.marks.get(way.sender.name)
            if mark is None or mark.is_member:
                way.link.members[receiver.name] = None

    def tell(self) -> None:
        """Writes the shape down, where the checks are to ask for nothing that passes from what was before to what comes."""
        if self.is_changing:
            world = self._world
            world.trace.append(said.Topology(world.now, tuple(world.brokers), tuple(self.tree)))

    # --- what brokers want --------------------------------------------------------------------------------------------

    def do(self, node: BrokerNode, effect: ReshapeEffect) -> None:
        """Does what a broker wants."""
        match effect:
            case Dial(peer, _, job):
                self._dial(node, peer, job)
            case HangUp(peer, job):
                known = self.link(node.name, peer)
                if known is not None:
                    if job is not None:
                        known.jobs.pop(job, None)
                    if job is None or not (known.jobs or known.members):
                        known.jobs.clear()
                        self._world.close(known)
            case LinkAdded(peer, generation):
                link = self._link(node, peer)
                link.members[node.name] = None
                node.marks[peer] = Mark(generation, is_member=True)
                if len(link.members) == 2:
                    link.jobs.clear()  # from now on it is there for the tree
                    if peer in self.side(node.name, (link.a.name, link.b.name)):
                        raise Circle(f"the link {node.name} - {peer} closes a circle: {self.tree}")
            case LinkRemoved(peer, generation):
                self._link(node, peer).members.pop(node.name, None)
                node.marks[peer] = Mark(generation, is_member=False)
            case Reshaped():
                self._note(effect)
            case _:
                assert_never(effect)

    def _link(self, node: BrokerNode, peer: str) -> Link:
        link = self.link(node.name, peer)
        if link is None:
            raise SluiceError(f"{node.name} speaks of a link to {peer}, and there is none")
        return link

    def _dial(self, node: BrokerNode, peer: str, job: JobId) -> None:
        world = self._world
        if peer not in world.brokers:
            world.call(world.now + world.max_delay, partial(world.step, node, Unreachable(peer, job)))
            return
        link = self.link(node.name, peer) or world.join(node, world.brokers[peer])
        link.jobs[job] = node.name
        if link.is_open and link.back_to(node).told:
            world.call(world.now, partial(world.step, node, link.up_for(node, job)))
        else:
            world.refresh(link)
            world.call(world.now + 4 * world.max_delay, partial(self._look, node, link, peer, job))

    def _look(self, node: BrokerNode, link: Link, peer: str, job: JobId) -> None:
        """Whoever dials gives up after a while."""
        if job in link.jobs and not link.is_open:
            del link.jobs[job]
            self._world.step(node, Unreachable(peer, job))

    def take_away(self, a: str, b: str) -> None:
        """Takes a link away by hand: there are two trees then."""
        link = self._world.links[a, b]
        link.is_taken = True
        link.members.clear()
        link.jobs.clear()
        self._world.close(link)

    def mend(self) -> int:
        """Joins the parts of the network, as people do where brokers forgot what they were about; how many links that took."""
        world, joined = self._world, 0
        first, *others = world.brokers
        for name in others:
            if name not in self.side(first, ("", "")):
                joined += 1
                link = self.link(first, name)
                if link is None:
                    world.add_link(first, name)
                else:
                    link.is_taken = False
                    for end, other in ((link.a, link.b), (link.b, link.a)):
                        link.members[end.name] = None
                        world.step(end, Allow(other.name))
                    world.refresh(link)
        return joined

    # --- orders -------------------------------------------------------------------------------------------------------

    def draw(self, seed: int) -> Plan | None:
        """A link of the tree and one that may take its place; None: there is none."""
        random = Random(f"order/{seed}")
        links = self.tree
        random.shuffle(links)
        for link in links:
            a, b = link if random.random() < 0.5 else link[::-1]
            near, far = self.side(a, link), self.side(b, link)
            if b not in near and len(near) + len(far) > 2:
                while True:
                    c, d = (random.choice(near), random.choice(far)) if random.random() < 0.7 else (near[0], far[0])
                    if random.random() < 0.3:
                        c = a
                    if (c, d) != (a, b):
                        return Plan(f"order/{seed}/1", a, b, c, d)
        return None

    def submit(self, plan: Plan, attempt: int = 1) -> None:
        """Gives an order, at A."""
        node = self._world.brokers[plan.a]
        order = self.orders[plan.job] = Order(plan, node.incarnation, attempt)
        if node.core is None:
            order.stage, order.reason = Stage.REFUSED, f"{plan.a} is down"
        else:
            self._world.step(node, Substitute(plan))

    def unfinished(self) -> list[Order]:
        """Orders of which nothing has come, other than those that a crash has wiped out."""
        brokers = self._world.brokers
        return [
            each for each in self.orders.values() if not each.is_over and each.life == brokers[each.plan.a].incarnation
        ]

    def _note(self, effect: Reshaped) -> None:
        order = self.orders.get(effect.job)
        if order is None:  # a broker repairs a link by itself
            if effect.stage in (Stage.DONE, Stage.REFUSED, Stage.FAILED):
                self.ended[effect.stage] += 1
            return
        order.stage, order.reason = effect.stage, effect.reason
        order.path = effect.path or order.path
        if order.is_over:
            self.ended[effect.stage] += 1
        if effect.stage == Stage.REFUSED and effect.reason.endswith(AGAIN) and order.attempt < ATTEMPTS:
            world = self._world
            pause = world.max_delay * order.attempt * (2 + 20 * self._random.random())
            world.call(world.now + pause, partial(self._again, order))

    def _again(self, order: Order) -> None:
        """Gives an order once more, or another one if it makes no sense any more."""
        plan = order.plan
        link = next((pair for pair in self.tree if pair in ((plan.a, plan.b), (plan.b, plan.a))), None)
        if link is not None and plan.c in self.side(plan.a, link) and plan.d in self.side(plan.b, link):
            job = f"{plan.job.rpartition('/')[0]}/{order.attempt + 1}"
            self.submit(Plan(job, plan.a, plan.b, plan.c, plan.d), order.attempt + 1)
        elif (other := self.draw(self._random.randrange(1 << 32))) is not None:
            self.submit(other, order.attempt + 1)
