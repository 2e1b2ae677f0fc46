"""Bugs on purpose: each mutant breaks one thing in a core, and the simulator must notice it.

A check that finds no bug proves nothing. A mutant is a patch of one real function for the time of a run. `hunt` runs seeds
until a check fails; the canaries must be caught on nearly every seed.
"""

from sluice.sim.mutants import (
    completeness,
    interest,
    leases,
    merged,
    order,
    reliable,
    replay,
    reshape,
    rooted,
    routing,
    streams,
)
from sluice.sim.mutants.mutant import MUTANTS, SEEDS, Caught, Mutant, hunt

__all__ = [
    "MUTANTS",
    "SEEDS",
    "Caught",
    "Mutant",
    "completeness",
    "hunt",
    "interest",
    "leases",
    "merged",
    "order",
    "reliable",
    "replay",
    "reshape",
    "rooted",
    "routing",
    "streams",
]
