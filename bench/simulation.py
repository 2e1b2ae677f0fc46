"""How many events a second the simulator gets through, scenario by scenario, checks and all; prints what it found as JSON."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from bench.machine import stay_on_one_core
from sluice.sim import Choices, scenario_named

SCENARIOS = ("routing", "completeness", "interest", "leases")


def measure(name: str, limit_seconds: float) -> dict[str, Any]:
    """One seed after the other until the time is over; processor time, so that other load does not count."""
    scenario = scenario_named(name)
    scenario.run(0, Choices())  # so that compiling the kernels is not measured
    runs = events = violations = 0
    start = time.process_time()
    while (seconds := time.process_time() - start) < limit_seconds or not runs:
        outcome = scenario.run(runs + 1, Choices())
        runs += 1
        events += outcome.events
        violations += len(outcome.violations)
    return {
        "scenario": name,
        "runs": runs,
        "events": events,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "violations": violations,
    }


def main() -> None:
    """Reads what to measure, measures it, prints it."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long")
    options = parser.parse_args()
    stay_on_one_core()
    print(json.dumps(measure(options.scenario, options.seconds)))


if __name__ == "__main__":
    main()
