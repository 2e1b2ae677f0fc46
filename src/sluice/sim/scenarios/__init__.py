"""The scenarios that ship: each puts one part of what the network promises to the test."""

from sluice.sim.scenario import register_scenario
from sluice.sim.scenarios.completeness import Completeness
from sluice.sim.scenarios.interest import Interest
from sluice.sim.scenarios.leases import Leases
from sluice.sim.scenarios.order import Order
from sluice.sim.scenarios.reliable import Reliable
from sluice.sim.scenarios.replay import Replay
from sluice.sim.scenarios.reshape import Reshape
from sluice.sim.scenarios.routing import Routing
from sluice.sim.scenarios.streams import Streams

for scenario in (Routing(), Completeness(), Interest(), Leases(), Streams(), Replay(), Reliable(), Order(), Reshape()):
    register_scenario(scenario)

__all__ = ["Completeness", "Interest", "Leases", "Order", "Reliable", "Replay", "Reshape", "Routing", "Streams"]
