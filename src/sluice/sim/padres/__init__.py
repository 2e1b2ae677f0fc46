"""The published algorithm for pairwise total order beside others, in a network small enough to be read beside the paper.

`Plan` says what happens, `run` lets it happen under an `Ordering`, and `broken` says what was wrong with it. The published
algorithm is here because it does not keep its promise; FIFO links, a central sequencer, rooted sequencing, Skeen's algorithm
and floors are here to be compared with it. It shares nothing with the running brokers.
"""

from sluice.sim.padres.checks import broken, degrees, ordering_degree
from sluice.sim.padres.compare import ALGORITHMS, Tally, compare
from sluice.sim.padres.counterexamples import COUNTER_EXAMPLES, CounterExample
from sluice.sim.padres.network import Algorithm, History, run
from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Crash, Cut, Place, Plan, Publication, Publisher, Subscriber
from sluice.sim.padres.tree import Tree

__all__ = [
    "ALGORITHMS",
    "COUNTER_EXAMPLES",
    "Algorithm",
    "Carrier",
    "CounterExample",
    "Crash",
    "Cut",
    "History",
    "Ordering",
    "Place",
    "Plan",
    "Publication",
    "Publisher",
    "Subscriber",
    "Tally",
    "Tree",
    "broken",
    "compare",
    "degrees",
    "ordering_degree",
    "run",
]
