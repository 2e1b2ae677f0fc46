"""Exactly once: drivers, workers and brokers are killed in the middle of batches, a commit is lost: the archive is whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

import sluice
from bench.spark.cluster import Cluster, Process, until
from sluice.broker.supervise import running
from sluice.broker.topology import topology
from sluice.errors import SparkError
from sluice.spark.archive.read import positions, read
from tests.spark.cluster import LOCAL_CLUSTER, executors, kill, program

#: Rows that each broker has logged, and in one batch of the pipeline.
ROWS, BATCH = 8_000, 1_000


def archived(archive: Path) -> int:
    """How many offsets are archived."""
    try:
        return sum(positions(archive).values())
    except SparkError:
        return 0  # it is about to be made


@pytest.mark.long
def test_on_a_local_cluster(tmp_path: Path) -> None:
    survive(tmp_path, LOCAL_CLUSTER, executors)


@pytest.mark.long
def test_on_a_standalone_cluster(tmp_path: Path, cluster: Cluster) -> None:
    survive(tmp_path, cluster.master, lambda driver: executors(*cluster.workers))


def survive(tmp_path: Path, master: str, executors_of: Callable[[Process], list[int]]) -> None:
    """A driver, its last commit, an executor and a broker are lost, one after the other: everything is archived once."""
    archive = tmp_path / "archive"
    with ExitStack() as stack:
        line = topology("line", 2, data=tmp_path / "data", settings={"log_level": "error"})
        brokers = stack.enter_context(running(line))
        for number, address in enumerate(brokers.addresses.values()):
            with sluice.connect(str(address)) as bus:
                for start in range(number * ROWS, (number + 1) * ROWS, 500):
                    bus.publish_arrow(pa.record_batch({"n": [*range(start, start + 500)]}))
                bus.flush()

        def pipeline(life: int) -> Process:
            addresses = ",".join(map(str, brokers.addresses.values()))
            flags = ["--brokers", addresses, "--archive", str(archive), "--master", master]
            limits = ["--max-rows", str(BATCH), "--every", "0.05", "--compact-every", "8"]
            return stack.enter_context(program(tmp_path / f"driver-{life}.log", "sluice", "pipeline", *flags, *limits))

        def goes_on(driver: Process, batches: int) -> None:
            """Waits until so many more batches are archived, and the next one is under way."""
            target = min(archived(archive) + batches * BATCH, 2 * ROWS)
            until(lambda: archived(archive) >= target or not driver.runs, "the archive grows")
            assert driver.runs, driver.said[-5_000:]

        driver = pipeline(1)
        goes_on(driver, 3)
        driver.kill()
        before = archived(archive)
        commits = sorted((archive / "_delta_log").glob("*.json"))
        commits[-1].unlink()
        assert archived(archive) <= before < 2 * ROWS

        driver = pipeline(2)
        goes_on(driver, 2)
        victims = executors_of(driver)
        assert victims, "nobody works"
        kill(victims[0])
        goes_on(driver, 2)
        brokers.kill("b2")
        brokers.restart("b2")
        goes_on(driver, 2)
        until(lambda: archived(archive) == 2 * ROWS or not driver.runs, "everything is archived")
        os.kill(driver.pid, signal.SIGTERM)
        assert driver.wait() == 0, driver.said[-5_000:]

    found = sorted(n for batch in read(archive) for n in batch.column("n").to_pylist())
    assert found == [*range(2 * ROWS)]
