"""A named check of the specification, and what it says when it fails: when, in words, and with the events that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sluice.sim.spec.history import History
from sluice.sim.trace.trace import Trace, TraceEvent, tell


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept. `at` is the true time of the event that shows it."""

    check: str
    at: float
    says: str
    events: tuple[TraceEvent, ...] = ()

    def __str__(self) -> str:
        shown = "".join(f"\n  {event.at:9.3f}  {tell(event)}" for event in self.events)
        return f"{self.check} at {self.at:.3f}: {self.says}{shown}"


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the specification: a name, where the papers state it, and how a history is checked for it."""

    name: str
    #: Where the promise is stated: (2.10) to (2.18) in the thesis, axioms (2) to (6) in Tanner and Mühl.
    paper: str
    run: Callable[[History], Iterable[Violation]]

    def check(self, trace: Trace | History) -> list[Violation]:
        """What is wrong with a trace, in the order of time."""
        return check(trace, (self,))


def check(trace: Trace | History, checks: Sequence[Check]) -> list[Violation]:
    """What several checks find, in the order of time; the trace is read once."""
    history = trace if isinstance(trace, History) else History.of(trace)
    found = [violation for each in checks for violation in each.run(history)]
    return sorted(found, key=lambda violation: violation.at)
