"""Questions find a broker or a subscriber, hop by hop along the tree, and answers go back the way the question came.

A hop remembers who asked it. When the way breaks, the asker is told so, and asks again if it still wants to know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from sluice.limits import MAX_REQUESTS
from sluice.protocol.batch import Peer
from sluice.protocol.messages import EntryId, Reply, Request
from sluice.protocol.questions import Failed
from sluice.protocol.reshape.channel import link_of


class Requests:
    """The questions that have passed a broker and are not answered yet."""

    __slots__ = ("_open", "_self")

    def __init__(self, name: Peer) -> None:
        self._self = name
        #: For each question who asked and where it went.
        self._open: OrderedDict[EntryId, tuple[Peer, Peer]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, asker: Peer, request: Request, way: Peer | None) -> Iterator[tuple[Peer, Reply]]:
        """Takes note of a question; yields the failures that are known at once, with those who are to hear them."""
        if request.to != self._self and way is None:
            yield asker, Reply(request.id, Failed(f"{self._self} knows no way to {request.to!r}"))
            return
        self._open[request.id] = asker, way or self._self
        if len(self._open) > MAX_REQUESTS:
            id, (first, _) = self._open.popitem(last=False)
            yield (
                first,
                Reply(id, Failed(f"more than {MAX_REQUESTS:,} questions wait at {self._self}: ask again later")),
            )

    def answer(self, link: Peer, id: EntryId) -> Peer | None:
        """Who asked what comes over a link as an answer; None if nobody waits for it any more, or not for one from there."""
        asker, asked = self._open.get(id, (None, None))
        if asked is None or link_of(asked) != link_of(link):
            return None
        del self._open[id]
        return asker

    def move(self, peer: Peer, successor: Peer) -> None:
        """A channel is followed by another one of the same link: answers come and go there now."""
        for id, (asker, way) in self._open.items():
            if peer in (asker, way):
                self._open[id] = (successor if asker == peer else asker), (successor if way == peer else way)

    def forget(self, peer: Peer) -> Iterator[tuple[Peer, Reply]]:
        """A link is gone: its questions are void, and those who asked through it are told so."""
        for id in [id for id, ends in self._open.items() if peer in ends]:
            asker, _ = self._open.pop(id)
            if asker != peer:
                yield asker, Reply(id, Failed(f"the way from {self._self} through {peer} broke: ask again"))
