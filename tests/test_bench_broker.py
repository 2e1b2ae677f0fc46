"""The broker benchmark measures what it says: every message is counted, brokers stop, peers may be absent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench import broker, broker_report
from bench.broker_report import outcomes
from bench.brokers import records, scenarios
from bench.brokers.client import Order, latencies, paced
from bench.brokers.contest import Client, Contestant
from bench.brokers.figures import OURS, BrokerRun, Entry, Trial
from bench.brokers.scenarios import PEERS, SCENARIOS, Plan, compete
from bench.brokers.server import Server, ServerError, started
from bench.brokers.stomp import Stomp, StompError
from bench.match import RESULTS


def test_every_record_has_the_same_size() -> None:
    made = [*records.plain(100), *records.keyed(100, 50), records.timed(7, 2**41)]
    assert {len(records.pack(record)) for record in made} == {records.RECORD_BYTES}


def test_batches_are_the_plain_records() -> None:
    batches = records.batches(3_000)
    assert [row for batch in batches for row in batch.to_pylist()] == records.plain(3_000)
    assert [batch.num_rows for batch in batches] == [1_024, 1_024, 952]


@pytest.mark.parametrize(("count", "keys", "connections"), [(1_000, 100, 10), (7, 100, 3), (1_000, 1, 1)])
def test_each_record_is_for_one_subscription(count: int, keys: int, connections: int) -> None:
    published = Counter(record["key"] for record in records.keyed(count, keys))
    for connection in range(connections):
        mine = records.keys_of(connection, connections, keys)
        assert sum(published.pop(key, 0) for key in mine) == records.expected(connection, connections, count, keys)
    assert not published


def test_all_keys_come_before_one_comes_again() -> None:
    assert sorted(records.key_numbers(10_000, 10_000)) == list(range(10_000))


def test_percentiles() -> None:
    assert latencies([1_000 * number for number in range(1, 101)]) == {"p50": 51.0, "p99": 100.0}
    assert latencies([]) == {}


def test_a_paced_publisher_misses_none() -> None:
    async def numbers() -> list[int]:
        return [number async for due in paced(Order(25, per_second=5_000)) for number in due]

    assert asyncio.run(numbers()) == list(range(25))


MESSAGE = b"MESSAGE\nsubscription:k1\ncontent-length:4\n\na\0\n\0\0\n"


@pytest.mark.parametrize("piece", [1, 2, 7, 1_000])
def test_stomp_frames_arrive_in_any_pieces(piece: int) -> None:
    async def bodies() -> list[bytes]:
        found = list[bytes]()
        stomp = Stomp(found.append)
        arriving = MESSAGE * 3 + b"MESSAGE\nsubscription:k1\n\nplain\0\n" + MESSAGE
        for start in range(0, len(arriving), piece):
            stomp.data_received(arriving[start : start + piece])
        return found

    assert asyncio.run(bodies()) == [b"a\0\n\0"] * 3 + [b"plain"] + [b"a\0\n\0"]


def test_a_stomp_error_reaches_who_waits() -> None:
    async def refused() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server:
            await Stomp.connect(f"{host}:{port}", lambda _: None)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\0")
        writer.write(b"ERROR\nmessage:no such host\n\n\0")
        await writer.drain()
        writer.close()

    with pytest.raises(StompError, match="no such host"):
        asyncio.run(refused())


def test_a_server_stops_with_all_that_it_started(tmp_path: Path) -> None:
    script = "import signal, subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); signal.pause()"
    with started([sys.executable, "-c", script], tmp_path, {}, lambda said: said.endswith("\n")) as session:
        child = int((tmp_path / f"{Path(sys.executable).name}.log").read_text())
        assert Server(("somewhere",), (session,)).cpu_seconds() >= 0.0
        os.kill(child, 0)
    for pid in (session, child):
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match="sh did not start: the port is taken"),
        started(["sh", "-c", "echo the port is taken; exit 1"], tmp_path, {}, lambda _: False),
    ):
        pass


@pytest.mark.long
def test_peers_are_measured_or_reported_as_not_installed(tmp_path: Path) -> None:
    """The smallest run of everything, as a user would start it."""
    assert broker.main(["--quick", "--output", str(tmp_path)]) == 0
    found = [Entry.from_json(entry) for entry in json.loads((tmp_path / "broker.json").read_text())["entries"]]
    assert {entry.scenario for entry in found} == {*SCENARIOS}
    for entry in found:
        wanted = "not installed" if scenarios.version(entry.system) is None else "ok"
        assert (entry.status, entry.reason) == (wanted, "")
        assert len(entry.trials) == (1 if wanted == "ok" else 0)
    assert (tmp_path / "broker.png").stat().st_size > 10_000
    page = (tmp_path / "broker.md").read_text()
    assert "## Targets" in page and "failed" not in page


def test_a_lost_message_is_noticed() -> None:
    """Half of what is published has keys that nobody has subscribed to, and the subscriber is expected to receive it all."""
    subscriber = Client("receive_keyed", {"connection": 0, "connections": 1, "keys": 2})
    contestant = Contestant("Sluice", OURS, Client("publish_keyed", {"keys": 4}), (subscriber,))
    (entry,) = asyncio.run(compete("filters", [contestant], Plan(rounds=1, limit_seconds=1.0, peers=())))
    assert entry.status == "failed"
    assert entry.reason.endswith("of 200 messages are missing after 1 s")


def test_an_absent_peer_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "version", lambda _: None)
    (entry,) = asyncio.run(compete("one-to-one", [Contestant("NATS", "nats", Client("publish"))], Plan()))
    assert (entry.status, entry.trials) == ("not installed", [])


def entry(scenario: str, label: str, system: str, per_second: float, *latency_us: float) -> Entry:
    taken = dict(zip(("p50", "p99"), latency_us, strict=False))
    trials = [Trial(1_000, 1_000 / (per_second * factor), 0, 0.1, 0.2, 0.3, 0.0, taken) for factor in (0.5, 1.0, 3.0)]
    return Entry(scenario, label, system, "1.0", trials=trials)


def run_of(*entries: Entry) -> BrokerRun:
    return BrokerRun("python -m bench.broker", "now", 3, {"cpu": "one"}, list(entries))


def test_targets_are_medians_against_the_better_peer() -> None:
    found = outcomes(
        run_of(
            entry("one-to-one", "NATS", "nats", 1_000),
            entry("one-to-one", "Sluice", OURS, 990),
            entry("one-to-one", "Sluice, Arrow batches", OURS, 5_000),
            entry("filters", "ActiveMQ selectors", "activemq", 100),
            entry("filters", "RabbitMQ headers", "rabbitmq", 10),
            entry("filters", "Sluice", OURS, 2_600),
            entry("latency", "NATS", "nats", 5_000, 100.0, 200.0),
            entry("latency", "Sluice", OURS, 5_000, 299.0, 601.0),
            Entry("durable", "NATS JetStream", "nats", None, status="not installed"),
            entry("durable", "Sluice", OURS, 5_000),
        )
    )
    assert [(one.found, one.reached) for one in found] == [
        ("0.99× (NATS)", False),
        ("5.00× (NATS)", True),
        ("26.00× (ActiveMQ selectors)", True),
        ("2.99×", True),
        ("3.00×", False),
        ("not measured", None),
    ]


def test_a_page_tells_whether_the_machine_was_quiet() -> None:
    quiet = entry("one-to-one", "NATS", "nats", 1_000)
    assert "Nothing else used the machine" in broker_report.markdown(run_of(quiet))
    noisy = Entry("one-to-one", "Sluice", OURS, "1.0", trials=[replace(quiet.trials[0], other_cpu_seconds=1.0)])
    assert "In 1 of 4 measurements other processes" in broker_report.markdown(run_of(quiet, noisy))


def test_a_page_tells_what_failed() -> None:
    failed = Entry("line", "Sluice", OURS, "1.0", 7, "failed", "the link did not come up")
    page = broker_report.markdown(run_of(entry("one-to-one", "NATS", "nats", 1_000), failed))
    assert "| 7 | failed: the link did not come up |" in page
    assert "| NATS | 1,000 | 500 – 3,000 | 100.0 | 200.0 | 300.0 |" in page


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.parse_arguments([]) == (Plan(), broker.ALL, RESULTS)
    assert broker.parse_arguments(["--quick"]) == (broker.QUICK, broker.ALL, None)
    assert broker.parse_arguments(["--scenarios", "filters"]) == (Plan(), ("filters",), None)
    assert broker.parse_arguments(["--peers", ""])[0].peers == ()
    assert Plan().peers == PEERS
    with pytest.raises(SystemExit):
        broker.parse_arguments(["--scenarios", "nothing"])
    assert "argument --scenarios" in capsys.readouterr().err


def test_interrupted_it_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> BrokerRun:
        raise KeyboardInterrupt

    assert broker.main(["--output", str(tmp_path)], interrupted) == 130
    assert not list(tmp_path.iterdir())
    assert "nothing was written" in capsys.readouterr().err
