"""Repair by itself: a link that broke is replaced by another one, found among the neighbours of neighbours.

Every broker tells its neighbours who its own are. When a link breaks, both ends go on to believe what came over it for a time,
the *hold*. The end with the first name begins to look for another link, the other one if nothing has come of that; the closest
links first: from here to a neighbour of the lost broker, from a neighbour here to the lost broker, from a neighbour here to a
neighbour there. If nobody there has a way to the lost broker, it is dead: then each of its neighbours joins one of them that
comes before it by name, so that no circle can come of it. What comes to nothing until the hold is over is an ordinary loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from sluice.protocol.batch import Peer
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.messages import Address, JobId, Plan

#: So many times is a hold doubled for a link that breaks again and again.
MAX_FLAPS = 4
#: Candidates that are looked at for one link.
MAX_CANDIDATES = 12


@dataclass(slots=True)
class Broken:
    """A link that broke and may come back or be replaced."""

    peer: Peer
    #: When the hold is over, and when something is to be tried next.
    until: float
    next_at: float
    attempt: int = 0
    #: The links that may take its place, the next one first; None: nobody has looked yet.
    plans: list[Plan] | None = None
    #: If it is dead: the brokers that this one may join, the next one first.
    parents: list[Peer] = field(default_factory=list)
    #: Whether another neighbour has lost it, too.
    is_dead: bool = False
    #: What is being tried.
    job: JobId | None = None

    @property
    def deadline(self) -> float:
        """When something is due."""
        return self.until if self.job is not None else min(self.until, self.next_at)


class Repair:
    """The broken links of one broker. It says what to try; `Reshape` does it."""

    def __init__(self, name: Peer, config: ReshapeConfig) -> None:
        self._name = name
        self._config = config
        #: Who is around each neighbour, as it said last, and where neighbours are found.
        self.around: dict[Peer, Mapping[Peer, Address]] = {}
        self.addresses: dict[Peer, Address] = {}
        self.broken: dict[Peer, Broken] = {}
        #: How often a link broke lately, and until when that counts.
        self._flaps: dict[Peer, tuple[int, float]] = {}
        #: For the record: links that broke and were held, and which of them came back, were replaced or were given up.
        self.counts = dict.fromkeys(("held", "returned", "repaired", "given_up"), 0)
        self._number = 0

    @property
    def deadline(self) -> float:
        """When something is due."""
        return min(each.deadline for each in self.broken.values()) if self.broken else math.inf

    def lost(self, peer: Peer, now: float) -> bool:
        """A link of the tree broke: whether what came over it is to be held."""
        if not self._config.repairs:
            return False
        flaps, since = self._flaps.get(peer, (0, 0.0))
        flaps = min(flaps + 1, MAX_FLAPS) if now < since else 0
        hold = self._config.hold_seconds * 2.0**flaps
        self._flaps[peer] = flaps, now + 4 * hold
        # Who begins has a head start.
        pause = hold / 16 if self._name < peer else hold / 4
        self.broken[peer] = Broken(peer, now + hold, now + pause * (1 + self._chance(peer, 0)))
        self.counts["held"] += 1
        return True

    def end(self, peer: Peer, how: str) -> Broken | None:
        """A broken link is broken no longer: it returned, was repaired or given up; None if it was not broken."""
        broken = self.broken.pop(peer, None)
        self.counts[how] += broken is not None
        return broken

    def account(self, now: float) -> dict[str, Any]:
        """What became of links that broke, and for how long each of those is held that are broken now."""
        return {**self.counts, "broken": {peer: max(each.until - now, 0.0) for peer, each in self.broken.items()}}

    def over(self, now: float) -> list[Peer]:
        """The links whose hold is over."""
        return [peer for peer, each in self.broken.items() if each.until <= now]

    def due(self, now: float) -> list[Broken]:
        """The links for which something is to be tried now."""
        return [each for each in self.broken.values() if each.next_at <= now < each.until and each.job is None]

    def missed(self, peer: Peer, now: float) -> None:
        """Another neighbour of a broker looks for it: if it is lost here as well, there is nothing to look for."""
        broken = self.broken.get(peer)
        if broken is not None and not broken.is_dead:
            broken.is_dead = True
            broken.plans = None
            broken.next_at = min(broken.next_at, now + self._config.hold_seconds / 64)

    def new_job(self, incarnation: int) -> JobId:
        """A name for something that is tried."""
        self._number += 1
        return f"{self._name}/{incarnation}/{self._number}"

    def may_join(self, parent: Peer, child: Peer) -> bool:
        """Whether a neighbour of a dead broker may join another: one that comes before it, or there might be a circle."""
        return parent < child

    def postpone(self, broken: Broken, now: float) -> None:
        """Tries again, or the next, after a pause that differs between brokers and grows."""
        broken.job = None
        broken.attempt += 1
        pause = self._config.hold_seconds / 64 * min(broken.attempt, 8)
        broken.next_at = now + pause * (1 + self._chance(broken.peer, broken.attempt))

    def _chance(self, peer: Peer, attempt: int) -> float:
        """A number from 0 to 1 that looks like chance: two brokers that are in each other's way try at different times."""
        said = repr((self._name, peer, attempt)).encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(said, digest_size=4).digest(), "big") / 0xFFFF_FFFF

    def candidates(self, peer: Peer, own: list[Peer], is_here: Mapping[Peer, bool]) -> Iterator[Plan]:
        """The links that may take the place of one, the closest first; `is_here` says who lies on this side."""
        name, around = self._name, self.around.get(peer, {})
        near = sorted(own)
        far = [each for each in sorted(around) if each != name and each not in near and not is_here.get(each, False)]
        pairs = [(name, each) for each in far]
        pairs += [(each, peer) for each in near]
        pairs += [(one, other) for one in near for other in far]
        for c, d in pairs[:MAX_CANDIDATES]:
            yield Plan("", name, peer, c, d, self.addresses.get(peer) if d == peer else around[d])
