"""How long a subscriber waits when a broker on its way dies.

A publisher publishes at a steady rate; meanwhile the broker that carries the traffic is killed, as `kill -9` does. The clients
are connected to brokers that survive. Every measurement has a system of its own, fresh, and the systems take turns.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from bench.brokers.client import Order
from bench.brokers.contest import Client, ClientError, Contestant, standing
from bench.brokers.figures import OURS
from bench.brokers.scenarios import version
from bench.brokers.server import ServerError
from bench.command import say
from sluice.broker.supervise import FIRST_RETRY_SECONDS

REDUNDANT = "Sluice, 2 brokers in the inner node"
SINGLE = "Sluice, 1 broker in each node"
JETSTREAM = "NATS JetStream, 3 replicas"


@dataclass(frozen=True, slots=True)
class StallPlan:
    """How often and for how long."""

    repetitions: int = 9
    per_second: int = 200
    before_seconds: float = 2.0
    """From the first publication until a broker dies."""
    after_seconds: float = 12.0
    """From then until the last publication: longer than a recovery takes, for later only what was missed would come."""
    limit_seconds: float = 60.0
    labels: tuple[str, ...] = (REDUNDANT, SINGLE, JETSTREAM)

    @property
    def order(self) -> Order:
        """What the clients are to do."""
        count = round(self.per_second * (self.before_seconds + self.after_seconds))
        return Order(count, self.limit_seconds, self.per_second)


@dataclass(frozen=True, slots=True)
class Stall:
    """What a subscriber saw of the death of a broker: longest times between two deliveries, less the usual one."""

    death_seconds: float
    """When it died."""
    later_seconds: float
    """Later, when it came back, if it did."""
    usual_seconds: float
    """Before: what the machine alone does to a subscriber."""
    missing: int = 0
    twice: int = 0

    @property
    def seconds(self) -> float:
        """The longest of all since a broker died."""
        return max(self.death_seconds, self.later_seconds)


@dataclass(slots=True)
class StallEntry:
    """A system, and all its stalls."""

    label: str
    system: str
    version: str | None
    status: Literal["ok", "wrong", "failed", "not installed"] = "ok"
    reason: str = ""
    stalls: list[Stall] = field(default_factory=list)

    def median(self, figure: Callable[[Stall], float] = lambda stall: stall.seconds) -> float:
        """The median of a figure over all repetitions."""
        return statistics.median(map(figure, self.stalls))

    @property
    def worst(self) -> float:
        """The longest stall, in seconds."""
        return max(stall.seconds for stall in self.stalls)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> StallEntry:
        """What `asdict` has made of it."""
        return cls(**{**found, "stalls": [Stall(**stall) for stall in found["stalls"]]})


_PUBLISHER = Client("publish_paced")
CONTESTANTS = (
    Contestant(
        REDUNDANT,
        OURS,
        _PUBLISHER,
        (Client("receive_steady", broker=-1),),
        {"brokers": 3, "brokers_per_node": 2, "durable": True},
    ),
    Contestant(SINGLE, OURS, _PUBLISHER, (Client("receive_steady", broker=-1),), {"brokers": 3, "durable": True}),
    Contestant(JETSTREAM, "jetstream", _PUBLISHER, (Client("receive_steady", broker=1),)),
)


def stall_of(received: Mapping[str, Any], killed_ns: int, pause_seconds: float) -> Stall:
    """What a subscriber saw, from the times at which something arrived."""
    usual = death = later = 0.0
    for earlier_ns, later_ns in pairwise(received["arrivals_ns"]):
        waited = max(0.0, (later_ns - earlier_ns) / 1e9 - pause_seconds)
        if later_ns <= killed_ns:
            usual = max(usual, waited)
        elif earlier_ns < killed_ns + FIRST_RETRY_SECONDS * 1e9:  # nobody has started it again by then
            death = max(death, waited)
        else:
            later = max(later, waited)
    return Stall(death, later, usual, received["missing"], received["twice"])


async def measure(contestant: Contestant, plan: StallPlan) -> Stall:
    """Starts a system, kills the broker that carries the traffic, and tells what the subscriber saw."""
    module = importlib.import_module(f"bench.brokers.{contestant.system}")
    order = plan.order
    async with standing(contestant) as stand:
        await stand.prepare(order)
        await stand.go()
        due = time.monotonic() + plan.before_seconds
        victim = await module.carrier(stand.server)
        await asyncio.sleep(due - time.monotonic())
        killed_ns = time.perf_counter_ns()
        os.kill(stand.server.processes[victim], signal.SIGKILL)
        (received,), _ = await stand.found(order)
    arrivals = received["arrivals_ns"]
    if not arrivals or not arrivals[0] < killed_ns < arrivals[-1]:
        raise ClientError("the subscriber got nothing before a broker died, or nothing after it")
    return stall_of(received, killed_ns, 1 / plan.per_second)


async def take_turns(plan: StallPlan) -> list[StallEntry]:
    """All systems in turn, as often as the plan says; one that is wrong or fails is not asked again."""
    contestants = [one for one in CONTESTANTS if one.label in plan.labels]
    entries = [StallEntry(one.label, one.system, version(one.system)) for one in contestants]
    for entry in entries:
        if entry.version is None:
            entry.status = "not installed"
    for _ in range(plan.repetitions):
        for contestant, entry in zip(contestants, entries, strict=True):
            if entry.status == "ok":
                await _measure(contestant, entry, plan)
    return entries


async def _measure(contestant: Contestant, entry: StallEntry, plan: StallPlan) -> None:
    try:
        found = await measure(contestant, plan)
    except (ServerError, ClientError) as error:
        entry.status, entry.reason = "failed", str(error)
        say(f"stall, {entry.label}: failed: {error}")
        return
    entry.stalls.append(found)
    if found.missing:
        entry.status, entry.reason = "wrong", f"{found.missing:,} of {plan.order.count:,} messages are missing"
    say(
        "stall".ljust(32)
        + entry.label.ljust(40)
        + f"{found.death_seconds:>12,.3f} s, later {found.later_seconds:,.3f} s"
    )
