"""What is around a durable broker in a simulated network: a disk that takes its time, and somebody who answers questions.

While the disk is busy with one group, what comes meanwhile collects and becomes the next. A crash takes what is not on the disk
by then; what is on it stays, whether anybody was told so or not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, assert_never

from sluice.protocol.batch import Batch, Logged
from sluice.protocol.events import Answered, Ask, Event, NotStored, Reserve, Reserved, Store, Stored
from sluice.protocol.messages import Kind, Reply, Request
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Recall,
    ReplayEvent,
    Resume,
)
from sluice.protocol.rewiring import Connect, Leave, Part, Replace
from sluice.protocol.stream import Stream, only
from sluice.sim.domain import parsed
from sluice.sim.trace import streamed as said
from sluice.sim.world.disk import Disk

if TYPE_CHECKING:
    from sluice.sim.world.nodes import BrokerNode
    from sluice.sim.world.world import World

#: How long a disk takes at most to make a group durable, and its thread to say so, as shares of the longest delay of a link.
SYNC, SAY = 8.0, 0.5


class Surroundings:
    """The disk of one broker, and those who wait for it."""

    def __init__(self, world: World, node: BrokerNode) -> None:
        self._world = world
        self._node = node
        self._random = Random(f"{world.seed}/disk/{node.name}")
        self._reading = Random(f"{world.seed}/reading/{node.name}")
        self.disk = Disk()
        #: Grows with every crash: what was begun before is void.
        self._life = 0
        self._waiting: list[Store | Reserve | Request] = []
        self._is_busy = False
        self._said_at = 0.0
        #: Questions that have seen all there is and wait for more, with how far they have seen.
        self._parked: dict[str, Request] = {}

    def crash(self) -> None:
        """All but the disk is gone."""
        self._life += 1
        self._waiting.clear()
        self._parked.clear()
        self._is_busy = False
        self._said_at = 0.0

    def do(self, effect: Store | Reserve | Ask) -> None:
        """Does what the broker wants, now or later."""
        match effect:
            case Store() | Reserve():
                self._write(effect)
            case Ask(request):
                self._ask(request)
            case _:
                assert_never(effect)

    # --- questions ----------------------------------------------------------------------------------------------------

    def _ask(self, request: Request) -> None:
        match request.question:
            case Fetch() as question:
                self._fetch(request, question)
            case Resume() | Commit():
                self._write(request)
            case Describe():
                assert self._node.core is not None
                brokers = [self._node.name, *self._node.core.ways[Kind.BROKERS]]
                self._answer(request, Described({"name": self._node.name, "brokers": brokers}))
            case ReplayEvent():
                self._answer(request, Failed("replays are for subscriptions"))
            case Forget() | Recall() | Connect() | Part() | Replace() | Leave():
                self._answer(request, Failed("no program asks for this here"))
            case _:
                assert_never(request.question)

    def _fetch(self, request: Request, question: Fetch) -> None:
        disk = self.disk
        found = Stream(self._node.name, disk.read).fetch(question, only(parsed(question.where)), disk.first, disk.head)
        if found.batches or found.missing or found.through < found.head or not question.wait_seconds:
            self._read(request, found)
        else:
            self._parked[request.id] = replace(request, question=replace(question, after=found.through))
            self._world.later(self._world.now + question.wait_seconds, partial(self._end_wait, self._life, request.id))

    def _end_wait(self, life: int, id: str) -> None:
        request = self._parked.pop(id, None) if life == self._life else None
        if request is not None:
            assert isinstance(request.question, Fetch)
            self._fetch(request, replace(request.question, wait_seconds=0.0))

    def _wake(self) -> None:
        """Something new is in the log."""
        parked, self._parked = self._parked, {}
        for request in parked.values():
            assert isinstance(request.question, Fetch)
            self._fetch(request, request.question)

    def _read(self, request: Request, answer: Fetched) -> None:
        """Answers when the log is read; what is stored meanwhile may be heard of before that."""
        world = self._world
        at = world.now + world.max_delay * SAY * self._reading.random()
        world.call(at, partial(self._told, self._life, [Answered(Reply(request.id, answer))]))

    def _answer(self, request: Request, answer: Answer) -> None:
        self._say([Answered(Reply(request.id, answer))])

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write(self, item: Store | Reserve | Request) -> None:
        self._waiting.append(item)
        if not self._is_busy:
            self._sync()

    def _sync(self) -> None:
        """Begins to make durable all that waits."""
        group, self._waiting = self._waiting, []
        self._is_busy = True
        world = self._world
        # Mostly quick, now and then so slow that links carry something to and fro meanwhile.
        took = world.max_delay * SYNC * self._random.random() ** 3
        world.call(world.now + took, partial(self._synced, self._life, group))

    def _synced(self, life: int, group: list[Store | Reserve | Request]) -> None:
        if life != self._life:
            return
        self._is_busy = False
        self._say([self._commit(item) for item in group])
        if self._waiting:
            self._sync()

    def _commit(self, item: Store | Reserve | Request) -> Event:
        """One thing is on the disk, or cannot be."""
        match item:
            case Store(batch, after, moment):
                return self._log(batch, after, moment)
            case Reserve(moment):
                return Reserved(moment if self.disk.reserve(moment) else 0)
            case Request(id, _, Resume() as question):
                return Answered(Reply(id, self.disk.resume(question)))
            case Request(id, _, Commit(name, positions)):
                noted = self.disk.note(name, positions)
                return Answered(Reply(id, Done() if noted else Failed("the disk is full")))
        raise AssertionError(f"{item} is nothing that a disk could hold")

    def _log(self, batch: Batch, after: int, moment: int) -> Event:
        world, name = self._world, self._node.name
        result = self.disk.append(batch, after, world.now, moment)
        if isinstance(result, str):
            return NotStored(batch, -1, result, moment)  # how far the disk is, is looked up when this is told
        offsets = range(result, result + len(batch))
        for offset, number in zip(offsets, batch.numbers, strict=True):
            world.trace.append(said.Logged(world.now, name, offset, batch.publisher, number))
        return Stored(batch.placed(Logged(name, offsets, round(world.now * 1e6), moment)))

    def _say(self, events: list[Event]) -> None:
        """Has the broker hear something, after what it was told before."""
        world = self._world
        self._said_at = max(self._said_at, world.now + world.max_delay * SAY * self._random.random())
        world.call(self._said_at, partial(self._told, self._life, events))

    def _told(self, life: int, events: list[Event]) -> None:
        if life != self._life:
            return
        heard = [
            replace(event, accepted=self.disk.last_number(event.batch.publisher))
            if isinstance(event, NotStored)
            else event
            for event in events
        ]
        self._world.step_together(self._node, heard)
        if any(isinstance(event, Stored) for event in heard):
            self._wake()
