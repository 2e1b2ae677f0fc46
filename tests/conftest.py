"""What all tests share: how hypothesis runs, one small Spark, and who works beside whom.

The suite is the same at every run. For a longer or a different one, set `SLUICE_EXAMPLES` (times as many examples) or
`SLUICE_SEED` (other examples; the seed is printed on top of the report).

`make test` has two workers (pytest-xdist), each with the next test that nobody has yet. Tests that share something costly are
in one group, which one worker runs: all that use Spark, and modules that say so with `xdist_group`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = os.environ.get("SLUICE_SEED")
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "1"))

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


def pytest_configure(config: pytest.Config) -> None:
    if SEED is not None and hasattr(config.option, "hypothesis_seed") and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = SEED


def pytest_report_header() -> str:
    return f"generated examples: {EXAMPLES}x, {'the fixed ones' if SEED is None else f'SLUICE_SEED={SEED}'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One Spark is enough, and it is slow to start: whoever wants it waits in one line."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


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
