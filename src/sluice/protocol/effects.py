"""What is to be done after a step, in order; a promise about what follows on a link rides on the last publication before it."""

from __future__ import annotations

from dataclasses import replace

from sluice.protocol.batch import Peer
from sluice.protocol.events import Effect, Send
from sluice.protocol.messages import Floor, Notify


class Effects:
    """The effects of one step.

    >>> effects = Effects()
    >>> effects.promise("b", Floor(5))
    >>> effects.all
    [Send(peer='b', message=Floor(time=5))]
    """

    __slots__ = ("_riding", "all")

    def __init__(self) -> None:
        self.all: list[Effect] = []
        #: The last stamped publication for each broker, and its place, if it goes with a promise.
        self._riding: dict[Peer, tuple[int, Notify]] = {}

    def note(self, peer: Peer, message: Notify) -> None:
        """A stamped publication is about to be sent, behind all that was said before."""
        if message.floor is not None:
            self._riding[peer] = len(self.all), message
        else:
            self._riding.pop(peer, None)

    def promise(self, peer: Peer, message: Floor) -> None:
        """A promise is to be made about what follows."""
        if peer in self._riding:
            place, before = self._riding[peer]
            self.all[place] = Send(peer, replace(before, floor=message.time))
        else:
            self.all.append(Send(peer, message))
