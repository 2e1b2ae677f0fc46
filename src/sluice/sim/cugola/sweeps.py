"""Two sweeps along the chain, a reference for what brokers do: one forth to prepare a second view, one back to switch to it.

During a substitution a dispatcher of the chain has two views of the links of the chain: the old one, of the tree that goes, and
the new one, of the tree that comes. Links aside of the chain see the old view until the dispatcher flips, then the new one. An
event enters the chain once, in the view of the dispatcher where it enters, and stays in it: nothing goes round, nothing comes
twice. The planes 0 and 1 of messages are the old and the new view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sluice.sim.cugola.dispatcher import Control, Event, Update
from sluice.sim.cugola.forwarding import Forwarding, changed, difference, interested
from sluice.sim.cugola.pattern import NOTHING, Patterns
from sluice.sim.cugola.substitution import Substitution, after, before

OLD, NEW = 0, 1


@dataclass(frozen=True, slots=True)
class Sweep(Control):
    """One of the two sweeps, with what the next link is told in the new view, as a difference to the old one."""

    path: Substitution
    update: Update
    is_graceful: bool

    @property
    def entries(self) -> int:
        return self.update.entries


@dataclass(frozen=True, slots=True)
class Prepare(Sweep):
    """From A over C and D to B: enter."""


@dataclass(frozen=True, slots=True)
class Back(Sweep):
    """From B over D and C to A: flip."""


@dataclass(frozen=True, slots=True)
class Last(Control):
    """From A over B to D, where the old link lives on: no event of the old view follows in this direction."""


@dataclass(frozen=True, slots=True)
class Flush(Control):
    """From D over B and A to C: nor in this one, so that the old view can be closed."""


@dataclass(slots=True)
class View:
    """What is heard from, and told to, the neighbours on the chain."""

    heard: dict[str, Patterns] = field(default_factory=dict)
    sent: dict[str, Patterns] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """A substitution at one of the dispatchers of its chain."""

    path: Substitution
    is_graceful: bool
    old: View
    new: View = field(default_factory=View)
    has_flipped: bool = False

    @property
    def shown(self) -> Mapping[str, Patterns]:
        """What links aside of the chain see of it."""
        return self.new.heard if self.has_flipped else self.old.heard


class TwoSweeps(Forwarding):
    """Ordinary forwarding, and the two sweeps. During a substitution `heard` and `sent` are those of the sides only."""

    _job: Job | None = None
    #: The plane in which these neighbours are told things; what comes from them in an older one is dropped.
    _epoch: Mapping[str, int] = MappingProxyType({})

    def replace(self, substitution: Substitution, is_graceful: bool) -> None:
        if self.name == substitution.old[0]:
            self._enter(substitution, is_graceful)
            self._prepare()

    def _enter(self, path: Substitution, is_graceful: bool) -> None:
        """Takes the links of the chain, as they were joined before, out of the ordinary tables."""
        ends = [end for end in (before(path.line, self.name), after(path.line, self.name)) if end is not None]
        old = View({end: self.heard.pop(end) for end in ends}, {end: self.sent.pop(end) for end in ends})
        self._job = Job(path, is_graceful, old)

    def _prepare(self) -> None:
        job = self._at_work()
        onward = after(job.path.chain, self.name)
        assert onward is not None
        self.neighbours[onward] = None
        job.new.sent[onward] = self.wanted(onward, self.heard, job.new.heard)
        update = difference(job.old.sent.get(onward, NOTHING), job.new.sent[onward], NEW)
        self.send(onward, Prepare(job.path, update, job.is_graceful))

    def _flip(self) -> None:
        job = self._at_work()
        job.has_flipped = True
        back = before(job.path.chain, self.name)
        if back is not None:
            job.new.sent[back] = self.wanted(back, self.heard, job.new.heard)
            update = difference(job.old.sent.get(back, NOTHING), job.new.sent[back], NEW)
            self.send(back, Back(job.path, update, job.is_graceful))
        self.refresh()
        if not job.is_graceful:
            self._close()
        elif back is None:
            self.send(job.path.old[1], Last())

    def _close(self) -> None:
        job = self._at_work()
        self._job = None
        for gone in job.old.heard:
            if gone not in job.new.heard:
                del self.neighbours[gone]
        self.heard |= job.new.heard
        self.sent |= job.new.sent
        self._epoch = dict.fromkeys((*job.old.heard, *job.new.heard), NEW)

    def _at_work(self) -> Job:
        assert self._job is not None
        return self._job

    def receive(self, sender: str, message: Control) -> None:
        match message:
            case Update():
                self._updated(sender, message)
            case Prepare():
                self._enter(message.path, message.is_graceful)
                self.neighbours[sender] = None
                self._hear(sender, message.update)
                if self.name == message.path.chain[-1]:
                    self._flip()
                else:
                    self._prepare()
            case Back():
                self._hear(sender, message.update)
                self._flip()
            case Last():
                onward = after(self._at_work().path.line, self.name)
                if onward is not None:
                    self.send(onward, Last())
                else:
                    self._flush()
            case Flush():
                self._flush()

    def _flush(self) -> None:
        onward = before(self._at_work().path.line, self.name)
        if onward is not None:
            self.send(onward, Flush())
        self._close()

    def _hear(self, sender: str, update: Update) -> None:
        """Begins to hear a neighbour in the new view."""
        job = self._at_work()
        job.new.heard[sender] = changed(job.old.heard.get(sender, NOTHING), update)

    def _updated(self, sender: str, update: Update) -> None:
        if self.is_stale(sender, update.plane):
            return
        job = self._job
        if job is None or sender in self.heard:
            super().receive(sender, update)
            return
        heard = (job.new if update.plane == NEW else job.old).heard
        heard[sender] = changed(heard[sender], update)
        self.refresh()

    def refresh(self) -> None:
        job = self._job
        if job is None:
            super().refresh()
            return
        self.tell(self.sent, self.heard, job.shown)
        if not job.has_flipped:
            self.tell(job.old.sent, self.heard, job.old.heard, plane=OLD)
        self.tell(job.new.sent, self.heard, job.new.heard, plane=NEW)

    def event(self, source: str | None, event: Event) -> None:
        job = self._job
        if source is not None and self.is_stale(source, event.plane):
            return
        if job is None:
            super().event(source, event)
            return
        enters = source not in job.old.heard and source not in job.new.heard
        plane = (NEW if job.has_flipped else OLD) if enters else event.plane
        # Links are FIFO: what was published in the new view comes behind the sweep that flips.
        assert plane == OLD or job.has_flipped
        for hop in interested(self.heard, event, source):
            self.hand_on(hop, event)
        for hop in interested((job.new if plane == NEW else job.old).heard, event, source):
            self.hand_on(hop, event, plane)

    def is_stale(self, neighbour: str, plane: int) -> bool:
        """Whether something from a neighbour belongs to a view that is closed here."""
        return plane < self.plane_to(neighbour)

    def plane_to(self, neighbour: str) -> int:
        return self._epoch.get(neighbour, OLD)
