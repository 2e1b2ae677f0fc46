"""A standalone master with two workers is a master like any other: matching is matching, and the doctor knows the workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.spark.cluster import Cluster, environment
from sluice.spark import doctor
from sluice.spark.doctor import Check, State
from tests.spark.cluster import program
from tests.spark.matched import STRATEGIES, expected, totals

#: The faults on the same cluster are in make test.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a driver found that matched on the cluster."""
    folder = tmp_path_factory.mktemp("matched")
    with program(folder / "driver.log", "tests.spark.matched", cluster.master, str(folder / "work")) as driver:
        assert driver.wait() == 0, driver.said[-5_000:]
        answer: dict[str, Any] = json.loads(driver.said.splitlines()[-1])
    return answer


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_matching_is_the_plain_oracle(found: dict[str, Any], strategy: str) -> None:
    pairs = expected()
    assert found["matched"][strategy] == {"rows": pairs, "counts": totals(pairs)} and pairs


def test_an_index_that_only_the_driver_sees_is_shipped(found: dict[str, Any]) -> None:
    assert found["shipped"] == sorted([id, a] for id, low in ((1, 3), (2, 5)) for a in range(low + 1, 10))


def test_workers_of_a_host_map_the_same_index(found: dict[str, Any]) -> None:
    first, second = found["mapped"]
    assert first["process"] != second["process"] and first["file"] == second["file"] != 0
    assert first["own_bytes"] == second["own_bytes"] == 0, "pages are shared, not copied"


def test_the_doctor_finds_all_well(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = look(cluster, tmp_path, monkeypatch)
    assert {check.state for check in checks} == {State.OK}, checks
    assert [check.name.split()[0] for check in checks] == ["master", "session", "worker"]


def test_the_doctor_finds_workers_without_the_package(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their Python finds no `sluice`, wherever it is installed."""
    hidden, settings = tmp_path / "hidden", tmp_path / "settings"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['sluice'] = None\n")
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(f"spark.executorEnv.PYTHONPATH {hidden}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings))
    _, session, worker = look(cluster, tmp_path, monkeypatch)
    assert session.state == State.OK and f"on {cluster.master}" in session.found
    assert worker.state == State.MISSING and "without the package sluice" in worker.found, worker
    assert "pip install 'sluice[spark]==" in worker.mend


def look(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """What `sluice doctor --master` tells of the cluster."""
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    return [*doctor._master(cluster.master), *doctor._session(cluster.master)]
