"""The one cluster that tests of Spark share: a standalone master with two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.spark.cluster import Cluster, standalone


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers with a core each. Whoever uses it leaves it as it was: no driver stays."""
    with standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
