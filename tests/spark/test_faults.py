"""From streams through Spark into another stream, on real clusters, killed in the middle of batches: all arrives once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sluice
from bench.spark.cluster import Cluster, Process, until
from sluice.broker.supervise import Network
from sluice.broker.topology import topology
from tests.spark.cluster import LOCAL_CLUSTER, executors, kill, program

#: Records that are published before each fault: several micro-batches of the driver.
RECORDS = 2_000


class Pipeline:
    """Three durable brokers in a line, as processes: two to read from, and one to publish to."""

    def __init__(self, folder: Path) -> None:
        self.network = Network(topology("line", 3, data=folder, settings={"log_level": "error"}))
        self.published = 0

    @property
    def addresses(self) -> dict[str, str]:
        return {name: str(address) for name, address in self.network.addresses.items()}

    def feed(self) -> None:
        """Publishes more, as records and as columns."""
        first, self.published = self.published, self.published + RECORDS
        half = first + RECORDS // 2
        with sluice.connect(self.addresses["b1"]) as bus:
            bus.publish_many([{"n": n} for n in range(first, half)])
            bus.flush()
        with sluice.connect(self.addresses["b2"]) as bus:
            bus.publish_arrow(pa.table({"n": range(half, self.published)}))
            bus.flush()

    def arrived(self) -> list[int]:
        """What is in the third stream."""
        with sluice.connect(self.addresses["b3"]) as bus:
            batches = [*bus.fetch("b3")]
        return [row["n"] for batch in batches for row in (batch if isinstance(batch, list) else batch.to_pylist())]

    def feed_and_wait(self, driver: Process) -> None:
        """Returns when the driver is in the middle of what was published: some of it has arrived."""
        before = self.head()
        self.feed()
        self.wait(driver, before + 1)

    def wait(self, driver: Process, count: int) -> None:
        """Returns when so much has arrived."""
        until(lambda: self.head() >= count or not driver.runs, f"{count} records arrive")
        assert driver.runs, driver.said[-5_000:]

    def head(self) -> int:
        """How much is in the third stream."""
        with sluice.connect(self.addresses["b3"]) as bus:
            return int(bus.describe()["log"]["head"])


@contextmanager
def started(folder: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(folder)
    try:
        pipeline.network.start()
        yield pipeline
    finally:
        pipeline.network.close()


def commits(checkpoint: Path) -> list[Path]:
    """The batches that are noted as done, the last one last."""
    return sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))


@pytest.mark.long
def test_on_a_local_cluster(tmp_path: Path) -> None:
    survive(tmp_path, LOCAL_CLUSTER, executors)


@pytest.mark.long
def test_on_a_standalone_cluster(tmp_path: Path, cluster: Cluster) -> None:
    survive(tmp_path, cluster.master, lambda driver: executors(*cluster.workers))


def survive(folder: Path, master: str, executors_of: Callable[[Process], list[int]]) -> None:
    """A driver, its last commit, an executor and two brokers are lost, one after the other."""
    checkpoint = folder / "checkpoint"
    with started(folder / "brokers") as pipeline:
        at = pipeline.addresses
        arguments = [master, f"{at['b1']},{at['b2']}", at["b3"], str(checkpoint)]
        with program(folder / "first.log", "tests.spark.driver", *arguments) as driver:
            pipeline.feed_and_wait(driver)
            until(lambda: bool(commits(checkpoint)), "a batch is committed")
            pipeline.feed_and_wait(driver)
        assert pipeline.head() < pipeline.published, "killed in the middle"
        commits(checkpoint)[-1].unlink()
        with program(folder / "second.log", "tests.spark.driver", *arguments) as driver:
            pipeline.feed_and_wait(driver)
            victim, _ = executors_of(driver)
            kill(victim)
            for broker in ("b3", "b1"):
                pipeline.feed_and_wait(driver)
                pipeline.network.kill(broker)
                pipeline.network.restart(broker)
            # A further batch at the end, so that the one before it is over with all its attempts.
            for _ in range(2):
                pipeline.feed()
                pipeline.wait(driver, pipeline.published)
        arrived, wanted = Counter(pipeline.arrived()), Counter(range(pipeline.published))
        assert arrived == wanted, (arrived - wanted, wanted - arrived)
