"""The journal writes in groups, calls back in order, survives full disks and power cuts, and never leaves anybody waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from sluice import StoreError
from sluice.broker.store import store as store_module
from sluice.broker.store.journal import OVERHEAD_BYTES, Journal
from sluice.broker.store.store import NewBatch, Retention, Store
from tests.broker.disk import disk
from tests.broker.store.test_store import NOW, batch, logged
from tests.patience import PATIENCE_SECONDS


class Slow(Store):
    """A store that commits only while it is let, and counts how much came together."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.let = threading.Event()
        self.entered = threading.Semaphore(0)
        self.groups: list[int] = []

    def append(self, batches: Sequence[NewBatch], positions: Sequence[Any] = ()) -> list[int | StoreError]:
        self.entered.release()
        assert self.let.wait(PATIENCE_SECONDS)
        self.groups.append(len(batches) + len(positions))
        return super().append(batches, positions)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Slow]:
    with closing(Slow(tmp_path / "log.db")) as opened:
        opened.let.set()
        yield opened


def answer(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """What the journal tells the callback that `ask` hands over."""
    told: list[Any] = []
    ready = threading.Event()

    def done(result: object) -> None:
        told.append(result)
        ready.set()

    ask(done)
    assert ready.wait(PATIENCE_SECONDS)
    return told[0]


def test_a_batch_gets_its_offset_when_it_is_logged(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)
    assert answer(lambda done: journal.submit(batch(0, 3), done)) == 1
    assert answer(lambda done: journal.submit(batch(3), done)) == 4
    journal.close()
    assert [one.first for one in store.read(0)] == [1, 4]


def test_what_collects_during_a_commit_is_the_next_group(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=2_000)
    store.create("quotes", "TRUE", {})
    store.let.clear()
    told: list[object] = []
    journal.submit(batch(0), told.append)
    assert store.entered.acquire(timeout=PATIENCE_SECONDS)
    for number in range(1, 6):
        journal.submit(batch(number), told.append)
    journal.commit("quotes", {"b1": 4}, told.append)
    journal.submit(batch(6), told.append)
    assert told == []
    assert journal.pending_bytes == 7 * 20 + 8 * OVERHEAD_BYTES
    assert journal.full
    store.let.set()
    journal.close()
    assert store.groups == [1, 7]
    assert told == [1, 2, 3, 4, 5, 6, None, 7]
    assert store.subscription("quotes") == ("TRUE", {"b1": 4})
    assert journal.pending_bytes == 0
    assert not journal.full


def test_other_work_keeps_its_turn(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=2_000)
    store.let.clear()
    told: list[object] = []
    journal.submit(batch(0), told.append)
    assert store.entered.acquire(timeout=PATIENCE_SECONDS)
    journal.submit(batch(1), told.append)
    journal.call(lambda on: on.head, told.append)
    journal.call(lambda on: on.create("quotes", "TRUE", {}), told.append)
    journal.call(lambda on: on.create("quotes", "TRUE", {}), told.append)
    journal.call(lambda on: [][0], told.append)
    journal.submit(batch(2), told.append)
    store.let.set()
    journal.close()
    first, second, head, created, again, broken, third = told
    assert (first, second, head, created, third) == (1, 2, 2, None, 3)
    assert isinstance(again, StoreError) and "already" in str(again)
    assert isinstance(broken, StoreError) and "IndexError" in str(broken)
    assert store.groups == [1, 1, 1]


def test_a_large_group_is_split(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.broker.store.journal.GROUP_BYTES", 3 * (OVERHEAD_BYTES + 100))
    journal = Journal(store, max_pending_bytes=2_000)
    store.let.clear()
    told: list[object] = []
    for number in range(8):
        journal.submit(batch(number, size=100), told.append)
        if number == 0:
            assert store.entered.acquire(timeout=PATIENCE_SECONDS)
    store.let.set()
    journal.close()
    assert store.groups == [1, 3, 3, 1]
    assert told == list(range(1, 9))


def test_many_threads_may_hand_over(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)
    told: dict[str, list[Any]] = {name: [] for name in ("alice", "bob", "carol", "dave")}

    def publish(name: str) -> None:
        for number in range(200):
            journal.submit(batch(number, publisher=name), told[name].append)

    threads = [threading.Thread(target=publish, args=(name,)) for name in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert sorted(offset for offsets in told.values() for offset in offsets) == list(range(1, 801))
    assert all(offsets == sorted(offsets) for offsets in told.values())
    assert store.accepted() == dict.fromkeys(told, 200)


def test_nothing_is_taken_after_the_end(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.submit(batch(0), print)


def test_impossible_positions_are_refused_at_once(store: Slow) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)
    with pytest.raises(StoreError, match="offsets count from 1"):
        journal.commit("quotes", {"b1": -1}, print)
    journal.close()


def test_a_callback_that_fails_concerns_nobody_else(store: Slow, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)

    def fail(_: object) -> None:
        raise RuntimeError("the event loop is closed")

    journal.submit(batch(0), fail)
    assert answer(lambda done: journal.submit(batch(1), done)) == 2
    journal.close()
    assert "the event loop is closed" in caplog.text


def test_an_unexpected_failure_is_told_and_survived(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(store, max_pending_bytes=1_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_batch_checksum", None)
        failure = answer(lambda done: journal.submit(batch(0), done))
    assert isinstance(failure, StoreError) and "unexpectedly" in str(failure)
    assert answer(lambda done: journal.submit(batch(0), done)) == 1
    journal.close()


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    with disk(seed=0) as failing:
        store = Store(tmp_path / "log.db", vfs=failing.vfs)
        store.create("quotes", "TRUE", {"b1": 1})
        reader = store.reader()
        journal = Journal(store, max_pending_bytes=1_000_000)
        assert answer(lambda done: journal.submit(batch(0), done)) == 1
        failing.failing = apsw.FullError
        assert "the disk is full" in str(answer(lambda done: journal.submit(batch(1), done)))
        assert "the disk is full" in str(answer(lambda done: journal.commit("quotes", {"b1": 2}, done)))
        failing.failing = None
        # There is space again, but an earlier one failed, so this one must.
        assert "publish again from number 2" in str(answer(lambda done: journal.submit(batch(2), done)))
        assert [one.first for one in reader.read(0)] == [1]
        assert reader.subscription("quotes") == ("TRUE", {"b1": 1})
        assert answer(lambda done: journal.submit(batch(1), done)) == 2
        assert answer(lambda done: journal.commit("quotes", {"b1": 2}, done)) is None
        assert reader.subscription("quotes") == ("TRUE", {"b1": 2})
        journal.close()
        reader.close()
        store.close()


def test_old_batches_are_trimmed_while_the_broker_idles(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = threading.Event()
    trim = store.trim

    def noticed(*arguments: Any) -> int:
        count = trim(*arguments)
        if store.first == 3:
            trimmed.set()
        return count

    monkeypatch.setattr(store, "trim", noticed)
    journal = Journal(
        store, max_pending_bytes=1_000_000, retention=Retention(bytes=50), trim_seconds=0.001, now_micros=lambda: NOW
    )
    for number in range(4):
        journal.submit(batch(number), lambda _: None)
    assert trimmed.wait(PATIENCE_SECONDS)
    journal.close()
    assert [one.first for one in store.read(0)] == [3, 4]


@contextmanager
def trimming(
    store: Slow, monkeypatch: pytest.MonkeyPatch, retention: Retention, last: Retention, **options: Any
) -> Iterator[tuple[Journal, Callable[[], list[int]]]]:
    """A journal that trims all the time, by `last` at the end of each round, and what its log has after one more round."""
    looked = threading.Semaphore(0)
    trim = store.trim

    def noticed(kept: Retention, *arguments: Any) -> int:
        count = trim(kept, *arguments)
        if not count and kept == last:
            looked.release()
        return count

    def left() -> list[int]:
        while looked.acquire(blocking=False):
            pass
        for _ in range(2):  # the first one may have begun before
            assert looked.acquire(timeout=PATIENCE_SECONDS)
        return [one.first for one in store.reader().read(0)]

    monkeypatch.setattr(store, "trim", noticed)
    journal = Journal(
        store, max_pending_bytes=1_000_000, retention=retention, trim_seconds=0.001, now_micros=lambda: NOW, **options
    )
    try:
        yield journal, left
    finally:
        journal.close()


def submit(journal: Journal, numbers: range) -> None:
    for number in numbers:
        answer(lambda done, after=number: journal.submit(batch(after), done))  # type: ignore[misc]


def test_what_is_held_is_not_trimmed(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("archive", "TRUE", {"b1": 1}, holds=True)
    store.create("other", "TRUE", {"b1": 3, "b2": 1}, holds=True)
    store.create("free", "TRUE", {"b1": 0})
    nothing = Retention(bytes=0)
    with trimming(store, monkeypatch, nothing, nothing, stream="b1") as (journal, left):
        submit(journal, range(5))
        assert left() == [2, 3, 4, 5]
        answer(lambda done: journal.commit("archive", {"b1": 2, "b2": 9}, done))
        assert left() == [3, 4, 5]
        answer(lambda done: journal.commit("archive", {"b1": 5}, done))
        assert left() == [4, 5]
        answer(lambda done: journal.call(lambda store: store.forget("other"), done))
        assert left() == []


def test_what_is_needed_is_trimmed_at_twice_the_retention(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Retention(bytes=2 * len(batch(0).payload))
    with trimming(store, monkeypatch, kept, kept.doubled, needed_from=1) as (journal, left):
        submit(journal, range(3))
        assert left() == [1, 2, 3]
        submit(journal, range(3, 6))
        assert left() == [3, 4, 5, 6]
        journal.needed_from = 5
        assert left() == [5, 6]


def test_the_write_ahead_log_is_moved_between_commits(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "CHECKPOINT_PAGES", 10)
    before = store.path.stat().st_size
    journal = Journal(store, max_pending_bytes=1_000_000)
    journal.submit(batch(0, size=100_000), lambda _: None)
    journal.close()
    assert store.path.stat().st_size > before + 100_000


def test_a_failing_trim_is_tried_again(
    store: Slow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Semaphore(0)

    def fail(*_: object) -> int:
        tried.release()
        raise StoreError("the disk is full")

    monkeypatch.setattr(store, "trim", fail)
    with caplog.at_level(logging.WARNING):
        journal = Journal(store, max_pending_bytes=1_000_000, retention=Retention(bytes=50), trim_seconds=0.001)
        assert tried.acquire(timeout=PATIENCE_SECONDS)
        assert tried.acquire(timeout=PATIENCE_SECONDS)
        assert answer(lambda done: journal.submit(batch(0), done)) == 1
        journal.close()
    assert "tried again: the disk is full" in caplog.text


def acknowledged_until_the_cut(seed: int, place: Path, fsync: bool = True) -> tuple[dict[int, NewBatch], int]:
    """What a journal acknowledged, batches and the last position, before the power was cut somewhere in its work."""
    acknowledged: dict[int, NewBatch] = {}
    noted = [0]
    with disk(seed) as failing:
        place.mkdir()
        store = Store(place / "log.db", vfs=failing.vfs, fsync=fsync)
        store.create("quotes", "TRUE", {"b1": 0})
        failing.cut_at = failing.operations + failing.random.randrange(200)
        journal = Journal(store, max_pending_bytes=1_000_000)

        def publish(new: NewBatch) -> None:
            def done(result: int | StoreError) -> None:
                if isinstance(result, int):
                    acknowledged[result] = new

            journal.submit(new, done)

        def note(position: int) -> None:
            journal.commit("quotes", {"b1": position}, lambda error: None if error else noted.append(position))

        for number in range(60):
            publish(batch(number, publisher="alice", size=failing.random.choice([50, 5_000])))
            publish(batch(number * 2, 2, publisher="bob"))
            note(number)
            if number % 10 == 0:
                answer(lambda done: journal.call(lambda _: None, done))
        journal.close()
        failing.cut_at = min(failing.cut_at, failing.operations)
        store.close()
        failing.survivors(place.parent / f"{place.name}-after")
    return acknowledged, noted[-1]


@pytest.mark.parametrize("fsync", [True, False])
def test_a_power_cut_takes_nothing_that_was_acknowledged(
    tmp_path: Path, fsync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing with fsync; and without, the test notices that something is lost."""
    monkeypatch.setattr(store_module, "CHECKPOINT_PAGES", 10)
    lost = 0
    for seed in range(30):
        acknowledged, noted = acknowledged_until_the_cut(seed, tmp_path / str(seed), fsync)
        with closing(Store(tmp_path / f"{seed}-after" / "log.db")) as store:
            found = store.read(0, max_bytes=1 << 30)
            by_first = {one.first: one for one in found}
            lost += sum(by_first.get(first) != logged(first, new) for first, new in acknowledged.items())
            subscription = store.subscription("quotes")
            lost += subscription is None or subscription[1]["b1"] < noted
            assert sum(one.count for one in found) == store.head
            assert len({one.payload for one in found}) == len(found)
            assert store.damaged == ()
    assert (lost == 0) == fsync
