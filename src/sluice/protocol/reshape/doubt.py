"""Jobs that failed just when they were decided: has the new link become part of the tree, or is the old one to come back?

The end of the old link that flips first decides that the job takes place. If the chain breaks before the nearer end of the new
link has heard of it, that one calls the job off, and neither link is part of the tree. So the decider asks it. It would have
flipped before the other end of the new link; if it has called the job off, the new link will never be, and the old one counts.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.limits import MAX_FATES
from sluice.protocol.batch import Peer
from sluice.protocol.reshape.job import Job
from sluice.protocol.reshape.messages import Fate, JobId


@dataclass(slots=True)
class Doubt:
    """A job of which this broker does not know whether it took place."""

    #: The other end of the old link.
    end: Peer
    #: The broker that knows.
    keeper: Peer
    ask_at: float


class Doubts:
    """The jobs that a broker has decided, and has not heard the end of."""

    def __init__(self, name: Peer, pause_seconds: float) -> None:
        self._name = name
        self._pause_seconds = pause_seconds
        self._open: dict[JobId, Doubt] = {}
        #: What became of the last jobs, as far as this broker saw it.
        self._fates: OrderedDict[JobId, bool] = OrderedDict()

    @property
    def deadline(self) -> float:
        """When somebody is to be asked."""
        return min(doubt.ask_at for doubt in self._open.values()) if self._open else math.inf

    def remember(self, id: JobId, took_place: bool) -> None:
        """This broker has flipped, or called a job off."""
        self._fates[id] = took_place
        if len(self._fates) > MAX_FATES:
            self._fates.popitem(last=False)

    def fate(self, id: JobId) -> bool:
        """Whether a job took place, for all that this broker remembers: a link too few is mended, one too many is not."""
        return self._fates.get(id, True)

    def failed(self, job: Job, now: float) -> None:
        """A job failed after this broker flipped; it is in doubt if that was first of all."""
        plan = job.plan
        decider, keeper, end = (plan.a, plan.c, plan.b) if job.is_steered else (plan.b, plan.d, plan.a)
        if self._name == decider and keeper != decider:
            self._open[plan.job] = Doubt(end, keeper, now)

    def settled(self, peer: Peer) -> None:
        """The link to a peer has another generation: what became of those before does not matter any more."""
        self._open = {id: doubt for id, doubt in self._open.items() if doubt.end != peer}

    def about(self, peer: Peer) -> bool:
        """Whether it is not known if the link to a peer was replaced."""
        return any(doubt.end == peer for doubt in self._open.values())

    def ask(self, now: float) -> Iterator[Fate]:
        """What is to be asked now."""
        for id, doubt in self._open.items():
            if doubt.ask_at <= now:
                doubt.ask_at = now + self._pause_seconds
                yield Fate(id, doubt.keeper, self._name)

    def account(self) -> dict[Peer, Peer]:
        """The links of which it is not known whether they were replaced, by their other ends, and who is asked."""
        return {doubt.end: doubt.keeper for doubt in self._open.values()}

    def answered(self, fate: Fate) -> Doubt | None:
        """The doubt that an answer ends, if there is one."""
        return None if fate.took_place is None else self._open.pop(fate.job, None)
