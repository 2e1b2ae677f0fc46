"""Many plans under many algorithms: how often each breaks which promise, how long it delays, and what it sends.

Every algorithm gets the same plans. Delays are measured where links take constant time: there a FIFO network delivers after
exactly as many units of time as there are links on the way, and the rest is what ordering adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from types import MappingProxyType

from sluice.sim.padres.checks import broken, degrees
from sluice.sim.padres.fifo import Fifo
from sluice.sim.padres.floors import Floors
from sluice.sim.padres.network import Algorithm, History, run
from sluice.sim.padres.plan import Plan
from sluice.sim.padres.published import Published
from sluice.sim.padres.rooted import Rooted
from sluice.sim.padres.sequencer import Sequencer
from sluice.sim.padres.skeen import Skeen

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        "fifo": Fifo,
        "published, exact, whole queue": partial(Published, detection="exact", release="whole"),
        "published, exact, progressive": partial(Published, detection="exact", release="progressive"),
        "published, fast, whole queue": partial(Published, detection="fast", release="whole"),
        "published, fast, progressive": partial(Published, detection="fast", release="progressive"),
        "sequencer": Sequencer,
        "rooted": Rooted,
        "skeen": Skeen,
        "floors": Floors,
    }
)


@dataclass(slots=True)
class Tally:
    """What an algorithm did in all runs together."""

    runs: int = 0
    #: The number of runs in which each check failed.
    broken: dict[str, int] = field(default_factory=dict)
    #: What ordering added to each delivery, in link delays.
    added: list[float] = field(default_factory=list)
    publications: int = 0
    carried: int = 0
    control: int = 0
    degrees: list[float] = field(default_factory=list)
    #: From the first publication to the last delivery of each run, all together.
    duration: float = 0.0

    def add(self, history: History) -> None:
        """Counts one run."""
        self.runs += 1
        for check in dict.fromkeys(one.check for one in broken(history)):
            self.broken[check] = self.broken.get(check, 0) + 1
        self.publications += len(history.published)
        self.carried += history.carried
        self.control += history.control
        self.degrees += degrees(history)
        self.duration += max((got[-1][1] for got in history.delivered.values() if got), default=0.0)
        self.duration -= min(history.published.values(), default=0.0)
        if history.plan.delays == "constant":
            self.added += _added(history)

    def share(self, check: str) -> float:
        """The share of runs in which a check failed."""
        return self.broken.get(check, 0) / self.runs

    @property
    def mean_added(self) -> float:
        """The mean of the added delays."""
        return fmean(self.added or [0.0])

    def added_at(self, share: float) -> float:
        """The added delay that this share of deliveries does not exceed."""
        return sorted(self.added or [0.0])[min(int(share * len(self.added)), max(len(self.added) - 1, 0))]

    @property
    def control_per_publication(self) -> float:
        """Messages about order for each publication."""
        return self.control / max(self.publications, 1)

    @property
    def carried_per_publication(self) -> float:
        """Links that a publication crosses."""
        return self.carried / max(self.publications, 1)

    @property
    def throughput(self) -> float:
        """Publications in a unit of time, from the first of them until everything was delivered."""
        return self.publications / max(self.duration, 1e-9)

    @property
    def degree(self) -> float:
        """The mean of the normalised ordering degrees of all pairs of streams."""
        return fmean(self.degrees or [1.0])


def compare(plans: Iterable[Plan], algorithms: Mapping[str, Algorithm] = ALGORITHMS) -> dict[str, Tally]:
    """Runs every plan under every algorithm.

    >>> tallies = compare(Plan.drawn(seed) for seed in range(20))
    >>> tallies["fifo"].share("pairwise order") > 0.3, tallies["floors"].broken
    (True, {})
    """
    tallies = {name: Tally() for name in algorithms}
    for plan in plans:
        for name, algorithm in algorithms.items():
            tallies[name].add(run(plan, algorithm))
    return tallies


def _added(history: History) -> Iterable[float]:
    plan = history.plan
    for subscriber in plan.subscribers:
        for publication, time in history.delivered[subscriber.name]:
            way = plan.tree.distance(plan.publisher[publication.publisher].broker, subscriber.broker)
            # Never negative but for rounding.
            yield max(0.0, time - history.published[publication] - way)
