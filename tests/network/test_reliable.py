"""SIGKILL for any broker of redundant nodes under load: reliable subscriptions get everything once and in order.

For minutes of it: `python -m tests.soak_network --redundant`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.network.drill import Report
from tests.network.redundant import drill

CYCLES = 3


def test_who_relies_on_redundant_nodes_misses_nothing(tmp_path: Path) -> None:
    report = Report()
    asyncio.run(drill(tmp_path, 1, cycles=CYCLES, report=report))
    assert report.cycles == CYCLES <= report.kills.total()
    assert report.deliveries > report.acknowledged > 0
