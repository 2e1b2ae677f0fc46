"""SIGKILL for any broker at any moment under load: nothing that was acknowledged is lost, nothing is read twice.

For a thousand cycles: `python -m tests.soak_network`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.network.drill import Logs, Lost, Report, compare, drill

#: A module that a broker imports first, and that makes its log acknowledge what it writes five commits later.
FORGETFUL = """
from collections import deque
from sluice.broker.store.store import Store

late, write = deque(), Store.append

def append(self, batches, positions=()):
    offsets, head = [], self.head + sum(batch.count for earlier, _ in late for batch in earlier)
    for batch in batches:
        offsets.append(head + 1)
        head += batch.count
    late.append((batches, positions))
    if len(late) > 5:
        write(self, *late.popleft())
    return offsets

Store.append = append
"""


@pytest.mark.parametrize(
    ("shape", "brokers", "cycles"), [("line", 3, 5), pytest.param("tree", 5, 5, marks=pytest.mark.long)]
)
def test_a_killed_broker_loses_nothing_that_was_acknowledged(
    tmp_path: Path, shape: str, brokers: int, cycles: int
) -> None:
    report = Report()
    asyncio.run(drill(tmp_path, 1, shape=shape, brokers=brokers, cycles=cycles, report=report))
    assert report.cycles == cycles <= report.kills.total()
    assert report.acknowledged and report.deliveries >= report.acknowledged


def test_a_broker_that_acknowledges_too_early_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(drill(tmp_path, 1, shape="line", brokers=2, cycles=3, report=Report(), imports=("forgetful",)))
    assert caught.group_contains(Lost)


def test_a_log_is_compared_with_what_was_acknowledged() -> None:
    def logs(*numbers: int, elsewhere: int = 0) -> Logs:
        mine = [(offset, {"publisher": "p", "number": number}) for offset, number in enumerate(numbers, 1)]
        return {"b1": mine, "b2": mine[:elsewhere]}

    compare("p", "b1", 3, logs(1, 2, 3))
    for wrong in (
        logs(1, 3),
        logs(1, 2),
        logs(1, 2, 2, 3),
        logs(2, 1, 3),
        logs(1, 2, 3, 4),
        logs(1, 2, 3, elsewhere=1),
    ):
        with pytest.raises(Lost):
            compare("p", "b1", 3, wrong)
