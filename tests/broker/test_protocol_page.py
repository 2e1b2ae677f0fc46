"""The page about the wire protocol says what the code does: its messages, its limits, its conversation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice import limits
from sluice.broker import desk, dialler
from sluice.net import connection
from sluice.net.address import DEFAULT_PORT
from sluice.protocol import stream
from sluice.protocol.messages import Kind, Role
from sluice.protocol.wire import codec as wire
from sluice.protocol.wire import questions as parts
from sluice.protocol.wire.codec import decode
from sluice.protocol.wire.frames import FrameReader
from sluice.protocol.wire.link import PROTOCOL, Policy
from tests.broker.raw import Raw, played, running

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "protocol.md").read_text()


def cells(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_every_message_is_in_the_table() -> None:
    said = [(int(number), name.strip("`")) for number, name, *_ in cells("Messages")]
    assert said == [(form.number, form.type.__name__) for form in wire._FORMS]


def test_fields_are_as_many_as_there_are() -> None:
    for _, name, _, fields in cells("Messages"):
        form = next(form for form in wire._FORMS if f"`{form.type.__name__}`" == name)
        if name not in ("`Notify`", "`Deliver`", "`Request`", "`Reply`", "`Quiet`"):
            without_remarks = re.sub(r"\([^)]*\)", "", fields)
            count = len([field for field in without_remarks.split(",") if field.strip()])
            assert count == len(form.type.__dataclass_fields__), name


def test_questions_and_answers_are_in_the_table() -> None:
    rows = cells("Questions")
    assert [row[0].strip("`") for row in rows if row[0]] == [*parts.QUESTIONS]
    assert {row[2].strip("`") for row in rows} == {*parts.ANSWERS}


def test_limits_are_those_of_the_code() -> None:
    for name, value, _ in cells("Limits"):
        assert getattr(limits, name.strip("`")) == int(value.replace(",", "")), name
    others = (desk.MAX_ANSWER_BYTES, stream.SCAN_BYTES, limits.MAX_FRAME_BYTES, limits.MAX_CLIENT_MESSAGE_BYTES)
    assert all(f"{value:,}" in PAGE for value in others)
    assert f"waits {desk.MAX_WAIT_SECONDS:.0f} seconds" in PAGE
    assert f"handshake takes {dialler.HANDSHAKE_SECONDS:.0f} seconds" in PAGE
    assert connection.SILENT_HEARTBEATS == 3 and "heard nothing for three" in PAGE
    assert f"to port {DEFAULT_PORT}" in PAGE and f"one version of the protocol, {PROTOCOL}," in PAGE


def test_numbers_of_roles_kinds_and_policies() -> None:
    for members in (Role, Policy):
        assert ", ".join(f"{one.value} {one.name.lower().replace('_', ' ')}" for one in members) in PAGE
    assert ", ".join(f"{kind.value} {kind.name.lower()}" for kind in Kind) in PAGE


def conversation() -> list[tuple[str, str, bytes]]:
    """Who says what, and the bytes of it."""
    text = PAGE.partition("\n## A conversation\n")[2].partition("```text\n")[2].partition("```")[0]
    found = []
    for block in text.strip().split("\n\n"):
        title, *lines = block.splitlines()
        who, _, name = title.partition(": ")
        hexes = [re.match(r"(?: [0-9a-f]{2})+(?= {2,}|$)", line.removeprefix(" ")) for line in lines]
        assert all(hexes), f"a line of {title} has no bytes"
        found.append((who, name, bytes.fromhex("".join(one[0] for one in hexes if one))))
    return found


def test_the_conversation_is_what_it_says() -> None:
    for _, name, data in conversation():
        ((type_number, payload),) = FrameReader(1 << 20).feed(data)
        assert type(decode(type_number, payload)).__name__ == name


@played
async def test_a_broker_answers_as_in_the_conversation() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.broker.server.time.time_ns", lambda: 1_000_000)
        async with running("b1") as broker:
            raw = await Raw.to(broker)
            for who, name, data in conversation():
                if who == "client":
                    raw.say(data)
                else:
                    message = await raw.hear(next(form.type for form in wire._FORMS if form.type.__name__ == name))
                    assert b"".join(wire.encode(message)) == data
            assert len(raw.came) == sum(who == "broker" for who, _, _ in conversation())
            assert await raw.end() is not None
