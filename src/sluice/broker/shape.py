"""How the links of a running broker change: because operators say so, or jobs of the core (`sluice.protocol.reshape`).

Links of the tree are dialled again and again, and remembered (`sluice.broker.linkbook`). One that a job asks for is dialled
once, and becomes one of the tree when the core says so. What becomes of an order is kept for whoever asks later, since the
answer may have to come by another way than the question.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Container, Coroutine
from typing import Any, Protocol, assert_never

from sluice.broker.dialler import Dialler
from sluice.broker.linkbook import LinkBook
from sluice.broker.logs import log
from sluice.broker.peering import Peering
from sluice.errors import ConfigurationError, SluiceError
from sluice.limits import MAX_ORDERS
from sluice.net.address import Address
from sluice.protocol.batch import Peer
from sluice.protocol.events import Event, LinkUp
from sluice.protocol.messages import Reply, Request, Role
from sluice.protocol.questions import Answer, Done, Failed
from sluice.protocol.reshape.messages import (
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
    Substitute,
    Unreachable,
)
from sluice.protocol.rewiring import Connect, Leave, Ordered, Part, Replace

#: How long a broker that was dialled for a job, and refuses because it dials itself, may take to come.
CROSSING_SECONDS = 1.0
LOOK_SECONDS = 0.01


class ShapeHost(Protocol):
    """What a shape needs of its broker."""

    name: Peer
    peers: dict[Peer, Peering]

    def post(self, event: Event) -> None:
        """Something has happened."""

    def replied(self, reply: Reply) -> None:
        """A question is answered."""

    def leave(self) -> None:
        """From now on the broker leaves the network for good."""


class Shape:
    """The links of one broker."""

    def __init__(
        self, host: ShapeHost, unshapeable: str | None, links: LinkBook, dialler: Dialler, first_job: JobId
    ) -> None:
        self._host = host
        #: Why no link can be replaced by another; None: all can.
        self._unshapeable = unshapeable
        self._links = links
        self._dialler = dialler
        #: Jobs are called after the broker and its life, and counted.
        self._first_job = first_job
        self._jobs = 0
        #: What became of the orders that were given here, the latest last; None: nothing yet.
        self._orders: OrderedDict[JobId, Reshaped | None] = OrderedDict()
        #: The jobs that want a link to a broker which is not there yet.
        self._wanted: dict[Peer, dict[JobId, None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins to dial."""
        for address in self._links.dialled:
            self._dialler.keep(address)

    async def stop(self) -> None:
        """Dials nobody any more."""
        await self._dialler.stop()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def account(self) -> dict[str, Any]:
        """What was ordered, and what became of it."""
        return {
            job: {"stage": "ordered", "path": [], "reason": ""}
            if order is None
            else {"stage": order.stage.name.lower(), "path": [*order.path], "reason": order.reason}
            for job, order in self._orders.items()
        }

    def missing(self, known: Container[Peer]) -> list[dict[str, Any]]:
        """The links of the tree that are not there, and why, as far as it is known here.

        A neighbour that used to dial, and is known to be in the network, has found another way.
        """
        linked = {peering.name for peering in self._host.peers.values() if peering.is_of_tree}
        return [
            {
                "peer": peer,
                "address": None if address is None else str(address),
                "reason": "waits to be dialled by it" if address is None else self._dialler.problems.get(address, ""),
            }
            for peer, address in self._links.missing(linked)
            if address is not None or peer not in known
        ]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- links come and go --------------------------------------------------------------------------------------------

    def linked(self, peering: Peering) -> None:
        """There is a link to a broker: it is for all jobs that want one, whoever has dialled."""
        self._links.met(peering.name, peering.dialled, is_of_tree=peering.is_of_tree)
        address = None if peering.address is None else str(peering.address)
        if peering.job is not None:
            peering.jobs[peering.job] = None
        peering.jobs.update(self._wanted.pop(peering.name, {}))
        if peering.is_added:
            self._host.post(Allow(peering.name))
        self._host.post(LinkUp(peering.name, Role.BROKER, node=peering.node, job=peering.job, address=address))

    def wants(self, peer: Peer) -> bool:
        """Whether a broker is dialled just now, for a job."""
        return peer in self._wanted

    def parted(self, peering: Peering) -> None:
        """The other end has taken a link away for good."""
        log("link-removed", peer=peering.name, reason=peering.farewell.reason if peering.farewell else "")
        self._forget(peering.name)

    def _forget(self, peer: Peer, mark: Mark | None = None) -> None:
        """A link is not part of the tree any more; a job that has replaced it gives it a mark."""
        peering = self._host.peers.get(peer)
        address = self._links.address_of(peer) if peering is None else peering.dialled
        if peering is not None:
            peering.is_of_tree = False
        self._links.remove(peer, address, mark)
        if address is not None:
            self._dialler.drop(address)

    # --- what the core wants ------------------------------------------------------------------------------------------

    def do(self, effect: ReshapeEffect) -> None:
        """Does what a job wants."""
        match effect:
            case Dial(peer, address, job):
                self._dial(peer, address, job)
            case HangUp(peer, job):
                self._hang_up(peer, job)
            case LinkAdded(peer, generation):
                self._add(peer, Mark(generation, is_member=True))
            case LinkRemoved(peer, generation):
                log("link-removed", peer=peer)
                self._forget(peer, Mark(generation, is_member=False))
            case Reshaped(job, stage, path, reason):
                log("reshaped", job=job, stage=stage.name.lower(), path=",".join(path), reason=reason)
                if job in self._orders:
                    before = self._orders[job]
                    self._orders[job] = effect if path or before is None else effect._replace(path=before.path)
            case _:
                assert_never(effect)

    def _dial(self, peer: Peer, address: str | None, job: JobId) -> None:
        peering = self._host.peers.get(peer)
        if peering is not None:  # it has dialled just now, for a job of its own, and the core is about to hear of it
            peering.jobs[job] = None
        elif address is None:
            self._host.post(Unreachable(peer, job, f"nobody knows where {peer} listens"))
        else:
            self._wanted.setdefault(peer, {})[job] = None
            self._run(self._dial_once(peer, address, job))

    async def _dial_once(self, peer: Peer, text: str, job: JobId) -> None:
        problem = "it does not answer"
        try:
            peering = await self._dialler.open(Address.of(text), job)
            await peering.answered.wait()
            problem = peering.farewell.reason if peering.farewell else problem
            if peering.is_up and peering.name != peer:
                problem = f"{peering.name} listens there"
                peering.connection.close(f"{self._host.name} looks for {peer}")
            elif not peering.is_up:
                await self._await_crossing(peer)
        except (OSError, SluiceError) as error:
            problem = str(error)
        if job in self._wanted.get(peer, ()):
            del self._wanted[peer][job]
            if not self._wanted[peer]:
                del self._wanted[peer]
            self._host.post(Unreachable(peer, job, problem))

    async def _await_crossing(self, peer: Peer) -> None:
        """Whoever refuses may do so because it has dialled in the same moment."""
        deadline = asyncio.get_running_loop().time() + CROSSING_SECONDS
        while peer not in self._host.peers and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)

    def _hang_up(self, peer: Peer, job: JobId | None) -> None:
        peering = self._host.peers.get(peer)
        if peering is None:
            return
        if job is not None:
            peering.jobs.pop(job, None)
            if peering.jobs or peering.is_of_tree:
                return
        peering.connection.close(f"{self._host.name} needs this link no longer")

    def _add(self, peer: Peer, mark: Mark) -> None:
        """A link is part of the tree from now on. Whoever has dialled it goes on doing so."""
        log("link-added", peer=peer)
        peering = self._host.peers.get(peer)
        address = self._links.address_of(peer) if peering is None else peering.dialled
        self._links.add(peer, address, mark)
        if peering is not None:
            peering.is_of_tree = True
        if address is not None:
            self._dialler.keep(address, peering)

    # --- what operators want ------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Takes an order, and answers it."""
        answer: Callable[[Answer], None] = lambda answer: self._host.replied(Reply(request.id, answer))  # noqa: E731
        match request.question:
            case Connect(address):
                self._run(self._connect(address, answer))
            case Part(peer):
                answer(self._part(peer))
            case Replace() as order:
                answer(self._replace(order))
            case Leave():
                answer(Done())
                self._host.leave()

    async def _connect(self, text: str, answer: Callable[[Answer], None]) -> None:
        try:
            address = Address.of(text)
            if self._dialler.keeps(address):
                raise ConfigurationError(f"{self._host.name} dials {address} already")
            peering = await self._dialler.open(address, is_added=True)
            await peering.answered.wait()
            if not peering.is_up:
                reason = peering.farewell.reason if peering.farewell else "it does not answer"
                raise ConfigurationError(f"the broker at {address} cannot be linked: {reason}")
        except OSError as error:  # also what a timeout raises
            answer(Failed(f"no broker at {address}: {str(error) or 'it does not answer'}. Is it running there?"))
            return
        except SluiceError as error:
            answer(Failed(str(error)))
            return
        self._links.add(peering.name, address)
        self._dialler.keep(address, peering)
        log("link-added", peer=peering.name)
        answer(Done())

    def _part(self, peer: Peer) -> Answer:
        peering = self._host.peers.get(peer)
        if peering is None or peering.role != Role.BROKER:
            return self._give_up(peer)
        self._forget(peer)
        peering.is_parted = True
        # What is final is not dialled again by the other end either.
        peering.connection.close(f"{self._host.name} takes this link away", is_final=True)
        return Done()

    def _give_up(self, peer: Peer) -> Answer:
        """A link that is not there is not dialled any more."""
        missing = {name: address for name, address in self._links.missing(self._host.peers) if name is not None}
        if peer not in missing:
            return Failed(f"{self._host.name} has no link to {peer}")
        if missing[peer] is None:
            return Failed(f"there is no link {self._host.name} - {peer}, and {peer} is who dials it: remove it there")
        self._forget(peer)
        return Done()

    def _replace(self, order: Replace) -> Answer:
        if self._unshapeable is not None:
            return Failed(self._unshapeable)
        self._jobs += 1
        job = f"{self._first_job}.{self._jobs}"
        plan = Plan(job, self._host.name, order.neighbour, order.near, order.far, order.address)
        self._orders[job] = None
        if len(self._orders) > MAX_ORDERS:
            self._orders.popitem(last=False)
        self._host.post(Substitute(plan))
        return Ordered(job)
