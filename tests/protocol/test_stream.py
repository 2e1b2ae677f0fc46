"""Reading a log page by page finds all that matches, says how far it looked, and names what is gone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import parse
from sluice.protocol import stream
from sluice.protocol.batch import Records
from sluice.protocol.packing import encode_batch
from sluice.protocol.questions import Fetch, Fetched
from sluice.protocol.stream import Stream, only


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch as a log has it."""

    first: int
    count: int
    time_micros: int
    payload: bytes
    moment: int = 0


class Log:
    """Publications under offsets from 1 on, in batches of any size; some are damaged or gone."""

    def __init__(self, *counts: int, damaged: tuple[int, ...] = (), first: int = 1) -> None:
        self.first = first
        self.head = sum(counts)
        self.batches: list[Stored] = []
        self.reads = 0
        at = 1
        for number, count in enumerate(counts):
            records = [{"n": offset} for offset in range(at, at + count)]
            batch = Records.of("ann", 100 + at, records)
            if number not in damaged and at >= first:
                self.batches.append(Stored(at, count, 7, b"".join(encode_batch(batch))))
            at += count

    def read(self, after: int, until: int, max_bytes: int) -> list[Stored]:
        self.reads += 1
        found: list[Stored] = []
        for batch in self.batches:
            if batch.first + batch.count - 1 > after and batch.first <= until:
                if found and sum(len(each.payload) for each in found) > max_bytes:
                    break
                found.append(batch)
        return found

    def fetch(self, after: int = 0, until: int | None = None, where: str = "TRUE", max_bytes: int = 10_000) -> Fetched:
        question = Fetch(after, until, where, max_bytes)
        return Stream("b", self.read).fetch(question, only(parse(where)), self.first, self.head)


def found(*answers: Fetched) -> list[int]:
    return [record["n"] for answer in answers for batch in answer.batches for record in batch.records]


def test_a_range_is_after_one_offset_and_up_to_another() -> None:
    log = Log(3, 1, 4)
    assert found(log.fetch()) == [*range(1, 9)]
    answer = log.fetch(2, 6)
    assert found(answer) == [3, 4, 5, 6] and answer.through == 6 and (answer.first, answer.head) == (1, 8)
    assert found(log.fetch(2, 2)) == [] == found(log.fetch(5, 3))
    assert log.fetch(5, 3).through == 5 and log.fetch(2, 100).through == 8
    assert found(log.fetch(-5, 1)) == [1]
    beyond = log.fetch(50)
    assert found(beyond) == [] and beyond.through == 50 and not beyond.missing


def test_what_matches_keeps_its_offsets_and_numbers() -> None:
    (batch,) = Log(3, 4).fetch(where="n > 5").batches
    assert batch.logged_at() == ("b", [6, 7], 7, 0) and [*batch.numbers] == [106, 107]


def test_without_a_filter_no_record_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "decode_batch", None)
    first, second = Log(3, 4).fetch(1, 5).batches
    assert first.logged_at() == ("b", [2, 3], 7, 0) and second.logged_at() == ("b", [4, 5], 7, 0)
    assert [*first.numbers, *second.numbers] == [102, 103, 104, 105] and only(parse("TRUE OR n > 5")) is None


def test_what_is_gone_is_named() -> None:
    log = Log(2, 2, 2, 2, damaged=(1, 3))
    answer = log.fetch()
    assert found(answer) == [1, 2, 5, 6] and answer.missing == ((3, 4), (7, 8)) and answer.through == 8
    assert log.fetch(3, 7).missing == ((4, 4), (7, 7))
    trimmed = Log(2, 2, 2, first=5)
    answer = trimmed.fetch()
    assert found(answer) == [5, 6] and answer.missing == ((1, 4),)
    answer = trimmed.fetch(1, 3)
    assert found(answer) == [] and answer.missing == ((2, 3),) and answer.through == 3


def test_a_page_ends_when_it_is_full() -> None:
    log = Log(*[1] * 10)
    answer = log.fetch(max_bytes=1)
    assert found(answer) == [1] and answer.through == 1
    assert found(log.fetch(answer.through, max_bytes=1)) == [2]


def test_a_look_at_much_that_does_not_match_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(*[1] * 10)
    monkeypatch.setattr(stream, "SCAN_BYTES", 3 * len(log.batches[0].payload))
    answer = log.fetch(where="n = 10", max_bytes=1)
    assert found(answer) == [] and 3 <= answer.through < 10 and not answer.missing, "the reader goes on from there"


@given(
    st.lists(st.integers(1, 4), max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(1, 20),
    st.integers(1, 300),
    st.integers(2, 4),
)
def test_page_after_page_finds_everything_once(
    counts: list[int], damaged: set[int], first: int, max_bytes: int, every: int
) -> None:
    log = Log(*counts, damaged=tuple(sorted(damaged)), first=min(first, sum(counts) + 1))
    pages: list[Fetched] = []
    after = 0
    while after < log.head:
        pages.append(log.fetch(after, where=f"n % {every} = 0", max_bytes=max_bytes))
        assert pages[-1].through > after, "a reader gets on"
        after = pages[-1].through
    held = [offset for batch in log.batches for offset in range(batch.first, batch.first + batch.count)]
    assert found(*pages) == [offset for offset in held if offset % every == 0]
    missing = [offset for page in pages for start, end in page.missing for offset in range(start, end + 1)]
    assert missing == [offset for offset in range(1, log.head + 1) if offset not in held]
