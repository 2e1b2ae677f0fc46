"""The published substitution of a link beside others, in a network small enough to be read beside the paper.

`Plan` says what happens, `run` lets it happen under a `Protocol`, and the checks say what was wrong with it. The protocol of
Cugola, Frey, Murphy and Picco is here because it fails as printed; each of its repairs is a switch. The straightforward way and
two sweeps are here to be compared with it. It shares nothing with the running brokers.
"""

from sluice.sim.cugola.checks import disturbed, lost, twice, wrong_tables
from sluice.sim.cugola.compare import PROTOCOLS, Tally, compare
from sluice.sim.cugola.counterexamples import COUNTER_EXAMPLES, CounterExample
from sluice.sim.cugola.dispatcher import Dispatcher, Protocol
from sluice.sim.cugola.network import History, run
from sluice.sim.cugola.pattern import REDUCERS, Pattern
from sluice.sim.cugola.plan import Client, Plan, Publication
from sluice.sim.cugola.published import LITERAL, REPAIRED, Repair, published
from sluice.sim.cugola.substitution import Substitution

__all__ = [
    "COUNTER_EXAMPLES",
    "LITERAL",
    "PROTOCOLS",
    "REDUCERS",
    "REPAIRED",
    "Client",
    "CounterExample",
    "Dispatcher",
    "History",
    "Pattern",
    "Plan",
    "Protocol",
    "Publication",
    "Repair",
    "Substitution",
    "Tally",
    "compare",
    "disturbed",
    "lost",
    "published",
    "run",
    "twice",
    "wrong_tables",
]
