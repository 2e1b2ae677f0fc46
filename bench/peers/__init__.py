"""The peers: what people use today to match events against many rules in a Python program.

Each module here has `build(workload, formulation, subscriptions) -> Runner`. A *formulation* is one way of asking the
same question of the same tool; all of them are measured, and a peer is judged by its fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from bench.timing import Runner
from bench.workloads import Subscriptions


@dataclass(frozen=True, slots=True)
class Entrant:
    """One formulation of one peer on one workload."""

    peer: str
    formulation: str
    workload: str
    unit: Literal["batch", "record"]
    module: str
    largest: int = 1_000_000
    """The largest number of subscriptions it is asked for."""
    beyond: str = ""
    """Why not for more."""

    def build(self, subscriptions: Subscriptions) -> Runner:
        """Loads the subscriptions; the tool is imported only now, in the process that measures it."""
        runner: Runner = import_module(self.module).build(self.workload, self.formulation, subscriptions)
        return runner


_DUCKDB, _POLARS = "bench.peers.duckdb_join", "bench.peers.polars_join"
_LAMBDAS, _RULES = "bench.peers.lambdas", "bench.peers.rules"
_PRODUCT = "compares every notification with every subscription"

ENTRANTS = (
    Entrant("duckdb", "nullable columns", "w1", "batch", _DUCKDB),
    Entrant("duckdb", "sorted and encoded", "w1", "batch", _DUCKDB),
    Entrant("duckdb", "nullable columns", "w2", "batch", _DUCKDB, 10_000, _PRODUCT),
    Entrant("duckdb", "rarest equality", "w2", "batch", _DUCKDB),
    Entrant("duckdb", "pairs and bins", "w2", "batch", _DUCKDB),
    Entrant("polars", "sorted and encoded", "w1", "batch", _POLARS),
    Entrant("polars", "rarest equality", "w2", "batch", _POLARS),
    Entrant("polars", "pairs and bins", "w2", "batch", _POLARS),
    Entrant("lambdas", "indexed by symbol", "w1", "record", _LAMBDAS),
    Entrant("lambdas", "indexed by rarest equality", "w2", "record", _LAMBDAS),
    Entrant("rule-engine", "every rule", "w1", "record", _RULES, 10_000, _PRODUCT),
    Entrant("rule-engine", "every rule", "w2", "record", _RULES, 10_000, _PRODUCT),
)
PEERS = tuple(dict.fromkeys(entrant.peer for entrant in ENTRANTS))
