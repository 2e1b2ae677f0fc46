"""Each publication is taken in once, whatever is sent again, and what a disk did not take may come again."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.protocol import intake as intake_module
from sluice.protocol.batch import Records
from sluice.protocol.intake import Intake


def batch(first: int, last: int | None = None) -> Records:
    return Records.of("bob", first, [{"n": number} for number in range(first, (last or first) + 1)])


def take(intake: Intake, first: int, last: int | None = None) -> tuple[list[int], int] | None:
    taken = intake.take(batch(first, last))
    return None if taken is None else ([*taken[0].numbers], taken[1])


def test_nothing_is_taken_twice() -> None:
    intake = Intake({}, stores=False)
    assert take(intake, 1, 3) == ([1, 2, 3], 0)
    assert take(intake, 1, 3) is None and take(intake, 2) is None
    assert take(intake, 2, 5) == ([4, 5], 3), "what is new in it"
    assert take(intake, 9) == ([9], 5), "numbers may be left out"
    assert intake.settled("bob") == 9 and intake.settled("eve") == 0


def test_it_goes_on_where_the_disk_ends() -> None:
    intake = Intake({"bob": 4}, stores=True)
    assert intake.settled("bob") == 4
    assert take(intake, 3, 5) == ([5], 4)


def test_without_a_disk_it_remembers_so_many_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_PUBLISHERS", 2)
    intake = Intake({}, stores=False)
    for name in ("a", "b", "a", "c"):
        intake.take(Records.of(name, intake.settled(name) + 1, [{}]))
    assert [intake.settled(name) for name in "abc"] == [2, 0, 1]


def test_with_a_disk_it_forgets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_PUBLISHERS", 1)
    intake = Intake({"a": 3, "b": 4}, stores=True)
    for name in "cde":
        intake.take(Records.of(name, 1, [{}]))
        assert intake.take(Records.of(name, 1, [{}])) is None
    assert (intake.settled("a"), intake.settled("b")) == (3, 4)


def test_what_is_under_way_is_not_settled() -> None:
    intake = Intake({}, stores=True)
    assert take(intake, 1) == ([1], 0) and take(intake, 2) == ([2], 1)
    assert intake.settled("bob") == 0 and take(intake, 1, 2) is None
    assert intake.stored(batch(1)) == 1 == intake.settled("bob")
    assert intake.stored(batch(2)) == 2 == intake.settled("bob")


def test_what_follows_a_failure_fails_too_and_all_of_it_may_come_again() -> None:
    intake = Intake({}, stores=True)
    for number in (1, 2, 3):
        take(intake, number)
    assert intake.stored(batch(1)) == 1
    assert intake.failed(batch(2), 1) == (2, 3), "the publisher hears of both at once"
    assert intake.settled("bob") == 1
    assert take(intake, 2) == ([2], 1) and take(intake, 3) == ([3], 2), "before the disk has said no to the first 3"
    assert intake.failed(batch(3), 1) == (), "that was the first one"
    assert intake.stored(batch(2)) == 2 and intake.stored(batch(3)) == 3


def test_it_may_fail_again_and_again() -> None:
    intake = Intake({}, stores=True)
    for _ in range(3):
        assert take(intake, 1) == ([1], 0) and take(intake, 2, 3) == ([2, 3], 1)
        assert intake.failed(batch(1), 0) == (1, 2, 3)
        assert intake.failed(batch(2, 3), 0) == ()
    assert take(intake, 1, 3) == ([1, 2, 3], 0)


def test_a_publisher_hears_only_of_what_it_said_over_its_present_link() -> None:
    """The rest it sends again by itself, and that is another story with another end."""
    intake = Intake({}, stores=True)
    for number in (1, 2, 3):
        take(intake, number)
    intake.unlinked("bob")
    assert take(intake, 1, 2) is None, "it is under way already"
    assert intake.failed(batch(1), 0) == (1, 2)
    assert take(intake, 3) == ([3], 0)
    assert intake.failed(batch(2), 0) == () == intake.failed(batch(3), 0)
    assert intake.stored(batch(3)) == 3
    intake.unlinked("bob")
    take(intake, 4)
    intake.unlinked("bob")
    assert intake.failed(batch(4), 3) == ()


class Disk:
    """Stores batches in order, and refuses some; what does not follow what it holds, it refuses."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.held: list[int] = []
        self.queue: deque[tuple[Records, int]] = deque()

    @property
    def last(self) -> int:
        return self.held[-1] if self.held else 0

    def answer(self, intake: Intake) -> tuple[int, ...]:
        """The next answer; the numbers that the publisher is told were refused."""
        one, after = self.queue.popleft()
        if after != self.last or self.random.random() < 0.3:
            return intake.failed(one, self.last)
        self.held += one.numbers
        assert intake.stored(one) == self.last
        return ()


@given(st.integers(0, 2**32))
def test_whatever_happens_each_publication_is_stored_once_or_refused(seed: int) -> None:
    source = random.Random(seed)
    intake, disk = Intake({}, stores=True), Disk(source)
    unanswered: list[int] = []
    sent, refused, next_number = 0, set[int](), 1

    def answer() -> None:
        for number in disk.answer(intake):
            assert number in unanswered
            unanswered.remove(number)
            refused.add(number)
        while unanswered and unanswered[0] <= intake.settled("bob"):
            unanswered.pop(0)

    for _ in range(60):
        match source.randrange(5):
            case 0:
                # The link breaks, and the publisher sends again what was neither accepted nor refused.
                intake.unlinked("bob")
                sent = 0
            case 1 if sent == len(unanswered):
                count = source.randint(1, 3)
                unanswered += range(next_number, next_number + count)
                next_number += count
            case 2 if disk.queue:
                before = len(unanswered)
                answer()
                sent = max(0, sent - (before - len(unanswered)))
            case _ if sent < len(unanswered):
                count = source.randint(1, len(unanswered) - sent)
                numbers = unanswered[sent : sent + count]
                sent += count
                taken = intake.take(Records("bob", numbers, records=[{}] * count))
                if taken is not None:
                    disk.queue.append(taken)  # type: ignore[arg-type]
    while disk.queue:
        answer()
    assert disk.held == sorted(set(disk.held)) and not refused & set(disk.held)
    assert not set(range(1, next_number)) - {*disk.held, *refused, *unanswered}
