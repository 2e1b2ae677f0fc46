"""Many plans under many protocols: how often each ends with wrong tables, and what it costs.

Every protocol gets the same plans. Costs are what a substitution costs by itself: they are counted in plans without churn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from sluice.sim.cugola.checks import twice, wrong_tables
from sluice.sim.cugola.dispatcher import Protocol
from sluice.sim.cugola.forwarding import Forwarding
from sluice.sim.cugola.network import History, run
from sluice.sim.cugola.pattern import REDUCERS
from sluice.sim.cugola.plan import Plan
from sluice.sim.cugola.published import LITERAL, REPAIRED, published
from sluice.sim.cugola.sweeps import TwoSweeps

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        "published, literal": published(LITERAL),
        "published, repaired": published(REPAIRED),
        **{
            f"{name}, {reducer}": Protocol(partial(made, reduce=reduce), reduce, uses_old_link=made is TwoSweeps)
            for reducer, reduce in REDUCERS.items()
            for name, made in (("straightforward", Forwarding), ("two sweeps", TwoSweeps))
        },
    }
)


@dataclass(slots=True)
class Tally:
    """What a protocol did in all runs together."""

    runs: int = 0
    #: Runs that ended with wrong tables, that touched dispatchers off the path, that delivered something twice.
    wrong: int = 0
    disturbing: int = 0
    doubling: int = 0
    messages: int = 0
    entries: int = 0
    touched: int = 0
    off_the_path: int = 0
    path: int = 0
    due: int = 0
    lost: int = 0
    repair_times: list[float] = field(default_factory=list)

    def add(self, history: History) -> None:
        """Counts one run."""
        self.runs += 1
        self.wrong += any(wrong_tables(history))
        self.disturbing += bool(history.off_the_path)
        self.doubling += any(twice(history))
        self.messages += history.messages
        self.entries += history.entries
        self.touched += len(history.touched)
        self.off_the_path += len(history.off_the_path)
        self.path += len(history.plan.substitution.chain)
        self.due += history.due()
        self.lost += len(history.lost())
        self.repair_times.append(history.repair_time)

    def mean(self, total: float) -> float:
        """A total for each run."""
        return total / self.runs

    @property
    def repair_time(self) -> float:
        """The mean time to repair."""
        return self.mean(sum(self.repair_times))

    @property
    def share_lost(self) -> float:
        """The share of deliveries that should have been and were not."""
        return self.lost / max(self.due, 1)


def compare(plans: Iterable[Plan], protocols: Mapping[str, Protocol] = PROTOCOLS) -> dict[str, Tally]:
    """Runs every plan under every protocol.

    >>> tallies = compare(Plan.drawn(seed, publications=0) for seed in range(8))
    >>> tallies["published, literal"].wrong > 5, tallies["published, repaired"].wrong, tallies["two sweeps, covering"].wrong
    (True, 0, 0)
    """
    tallies = {name: Tally() for name in protocols}
    for plan in plans:
        for name, protocol in protocols.items():
            tallies[name].add(run(plan, protocol))
    return tallies
