"""The verbs publish, subscribe and advertise, against a broker in this process."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import sluice
from sluice.cli import main
from sluice.client.background import Background
from tests.broker.raw import directory, running
from tests.client.test_bus import at
from tests.patience import PATIENCE_SECONDS
from tests.terminal import at_terminal


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A durable broker, and what the verbs use when no address is given."""
    background, stop, ready = Background("test-broker"), asyncio.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with running(**directory(tmp_path, "b")) as server:
            found.append(at(server))
            ready.set()
            await stop.wait()

    served = background.start(serve())
    assert ready.wait(60)
    monkeypatch.setenv("SLUICE_ADDRESS", found[0])
    yield found[0]
    background.call(stop.set)
    served.result(60)
    background.stop()


def started(*arguments: str) -> subprocess.Popen[str]:
    """A verb in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "sluice", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Presses Ctrl-C; what the process has said after what was read."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    return out, err


def log_of(address: str) -> list[sluice.Event]:
    with sluice.connect(address) as bus:
        return [
            event for batch in bus.fetch("b") for event in (batch if isinstance(batch, list) else batch.to_pylist())
        ]


Feed = Callable[[str], None]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Feed:
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return feed


def test_files_are_published(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], stdin: Feed) -> None:
    lines = tmp_path / "quotes.jsonl"
    lines.write_text("".join(f'{{"n": {n}}}\n' for n in range(3_000)))
    assert main(["publish", str(lines), "--batch", "1000"]) == 0
    (tmp_path / "quotes.csv").write_text("n,name\n3000,a\n3001,\n")
    assert main(["publish", str(tmp_path / "quotes.csv"), "--at", address]) == 0
    parquet.write_table(pa.table({"n": [3002, 3003]}), tmp_path / "quotes.parquet")
    assert main(["publish", str(tmp_path / "quotes.parquet"), "--batch", "1"]) == 0
    stdin('{"n": 3004}\n\n{"n": 3005}')
    assert main(["publish"]) == 0
    assert capsys.readouterr().out.split() == ["3000", "2", "2", "2"]
    assert [event["n"] for event in log_of(address)] == [*range(3_006)]


def test_a_record_that_is_none_is_named(address: str, capsys: pytest.CaptureFixture[str], stdin: Feed) -> None:
    half = '{"n": 3, "text": "\\ud800"}'
    stdin(f'{{"n": 1}}\n{{"n": 2}}\n{half}\n{{"n": 4}}\n')
    assert main(["publish", "-"]) == 2
    err = capsys.readouterr().err
    assert "standard input, line 3: a string holds half of a surrogate pair" in err and "\n2 records before it" in err
    stdin('{"n": 3}\nnothing\n{"n": 5}\n')
    assert main(["publish", "-"]) == 2
    err = capsys.readouterr().err
    assert "standard input, line 2: not JSON" in err and "\n1 records before it are published" in err
    assert [event["n"] for event in log_of(address)] == [1, 2, 3]


def test_nothing_is_published_without_a_file_or_a_broker(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["publish", "nothing.jsonl"]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "empty.jsonl").write_text("")
    assert main(["publish", str(tmp_path / "empty.jsonl"), "--at", "http://here"]) == 2
    assert "sluice://host:port" in capsys.readouterr().err


def test_a_log_is_read_from_an_offset_on(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with sluice.connect(address, "ann") as bus:
        bus.publish_many([{"n": 1}, {"n": 2}, {"n": 3, "data": b"\x00\xff"}, {"n": 4, "who": "Jürgen"}])
    assert main(["subscribe", "n > 0", "--from", "3", "--limit", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ['{"n": 3, "data": "AP8="}', '{"n": 4, "who": "Jürgen"}']
    assert err == "complete: nothing is missed from here on\n"
    assert main(["subscribe", "n = 2", "--from", "1", "--limit", "1", "--json", "--at", address]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told.pop("time").endswith("+00:00")
    assert told == {"record": {"n": 2}, "publisher": "ann", "number": 2, "stream": "b", "offset": 2, "replayed": False}


def test_a_durable_subscription_goes_on(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with sluice.connect(address) as bus:
        with bus.subscribe("n > 0", durable="accounting"):
            pass
        bus.publish_many([{"n": n} for n in range(1, 6)])
    for expected in ([1, 2], [3, 4, 5]):
        assert main(["subscribe", "n > 0", "--durable", "accounting", "--limit", str(len(expected))]) == 0
        assert [json.loads(line)["n"] for line in capsys.readouterr().out.splitlines()] == expected
    assert main(["subscribe", "n > 1", "--durable", "accounting"]) == 2
    assert "asks for n > 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["subscribe", "n > 1", "--durable", "accounting", "--from", "1"])
    with pytest.raises(SystemExit):
        main(["subscribe", "n > 1", "--limit", "0"])
    with pytest.raises(SystemExit):
        main(["subscribe", "n > 1", "--durable", "accounting", "--reliable"])
    assert main(["subscribe", "n > 1", "--reliable", "--last", "5"]) == 2
    assert "leave --replay and --last out" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "where"), [((), "here"), (("--reliable", "--ordered"), "offset 1 of b")])
def test_what_comes_is_printed_until_control_c(address: str, flags: tuple[str, ...], where: str) -> None:
    process = started("subscribe", "price > 100", *flags)
    assert process.stdout is not None and process.stderr is not None
    assert process.stderr.readline() == f"complete: nothing is missed from {where} on\n"
    with sluice.connect(address) as bus:
        bus.publish({"price": 121.5})
        assert process.stdout.readline() == '{"price": 121.5}\n'
        assert interrupted(process) == ("", "")


def test_who_is_interested_is_shown_until_control_c(address: str) -> None:
    process = started("advertise", "price > 100", "--at", address)
    assert process.stdout is not None and process.stderr is not None
    assert process.stderr.readline() == "advertised: price > 100\n"
    with sluice.connect(address, "ann") as bus:
        with bus.subscribe("price > 200") as subscription:
            assert process.stdout.readline() == f"+ {subscription.id}: price > 200\n"
        assert process.stdout.readline() == f"- {subscription.id}: price > 200\n"
    assert interrupted(process) == ("", "")


def test_a_live_pipe_is_published_as_it_comes(address: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sluice", "publish", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with sluice.connect(address) as bus, bus.subscribe("n > 0") as feed:
        feed.complete()
        for n in (1, 2):
            process.stdin.write(f'{{"n": {n}}}\n')
            process.stdin.flush()
            assert next(feed) == {"n": n}
        process.stdin.close()
        assert process.stdout.read() == "2\n" and process.wait(60) == 0
        process.stdout.close()


def test_what_is_typed_ends_with_control_c(address: str) -> None:
    shown = at_terminal("publish", interrupt_at="a JSON object a line")
    assert shown.status == 130 and shown.text.splitlines()[-1] == "0"


def test_what_can_bring_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subscribe", "n > 1 AND n < 0", "--from", "1", "--at", "memory://without-a-log"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "nothing can match: n > 1 and n < 0 exclude each other"
    assert said[1].endswith("keeps no log: start it with a data directory")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("publish", "subscribe", "advertise"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        out = capsys.readouterr().out
        assert f"  sluice {verb} " in out and "SLUICE_ADDRESS" in out


def test_the_environment_is_used_only_if_nothing_is_said(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.net.address import default_address

    with sluice.connect() as bus:
        assert bus.broker() == "b" and default_address() == address
    monkeypatch.delenv("SLUICE_ADDRESS")
    assert default_address() == "sluice://127.0.0.1:7470"
