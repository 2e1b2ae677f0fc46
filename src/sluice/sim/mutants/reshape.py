"""Bugs in reshaping: planes that mix, steps that come too early, links that are left behind."""

from __future__ import annotations

from typing import Any

from sluice.broker.core.broker import Broker
from sluice.broker.core.links import Links
from sluice.protocol.events import Received
from sluice.protocol.export import Replica
from sluice.protocol.reliable.source import Source
from sluice.protocol.reshape.channel import link_of
from sluice.protocol.reshape.doubt import Doubts
from sluice.protocol.reshape.job import Job
from sluice.protocol.reshape.mending import Mending
from sluice.protocol.reshape.repair import Repair
from sluice.protocol.reshape.reshape import Reshape
from sluice.protocol.route.directions import Directions, Plane
from sluice.sim.mutants.mutant import Patch, mutant

# --- planes -----------------------------------------------------------------------------------------------------------


@mutant(
    "reshape", "no-epoch", "what comes for a channel that is closed counts for the one that the link has now", first=2
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def handle(self: Broker, event: Any) -> None:
            if isinstance(event, Received) and event.peer not in self.roles:
                event = Received(self.reshape.channels.get(link_of(event.peer), event.peer), event.message)
            original(self, event)

        return handle

    return Broker, "_handle", make


@mutant("reshape", "untagged", "notifications pass from one plane to the other", first=1)
def _() -> Patch:
    return Directions, "leads", lambda original: lambda self, source, peer: True


@mutant("reshape", "ghost-of-the-old", "what came in the old plane is told in the new one", first=2)
def _() -> Patch:
    return Directions, "_reports", lambda original: lambda self, source, peer: True


@mutant(
    "reshape", "sides-switched-at-once", "the sides are told of the new plane as soon as a broker takes part", first=1
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def enter(self: Reshape, *more: Any) -> Any:
            job = original(self, *more)
            self._host.flip(())
            return job

        return enter

    return Reshape, "_enter", make


@mutant("reshape", "sides-never-switched", "the sides are not told of the new plane when a broker flips", first=1)
def _() -> Patch:
    return Links, "flip", lambda original: lambda self, heard: self.directions.flip()


@mutant("reshape", "enters-the-old", "what is published goes the old way after the flip", first=57)
def _() -> Patch:
    def make(original: Any) -> Any:
        def leads(self: Directions, source: str, peer: str) -> bool:
            if self._planes and self.plane(source) == Plane.SIDE:
                return self.plane(peer) in (Plane.SIDE, Plane.OLD)
            return bool(original(self, source, peer))

        return leads

    return Directions, "leads", make


@mutant("reshape", "new-not-waited-for", "what may come in the new plane is not waited for", first=12)
def _() -> Patch:
    def make(original: Any) -> Any:
        def join(self: Links, peer: str) -> None:
            original(self, peer)
            if self.directions.plane(peer) == Plane.NEW:
                self.order.algorithm.unlinked(peer)

        return join

    return Links, "join", make


# --- steps ------------------------------------------------------------------------------------------------------------


@mutant("reshape", "flips-while-preparing", "a broker flips before it has heard from the other side", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def go_on(self: Reshape, job: Job) -> None:
            self._flip(job)
            original(self, job)

        return go_on

    return Reshape, "_go_on", make


@mutant("reshape", "two-sweeps-always", "nobody waits for what steers the tables", first=2)
def _() -> Patch:
    return Links, "is_steered", lambda original: property(lambda self: False)


@mutant("reshape", "closes-without-last", "old channels are dropped as soon as a broker has flipped", first=57)
def _() -> Patch:
    return Job, "is_clear", lambda original: property(lambda self: self.is_flipped)


@mutant("reshape", "last-too-early", "a broker says that nothing follows before it has heard so itself", first=240)
def _() -> Patch:
    return Job, "may_say_last", lambda original: lambda self, link: self.is_flipped and not self.old[link].has_said


@mutant("reshape", "busy-accepts", "a broker takes part in a second job", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def objection(self: Reshape, *more: Any) -> Any:
            job, self.job = self.job, None
            found = original(self, *more)
            self.job = None if found is None else job
            return found

        return objection

    return Reshape, "_objection", make


@mutant("reshape", "abort-leaves-channels", "a job that is called off leaves its channels open", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def abort(self: Reshape, job: Job, *more: Any) -> None:
            job.new.clear()
            original(self, job, *more)

        return abort

    return Reshape, "_abort", make


@mutant("reshape", "closed-aloud", "when channels are closed, others in the same plane are told first", first=14)
def _() -> Patch:
    def make(original: Any) -> Any:
        def close(self: Links, peers: list[str], successors: Any = None) -> None:
            for peer in peers:
                original(self, [peer], successors)

        return close

    return Links, "close", make


@mutant("reshape", "nothing-copied", "changes of what the old channel told are taken for changes of nothing", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def copy(self: Replica, other: Replica) -> None:
            self.version = other.version

        return copy

    return Replica, "copy", make


# --- links ------------------------------------------------------------------------------------------------------------


@mutant("reshape", "old-link-left", "the link that was replaced is never hung up", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def part(self: Reshape, peer: str) -> None:
            self._parting.pop(peer)

        return part

    return Reshape, "_part", make


# --- generations, and doubts ------------------------------------------------------------------------------------------


@mutant(
    "reshape",
    "generations-stand-still",
    "a link that is added or replaced once more has the generation it had",
    first=464,
)
def _() -> Patch:
    return Reshape, "_later", lambda original: lambda self, plan, old, new: (old, new)


@mutant(
    "reshape",
    "earlier-generation-wins",
    "a link is given up because the other end does not know that it was added again",
    first=464,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def parted(self: Reshape, peer: str, generation: int) -> None:
            original(self, peer, max(generation, self.mark(peer).generation))

        return parted

    return Reshape, "_parted", make


@mutant(
    "reshape", "doubt-not-asked", "who has decided a job that failed does not ask whether it took place", first=1176
)
def _() -> Patch:
    return Doubts, "failed", lambda original: lambda self, job, now: None


@mutant("reshape", "fate-forgotten", "who has called a job off does not say so", first=1176)
def _() -> Patch:
    return Doubts, "fate", lambda original: lambda self, id: True


@mutant(
    "reshape",
    "doubt-outlives-its-link",
    "an answer counts for a link that was added again since the question",
    first=464,
)
def _() -> Patch:
    return Doubts, "settled", lambda original: lambda self, peer: None


# --- repair -----------------------------------------------------------------------------------------------------------


@mutant("reshape", "joins-anybody", "the neighbours of a dead broker join each other in a circle", first=332)
def _() -> Patch:
    return Repair, "may_join", lambda original: lambda self, parent, child: True


@mutant(
    "reshape",
    "ghost-dropped-at-once",
    "what a dead broker has told is forgotten as soon as another is joined",
    first=16,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def take_in(self: Mending, peer: str, generation: int) -> None:
            original(self, peer, generation)
            for ghost in [*self._ghosts]:
                self._drop_ghost(ghost)

        return take_in

    return Mending, "_take_in", make


@mutant(
    "reshape",
    "told-to-heirs",
    "whoever takes the place of a dead broker is told what that one had told, its own part too",
    first=13,
)
def _() -> Patch:
    return Directions, "conceal", lambda original: lambda self, source, peer: None


@mutant("reshape", "taken-for-lost", "a link that was taken away by hand is replaced as if it had broken", first=13)
def _() -> Patch:
    def make(original: Any) -> Any:
        def lose(self: Mending, peer: str, channel: str, *, is_final: bool = False) -> None:
            original(self, peer, channel)

        return lose

    return Mending, "lose", make


@mutant(
    "reshape",
    "break-forgotten",
    "an old link that broke and is back is left to an end that has forgotten the job",
    first=603894,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def unlinked(self: Reshape, *event: Any, **more: Any) -> bool:
            job = self.job
            was_broken = job is not None and job.is_broken
            is_known = original(self, *event, **more)
            if job is not None:
                job.is_broken = was_broken
            return bool(is_known)

        return unlinked

    return Reshape, "unlinked", make


@mutant(
    "reshape",
    "end-goes-back",
    "a stream ends where the last of it ended that came by its own broker, on the way to one that has missed it",
    first=501708,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def stored(self: Source, offset: int, moment: int) -> None:
            self.head, self.moment = offset, moment or self.moment

        return stored

    return Source, "stored", make
