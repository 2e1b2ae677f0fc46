"""What all tests share: how hypothesis runs, one small Spark, and who works beside whom.

The suite is the same at every run. For a longer or a different one, set `SLUICE_EXAMPLES` (times as many examples) or
`SLUICE_SEED` (other examples; the seed is printed on top of the report).

`make test` has three workers (pytest-xdist). Any test may run beside any other one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = os.environ.get("SLUICE_SEED")
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "1"))

#: What is in the names of tests that share something that is slow to start, a cluster, a Spark, a network of processes, and
#: what that is; the first one counts.
TOGETHER = {
    "spark/test_archive_faults.py": "cluster",
    "spark/test_faults.py": "cluster",
    "spark/test_cluster.py": "cluster",
    "spark/test_connect.py": "server",
    "spark/": "Spark",
    "tests/test_bench_spark.py": "Spark",
    "tests/test_spark_oracle.py": "Spark",
    "examples_run[docs/how-to/archive-and-history.md]": "Spark",
    "examples_run[docs/how-to/match-on-spark.md]": "Spark",
    "examples_run[docs/how-to/patterns.md]": "Spark",
    "examples_run[docs/how-to/spark-source-and-sink.md]": "Spark",
    "tests/client/test_status.py": "network",
}
#: Where the names of tests start that may take half a minute: at the end, one of them would keep everybody waiting.
FIRST = ("tests/network/", "tests/test_bench", "tests/test_docs.py")

settings.register_profile(
    "sluice",
    deadline=None,
    derandomize=SEED is None,
    database=None,
    max_examples=100 * EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("sluice")

# A shell that runs the suite in the background has it ignore Ctrl-C, and what tests start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)
jvm.settle()


def pytest_configure(config: pytest.Config) -> None:
    if SEED is not None and hasattr(config.option, "hypothesis_seed") and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = SEED


def pytest_report_header() -> str:
    return f"generated examples: {EXAMPLES}x, {'the fixed ones' if SEED is None else f'SLUICE_SEED={SEED}'}"


def scope_of(nodeid: str) -> str:
    """What a test belongs to: what it shares with others, or itself."""
    return next((shared for part, shared in TOGETHER.items() if part in nodeid), nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: scope_of(item.nodeid) != item.nodeid or not item.nodeid.startswith(FIRST))


class Scheduling(LoadScopeScheduling):
    """Gives each worker the next test that nobody has yet, and tests that belong together to one worker, first of all."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def bare_environment() -> None:
    """What is said to the suite is not said to the brokers that it starts, which would not know the variables."""
    for variable in ("SLUICE_SEED", "SLUICE_EXAMPLES"):
        os.environ.pop(variable, None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark of a process, as the product starts it, on two cores."""
    from sluice.spark.session import session as start

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = start("sluice-tests", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
