"""A broker's part in reshaping the tree: a link A - B is replaced by a link C - D while traffic flows.

`Prepare` travels along the chain A .. C, D .. B. Every broker on it opens a second channel to each neighbour and tells it what
it would be told in the new tree, so that both trees, the old *plane* and the new one, are kept up by the ordinary rules. B
*flips* first: from then on what is published at its side enters the new plane. `Back` brings the flip to A. Where tables steer
each other nobody can know all before both sweeps are over: then `Back` only brings tables, and a third sweep, `Flip`, the flip.
A publication stays in the plane that it entered, so none is lost and none comes twice. `Last` travels both ways along the old
chain when nothing enters it any more; behind it the old channels are dropped, and nobody is told anything.

Until somebody has flipped, a job can be called off without a trace. Afterwards the new tree counts: whoever sees it fail gives
up both planes and has its links to the chain begin anew, which costs locality and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from sluice.protocol.batch import Peer
from sluice.protocol.events import LinkUp
from sluice.protocol.messages import Change, Kind, Role, Snapshot
from sluice.protocol.reshape.channel import channel_of
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.doubt import Doubts
from sluice.protocol.reshape.host import Host
from sluice.protocol.reshape.job import Job, Old
from sluice.protocol.reshape.mending import Mending
from sluice.protocol.reshape.messages import (
    AGAIN,
    Abort,
    Address,
    Adopt,
    Back,
    Dial,
    Fate,
    Flip,
    HangUp,
    JobId,
    Joined,
    Last,
    LinkAdded,
    LinkRemoved,
    Mark,
    Neighbours,
    Parted,
    Plan,
    Prepare,
    Reshaped,
    Reshaping,
    Stage,
)
from sluice.protocol.route.directions import Plane


class Reshape:
    """The links of a broker to others, and the one job that it takes part in."""

    def __init__(self, host: Host, config: ReshapeConfig, marks: Mapping[Peer, Mark]) -> None:
        self._host = host
        self._config = config
        #: The links that work, as they came up.
        self.links: dict[Peer, LinkUp] = {}
        #: The channel that belongs to the tree, for each link that does, whether it works or is held.
        self.channels: dict[Peer, Peer] = {}
        #: What is known of links that were replaced or added.
        self.marks: dict[Peer, Mark] = dict(marks)
        #: Links that were replaced and that this broker hangs up when the other end is done with them.
        self._parting: dict[Peer, JobId] = {}
        self.job: Job | None = None
        self._doubts = Doubts(host.name, config.patience_seconds / 4)
        self.mending = Mending(self, host, config)
        self.now = 0.0
        #: For the record: how many jobs ended in which way.
        self.ended = dict.fromkeys((Stage.DONE, Stage.REFUSED, Stage.FAILED), 0)

    @property
    def deadline(self) -> float:
        """When a tick is due."""
        due = math.inf if self.job is None else self.job.deadline
        return min(due, self._doubts.deadline, self.mending.deadline)

    def tick(self, now: float) -> None:
        """Gives up a job that takes too long, and asks what became of those that were decided and failed."""
        self.now = now
        for fate in self._doubts.ask(now):
            self._pass_on(fate)
        if self.job is not None and self.job.deadline <= now:
            self._fail(f"it took longer than {self._config.patience_seconds:g} s: {AGAIN}")
        self.mending.tick(now)

    # --- links --------------------------------------------------------------------------------------------------------

    def linked(self, event: LinkUp, now: float) -> None:
        """A link to a broker works from now on."""
        self.now = now
        peer, job = event.peer, self.job
        if event.job is None or peer not in self.links:
            self.unlinked(peer, now)
            job = self.job
        self.links[peer] = event
        if event.job is not None:
            if job is not None and job.next == peer and job.plan.c == self._host.name and peer not in job.new:
                self._prepare_next(job)
            else:
                self.mending.call(peer, event.job)
        elif self._doubts.about(peer):
            pass  # until it is known whether it was replaced
        elif not self.mark(peer).is_member:
            self._host.send(peer, Parted(self.mark(peer).generation))
        elif job is None or peer not in _ends(job.plan, self._host.name):
            self.join_tree(peer)

    def mark(self, peer: Peer) -> Mark:
        """Whether a link is part of the tree; nothing is known of most, so they are."""
        return self.marks.get(peer, Mark(0, is_member=True))

    def set_mark(self, peer: Peer, generation: int, is_member: bool, address: Address = None) -> None:
        """A link is part of the tree from now on, or not any more."""
        self.marks[peer] = Mark(generation, is_member)
        self._doubts.settled(peer)
        if not is_member:
            self.mending.replaced(peer)
        self._host.do(LinkAdded(peer, generation, address) if is_member else LinkRemoved(peer, generation))

    def allow(self, peer: Peer) -> None:
        """A link may be part of the tree again."""
        mark = self.mark(peer)
        if not mark.is_member:
            self.set_mark(peer, mark.generation + 1, True)

    def join_tree(self, peer: Peer) -> None:
        """A link is of the tree and begins anew."""
        self.mending.back(peer, self.channels.get(peer, peer))
        self.channels[peer] = peer
        self._host.link_up(peer, Role.BROKER, self.links[peer].node)
        self.mending.tell_neighbours()

    def unlinked(self, peer: Peer, now: float, *, is_final: bool = False) -> bool:
        """A link is gone, maybe for good; False if it was none to a broker."""
        self.now = now
        if self.links.pop(peer, None) is None:
            return peer in self.channels
        if self._parting.get(peer) is not None:
            self._part(peer)
        job = self.job
        if job is not None and peer in _ends(job.plan, self._host.name) and peer in job.old:
            job.is_broken = True
            self._host.hold(job.old[peer].channel)
            job.old[peer] = Old(job.old[peer].channel, has_heard=True, has_said=True)
            self._clear(job)
        else:
            if peer in self.channels:
                self._host.hold(self.channels[peer])  # nothing can be said there any more, whatever comes of the job
            if job is not None and peer in job.neighbours:
                self._fail(f"the link {self._host.name} - {peer} broke: {AGAIN}")
            if peer in self.channels and not self.mending.holds(peer):
                self.mending.lose(peer, self.channels.pop(peer), is_final=is_final)
        return True

    def unreachable(self, peer: Peer, job: JobId, reason: str) -> None:
        """A link that a job asked for could not be made."""
        if self.job is not None and self.job.id == job and peer not in self.links:
            self._fail(f"{self._host.name} cannot reach {peer}: {reason or AGAIN}")
        self.mending.give_up(peer, job)

    # --- the first sweep ----------------------------------------------------------------------------------------------

    def substitute(self, plan: Plan, now: float) -> None:
        """Begins a job that was ordered here, or says why not."""
        if (plan.a, plan.b) == (plan.c, plan.d):
            reason: str | None = "a link cannot be replaced by itself"
        elif plan.c == plan.d:
            reason = f"a link needs two ends, and {plan.c} - {plan.d} has one"
        else:
            reason = self._objection(plan, (), None)
        if reason is not None:
            self._tell_end(plan.job, Stage.REFUSED, (), reason)
            return
        is_broken = plan.b not in self.links or plan.b not in self.channels
        job = self._enter(plan, (self._host.name,), None, is_broken, self._host.is_steered, (0, 0), now)
        self._go_on(job)

    def _objection(self, plan: Plan, path: tuple[Peer, ...], prev: Peer | None) -> str | None:
        """Why this broker cannot take part; None: it can."""
        name = self._host.name
        if self.job is not None:
            return f"{name} takes part in {self.job.id}: {AGAIN}"
        if name in path:
            return f"{name} is on the way twice: {plan.c} must lie on the side of {plan.a}, and {plan.d} on that of {plan.b}"
        if self._host.directions.node != name:
            return f"{name} shares its node with others: links between such nodes are redundant already"
        if prev is not None and not self._is_expected(plan, prev):
            return f"the link {prev} - {name} is not what it was when the job began: {AGAIN}"
        end = {plan.a: plan.b, plan.b: plan.a}.get(name)
        if end is not None:
            if not self.mark(end).is_member:
                return f"the link {plan.a} - {plan.b} was replaced before"
            way = self._host.way(end, name)
            if way is not None and way != self.channels.get(end):
                return f"there is no link {plan.a} - {plan.b}: {name} reaches {end} through {way}"
        if name == plan.c and plan.d in self.channels:
            return f"there is a link {plan.c} - {plan.d} already"
        if name == plan.c and plan.d in self.links and self.links[plan.d].job is None:
            return f"the link {plan.c} - {plan.d} was replaced and is about to go: {AGAIN}"
        if name != plan.b and name != plan.c and self._next(plan, path) is None:
            return f"{name} knows no way to {self._target(plan, path)} that does not use the old link: {AGAIN}"
        return None

    def _is_expected(self, plan: Plan, prev: Peer) -> bool:
        if prev not in self.links:
            return False
        if (prev, self._host.name) == (plan.c, plan.d):
            return prev not in self.channels and self.links[prev].job is not None
        return prev in self.channels and self._is_single(prev)

    def _is_single(self, peer: Peer) -> bool:
        return self.links[peer].node in (None, peer)

    def _target(self, plan: Plan, path: tuple[Peer, ...]) -> Peer:
        return plan.b if plan.c in path else plan.c

    def _next(self, plan: Plan, path: tuple[Peer, ...]) -> Peer | None:
        """The next broker on the chain; None: there is no way."""
        name = self._host.name
        if name == plan.c:
            return plan.d
        channel = self._host.way(self._target(plan, path), name)
        for link, own in self.channels.items():
            if own == channel and link in self.links and self._is_single(link) and link not in path:
                return None if {link, name} == {plan.a, plan.b} else link
        return None

    def _enter(
        self,
        plan: Plan,
        path: tuple[Peer, ...],
        prev: Peer | None,
        is_broken: bool,
        is_steered: bool,
        generations: tuple[int, int],
        now: float,
    ) -> Job:
        """Takes part from now on: the old channels of the chain become the old plane."""
        name = self._host.name
        following = None if name == plan.b else self._next(plan, path[:-1])
        deadline = now + self._config.patience_seconds
        generations = self._later(plan, *generations)
        job = self.job = Job(plan, path, prev, following, is_broken, is_steered, generations, deadline)
        for link in (prev, following, *_ends(plan, name)):
            if link is not None and link in self.channels:
                job.old[link] = Old(self.channels[link])
        for link in _ends(plan, name):
            if link in job.old and (is_broken or link not in self.links):
                self._host.hold(job.old[link].channel)
                job.old[link] = Old(job.old[link].channel, has_heard=True, has_said=True)
        self._host.directions.part([old.channel for old in job.old.values()], Plane.OLD)
        return job

    def _later(self, plan: Plan, old: int, new: int) -> tuple[int, int]:
        """Generations that are later than all that the ends of the links know of."""
        name = self._host.name
        for end in _ends(plan, name):
            old = max(old, self.mark(end).generation + 1)
        if name in (plan.c, plan.d):
            new = max(new, self.mark(plan.d if name == plan.c else plan.c).generation + 1)
        return old, new

    def _go_on(self, job: Job) -> None:
        """Has the next broker prepare, over a new link if it has to be."""
        assert job.next is not None
        if self._host.name == job.plan.c:
            self._host.do(Dial(job.next, job.plan.address, job.id))
        else:
            self._prepare_next(job)

    def _prepare_next(self, job: Job) -> None:
        assert job.next is not None
        kinds = [kind for kind in self._host.tables_between_brokers() if not self._waits(job, kind)]
        tables = self._open(job, job.next, kinds)
        self._host.send(job.next, Prepare(job.plan, job.path, job.is_broken, job.is_steered, job.generations, tables))
        self._host.join(job.new[job.next])

    def _waits(self, job: Job, kind: Kind) -> bool:
        """Whether a table is told only when it is known what steers it."""
        return job.is_steered and kind in self._host.steered()

    def _open(self, job: Job, link: Peer, kinds: Iterable[Kind]) -> tuple[Change | Snapshot, ...]:
        """Opens the new channel of a link, if it is not open, and begins to tell of tables in it."""
        if link not in job.new:
            job.new[link] = job.channel(link)
            self._host.open(job.new[link], Role.BROKER, plane=Plane.NEW)
        return tuple(self._host.tell(job.new[link], kinds, job.base(link)))

    # --- what others say ----------------------------------------------------------------------------------------------

    def receive(self, peer: Peer, message: Reshaping, now: float) -> None:
        """A broker says something about a job."""
        self.now = now
        if peer not in self.links:
            return
        job = self.job
        match message:
            case Prepare():
                self._prepare(peer, message, now)
            case Parted(generation):
                self._parted(peer, generation)
            case Joined(generation):
                if generation > self.mark(peer).generation:
                    self.set_mark(peer, generation, True)
                    self._host.do(HangUp(peer))
            case Back(id) | Flip(id) | Last(id) | Abort(id):
                if job is not None and job.id == id and (peer in job.neighbours or peer in job.old):
                    self._proceed(job, peer, message)
                elif isinstance(message, Abort) and self.channels.get(peer) == channel_of(peer, id):
                    self._restart(peer)  # it was over here before it failed there
                elif isinstance(message, Abort):
                    self.mending.give_up(peer, id)
            case Fate():
                self._tell_fate(message)
            case Neighbours(addresses):
                self.mending.repair.around[peer] = addresses
            case Adopt():
                self.mending.adopt(peer, message)
            case _:
                assert_never(message)

    def _prepare(self, peer: Peer, message: Prepare, now: float) -> None:
        plan = message.plan
        reason = self._objection(plan, message.path, peer)
        if reason is not None:
            is_lost = self.job is None and plan.c in message.path and self._next(plan, message.path) is None
            self._host.send(peer, Abort(plan.job, reason, is_lost))
            self.mending.repair.missed(plan.b, now)
            return
        name = self._host.name
        is_steered = message.is_steered or self._host.is_steered
        job = self._enter(plan, (*message.path, name), peer, message.is_broken, is_steered, message.generations, now)
        self._open(job, peer, ())
        self._host.join(job.new[peer])
        if not self._host.hear(job.new[peer], message.tables, job.base(peer)):
            self._fail(f"{name} does not hold what {peer} has told it: {AGAIN}")
        elif name != plan.b:
            self._go_on(job)
        else:
            if not job.is_steered:
                self._flip(job)
            self._return(job)
            self._clear(job)

    def _proceed(self, job: Job, peer: Peer, message: Back | Flip | Last | Abort) -> None:
        match message:
            case Back(_, path, is_steered, generations, tables):
                if peer == job.next and not job.is_flipped:
                    job.path, job.is_steered, job.generations = path, is_steered, generations
                    self._back(job, peer, tables)
            case Flip(_, tables):
                if peer == job.prev and not job.is_flipped:
                    self._host.hear(job.new[peer], tables, job.base(peer))
                    self._flip(job)
                    self._flip_next(job)
            case Last():
                if peer in job.old:
                    job.old[peer].has_heard = True
            case Abort(_, reason, is_lost):
                if peer in job.neighbours:
                    self._fail(reason, peer, is_lost)
                    return
            case _:
                assert_never(message)
        self._clear(job)

    # --- the second sweep, and the third ------------------------------------------------------------------------------

    def _return(self, job: Job) -> None:
        """Tells the broker before this one everything."""
        if job.prev is not None:
            tables = self._open(job, job.prev, self._host.tables_between_brokers())
            self._host.send(job.prev, Back(job.id, job.path, job.is_steered, job.generations, tables))

    def _back(self, job: Job, peer: Peer, tables: tuple[Change | Snapshot, ...]) -> None:
        self._host.hear(job.new[peer], tables, job.base(peer))
        if job.prev is None:
            self._host.do(Reshaped(job.id, Stage.PREPARED, job.path))
        if not job.is_steered or job.prev is None:
            self._flip(job)
        if job.is_steered and job.prev is None:
            self._flip_next(job)
        self._return(job)

    def _flip_next(self, job: Job) -> None:
        """Tells the next broker what was steered, and has it flip."""
        if job.next is not None:
            waiting = [kind for kind in self._host.tables_between_brokers() if self._waits(job, kind)]
            tables = self._open(job, job.next, waiting)
            self._host.send(job.next, Flip(job.id, tables))

    def _flip(self, job: Job) -> None:
        """From now on what is published at the side of this broker goes the new way: the new tree counts."""
        job.is_flipped = True
        self._doubts.remember(job.id, True)
        self._host.flip(job.new.values())
        plan, name = job.plan, self._host.name
        old, new = job.generations
        for end in _ends(plan, name):
            self.set_mark(end, old, False)
        if name in (plan.c, plan.d):
            far = plan.d if name == plan.c else plan.c
            self.set_mark(far, new, True, plan.address if name == plan.c else self.links[far].address)
        if job.prev is None:
            self._host.do(Reshaped(job.id, Stage.FLIPPED, job.path))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _clear(self, job: Job) -> None:
        """Says that nothing follows in old channels where that is so, and drops them when all have said it."""
        if job is not self.job:
            return
        for link, old in job.old.items():
            if job.may_say_last(link):
                old.has_said = True
                self._host.flush(old.channel)
                self._host.send(link, Last(job.id))
        if job.is_clear:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        """Only the new plane is left; the old link is hung up when both ends have done this."""
        old = {link: each.channel for link, each in job.old.items()}
        self._host.close(list(old.values()), {old[link]: new for link, new in job.new.items() if link in old})
        self._host.directions.unite()
        for link in old:
            self.channels.pop(link, None)
        self.channels.update(job.new)
        for link in job.new:
            self.links[link] = replace(self.links[link], job=None)
        self.job = None
        self.mending.tell_neighbours()
        plan, name = job.plan, self._host.name
        if name == plan.b and plan.a in self.links:
            self._host.send(plan.a, Parted(job.generations[0]))
        if name == plan.a:
            self._parting[plan.b] = job.id
            if plan.b not in self.links or job.is_parted:
                self._part(plan.b)
            elif job.is_broken:  # it is back, and the other end may have forgotten why it is to go
                self._host.send(plan.b, Parted(job.generations[0]))

    def _parted(self, peer: Peer, generation: int) -> None:
        """The other end of a link needs it no longer, or knows better, or does not know that it was added again."""
        mark, job = self.mark(peer), self.job
        if peer in self._parting:
            self._part(peer)
        elif job is not None and peer in _ends(job.plan, self._host.name):
            job.is_parted = True
        elif not mark.is_member:
            self._host.do(HangUp(peer))
        elif mark.generation > generation:
            self._host.send(peer, Joined(mark.generation))
        else:
            self._leave(peer, generation)

    def _part(self, peer: Peer) -> None:
        """The old link goes, and the job is done."""
        id = self._parting.pop(peer)
        self._host.do(HangUp(peer))
        self._tell_end(id, Stage.DONE, (), "")

    def _leave(self, peer: Peer, generation: int) -> None:
        """The other end holds a link to be replaced, and so it is."""
        self.set_mark(peer, generation, False)
        if self.job is not None and peer in self.job.neighbours:
            self._fail(f"the link {self._host.name} - {peer} was replaced: {AGAIN}")
        if peer in self.channels:
            self._restart(peer)
        else:
            self._host.do(HangUp(peer))

    def _fail(self, reason: str, source: Peer | None = None, is_lost: bool = False) -> None:
        """The job cannot go on: it is called off, or, if that is too late, the links of the chain begin anew."""
        job, self.job = self.job, None
        assert job is not None
        if job.is_flipped:
            self._give_up(job, reason)
        else:
            self._abort(job, reason, source, is_lost)

    def _abort(self, job: Job, reason: str, source: Peer | None, is_lost: bool) -> None:
        """Nobody has flipped, for all that is known here: everything is as it was."""
        self._doubts.remember(job.id, False)
        self._host.close(list(job.new.values()))
        self._host.directions.unite()
        name, plan = self._host.name, job.plan
        for peer in job.neighbours:
            if peer != source and peer in self.links and (peer in job.new or peer == job.prev):
                self._host.send(peer, Abort(job.id, reason, is_lost))
        if name == plan.c:
            self._host.do(HangUp(plan.d, job.id))
        for end in _ends(plan, name):
            self._resume(end, job)
        if job.prev is None:
            if is_lost:
                self.mending.repair.missed(plan.b, self.now)
            self._tell_end(job.id, Stage.REFUSED, job.path, reason)

    def _resume(self, end: Peer, job: Job) -> None:
        """The old link counts again, if it works; else it is gone for good now."""
        if end in job.old and not job.old[end].has_said:
            return
        if end in self.channels and not self.mending.holds(end):
            self._host.link_down(self.channels.pop(end))
        if end in self.links:
            self._host.do(HangUp(end))  # what it has said meanwhile was not heard: it begins anew

    def _give_up(self, job: Job, reason: str) -> None:
        """The new tree counts; what was told in either plane is void, and the links of the chain begin anew."""
        self._host.close([*job.new.values(), *(old.channel for old in job.old.values())])
        self._host.directions.unite()
        for link in (*job.neighbours, *job.old):
            self.channels.pop(link, None)
            if link in self.links:
                self._host.do(HangUp(link))
        self._doubts.failed(job, self.now)
        if job.prev is None:
            self._tell_end(job.id, Stage.FAILED, job.path, reason)

    def _restart(self, peer: Peer) -> None:
        """A link of the tree begins anew."""
        self._host.link_down(self.channels.pop(peer))
        self._host.do(HangUp(peer))

    def _tell_fate(self, message: Fate) -> None:
        """Somebody wants to know what became of a job, or hears it."""
        if message.to != self._host.name:
            self._pass_on(message)
        elif message.took_place is None:
            if self.job is None or self.job.id != message.job:
                self._pass_on(Fate(message.job, message.by, message.to, self._doubts.fate(message.job)))
        else:
            doubt = self._doubts.answered(message)
            if doubt is not None:
                self._resolve(doubt.end, message.took_place)

    def _pass_on(self, message: Fate) -> None:
        way = self._host.way(message.to, self._host.name)
        for link, channel in self.channels.items():
            if channel == way and link in self.links:
                self._host.send(link, message)

    def _resolve(self, end: Peer, took_place: bool) -> None:
        """It is known now whether the old link is part of the tree."""
        if not took_place:
            self.allow(end)
            self._host.do(HangUp(end))
        elif end in self.links:
            self._host.send(end, Parted(self.mark(end).generation))

    def _tell_end(self, id: JobId, stage: Stage, path: tuple[Peer, ...], reason: str) -> None:
        self.ended[stage] += 1
        self.mending.ended(id)
        self._host.do(Reshaped(id, stage, path, reason))

    # --- its own account ----------------------------------------------------------------------------------------------

    def account(self, now: float) -> dict[str, Any]:
        """How it goes: the job that this broker takes part in, how those ended that began here, and what became of links."""
        job = self.job
        return {
            "job": None if job is None else job.id,
            "path": [] if job is None else list(job.path),
            "is_flipped": job is not None and job.is_flipped,
            "done": self.ended[Stage.DONE],
            "refused": self.ended[Stage.REFUSED],
            "failed": self.ended[Stage.FAILED],
            "replaced_links": [peer for peer, mark in self.marks.items() if not mark.is_member],
            "doubts": self._doubts.account(),
            **self.mending.repair.account(now),
        }


def _ends(plan: Plan, name: Peer) -> tuple[Peer, ...]:
    """The other end of the old link, at one of its ends."""
    if name == plan.a:
        return (plan.b,)
    return (plan.a,) if name == plan.b else ()
