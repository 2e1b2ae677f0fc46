"""A program on a simulated client that reads every stream by offsets and has its broker note how far it is.

It reads page after page, goes on after what it has read when an answer fails to come, and after a crash of its client from
where its broker says it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sluice.protocol.batch import Peer
from sluice.protocol.questions import Answer, Commit, Done, Failed, Fetch, Fetched, Resume, Resumed
from sluice.sim.trace import streamed as said
from sluice.sim.world.program import Program

if TYPE_CHECKING:
    from sluice.sim.world.nodes import ClientNode
    from sluice.sim.world.world import World

#: How long a broker may wait for something new, and a reader after a failure, in units of the longest delay of a link.
WAIT, PAUSE = 20.0, 3.0


class Reader(Program):
    """One life of a durable reader."""

    def __init__(self, world: World, node: ClientNode, where: str, holds: bool) -> None:
        super().__init__(world, node)
        self._where = where
        self._holds = holds
        #: Whether it knows where to go on.
        self.is_open = False
        #: How far it has read each stream, and how far that is noted.
        self._done: dict[Peer, int] = {}
        self._noted: dict[Peer, int] = {}

    def linked(self) -> None:
        """There is a link: asks whatever it does not know."""
        super().linked()
        if not self.is_open:
            self._resume()
            return
        for stream in self._world.brokers:
            self._fetch(stream)
        self._note()

    # --- its positions ------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        self._ask(self._node.broker, Resume(self._node.name, self._where, {}, self._holds), self._resumed)

    def _resumed(self, answer: Answer) -> None:
        if not isinstance(answer, Resumed):
            self._soon(PAUSE, self._resume, is_moving=False)
            return
        self.is_open = True
        self._done, self._noted = dict(answer.positions), dict(answer.positions)
        world = self._world
        world.trace.append(said.Opened(world.now, self._node.name, answer.where, dict(answer.positions)))
        if self._holds:
            world.trace.append(said.Held(world.now, self._node.name, self._node.broker))
        for stream in world.brokers:
            self._fetch(stream)

    def _note(self) -> None:
        """Has noted how far it is, if that is not known."""
        changed = {stream: done for stream, done in self._done.items() if self._noted.get(stream) != done}
        if changed:
            self._ask(self._node.broker, Commit(self._node.name, changed), partial(self._was_noted, changed))

    def _was_noted(self, positions: dict[Peer, int], answer: Answer) -> None:
        if isinstance(answer, Done):
            for stream, offset in positions.items():
                self._noted[stream] = offset
                self._world.trace.append(said.Noted(self._world.now, self._node.name, stream, offset))

    # --- streams ------------------------------------------------------------------------------------------------------

    def _fetch(self, stream: Peer) -> None:
        max_bytes = self._random.choice((1, 100, 1_000_000))
        wait_seconds = self._world.max_delay * WAIT
        question = Fetch(self._done.get(stream, 0), None, self._where, max_bytes, wait_seconds)
        self._ask(stream, question, partial(self._fetched, stream))

    def _fetched(self, stream: Peer, answer: Answer) -> None:
        if isinstance(answer, Failed):
            self._soon(PAUSE, partial(self._fetch, stream), is_moving=False)
            return
        assert isinstance(answer, Fetched)
        world, name = self._world, self._node.name
        for first, last in answer.missing:
            world.trace.append(said.Missed(world.now, name, stream, first, last))
        for batch in answer.batches:
            assert batch.logged is not None
            for offset, (publisher, number) in zip(
                batch.logged.offsets, (notification.id for notification in batch), strict=True
            ):
                world.trace.append(said.Read(world.now, name, batch.logged.stream, offset, publisher, number))
        self._done[stream] = answer.through
        self._soon(1.0, self._note, is_moving=bool(answer.batches))
        self._soon(0.2, partial(self._fetch, stream), is_moving=bool(answer.batches))
