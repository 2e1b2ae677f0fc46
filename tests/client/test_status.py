"""`sluice status`: what it asks, how it counts, what it shows; of made-up accounts, and of a network that runs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sluice.broker.supervise import Network, running
from sluice.broker.topology import topology
from sluice.cli import main
from sluice.client.connect import connect
from sluice.client.status import bytes_per_second, rates_of, tables_of
from sluice.client.survey import Report, survey
from tests.patience import PATIENCE_SECONDS
from tests.terminal import at_terminal


def report(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "incarnation": 1,
        "uptime_seconds": 100.0,
        "links": [],
        "clients": 2,
        "tables": {"subscriptions": 5, "advertisements": 0, "brokers": 1},
        "brokers": [name],
        "log": None,
        "memory_bytes": 0,
        "published": 1_000,
        "delivered": 2_000,
        "forwarded": 0,
        "dropped": 0,
        **changes,
    }


def link(peer: str, **changes: Any) -> dict[str, Any]:
    return {"peer": peer, "role": "broker", "bytes_in": 0, "bytes_out": 0, "waiting_bytes": 0, "dropped": 0, **changes}


def shown(before: Sequence[Report], after: Sequence[Report], width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(tables_of(before, after))
    return capture.get()


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}


def test_rates() -> None:
    before = report("b1")
    after = report("b1", uptime_seconds=104.0, published=1_400, delivered=2_000)
    assert rates_of(before, after) == {"published": 100.0, "delivered": 0.0, "forwarded": 0.0}


@pytest.mark.parametrize("before", [{}, report("b1", incarnation=0, uptime_seconds=50.0), report("b1")])
def test_no_rates_without_two_accounts_of_one_incarnation(before: Report) -> None:
    assert rates_of(before, report("b1")) == {"published": None, "delivered": None, "forwarded": None}


def test_bytes_of_a_link_that_was_made_anew() -> None:
    before = report("b1", links=[link("b2", bytes_out=500), link("b3", bytes_out=500)])
    after = report("b1", uptime_seconds=102.0, links=[link("b2", bytes_out=700), link("b3", bytes_out=3), link("b4")])
    assert bytes_per_second(before, after) == {"b2": 100.0, "b3": None, "b4": None}
    assert bytes_per_second({**before, "incarnation": 0}, after) == {"b2": None, "b3": None, "b4": None}


def test_the_table() -> None:
    before = [report("b1"), report("b2")]
    after = [
        report(
            "b1",
            uptime_seconds=101.0,
            published=2_234,
            links=[link("b2"), link("bob", role="client", waiting_bytes=5_000, dropped=7)],
            dropped=7,
            log={"first": 1, "head": 12_345, "bytes": 2_000_000, "holds": {"archive": 12_000}},
            memory_bytes=5_000,
        ),
        report("b2", incarnation=2),
        {"name": "b3", "error": "gone"},
    ]
    text = shown(before, after)
    found = rows(text)
    head = "broker up linked to clients in/s out/s forwarded/s subscriptions log kept held after waiting dropped"
    assert found["broker"] == head.split()[1:]
    assert " ".join(found["b3"]) == "no answer"
    assert re.search(r"b1 +1m 41s +b2 +2 +1,234 +0 +0 +5 +12,345 +2\.0 MB +12,000 by archive +5\.0 kB +7\b", text)
    assert re.search(r"b1 +bob, slow +5\.0 kB +7\b", text)


def test_nothing_is_cut_off_where_there_is_little_room() -> None:
    log = {"first": 1, "head": 12_345_678, "bytes": 2_000_000, "holds": {"archive": 12_000}}
    text = shown([], [report("b1", log=log, links=[link("b2")])], width=60)
    assert "…" not in text and max(map(len, text.splitlines())) <= 60
    assert [line.split()[0] for line in text.splitlines() if "─" not in line and line.split()] == [
        *(["broker", "b1"] * 3),
        *("from", "b1"),
    ]
    wide = shown([], [report("b1", log=log, links=[link("b2")])])
    assert {word for word in wide.split() if "─" not in word} == {word for word in text.split() if "─" not in word}


def test_settings_that_differ_are_told() -> None:
    after = [
        report(name, settings={"routing": "merging" if name == "b2" else "covering"}) for name in ("b1", "b2", "b3")
    ]
    text = shown([], after)
    assert re.search(r"routing +covering at b1, b3 *\n +merging at b2\b", text)
    assert "routing" not in shown([], [after[0], after[2], {"name": "b4", "error": "gone"}])


def test_empty_columns_are_left_out() -> None:
    text = shown([], [report("b1")])
    assert "subscriptions" in text and "advertisements" not in text and "kept" not in text and "from" not in text


def test_nodes_and_who_relies_on_them() -> None:
    idle = dict.fromkeys(
        (
            "subscriptions",
            "not_ready",
            "streams_behind",
            "gap_offsets",
            "asked",
            "silences",
            "unjudged",
            "from_cache",
            "from_log",
            "brokers_relying",
            "lag_offsets",
        ),
        0,
    )
    busy = {**idle, "subscriptions": 3, "streams_behind": 2, "gap_offsets": 1_500, "asked": 4, "silences": 5}
    text = shown(
        [],
        [
            report("b1", node="b1", reliable={**busy, "from_cache": 6, "from_log": 7, "lag_offsets": 8}),
            report("b2-1", node="b2", reliable=idle),
            {"name": "b3", "error": "gone"},
        ],
    )
    assert re.search(r"broker +node +up", text) and re.search(r"b2-1 +b2 +1m 40s", text)
    assert re.search(r"b1 +3 +1,500 of 2 streams +4 +5 +13 +0 brokers +8\b", text)
    assert len(re.findall("b2-1", text)) == 1, "who has nothing to do with it is not shown there"
    assert "relied on by" not in shown([], [report("b1", node="b1", reliable=idle)])


def test_what_is_held_back_for_the_sake_of_order() -> None:
    names = ("subscriptions", "stamped", "waiting", "waiting_clients", "unstamped", "held", "floors", "questions")
    idle: dict[str, float] = dict.fromkeys((*names, "waiting_seconds", "held_seconds", "longest_seconds"), 0)
    busy = {**idle, "subscriptions": 3, "stamped": 1_200, "waiting": 4, "unstamped": 1, "waiting_seconds": 0.0125}
    busy |= {"held": 50, "held_seconds": 0.5, "longest_seconds": 0.25, "floors": 70, "questions": 6}
    text = shown([], [report("b1", order=busy), report("b2", order=idle), {"name": "b3", "error": "gone"}])
    assert re.search(r"b1 +3 +1,200 +5 +12\.5 ms +50 +10\.0 ms +250\.0 ms +70 +6\b", text)
    assert len(re.findall("b2", text)) == 1 and "held back" not in shown([], [report("b2", order=idle)])
    rooted = {**idle, "root": "b1", "lost": 2}
    assert re.search(r"b2 .* b1 +2\b", shown([], [report("b2", order=rooted), {"name": "b3", "error": "gone"}]))


def test_links_that_are_not_as_they_should_be() -> None:
    nothing: dict[str, Any] = {"job": None, "path": [], "replaced_links": [], "doubts": {}, "broken": {}}
    nothing |= dict.fromkeys(("done", "refused", "failed", "held", "returned", "repaired", "given_up"), 0)
    busy = {**nothing, "doubts": {"b2": "b5"}, "broken": {"b3": 7.5}, "replaced_links": ["b2", "b4"], "repaired": 3}
    gone = [
        {"peer": "b3", "address": None, "reason": "waits to be dialled by it"},
        {"peer": None, "address": "sluice://h:1", "reason": "[Errno 111]"},
    ]
    job = {**nothing, "job": "b1/7.1", "path": ["b9", "b1"]}
    text = shown([], [report("b1", reshape=busy, missing_links=gone), report("b9", reshape=job, missing_links=[])])
    assert re.search(r"b1 +b3 +held for 7s, and another is looked for", text)
    assert re.search(r"b1 +b2 +in doubt: b5 is asked if it was replaced", text)
    assert re.search(r"b1 +sluice://h:1 +broken: \[Errno 111\]", text)
    assert re.search(r"b1 +b4 +replaced\b", text) and re.search(r"b9 +takes part in b1/7.1 with b9, b1", text)
    assert re.search(r"b1 +0 +0 +0 +0 +0 +3 +0", text)
    quiet = shown([], [report("b1", reshape=nothing, missing_links=[])])
    assert "repaired" not in quiet and "no link to" not in quiet


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    data = tmp_path_factory.mktemp("data")
    with running(topology("line", ["a", "b", "c"], data=data, settings={"log_level": "error"})) as network:
        yield network


def address(network: Network, name: str) -> str:
    return str(network.addresses[name])


def test_one_broker_tells_about_all(network: Network) -> None:
    async def ask() -> list[Report]:
        async with (
            connect(address(network, "a")) as bus,
            bus.subscribe("price > 5") as quotes,
            bus.subscribe("price > 7", delivery="reliable") as relied,
        ):
            await quotes.complete()
            await relied.complete()
            async with connect(address(network, "c")) as publisher:
                await publisher.publish({"price": 9})
                await publisher.flush()
                await asyncio.gather(anext(quotes), anext(relied))
                async with connect(address(network, "b")) as middle:
                    while len(reports := await survey(middle)) < 3:
                        pass
                    return reports

    a, b, c = asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS))
    assert [a["name"], b["name"], c["name"]] == ["a", "b", "c"]
    assert [each["peer"] for each in b["links"]] == ["a", "c"]
    assert (c["published"], b["forwarded"], a["delivered"]) == (1, 1, 2)
    assert (a["log"]["head"], c["log"]["head"]) == (0, 1)
    assert c["tables"]["subscriptions"] == 1 and a["clients"] == 1
    assert a["node"] == "a" and a["reliable"]["subscriptions"] == 1 == c["reliable"]["brokers_relying"]


def test_json(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", address(network, "c"), "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in reports] == ["a", "b", "c"]


def test_a_table_once(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", address(network, "a")]) == 0
    text = capsys.readouterr().out
    found = rows(text)
    assert "in/s" in text and {"a", "b", "c"} <= found.keys() and "bytes/s" in text


def test_watching_at_a_terminal(network: Network) -> None:
    seen = at_terminal("status", address(network, "b"), "--watch", interrupt_at="bytes/s")
    assert seen.status == 130
    assert "in/s" in seen.text and "Traceback" not in seen.text


def test_watching_as_json(network: Network) -> None:
    command = [sys.executable, "-m", "sluice", "status", address(network, "b"), "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        process.kill()
    assert second[0]["uptime_seconds"] > first[0]["uptime_seconds"]


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "127.0.0.1:1"]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_a_broker_that_is_gone_is_told(tmp_path: Path) -> None:
    class Bus:
        async def describe(self, name: str | None = None) -> dict[str, Any]:
            from sluice.errors import RequestError

            if name == "b":
                raise RequestError("b is gone")
            return report(name or "a", brokers=["a", "b", "c"])

    reports = asyncio.run(survey(Bus()))  # type: ignore[arg-type]
    assert [each.get("error") for each in reports] == [None, "b is gone", None]
