"""`sluice broker` as people and programs meet it: what it says, what it refuses, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluice.cli import main
from sluice.net.address import Address
from tests.patience import PATIENCE_SECONDS

Run = Callable[..., tuple[int, str, str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["broker", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts brokers on ports that the kernel picks, and leaves none behind."""
    with ExitStack() as started:

        def run(*arguments: object) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "sluice", "broker", "--name", "b1", "--listen", "127.0.0.1:0"]
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield run


def address_in(process: subprocess.Popen[str]) -> Address:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("b1 listens on sluice://"), process.communicate()
    return Address.of(line.split()[-1])


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, logs = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, logs


def test_check_tells_each_value_and_its_source(broker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "b1.toml"
    file.write_text('routing = "merging"\nlinks = ["127.0.0.1:7471"]\ndata = "log"\n')
    monkeypatch.setenv("SLUICE_RETAIN_SECONDS", "7d")
    status, out, err = broker("--name", "b1", "--config", file, "--outbox-bytes", "1MiB", "--check")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "b1 would listen on sluice://127.0.0.1:7470",
        "  and dial 127.0.0.1:7471",
        "  and keep its log in log",
    ]
    told = {line.split()[0]: line.split()[1:] for line in lines[3:]}
    assert told["name"] == ["b1", "--name"]
    assert told["routing"] == ["merging", str(file)]
    assert told["retain_seconds"] == ["7d", "SLUICE_RETAIN_SECONDS"]
    assert told["outbox_bytes"] == ["1MiB", "--outbox-bytes"]
    assert told["log_level"] == ["info", "default"]
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a broker needs a name"),
        (["--name", "b1", "--routing", "guessing"], "no routing algorithm is called 'guessing'"),
        (["--name", "b1", "--import", "no_such_module"], "which cannot be imported"),
        (["--name", "b1", "--lease-seconds", "20s", "--renew-seconds", "10s"], "a lease of 20 s is too short"),
        (["--name", "b1", "--cache-seconds", "soon"], "cache_seconds (from --cache-seconds): 'soon' is no duration"),
        (["--name", "b1", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_check_refuses_what_cannot_run(broker: Run, arguments: list[str], said: str) -> None:
    status, out, err = broker(*arguments, "--check")
    assert (status, out) == (2, "")
    assert err.startswith("sluice: ") and said in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(start: Start, number: signal.Signals) -> None:
    process = start("--log-format", "json")
    with socket.create_connection(address_in(process)[:2]):
        process.send_signal(number)
        status, logs = ended(process)
    assert status == 0
    lines = [json.loads(line) for line in logs.splitlines()]
    assert lines[0]["event"] == "listens"
    assert "stopped" in [line["event"] for line in lines]
    assert {line["broker"] for line in lines} == {"b1"}


def test_it_ends_with_its_standard_input_if_asked(start: Start) -> None:
    process = start("--stop-on-eof")
    address_in(process)
    assert process.stdin is not None
    process.stdin.write("this is ignored\n")
    process.stdin.close()
    process.stdin = None
    status, logs = ended(process)
    assert status == 0 and "stopped" in logs


def test_without_being_asked_it_does_not(start: Start) -> None:
    process = start()
    address = address_in(process)
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    with socket.create_connection(address[:2]):
        assert process.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="tells what a process has loaded in another way")
def test_nothing_is_loaded_that_a_broker_does_without(start: Start) -> None:
    process = start()
    address_in(process)
    loaded = Path(f"/proc/{process.pid}/maps").read_text()
    assert "/pyarrow/" in loaded
    assert "/pandas/" not in loaded


def test_a_file_has_no_end_to_wait_for(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.touch()
    command = [sys.executable, "-m", "sluice", "broker", "--name", "b1", "--listen", "127.0.0.1:0", "--stop-on-eof"]
    with file.open() as standard_input:
        done = subprocess.run(command, stdin=standard_input, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 2 and "needs a pipe as standard input" in done.stderr


def test_a_port_that_is_taken(start: Start) -> None:
    taken = address_in(start())
    status, logs = ended(start("--listen", str(taken)))
    assert status == 2
    assert "sluice: " in logs and str(taken.port) in logs


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker", "--help"])
    out = capsys.readouterr().out
    assert "--retain-seconds DURATION" in out and "--link TEXT" in out and "--fsync BOOL" in out
