"""The figures of a run: for each contestant of each scenario the trials, or why there are none."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

OURS = "ours"


@dataclass(frozen=True, slots=True)
class Trial:
    """What one measurement found."""

    count: int
    seconds: float
    """From the first publication until the last was received, or acknowledged where nobody receives."""
    missing: int
    publisher_cpu_seconds: float
    broker_cpu_seconds: float
    subscriber_cpu_seconds: float
    other_cpu_seconds: float
    """What processes that have nothing to do with it used meanwhile."""
    latency_us: dict[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.count / self.seconds


@dataclass(slots=True)
class Entry:
    """A contestant of a scenario, and how it did."""

    scenario: str
    label: str
    system: str
    version: str | None
    size: int = 0
    """Of what the scenario varies: subscriptions, or brokers in a line."""
    status: Literal["ok", "wrong", "failed", "not installed"] = "ok"
    reason: str = ""
    trials: list[Trial] = field(default_factory=list)

    def median(self, figure: Callable[[Trial], float]) -> float:
        """The median of a figure over all trials."""
        return statistics.median(map(figure, self.trials))

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.median(lambda trial: trial.per_second)

    def latency_us(self, percentile: str) -> float:
        """A percentile of how long messages were under way, in microseconds."""
        return self.median(lambda trial: trial.latency_us[percentile])

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Entry:
        """What `to_json` of a run has made of it."""
        return cls(**{**found, "trials": [Trial(**trial) for trial in found["trials"]]})


@dataclass(frozen=True, slots=True)
class Link:
    """What went over a link between two brokers while so many messages were published."""

    routing: str
    name: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BrokerRun:
    """Everything that one run found."""

    command: str
    started: str
    rounds: int
    machine: dict[str, str]
    entries: list[Entry] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return asdict(self)

    @property
    def disturbed(self) -> tuple[int, int]:
        """In how many trials others used over a tenth of a core meanwhile, and how many trials there were."""
        trials = [trial for entry in self.entries for trial in entry.trials]
        return sum(trial.other_cpu_seconds > 0.1 * trial.seconds for trial in trials), len(trials)

    def of(self, scenario: str) -> Iterator[Entry]:
        """The contestants of a scenario."""
        return (entry for entry in self.entries if entry.scenario == scenario)

    def find(self, scenario: str, label: str) -> Entry | None:
        """A contestant, if it was measured and nothing was wrong."""
        for entry in self.of(scenario):
            if entry.label == label and entry.status == "ok":
                return entry
        return None
