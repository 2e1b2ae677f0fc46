"""A central sequencer, the paper's second baseline: a publisher asks for a place in the order before it publishes.

The sequencer sits at the median of the tree and knows every subscription. Its answer says, for each subscriber that will get
the publication, which one this subscriber gets just before; a number alone would leave a subscriber waiting for numbers that
were never meant for it. Nothing goes on after the sequencer has crashed, and an answer that is lost blocks who waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Place, Publication

#: For each subscriber of a publication, what it gets right before; None if nothing.
Before = Mapping[str, Publication | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """On its way to the sequencer."""

    publication: Publication


@dataclass(frozen=True, slots=True)
class Answer:
    """On its way back to the publisher."""

    publication: Publication
    before: Before


@dataclass(frozen=True, slots=True)
class Placed(Carrier):
    """A publication with its place in the order."""

    before: Before


class Sequencer(Ordering[Ask | Answer | Placed]):
    """The sequencer, where there is no way further up, and everybody else."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        #: At the sequencer: the last one for each subscriber.
        self._last: dict[str, Publication] = {}
        #: At the subscriber's broker: the last one delivered, and those that wait, by the one before them.
        self._delivered: dict[str, Publication] = {}
        self._waiting: dict[str, dict[Publication | None, Publication]] = {}
        self._hop_to = {one.name: hop for hop, known in place.advertisements.items() for one in known}

    def publish(self, publication: Publication) -> None:
        self._ask(Ask(publication))

    def receive(self, sender: str, message: Ask | Answer | Placed) -> None:
        match message:
            case Ask():
                self._ask(message)
            case Answer():
                self._answer(message)
            case Placed():
                self._forward(message, sender)
            case _:
                assert_never(message)

    def lose(self, neighbour: str) -> None:
        """Nothing replaces the sequencer, and nobody else knows what an answer said."""

    def _ask(self, ask: Ask) -> None:
        if self.place.upward is not None:
            self.send(self.place.upward, ask)
            return
        known = (one for hop in self.place.wanting(ask.publication.value) for one in self.place.subscriptions[hop])
        names = [one.name for one in known if ask.publication.value in one.wanted]
        before = {name: self._last.get(name) for name in names}
        self._last |= dict.fromkeys(names, ask.publication)
        self._answer(Answer(ask.publication, before))

    def _answer(self, answer: Answer) -> None:
        hop = self._hop_to[answer.publication.publisher]
        if self.place.is_broker(hop):
            self.send(hop, answer)
        else:
            self._forward(Placed(answer.publication, answer.before), None)

    def _forward(self, placed: Placed, origin: str | None) -> None:
        for hop in self.place.wanting(placed.publication.value, but=origin):
            if self.place.is_broker(hop):
                self.send(hop, placed)
                continue
            waiting = self._waiting.setdefault(hop, {})
            waiting[placed.before[hop]] = placed.publication
            while (last := self._delivered.get(hop)) in waiting:
                self._delivered[hop] = waiting.pop(last)
                self.deliver(hop, self._delivered[hop])
