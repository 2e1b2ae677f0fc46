"""What should each neighbour know? Routing by content as one duty: `sent[H] == reduce(alpha(H))` (chapter 3 of REBECA).

`reduce` has the algorithms, which differ in nothing but what they leave out; `stages` the steps they are made of; `policy` what
an imperfect merger may waste; `table` keeps one table of a broker and all that it has told about it.
"""

from sluice.protocol.route.policy import Ratio, Traffic
from sluice.protocol.route.reduce import ALGORITHMS, Reducer, RoutingOptions, register_routing

__all__ = ["ALGORITHMS", "Ratio", "Reducer", "RoutingOptions", "Traffic", "register_routing"]
