"""Numbers by a rule of the program's own: they jump forward, never back, and what is stored under them is stored once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sluice
from sluice.errors import ConfigurationError
from tests.spark.brokers import brokers


def test_a_program_that_is_run_again_publishes_nothing_twice(tmp_path: Path) -> None:
    with brokers(tmp_path, "b1") as network:
        for _ in range(2):
            with sluice.connect(network.at["b1"], "job") as bus:
                assert bus.is_durable
                for first in (1_000, 1 << 40):
                    if bus.published < first:
                        bus.skip_to(first, timeout=60)
                        assert bus.published == first - 1
                        bus.publish_arrow(pa.table({"n": [1, 2, 3]}))
                        assert bus.publish({"n": 4}) == bus.published == first + 3
        with sluice.connect(network.at["b1"]) as bus:
            found = [
                event
                for batch in bus.fetch("b1")
                for event in (batch if isinstance(batch, list) else batch.to_pylist())
            ]
            assert [event["n"] for event in found] == [1, 2, 3, 4] * 2
            assert bus.streams() == {"b1": range(1, 9)}


def test_numbers_never_go_back(tmp_path: Path) -> None:
    with brokers(tmp_path, "b1") as network, sluice.connect(network.at["b1"], "job") as bus:
        bus.publish_many([{"n": 1}, {"n": 2}])
        with pytest.raises(ConfigurationError, match="number 2 was published, and numbers do not go back to 2"):
            bus.skip_to(2)
        bus.skip_to(3)
        assert bus.publish({"n": 3}) == 3
        bus.skip_to(100)
        bus.flush(timeout=60)  # nothing waits for what was left out
        assert bus.published == 99


def test_a_broker_without_a_log_keeps_nothing() -> None:
    with sluice.connect("memory://") as bus:
        assert not bus.is_durable
