"""A program on a simulated client: it asks brokers and subscribers, and does things in its own time while its client lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from sluice.client.session.commands import Inquire
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, EntryId
from sluice.protocol.questions import Answer, Question

if TYPE_CHECKING:
    from sluice.sim.world.nodes import ClientNode
    from sluice.sim.world.world import World


class Program:
    """One life of it."""

    def __init__(self, world: World, node: ClientNode) -> None:
        self._world = world
        self._node = node
        self._life = node.incarnation
        self._random = Random(f"{world.seed}/{type(self).__name__.lower()}/{node.name}/{node.incarnation}")
        #: What to do with the answer to each question.
        self._asked: dict[EntryId, Callable[[Answer], None]] = {}
        #: Grows with every link: what was asked over an earlier one is not answered any more.
        self._links = 0

    def linked(self) -> None:
        """There is a link."""
        self._links += 1

    def unlinked(self) -> None:
        """The link is gone, and the answers with it."""
        self._links += 1
        self._asked.clear()

    def told(self, id: EntryId, answer: Answer) -> None:
        """An answer came."""
        take = self._asked.pop(id, None)
        if take is not None:
            take(answer)

    def interest(self, added: Sequence[Entry], removed: Sequence[Entry]) -> None:
        """Subscriptions that the client watches came or went."""

    def _ask(self, to: Peer | EntryId, question: Question, take: Callable[[Answer], None]) -> None:
        assert self._node.core is not None
        id = self._node.core.new_id()
        self._asked[id] = take
        self._world.step(self._node, Inquire(id, to, question))

    def _soon(self, share: float, action: Callable[[], None], *, is_moving: bool = True) -> None:
        """Does something after a while, if the client and its link are still the same then."""
        world, links = self._world, self._links

        def act() -> None:
            if self._node.incarnation == self._life and self._node.core is not None and links == self._links:
                action()

        at = world.now + share * world.max_delay * self._random.random()
        (world.call if is_moving else world.later)(at, act)
