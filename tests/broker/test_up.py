"""`sluice up` and the networks of programs: brokers are started, kept running, and none is left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest
from rich.console import Console

from sluice.broker.command import table_of
from sluice.broker.config import ServerConfig
from sluice.broker.process import BrokerProcess
from sluice.broker.supervise import STOP_SECONDS, Kept, running
from sluice.broker.topology import EXAMPLE, read_topology, topology
from sluice.cli import main
from sluice.errors import ConfigurationError
from tests.patience import PATIENCE_SECONDS
from tests.terminal import at_terminal

TWO = '[network]\nshape = "line"\nbrokers = ["a", "b"]\nport = 0\n'


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def exists(pid: int) -> bool:
    """Whether there is such a process; one that has ended and was not waited for is none."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


class Up:
    """A running `sluice up`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def line(self, pattern: str) -> re.Match[str]:
        """The next line that matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.fullmatch(pattern, self.lines[-1]):
                return found
        raise AssertionError(f"{pattern} never came: {self.lines}")

    def pid(self, name: str) -> int:
        """The process of a broker that comes up."""
        return int(self.line(rf"{name} up at sluice://127\.0\.0\.1:\d+, process (\d+)(?: of node b)?")[1])


@contextmanager
def up(file: Path, text: str) -> Iterator[Up]:
    file.write_text(text)
    command = [sys.executable, "-m", "sluice", "up", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watchdog = Timer(PATIENCE_SECONDS, process.kill)  # whoever waits for a line sees the end then
        watchdog.start()
        try:
            yield Up(process)
        finally:
            watchdog.cancel()
            process.kill()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "topology.toml"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all(file: Path, number: signal.Signals) -> None:
    with up(file, TWO) as network:
        pids = [network.pid("a"), network.pid("b")]
        assert network.lines[:2] == ["a starting", network.lines[1]], "the one that is dialled comes first"
        network.process.send_signal(number)
        network.line("a stopped|b stopped")
        network.line("a stopped|b stopped")
        assert network.process.wait(PATIENCE_SECONDS) == 0
        assert not any(map(exists, pids))


def test_a_broker_that_dies_is_started_again(file: Path) -> None:
    with up(file, TWO) as network:
        first = network.pid("a")
        network.pid("b")
        where = network.lines[1].split(",")[0]
        os.kill(first, signal.SIGKILL)
        network.line("a down: it was killed by SIGKILL")
        network.line("a starting again, restart 1")
        second = network.pid("a")
        assert second != first and network.lines[-1].startswith(where), "at the same address"
        network.process.send_signal(signal.SIGINT)
        assert network.process.wait(PATIENCE_SECONDS) == 0
        assert not exists(second)


def test_nobody_outlives_a_supervisor_that_is_killed(file: Path) -> None:
    with up(file, TWO + '[nodes]\nb = ["c"]\n') as network:
        pids = [network.pid("a"), network.pid("c")]
        assert network.lines[-1].endswith(" of node b")
        network.process.kill()
        until(lambda: not any(map(exists, pids)))


def test_a_second_signal_does_not_wait(file: Path) -> None:
    with up(file, TWO) as network:
        pids = [network.pid("a"), network.pid("b")]
        os.kill(pids[1], signal.SIGSTOP)  # it will not stop by itself
        network.process.send_signal(signal.SIGINT)
        network.line("a stopped")
        network.process.send_signal(signal.SIGINT)
        # Less than what it waits for a broker that it has asked to stop, and far more than it takes to kill one.
        assert network.process.wait(STOP_SECONDS * 2 / 3) == 0
        assert not any(map(exists, pids))


def test_a_network_that_cannot_start_ends(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        text = TWO + f'[brokers.b]\nlisten = "127.0.0.1:{taken.getsockname()[1]}"\n'
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "sluice", "up", str(file)], capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    assert done.returncode == 2
    assert "b ended with status 2 before it listened" in done.stderr and "address already in use" in done.stderr


def test_settings_are_checked_before_anything_starts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TWO + '[brokers.b]\nrouting = "guessing"\n')
    assert main(["up", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "no routing algorithm is called 'guessing'" in err


def test_the_example_is_a_topology(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--example"]) == 0
    assert capsys.readouterr().out == EXAMPLE
    file.write_text(EXAMPLE)
    assert len(read_topology(file).brokers) == 7


def test_which_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up"]) == 2
    assert "sluice up --example" in capsys.readouterr().err


def test_a_table_for_people(file: Path) -> None:
    file.write_text('[network]\nbrokers = ["zed"]\nport = 0\n[broker]\nlog_level = "info"\n')
    shown = at_terminal("up", file, interrupt_at="zed listens")
    assert shown.status == 0
    assert "zed listens" in shown.text, "logs are above the table"
    assert "restarts" in shown.text and "stopped" in shown.text and "[yellow]" not in shown.text


def test_nodes_are_in_the_table() -> None:
    def shown(**nodes: str | None) -> str:
        configs = [ServerConfig(name=name, node=node) for name, node in nodes.items()]
        kept = {config.name: Kept(BrokerProcess(config)) for config in configs}
        console = Console(width=200)
        with console.capture() as capture:
            console.print(table_of(kept))
        return capture.get()

    assert re.search(r"node +. broker", shown(a=None, b1="b")) and re.search(r"\bb +. b1 ", shown(a=None, b1="b"))
    assert "node" not in shown(a=None, b=None)


def test_a_program_kills_and_restarts(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_LOG_FORMAT", "not for those whose settings are all given")
    with running(topology("line", ["a", "b"], settings={"log_level": "error"})) as network:
        before = dict(network.pids)
        with socket.create_connection(network.addresses["b"][:2]):
            pass
        network.kill("b")
        assert not exists(before["b"])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(network.addresses["b"][:2])
        network.restart("b")
        network.restart("a")
        assert network.pids["a"] != before["a"]
        for address in network.addresses.values():
            with socket.create_connection(address[:2]):
                pass
        pids = list(network.pids.values())
    assert not any(map(exists, pids))
    assert capfd.readouterr().err == ""


def test_a_program_that_fails_leaves_nobody_behind() -> None:
    with pytest.raises(ZeroDivisionError), running(topology("line", 1, settings={"log_level": "error"})) as network:
        pids = list(network.pids.values())
        raise ZeroDivisionError
    assert not any(map(exists, pids))


def test_a_broker_that_does_not_come_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").write_text("this is no directory")
    said = "b1 ended with status 2 before it listened"
    with pytest.raises(ConfigurationError, match=said), running(topology("line", 1, data=tmp_path / "data")):
        raise AssertionError("it runs")
    assert "data" in capfd.readouterr().err
