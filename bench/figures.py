"""What one measurement found, in the form in which it is passed on, stored and printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: measured; answered wrongly; stopped at the time limit or failed; not asked for at this size.
Status = Literal["ok", "wrong", "failed", "skipped"]

OURS = "sluice"


@dataclass(frozen=True, slots=True)
class Figure:
    """One system, in one formulation, on one workload of one size."""

    system: str
    formulation: str
    workload: str
    size: int
    unit: Literal["batch", "record"]
    status: Status
    reason: str = ""
    build_seconds: float = 0.0
    events: int = 0
    ids: int = 0
    seconds: float = 0.0
    """Processor time of the best pass: with one thread on one core, other load on the machine does not distort it."""
    elapsed_seconds: float = 0.0
    complete: bool = False
    """Whether all notifications were matched, and so their total checked; else the figures are those of a sample."""
    passes: int = 0

    @property
    def events_per_second(self) -> float:
        """Events per second, of the best pass."""
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def ids_per_second(self) -> float:
        """Matches returned per second, of the best pass."""
        return self.ids / self.seconds if self.seconds else 0.0

    @property
    def microseconds_per_event(self) -> float:
        """Cost of one notification."""
        return self.seconds / self.events * 1e6 if self.events else 0.0

    def to_json(self) -> dict[str, Any]:
        """The figure with what follows from it, for people who read the raw file."""
        return asdict(self) | {
            "events_per_second": round(self.events_per_second, 1),
            "ids_per_second": round(self.ids_per_second, 1),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Figure:
        """The figure back again."""
        return cls(**{name: data[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that one run found."""

    command: str
    started: str
    limit_seconds: float
    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    """Of Sluice alone: load, save and open, changes while matching, memory."""

    def ok(self, system: str, workload: str, size: int, unit: str) -> list[Figure]:
        """The figures of a system that ran, fastest first."""
        found = [
            figure
            for figure in self.figures
            if (figure.system, figure.workload, figure.size, figure.unit, figure.status)
            == (system, workload, size, unit, "ok")
        ]
        return sorted(found, key=lambda figure: figure.microseconds_per_event)

    def fastest(self, system: str, workload: str, size: int, unit: str) -> Figure | None:
        """The fastest formulation of a system, if any ran."""
        found = self.ok(system, workload, size, unit)
        return found[0] if found else None

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain data."""
        return {
            "command": self.command,
            "started": self.started,
            "limit_seconds": self.limit_seconds,
            "machine": self.machine,
            "figures": [figure.to_json() for figure in self.figures],
            "operations": self.operations,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        """The run back again."""
        return cls(**data | {"figures": [Figure.from_json(figure) for figure in data["figures"]]})
