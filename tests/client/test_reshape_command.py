"""`sluice link` and `sluice broker join|leave` on networks that run: what they say, what they refuse, what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from sluice.broker.supervise import Network, running
from sluice.broker.topology import topology
from sluice.cli import main
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """b1 is linked to b2, and b2 to b3."""
    with running(topology("line", 3, settings={"log_level": "error", "routing": "merging"})) as network:
        yield network


@pytest.fixture
def say(network: Network, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def said(*words: str, at: str = "b1") -> tuple[int, str]:
        status = main([*words, "--at", str(network.addresses[at])])
        return status, "".join(capsys.readouterr())

    return said


def brokers(network: Network, name: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    main(["status", str(network.addresses[name]), "--json"])
    return {report["name"] for report in json.loads(capsys.readouterr().out)}


def test_what_it_would_touch(say: Callable[..., tuple[int, str]]) -> None:
    status, text = say("link", "replace", "b2", "b3", "--by", "b3", "b1", "--dry-run")
    assert status == 0 and text == "replaces the link b2 - b3 by b1 - b3\ntouches b2, b1 and b3\n"
    status, text = say("broker", "leave", "b2", "--dry-run")
    assert status == 0 and text.splitlines() == [
        "replaces the link b3 - b2 by b3 - b1",
        "sends the clients of b2 to b1, and stops it",
        "touches b1, b2 and b3",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("link replace b1 b2 --by b2 b3", "both on the side of b2"),
        ("link remove b1 b2", "two networks, b1, and b2 and b3: say --split"),
        ("link remove b1 b2 --split", "say --yes"),
        ("link remove b1 b3 --split", "b1 and b3 are not linked"),
        ("link add b9 127.0.0.1:1", "no broker is called b9"),
        ("link add b1 127.0.0.1:1 --yes", "no broker at sluice://127.0.0.1:1"),
        ("broker leave b9", "no broker is called b9"),
    ],
)
def test_what_is_refused(
    say: Callable[..., tuple[int, str]], words: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        status, text = say(*words.split())
    assert status == 2 and problem in text.lower()


def test_who_is_linked_already(say: Callable[..., tuple[int, str]], network: Network) -> None:
    status, text = say("link", "add", "b1", str(network.addresses["b3"]), "--yes")
    assert status == 2 and "b3 is in this network already" in text


def test_a_link_is_taken_away_and_added_again(
    say: Callable[..., tuple[int, str]], network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = say("link", "remove", "b2", "b3", "--split", "--yes")
    assert status == 0
    assert text == "removes the link b2 - b3\nleaves two networks: b1 and b2, and b3\ndone\n"
    assert brokers(network, "b3", capsys) == {"b3"}
    network.restart("b3")
    assert brokers(network, "b3", capsys) == {"b3"}, "it remembers what was taken away"
    status, text = say("link", "add", "b3", str(network.addresses["b1"]), "--yes", at="b3")
    assert status == 0 and text.endswith("done\n")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while brokers(network, "b3", capsys) != {"b1", "b2", "b3"}:
        assert time.monotonic() < deadline


def test_a_broker_joins_as_a_leaf(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    address = str(network.addresses["b1"])
    assert main(["broker", "join", address, "--name", "b2", "--check"]) == 2
    assert "b2 is in that network already" in capsys.readouterr().err
    assert main(["broker", "join", address, "--name", "b4", "--routing", "simple", "--check"]) == 2
    assert "routing (from --routing) is merging in that network: leave it out" in capsys.readouterr().err
    command = [sys.executable, "-m", "sluice", "broker", "join", address, "--name", "b4", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--stop-on-eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().startswith(b"b4 listens on sluice://127.0.0.1:")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "b4" not in brokers(network, "b1", capsys):
            assert time.monotonic() < deadline
        main(["status", address, "--json"])
        reports = {report["name"]: report for report in json.loads(capsys.readouterr().out)}
        assert reports["b4"]["settings"]["routing"] == "merging"
        assert main(["broker", "leave", "b4", "--yes", "--at", address]) == 0
        assert process.stdout.readline() == b"b4 has left its network\n"
        assert process.wait(PATIENCE_SECONDS) == 0
