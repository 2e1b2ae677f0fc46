"""Through Spark Connect: what Spark allows there is as elsewhere, and what it does not is refused in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import sluice
from bench.spark.cluster import connect_server
from tests.spark.brokers import Brokers, brokers
from tests.spark.cluster import program
from tests.spark.matched import STRATEGIES, expected, totals

CORES = 2

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """A broker with ten numbers, and one with nothing yet."""
    with brokers(tmp_path_factory.mktemp("brokers"), "b1", "b2") as network:
        with sluice.connect(network.at["b1"]) as bus:
            bus.publish_many([{"n": n} for n in range(10)])
            bus.flush()
        yield network


@pytest.fixture(scope="module")
def results(network: Brokers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each piece of work of a program with a server of its own."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "work").mkdir()
    with connect_server(folder / "server", f"local[{CORES}]") as master:
        arguments = (master, str(folder / "work"), network.at["b1"], network.at["b2"])
        with program(folder / "program.log", "tests.spark.connected", *arguments) as connected:
            assert connected.wait() == 0, connected.said[-5_000:]
            answer: dict[str, dict[str, Any]] = json.loads(connected.said.splitlines()[-1])
    return answer


@pytest.fixture
def found(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Results without errors."""
    return {name: result["found"] for name, result in results.items() if "found" in result}


def test_nothing_else_fails(results: dict[str, dict[str, Any]]) -> None:
    errors = {name: result["error"] for name, result in results.items() if "error" in result}
    assert errors.keys() == {"live"}, errors


def test_cores_are_counted(found: dict[str, Any]) -> None:
    assert found["core_count"] == CORES


def test_source_and_sink(found: dict[str, Any], network: Brokers) -> None:
    assert found["source"] == [3, 4, 6]
    with sluice.connect(network.at["b2"]) as bus:
        batches = [*bus.fetch("b2")]
    rows = [row for batch in batches for row in (batch if isinstance(batch, list) else batch.to_pylist())]
    arrived = sorted((row["subscription"], row["n"]) for row in rows)
    assert arrived == [(1, 6), (1, 7), (1, 8), (2, 3), (7, 100), (8, 101)], "a matched stream and a batch, each once"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_matching_is_the_plain_oracle(found: dict[str, Any], strategy: str) -> None:
    pairs = expected()
    assert found["matched"][strategy] == {"rows": pairs, "counts": totals(pairs)} and pairs


def test_an_index_is_shipped_through_the_server(found: dict[str, Any]) -> None:
    assert found["shipped"] == sorted([id, a] for id, low in ((1, 3), (2, 5)) for a in range(low + 1, 10))


def test_changing_subscriptions_are_refused(results: dict[str, dict[str, Any]]) -> None:
    assert "Spark Connect runs what is done with each batch at its server" in results["live"]["error"]


def test_history(found: dict[str, Any]) -> None:
    assert found["history"] == [[7, 8, 9], [8, 9]]


def test_commands(found: dict[str, Any]) -> None:
    said = found["commands"]
    assert said["match"] == '{"notification": 2, "ids": [7]}\n'
    assert said["pipeline"] == "16 rows archived\n", "all that both brokers had logged"
    assert said["statistics"].endswith(": 16 notifications, 2 attributes\n")
    checks = {check["name"].split()[0]: check["state"] for check in said["doctor"]}
    assert "Java" not in checks and {checks[name] for name in ("master", "session", "worker", "broker")} == {"ok"}
