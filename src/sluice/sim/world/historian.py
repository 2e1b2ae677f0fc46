"""A program on a simulated client that keeps what every stream holds and replays it to subscriptions that wish for the past.

What it has kept survives a crash, as an archive does. Before it replays it reads on to where each stream it can reach ends, so
that what it replays is right as of then; it goes on from where the subscriber says it is, whoever was killed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sluice.protocol.batch import Batch, Peer, Place
from sluice.protocol.messages import Entry, EntryId
from sluice.protocol.questions import Answer, Describe, Described, Failed, Fetch, Fetched, ReplayEvent, Replaying
from sluice.sim.world.program import Program

if TYPE_CHECKING:
    from sluice.sim.world.nodes import ClientNode
    from sluice.sim.world.world import World

#: How long to wait after a failure, in units of the longest delay of a link.
PAUSE = 3.0


@dataclass(slots=True)
class Archive:
    """What is kept of every stream, one notification to a batch, and how far each is read."""

    kept: dict[Place, Batch] = field(default_factory=dict)
    positions: dict[Peer, int] = field(default_factory=dict)
    #: Offsets that were gone before they could be kept.
    missing: list[tuple[Peer, int, int]] = field(default_factory=list)

    def take(self, stream: Peer, page: Fetched) -> None:
        """Keeps what a page holds."""
        self.missing += [(stream, first, last) for first, last in page.missing]
        for batch in page.batches:
            assert batch.logged is not None
            self.kept.update((batch.logged.place(row), batch.take([row])) for row in range(len(batch)))
        self.positions[stream] = page.through

    def past(self, entry: Entry, after: Place | None) -> list[Batch]:
        """What a subscription wishes for, in order; all that follows if it has some of it already."""
        found = [
            batch
            for place, batch in sorted(self.kept.items())
            if (after is None or place > after) and entry.where.matches(batch.records[0])
        ]
        if after is None and entry.replay is not None and entry.replay.last is not None:
            found = found[max(0, len(found) - entry.replay.last) :]
        return found


class Historian(Program):
    """One life of a history."""

    def __init__(self, world: World, node: ClientNode, archive: Archive) -> None:
        super().__init__(world, node)
        self._archive = archive
        #: Who wishes for the past now.
        self._wishes: dict[EntryId, Entry] = {}

    def interest(self, added: Sequence[Entry], removed: Sequence[Entry]) -> None:
        """Replays to those who came with a wish."""
        for entry in removed:
            self._wishes.pop(str(entry.id), None)
        for entry in added:
            if entry.replay is not None:
                self._wishes[str(entry.id)] = entry
                self._probe(entry)

    # --- one subscription ---------------------------------------------------------------------------------------------

    def _probe(self, entry: Entry) -> None:
        """Asks how far the subscriber is."""
        if self._wishes.get(str(entry.id)) is entry:
            self._ask(str(entry.id), ReplayEvent(), partial(self._stands, entry))

    def _stands(self, entry: Entry, answer: Answer) -> None:
        if isinstance(answer, Replaying):
            if not answer.is_over:
                self._ask(self._node.broker, Describe(), partial(self._described, entry, answer.after))
        else:
            self._soon(PAUSE, partial(self._probe, entry), is_moving=False)

    def _described(self, entry: Entry, after: Place | None, answer: Answer) -> None:
        if isinstance(answer, Described):
            self._read_on(entry, after, [*answer.report["brokers"]], {})
        else:
            self._soon(PAUSE, partial(self._probe, entry), is_moving=False)

    def _read_on(self, entry: Entry, after: Place | None, streams: list[Peer], heads: dict[Peer, int]) -> None:
        """Reads each stream to where it ends now; one that cannot be read is known as far as it is kept."""
        if not streams:
            self._replay(entry, after, self._archive.past(entry, after), dict(self._archive.positions))
            return
        stream = streams[0]
        position = self._archive.positions.get(stream, 0)
        question = Fetch(position, heads.get(stream), "true", self._random.choice((1, 100, 1_000_000)))
        self._ask(stream, question, partial(self._fetched, entry, after, streams, heads))

    def _fetched(
        self, entry: Entry, after: Place | None, streams: list[Peer], heads: dict[Peer, int], answer: Answer
    ) -> None:
        stream = streams[0]
        if isinstance(answer, Failed):
            self._read_on(entry, after, streams[1:], heads)
            return
        assert isinstance(answer, Fetched)
        # Another subscriber's replay may have read on meanwhile.
        if answer.through >= self._archive.positions.get(stream, 0):
            self._archive.take(stream, answer)
        head = heads.setdefault(stream, answer.head)
        self._read_on(entry, after, streams[1:] if answer.through >= head else streams, heads)

    def _replay(self, entry: Entry, after: Place | None, past: list[Batch], through: dict[Peer, int]) -> None:
        """Sends the next part, and goes on from where the subscriber says it is."""
        if self._wishes.get(str(entry.id)) is not entry:
            return
        size = self._random.choice((1, 2, 10))
        part, rest = past[:size], past[size:]
        missing = () if rest else tuple(self._archive.missing)
        event = ReplayEvent(tuple(part), after, None if rest else through, missing)
        self._ask(str(entry.id), event, partial(self._answered, entry, part, rest, through))

    def _answered(
        self, entry: Entry, part: list[Batch], rest: list[Batch], through: dict[Peer, int], answer: Answer
    ) -> None:
        if isinstance(answer, Replaying) and answer.is_over:
            return
        last = part[-1].logged if part else None
        if isinstance(answer, Replaying) and last is not None and answer.after == last.place(0):
            self._replay(entry, answer.after, rest, through)
        else:
            self._soon(PAUSE, partial(self._probe, entry), is_moving=False)
