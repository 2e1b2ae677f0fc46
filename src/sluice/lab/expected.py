"""What should come out of an experiment: the closed forms of sections 6.3 and 6.4, and expectations where chance has a part.

For every direction of every link the tables and messages follow from how many active clients lie behind it. A client asks for
one stock with probability 1/100; of n random intervals around one price, H(n) = 1 + 1/2 + ... + 1/n are maximal on average.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sluice.lab.experiment import Setup
from sluice.lab.topology import Topology
from sluice.lab.workload import STOCKS, SUBSCRIPTIONS_PER_CLIENT, clients_for, homes_of
from sluice.protocol.batch import Peer

#: The probability that a client asks for a certain stock.
SHARE = SUBSCRIPTIONS_PER_CLIENT / STOCKS


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected sum of remote entries and mean of control messages; None where no formula is known.

    `most_entries` is what the sum of remote entries approaches with ever more subscriptions, None where it has no bound.
    """

    remote_entries: float | None
    admin_messages: float | None
    most_entries: int | None


def expected(setup: Setup, topology: Topology) -> Expected:
    """What a setup should count, for clients of ten subscriptions each.

    >>> from sluice.lab.topology import hierarchy
    >>> expected(Setup(experiment="table-size", routing="simple", subscriptions=6_700), hierarchy())
    Expected(remote_entries=710200.0, admin_messages=106.0, most_entries=None)
    """
    algorithm = _ALGORITHMS.get((setup.routing, setup.filters))
    if algorithm is None:
        return Expected(None, None, None)
    network = _Counts(setup, topology)
    directions = len(topology.links) * (1 if setup.advertisements else 2)
    return Expected(
        sum(count * algorithm.entries(behind) for behind, count in network.directions().items()),
        network.mean_messages(algorithm.message),
        None if algorithm.most_entries is None else directions * algorithm.most_entries,
    )


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """How one direction of a link behaves under a routing algorithm."""

    #: Entries on the far side, given the number of active clients behind the near side.
    entries: Callable[[int], float]
    #: Probability that a change is passed on, given the number of other active clients behind the near side.
    message: Callable[[int], float]
    most_entries: int | None = None


def _simple_entries(clients: int) -> float:
    return float(clients * SUBSCRIPTIONS_PER_CLIENT)


def _distinct_stocks(clients: int) -> float:
    return STOCKS * -math.expm1(clients * math.log1p(-SHARE))


def _nobody_else(others: int) -> float:
    """Nobody else behind here asks for the stock."""
    return math.exp(others * math.log1p(-SHARE))


def _maximal_intervals(clients: int) -> float:
    """STOCKS * E[H(N)] for N binomial, by E[H(N)] = sum over j of (1 - (1 - p)^j) / j."""
    return STOCKS * sum(-math.expm1(j * math.log1p(-SHARE)) / j for j in range(1, clients + 1))


def _new_maximum(others: int) -> float:
    """Of n + 1 random intervals a certain one is maximal with probability H(n + 1) / (n + 1)."""
    return _over_binomial(others, lambda n: _harmonic(n + 1) / (n + 1))


def _new_end(others: int) -> float:
    """An interval reaches further than n others on at least one side with probability 1 - (n / (n + 1))²."""
    return _over_binomial(others, lambda n: 1 - (n / (n + 1)) ** 2)


def _harmonic(n: int) -> float:
    if n < 1_000:
        return sum(1 / k for k in range(1, n + 1))
    return math.log(n) + 0.577_215_664_901_532_9 + 1 / (2 * n)


def _over_binomial(trials: int, value: Callable[[int], float]) -> float:
    """The mean of a function of how many of so many clients ask for a stock."""
    mean = trials * SHARE
    reach = 12 * math.sqrt(mean * (1 - SHARE)) + 12
    total = 0.0
    for n in range(max(0, int(mean - reach)), min(trials, int(mean + reach)) + 1):
        chance = math.lgamma(trials + 1) - math.lgamma(n + 1) - math.lgamma(trials - n + 1)
        chance += n * math.log(SHARE) + (trials - n) * math.log1p(-SHARE)
        total += math.exp(chance) * value(n)
    return total


_SIMPLE = _Algorithm(_simple_entries, lambda others: 1.0)
_IDENTITY = _Algorithm(_distinct_stocks, _nobody_else, STOCKS)
_ALGORITHMS = {
    ("simple", "quote"): _SIMPLE,
    ("simple", "interval"): _SIMPLE,
    ("identity", "quote"): _IDENTITY,
    # No two random intervals are the same.
    ("identity", "interval"): _SIMPLE,
    # A quote subscription covers only its like.
    ("covering", "quote"): _IDENTITY,
    ("covering", "interval"): _Algorithm(_maximal_intervals, _new_maximum),
    # All stocks in one filter, which changes whenever the set of stocks does.
    ("merging", "quote"): _Algorithm(lambda clients: float(clients > 0), _nobody_else, 1),
    # All intervals of a stock contain the middle price, and so make one.
    ("merging", "interval"): _Algorithm(_distinct_stocks, _new_end, STOCKS),
}


class _Counts:
    """How many active clients lie behind each direction of each link."""

    def __init__(self, setup: Setup, topology: Topology) -> None:
        self._setup = setup
        self._topology = topology
        self._above = {lower: upper for upper, lower in topology.links}
        homes = homes_of(clients_for(setup.subscriptions), len(topology.locals), setup.seed)
        self._here = Counter(topology.locals[home] for home in homes)
        active = Counter(topology.locals[home] for number, home in enumerate(homes) if setup.is_active(number))
        self._active = active.total()
        #: Of each broker but the root: the active clients below and at it.
        self._below: Counter[Peer] = Counter()
        for broker, count in active.items():
            for lower in self._up_from(broker):
                self._below[lower] += count

    def directions(self) -> Counter[int]:
        """Numbers of active clients behind the directions that subscriptions travel in, each with how often it occurs."""
        found: Counter[int] = Counter()
        for _, lower in self._topology.links:
            found[self._below[lower]] += 1
            if not self._setup.advertisements:
                found[self._active - self._below[lower]] += 1
        return found

    def mean_messages(self, message: Callable[[int], float]) -> float:
        """The mean over the local brokers that have clients: along each direction a change may be passed on."""
        known: dict[int, float] = {}

        def passed_on(behind: int) -> float:
            # The client that changes is no other: it is one of those behind if it was active, and half of them are.
            share = 1.0 if self._setup.experiment == "table-size" else 0.5
            total = 0.0
            for others, weight in ((behind - 1, share), (behind, 1 - share)):
                if weight:
                    if others not in known:
                        known[others] = message(max(others, 0))
                    total += weight * known[others]
            return total

        total = 0.0
        for broker in self._here:
            path = set(self._up_from(broker))
            for _, lower in self._topology.links:
                if lower in path:
                    total += passed_on(self._below[lower])
                elif not self._setup.advertisements:
                    total += passed_on(self._active - self._below[lower])
        return total / len(self._here)

    def _up_from(self, broker: Peer) -> list[Peer]:
        """The lower ends of the links from a broker to the root."""
        path = []
        while broker != self._topology.root:
            path.append(broker)
            broker = self._above[broker]
        return path
