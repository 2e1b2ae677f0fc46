"""Logs: an event and its fields on one line, as text or as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from sluice.broker.logs import log, set_up


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("sluice")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def logged(level: str, form: str) -> list[str]:
    stream = io.StringIO()
    set_up("b1", level=level, form=form, stream=stream)
    log("link-up", peer="b2", address=("127.0.0.1", 5))
    log("slow-consumer", level=logging.WARNING, peer="a b", dropped=3, reason='said "no"', nothing="")
    try:
        raise ValueError("why")
    except ValueError as error:
        log("broken", level=logging.ERROR, error=error)
    logging.getLogger("sluice.broker.elsewhere").debug("detail %d", 5)
    return stream.getvalue().splitlines()


def test_text() -> None:
    lines = logged("info", "text")
    assert lines[0].split(" ", 1)[1] == "info    b1 link-up peer=b2 address=\"('127.0.0.1', 5)\""
    assert lines[1].endswith('warning b1 slow-consumer peer="a b" dropped=3 reason="said \\"no\\"" nothing=""')
    assert lines[2].endswith("error   b1 broken") and lines[-1] == "ValueError: why"


def test_json() -> None:
    lines = [json.loads(line) for line in logged("debug", "json")]
    assert [line["event"] for line in lines] == ["link-up", "slow-consumer", "broken", "detail 5"]
    assert all(line["broker"] == "b1" and line["time"].endswith("+00:00") for line in lines)
    assert lines[1]["level"] == "warning" and lines[1]["dropped"] == 3
    assert lines[2]["traceback"].endswith("ValueError: why")


def test_levels() -> None:
    assert len(logged("warning", "json")) == 2


def test_what_is_said_again_is_shown_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now = io.StringIO(), [1_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    set_up("b1", stream=stream)
    for seconds in range(0, 150, 10):
        now[0] = 1_000.0 + seconds
        log("unreachable", level=logging.WARNING, address="here")
        log("link-up", peer="b2")
    log("unreachable", level=logging.WARNING, address="there")
    lines = [line for line in stream.getvalue().splitlines() if "unreachable" in line]
    assert [line.partition("unreachable ")[2] for line in lines] == [
        "address=here",
        "address=here times=6",
        "address=here times=6",
        "address=there",
    ]
    assert stream.getvalue().count("link-up") == 15
