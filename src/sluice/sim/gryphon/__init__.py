"""The generic algorithm of Gryphon as a pure reference: small enough to be read beside the paper, checked at every step.

`Generic` is a network of brokers on a tree of nodes; its guards are the generic algorithm of sections 3 to 5, the single path
of 6.1 and the equal vectors of 6.2. It shares nothing with the running brokers, so that both can be compared.
"""

from sluice.sim.gryphon.guard import (
    EQUAL_VECTORS,
    LITERAL,
    REPAIRED,
    SINGLE_PATH,
    Constraints,
    Guard,
    Kind,
    Raises,
    Vectors,
)
from sluice.sim.gryphon.network import Generic
from sluice.sim.gryphon.subscriber import Delivery
from sluice.sim.gryphon.topology import Topology

__all__ = [
    "EQUAL_VECTORS",
    "LITERAL",
    "REPAIRED",
    "SINGLE_PATH",
    "Constraints",
    "Delivery",
    "Generic",
    "Guard",
    "Kind",
    "Raises",
    "Topology",
    "Vectors",
]
