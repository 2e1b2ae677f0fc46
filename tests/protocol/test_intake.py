"""Each publication is taken in once, whatever is sent again, and what a disk did not take may come again."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.protocol import intake as intake_module
from sluice.protocol.batch import Records
from sluice.protocol.intake import Intake


def batch(first: int, last: int | None = None) -> Records:
    return Records.of("bob", first, [{"n": number} for number in range(first, (last or first) + 1)])


def take(intake: Intake, first: int, last: int | None = None) -> tuple[list[int], int] | None:
    fresh = intake.fresh(batch(first, last))
    return None if fresh is None else ([*fresh.numbers], intake.take(fresh))


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
        assert intake.fresh(Records.of(name, 1, [{}])) is None
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
    assert intake.failed(batch(2), 1) and intake.settled("bob") == 1
    assert take(intake, 2) == ([2], 1) and take(intake, 3) == ([3], 2), "before the disk has said no to the first 3"
    assert not intake.failed(batch(3), 1), "that was the first one"
    assert intake.stored(batch(2)) == 2 and intake.stored(batch(3)) == 3


def test_it_may_fail_again_and_again() -> None:
    intake = Intake({}, stores=True)
    for _ in range(3):
        assert take(intake, 1) == ([1], 0) and take(intake, 2, 3) == ([2, 3], 1)
        assert intake.failed(batch(1), 0) and not intake.failed(batch(2, 3), 0)
    assert take(intake, 1, 3) == ([1, 2, 3], 0)


def test_nothing_is_taken_from_a_publisher_that_has_not_heard_of_a_failure() -> None:
    """Behind what followed it, the failed one would pass for an old one when it comes again."""
    intake = Intake({}, stores=True)
    take(intake, 1)
    assert intake.failed(batch(1), 0)
    intake.halt("bob")
    assert take(intake, 2) is None and intake.settled("bob") == 0
    intake.heard("bob")
    assert take(intake, 1) == ([1], 0)
    intake.heard("nobody")


def test_each_thing_that_was_not_taken_has_to_be_heard() -> None:
    intake = Intake({}, stores=True)
    intake.halt("bob")
    intake.halt("bob")
    intake.heard("bob")
    assert take(intake, 1) is None
    intake.heard("bob")
    assert take(intake, 1) == ([1], 0)
    intake.halt("bob")
    intake.halt("bob")
    intake.unlinked("bob")
    assert take(intake, 2) == ([2], 1)


class Disk:
    """Stores batches in order, and refuses some; what does not follow what it holds, it refuses."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.held: list[int] = []
        self.queue: deque[tuple[Records, int]] = deque()

    @property
    def last(self) -> int:
        return self.held[-1] if self.held else 0

    def answer(self, intake: Intake) -> int | None:
        """The next answer; if it is news that something failed, the number from which on."""
        one, after = self.queue.popleft()
        if after != self.last or self.random.random() < 0.3:
            return one.numbers[0] if intake.failed(one, self.last) else None
        self.held += one.numbers
        assert intake.stored(one) == self.last
        return None


class Publisher:
    """Publishes over a link that may break, with both directions first in, first out."""

    def __init__(self, intake: Intake, disk: Disk) -> None:
        self.intake, self.disk = intake, disk
        self.next_number = 1
        #: What it has published and knows nothing of.
        self.unanswered: list[int] = []
        self.refused: set[int] = set()
        #: On their way: batches and "heard" to the broker; accepted and halted numbers from it.
        self.to: deque[list[int] | None] = deque()
        self.back: deque[tuple[str, int]] = deque()
        self.connect()

    def connect(self) -> None:
        """The link breaks, with all that is on it, and works again."""
        self.to.clear()
        self.back.clear()
        self.intake.unlinked("bob")
        if self.unanswered:
            self.to.append([*self.unanswered])

    def publish(self, count: int) -> None:
        numbers = [*range(self.next_number, self.next_number + count)]
        self.next_number += count
        self.unanswered += numbers
        self.to.append(numbers)

    def arrive(self) -> None:
        """Something arrives at the broker."""
        numbers = self.to.popleft()
        if numbers is None:
            self.intake.heard("bob")
            return
        fresh = self.intake.fresh(Records("bob", numbers, records=[{}] * len(numbers)))
        if fresh is None:
            self.back.append(("accepted", self.intake.settled("bob")))
        else:
            self.disk.queue.append((fresh, self.intake.take(fresh)))  # type: ignore[arg-type]

    def store(self) -> None:
        """The disk says something."""
        halted = self.disk.answer(self.intake)
        if halted is not None:
            self.intake.halt("bob")
            self.back.append(("accepted", self.intake.settled("bob")))
            self.back.append(("halted", halted))
        else:
            self.back.append(("accepted", self.intake.settled("bob")))

    def hear(self) -> None:
        """The publisher hears something."""
        what, number = self.back.popleft()
        if what == "accepted":
            assert {each for each in self.unanswered if each <= number} <= {*self.disk.held}, "it can rely on it"
            self.unanswered = [each for each in self.unanswered if each > number]
        else:
            self.refused.update(each for each in self.unanswered if each >= number)
            self.unanswered = [each for each in self.unanswered if each < number]
            self.to.append(None)


@settings(max_examples=400)
@given(st.integers(0, 2**32))
def test_whatever_happens_each_publication_is_stored_once_or_refused(seed: int) -> None:
    source = random.Random(seed)
    intake, disk = Intake({}, stores=True), Disk(source)
    publisher = Publisher(intake, disk)
    for _ in range(source.choice((20, 60, 150))):
        match source.randrange(9):
            case 0 if source.random() < 0.5:
                publisher.connect()
            case 1 | 2:
                publisher.publish(source.randint(1, 3))
            case 3 | 4 if publisher.to:
                publisher.arrive()
            case 5 | 6 if disk.queue:
                publisher.store()
            case _ if publisher.back:
                publisher.hear()
    while publisher.to or disk.queue or publisher.back:
        for step, waits in (
            (publisher.arrive, publisher.to),
            (publisher.store, disk.queue),
            (publisher.hear, publisher.back),
        ):
            if waits:
                step()
    assert disk.held == sorted(set(disk.held)) and not publisher.refused & set(disk.held)
    assert publisher.unanswered == []
    assert {*disk.held} | publisher.refused == {*range(1, publisher.next_number)}
