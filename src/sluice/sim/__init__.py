"""The deterministic simulator: brokers and clients in one process and in virtual time, faults, and the specification as checks.

`Network` is for tests of your own; `sluice simulate` runs the scenarios that ship.
"""

from sluice.sim.network import Network, SpecificationError
from sluice.sim.scenario import Choices, Outcome, Scenario, register_scenario, scenario_named
from sluice.sim.spec import Violation
from sluice.sim.trace.trace import Trace
from sluice.sim.world.world import World

__all__ = [
    "Choices",
    "Network",
    "Outcome",
    "Scenario",
    "SpecificationError",
    "Trace",
    "Violation",
    "World",
    "register_scenario",
    "scenario_named",
]
