"""`sluice link` and `sluice broker join|leave` on networks that run: what they say, what they refuse, what they do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.cli import main
from sluice.client import reshape
from sluice.client.background import Background
from sluice.client.tree import Tree
from sluice.client.verbs import reshape as reshape_command
from tests.broker.test_shape import known
from tests.patience import PATIENCE_SECONDS


class Brokers:
    """Brokers in a thread of their own, each of which dials the one before it."""

    def __init__(self, *names: str) -> None:
        self._background = Background("brokers")
        self.servers: dict[str, Server] = {}
        for name in names:
            links = tuple(str(server.address) for server in [*self.servers.values()][-1:])
            self._background.run(
                self._start(ServerConfig(name=name, listen="127.0.0.1:0", links=links, routing="merging"))
            )

    async def _start(self, config: ServerConfig) -> None:
        self.servers[config.name] = server = Server(config)
        await server.start()

    def stop(self) -> None:
        for server in self.servers.values():
            self._background.run(server.stop())
        self._background.stop()


@pytest.fixture
def network() -> Iterator[Brokers]:
    """b1 is linked to b2, and b2 to b3."""
    network = Brokers("b1", "b2", "b3")
    until(lambda: all(known(server) == {"b1", "b2", "b3"} for server in network.servers.values()))
    yield network
    network.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@pytest.fixture
def say(network: Brokers, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def said(*words: str, at: str = "b1") -> tuple[int, str]:
        status = main([*words, "--at", str(network.servers[at].address)])
        return status, "".join(capsys.readouterr())

    return said


def test_what_it_would_touch(say: Callable[..., tuple[int, str]]) -> None:
    status, text = say("link", "replace", "b2", "b3", "--by", "b3", "b1", "--dry-run")
    assert status == 0 and text == "replaces the link b3 - b2 by b3 - b1\ntouches b3, b1 and b2\n"
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
        ("link add b1 b3 --yes", "b3 is in this network already"),
        ("link replace b2 b3 --by b1 b3 --address nowhere:port", "no address of a broker"),
        ("link replace b2 b3 --by b1 b3 --address 127.0.0.1:1 --yes", "b1 cannot reach b3"),
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


def test_who_is_linked_already(say: Callable[..., tuple[int, str]], network: Brokers) -> None:
    status, text = say("link", "add", "b1", str(network.servers["b3"].address), "--yes")
    assert status == 2 and "b3 is in this network already" in text


def test_a_link_is_taken_away_and_added_again(say: Callable[..., tuple[int, str]], network: Brokers) -> None:
    servers = network.servers
    status, text = say("link", "remove", "b2", "b3", "--split", "--yes")
    assert status == 0
    assert text == "removes the link b2 - b3\nleaves two networks: b1 and b2, and b3\ndone\n"
    until(lambda: known(servers["b3"]) == {"b3"} and known(servers["b1"]) == {"b1", "b2"})
    status, text = say("link", "add", "b3", str(servers["b1"].address), "--yes", at="b3")
    assert status == 0 and text.endswith("done\n")
    until(lambda: known(servers["b3"]) == {"b1", "b2", "b3"})


def test_a_link_is_replaced_when_somebody_agrees(
    say: Callable[..., tuple[int, str]], network: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("link", "replace", "b2", "b3", "--by", "b1", "b3")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    assert say(*words) == (1, "replaces the link b2 - b3 by b1 - b3\ntouches b2, b1 and b3\n")
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    status, text = say(*words)
    assert status == 0 and "b2 - b3 by b1 - b3: done (b2, b1, b3)" in text
    assert {*network.servers["b3"].peers} >= {"b1"} and "b2" not in network.servers["b3"].peers


def test_what_has_changed_since_somebody_was_asked_is_not_done(
    say: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = iter((["this"], ["that"]))
    monkeypatch.setattr(reshape_command, "_agrees", lambda: True)
    monkeypatch.setattr(Tree, "touched", lambda tree, change: next(plans))
    status, text = say("link", "replace", "b2", "b3", "--by", "b1", "b3")
    assert status == 2 and "has changed since you were asked" in text


def test_ctrl_c_where_it_asks(say: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for an answer cannot be interrupted, nor can an event loop: it is asked where both are not."""
    asked: list[threading.Thread] = []

    def interrupted(question: str) -> str:
        asked.append(threading.current_thread())
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", interrupted)
    status, text = say("link", "replace", "b1", "b2", "--by", "b1", "b3")
    assert status == 130 and "done" not in text and asked == [threading.main_thread()]


def test_ctrl_c_while_it_waits(say: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def interrupted(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(reshape, "replace", interrupted)
    monkeypatch.setattr(reshape_command, "_tell", told.append)
    with pytest.raises(asyncio.CancelledError):
        say("link", "replace", "b2", "b3", "--by", "b1", "b3", "--yes")
    assert "the step under way goes on" in told[0]


def test_a_broker_joins_as_a_leaf_and_leaves(network: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    address = str(network.servers["b1"].address)
    assert main(["broker", "join", address, "--name", "b2", "--check"]) == 2
    assert "b2 is in that network already" in capsys.readouterr().err
    assert main(["broker", "join", address, "--name", "b4", "--routing", "simple", "--check"]) == 2
    assert "routing (from --routing) is merging in that network: leave it out" in capsys.readouterr().err
    command = [sys.executable, "-m", "sluice", "broker", "join", address, "--name", "b4", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--stop-on-eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().startswith(b"b4 listens on sluice://127.0.0.1:")
        until(lambda: "b4" in known(network.servers["b3"]))
        assert main(["status", address, "--json"]) == 0
        reports = {report["name"]: report for report in json.loads(capsys.readouterr().out)}
        assert reports["b4"]["settings"]["routing"] == "merging"
        assert main(["broker", "leave", "b4", "--yes", "--at", address]) == 0
        assert process.stdout.readline() == b"b4 has left its network\n"
        assert process.wait(PATIENCE_SECONDS) == 0
