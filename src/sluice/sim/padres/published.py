"""The published algorithm: conflicts are detected from advertisements and resolved by requests and acknowledgements.

Algorithms 1 to 5 of section IV with the optimisations of IV.F, as far as possible line by line. Where the listing contradicts
the text or the proofs, it is read as the proofs demand; each such place says *corrected*. It does not keep pairwise order for
all that (see `counterexamples`), and is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, assert_never

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Place, Publication, Publisher, Subscriber

#: Whether a publication names the subscriptions in conflict, or only flags hops (section IV.F).
Detection = Literal["exact", "fast"]
#: Whether a queue is delivered when all of it is acknowledged, or as far as its head is (section IV.F).
Release = Literal["whole", "progressive"]
#: What decides between publications that were held: the ids of the paper, or Lamport's stamps, which do not help either.
Sorting = Literal["id", "stamp"]


@dataclass(frozen=True, slots=True)
class Flagged(Carrier):
    """A publication, whether it asks for an acknowledgement (R), and whether it must wait for one (W) and who."""

    stamp: int
    requests: bool = False
    waits: bool = False
    conflicting: tuple[Subscriber, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything that could conflict with a publication has been sent before this."""

    publication: Publication


@dataclass(slots=True)
class Outgoing:
    """What will be forwarded to a hop, once all flags are set."""

    requests: bool = False
    waits: bool = False
    conflicting: dict[Subscriber, None] = field(default_factory=dict)


@dataclass(slots=True)
class Queue:
    """What is held for a subscriber, in the order of arrival."""

    is_delayed: bool = False
    held: list[tuple[Publication, int]] = field(default_factory=list)


class Published(Ordering[Flagged | Ack]):
    """The algorithm of the paper at one broker."""

    def __init__(
        self,
        place: Place,
        detection: Detection = "exact",
        release: Release = "whole",
        sorting: Sorting = "id",
    ) -> None:
        super().__init__(place)
        self._detection = detection
        self._release_of = release
        self._sorting = sorting
        #: The paper's acks(p, h): before p goes to hop h, or is acknowledged there, these hops must acknowledge it.
        self._acks: dict[Publication, dict[str, dict[str, None]]] = {}
        self._queues: dict[str, Queue] = {}
        #: Conflicts depend on the value only, as subscriptions do not change here.
        self._found: dict[tuple[int, str, str], tuple[Subscriber, ...]] = {}
        self._clock = 0

    def publish(self, publication: Publication) -> None:
        self._clock += 1
        self._forward(Flagged(publication, self._clock), None)

    def receive(self, sender: str, message: Flagged | Ack) -> None:
        match message:
            case Flagged():
                self._clock = max(self._clock, message.stamp)
                self._forward(message, sender)
            case Ack():
                self._process_ack(message.publication, sender)
            case _:
                assert_never(message)

    def lose(self, neighbour: str) -> None:
        """Nothing: what waits for it is deferred indefinitely, as the proof of theorem 10 has it."""

    # Algorithm 3.

    def _forward(self, flagged: Flagged, origin: str | None) -> None:
        publication = flagged.publication
        outgoing = {hop: Outgoing() for hop in self.place.wanting(publication.value, but=origin)}
        if flagged.waits and origin is not None:
            for hop, out in outgoing.items():
                here = self._conflicting_at(hop, flagged)
                if here:
                    self._wait(publication, hop, out, here, origin)
        self._detect(publication, outgoing, origin)
        if flagged.requests and origin is not None:
            asked = self._unsafe(publication, outgoing)
            if not asked:
                self.send(origin, Ack(publication))
            else:
                # Corrected, line 9: acks(p) means acks(p, in), those that the acknowledgement itself waits for.
                self._append(publication, origin, asked)
                for hop in outgoing:
                    if not self.place.is_broker(hop):
                        self._append(publication, hop, asked)
        self._commit(flagged, outgoing)

    def _conflicting_at(self, hop: str, flagged: Flagged) -> Sequence[Subscriber]:
        """Whom a hop must make wait: fast detection takes everybody there who gets the publication."""
        if self._detection == "exact":
            return [one for one in flagged.conflicting if one in self.place.subscriptions[hop]]
        return self._matching(hop, flagged.publication.value)

    def _commit(self, flagged: Flagged, outgoing: dict[str, Outgoing]) -> None:
        for hop, out in outgoing.items():
            if self.place.is_broker(hop):
                named = tuple(out.conflicting) if self._detection == "exact" else ()
                self.send(hop, Flagged(flagged.publication, flagged.stamp, out.requests, out.waits, named))
                continue
            queue = self._queues.setdefault(hop, Queue())
            if queue.is_delayed:
                queue.held.append((flagged.publication, flagged.stamp))
            else:
                self.deliver(hop, flagged.publication)

    # Algorithms 1 and 2.

    def _detect(self, publication: Publication, outgoing: dict[str, Outgoing], origin: str | None) -> None:
        """Finds pairs of hops where one must wait for the other: behind `requested` somebody may publish into both.

        Corrected: with a single hop there is nothing to find, but the flags that are set already stay.
        """
        for requested in outgoing:
            for waiting in outgoing:
                conflicting = self._conflicts(publication.value, requested, waiting)
                if conflicting:
                    outgoing[requested].requests = True
                    # Corrected: the listing has the hops the other way round. The hop of t waits, and t is what is stored.
                    self._wait(publication, waiting, outgoing[waiting], conflicting, requested)

    def _conflicts(self, value: int, requested: str, waiting: str) -> tuple[Subscriber, ...]:
        """The subscriptions t at one hop that a publisher at the other hop can reach together with an s of its own hop."""
        if requested == waiting or not self.place.is_broker(requested):
            return ()
        key = (value, requested, waiting)
        if key not in self._found:
            self._found[key] = tuple(
                t
                for t in self._matching(waiting, value)
                if any(
                    a.advertised & s.wanted & t.wanted
                    for s in self._matching(requested, value)
                    for a in self._publishers(requested, s)
                )
            )
        return self._found[key]

    def _wait(
        self, publication: Publication, hop: str, out: Outgoing, conflicting: Sequence[Subscriber], requested: str
    ) -> None:
        out.waits = True
        out.conflicting |= dict.fromkeys(conflicting)
        self._append(publication, hop, {requested: None})
        # Corrected: algorithm 3, line 3 forgets to delay clients. Without that they never wait for what is upstream.
        if not self.place.is_broker(hop):
            self._queues.setdefault(hop, Queue()).is_delayed = True

    def _append(self, publication: Publication, hop: str, asked: dict[str, None]) -> None:
        acks = self._acks.setdefault(publication, {}).setdefault(hop, {})
        acks |= asked

    # Algorithm 4.

    def _unsafe(self, publication: Publication, outgoing: dict[str, Outgoing]) -> dict[str, None]:
        """The hops that must acknowledge before this broker can: somebody there could still send what conflicts.

        Corrected: only brokers. A client never acknowledges, so one that is held would block everything.
        """
        asked: dict[str, None] = {}
        acks = self._acks.get(publication, {})
        for hop, out in outgoing.items():
            if not self.place.is_broker(hop):
                continue
            if acks.get(hop) or any(self._publishers(hop, s) for s in self._matching(hop, publication.value)):
                asked[hop] = None
                out.requests = True
        return asked

    # Algorithm 5.

    def _process_ack(self, publication: Publication, sender: str) -> None:
        """Corrected: hop by hop, first remove what has been acknowledged, then look whether anything is left."""
        acks = self._acks.get(publication, {})
        for hop in [hop for hop, asked in acks.items() if sender in asked]:
            del acks[hop][sender]
            if acks[hop]:
                continue
            del acks[hop]
            if self.place.is_broker(hop):
                self.send(hop, Ack(publication))
            else:
                self._release(hop)
        if not acks:
            self._acks.pop(publication, None)

    def _release(self, subscriber: str) -> None:
        queue = self._queues[subscriber]
        ready = [*takewhile(lambda one: not self._acks.get(one[0], {}).get(subscriber), queue.held)]
        if self._release_of == "whole" and len(ready) < len(queue.held):
            return
        queue.held = queue.held[len(ready) :]
        ready.sort(key=lambda one: (one[1], one[0]) if self._sorting == "stamp" else (0, one[0]))
        for publication, _ in ready:
            self.deliver(subscriber, publication)
        queue.is_delayed = bool(queue.held)

    # What the tables say: match(p) and pubs(h, s).

    def _matching(self, hop: str, value: int) -> list[Subscriber]:
        return [one for one in self.place.subscriptions[hop] if value in one.wanted]

    def _publishers(self, hop: str, subscriber: Subscriber) -> list[Publisher]:
        return [one for one in self.place.advertisements.get(hop, ()) if one.advertised & subscriber.wanted]
