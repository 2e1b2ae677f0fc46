"""The store keeps what it acknowledged, through closing, power cuts, full disks and damage, and serves nothing damaged."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from sluice import ConfigurationError, StoreError
from sluice.broker.store import store as store_module
from sluice.broker.store.database import checksum
from sluice.broker.store.store import LARGEST, PUBLISHER_MICROS, LoggedBatch, NewBatch, Retention, Store
from tests.broker.disk import Disk, disk

NOW = 1_700_000_000_000_000
DAY = 24 * 3600 * 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "log.db")) as opened:
        yield opened


def batch(after: int, count: int = 1, publisher: str = "alice", time_micros: int = NOW, size: int = 20) -> NewBatch:
    """A batch whose payload says what it is, as numbered by a publisher that leaves nothing out."""
    payload = f"{publisher} {after + 1}-{after + count} ".encode().ljust(size, b".")
    return NewBatch(publisher, after, after + count, count, time_micros, payload)


def logged(first: int, new: NewBatch) -> LoggedBatch:
    return LoggedBatch(first, new.count, new.time_micros, new.publisher, new.last_number, new.payload)


def reopened(store: Store) -> Store:
    store.close()
    return Store(store.path)


def test_what_is_appended_is_read(store: Store) -> None:
    batches = [batch(0, 3), batch(0, 2, publisher="bob"), batch(3, 1)]
    assert store.append(batches) == [1, 4, 6]
    assert store.read(0) == [logged(first, one) for first, one in zip([1, 4, 6], batches, strict=True)]
    assert (store.first, store.head, store.payload_bytes) == (1, 6, sum(len(one.payload) for one in batches))
    assert store.accepted() == {"alice": 4, "bob": 2}
    assert (store.last_number("bob"), store.last_number("nobody")) == (2, 0)


def test_a_new_store_is_empty(store: Store) -> None:
    assert (store.first, store.head, store.damaged, store.incarnation) == (1, 0, (), 1)
    assert store.read(0) == []
    assert store.append([]) == []


def test_payloads_and_names_may_be_anything(store: Store) -> None:
    new = [
        NewBatch("", 0, 1, 1, 0, b""),
        NewBatch("nul \0 quote \" ' Žluť", 0, LARGEST, 1, NOW, bytes(range(256)) * 100),
        NewBatch("x" * 10_000, 0, 1, 1, NOW, b"\0"),
    ]
    assert store.append(new) == [1, 2, 3]
    again = reopened(store)
    assert again.read(0, max_bytes=1 << 30) == [logged(first, one) for first, one in enumerate(new, 1)]
    assert again.accepted() == {one.publisher: one.last_number for one in new}
    again.close()


def test_reading_a_range_gives_the_batches_that_hold_it(store: Store) -> None:
    store.append([batch(0, 10), batch(10, 10), batch(20, 10), batch(30, 10)])

    def firsts(after: int, until: int | None = None) -> list[int]:
        return [one.first for one in store.read(after, until)]

    assert firsts(0) == [1, 11, 21, 31]
    assert firsts(9) == [1, 11, 21, 31]
    assert firsts(10) == [11, 21, 31]
    assert firsts(10, 10) == []
    assert firsts(10, 11) == [11]
    assert firsts(15, 25) == [11, 21]
    assert firsts(39) == [31]
    assert firsts(40) == []
    assert firsts(1000) == []


def test_reading_stops_at_about_the_bytes_asked_for(store: Store) -> None:
    store.append([batch(number, size=100) for number in range(10)])
    assert len(store.read(0, max_bytes=350)) == 3
    assert len(store.read(0, max_bytes=1)) == 1


def test_a_store_goes_on_where_it_was(store: Store) -> None:
    store.append([batch(0, 3)])
    again = reopened(store)
    assert again.append([batch(3, 2)]) == [4]
    assert (again.incarnation, again.head, again.accepted()) == (2, 5, {"alice": 5})
    assert [one.first for one in again.read(0)] == [1, 4]
    again.close()


def test_what_follows_a_failure_fails(store: Store) -> None:
    first, refused, other, behind = store.append([batch(0, 2), batch(5), batch(0, 1, publisher="bob"), batch(6)])
    assert (first, other) == (1, 3)
    assert isinstance(refused, StoreError) and isinstance(behind, StoreError)
    assert "publish again from number 3" in str(refused)
    assert store.append([batch(2)]) == [4]


def test_what_was_logged_is_not_logged_again(store: Store) -> None:
    store.append([batch(0, 2)])
    [again] = store.append([batch(0, 2)])
    assert isinstance(again, StoreError)
    assert store.head == 2


@pytest.mark.parametrize("arguments", [(3, 3, 1), (5, 4, 1), (-1, 1, 1), (0, 1, 0), (0, 2**63, 1)])
def test_impossible_numbers_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(StoreError, match="number them upward"):
        NewBatch("alice", *arguments, NOW, b"")


@pytest.mark.parametrize("settings", [{"seconds": 0}, {"seconds": -1.0}, {"seconds": float("nan")}, {"bytes": -1}])
def test_impossible_retention_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="retention of"):
        Retention(**settings)  # type: ignore[arg-type]


# Durable subscriptions


def test_a_durable_subscription_is_kept(store: Store) -> None:
    assert store.subscription("quotes") is None
    store.create("quotes", "symbol = 'IBM'", {"b1": 0, "b2": 17})
    store.create("all", "TRUE", {})
    store.append([batch(0)], [("quotes", {"b1": 5}), ("quotes", {"b3": 1})])
    again = reopened(store)
    assert again.subscription("quotes") == ("symbol = 'IBM'", {"b1": 5, "b2": 17, "b3": 1})
    assert again.subscription("all") == ("TRUE", {})
    again.forget("quotes")
    again.forget("quotes")
    assert again.subscription("quotes") is None
    # Who comes too late has nothing to note any more, and a namesake does not inherit it.
    again.append([], [("quotes", {"b1": 6})])
    again.create("quotes", "FALSE", {})
    assert again.subscription("quotes") == ("FALSE", {})
    again.close()


def test_a_durable_subscription_is_made_once(store: Store) -> None:
    store.create("quotes", "TRUE", {"b1": 3})
    with pytest.raises(StoreError, match="already: continue it, or forget it"):
        store.create("quotes", "FALSE", {})
    assert store.subscription("quotes") == ("TRUE", {"b1": 3})


def test_impossible_positions_are_refused(store: Store) -> None:
    for offset in (-1, 2**63):
        with pytest.raises(StoreError, match="offsets count from 1"):
            store.create("quotes", "TRUE", {"b1": offset})


# Retention


def test_trimming_by_age(store: Store) -> None:
    store.append([batch(number, time_micros=NOW + number) for number in range(10)])
    assert store.trim(Retention(seconds=1), NOW + 1_000_004) == 4
    assert (store.first, store.head) == (5, 10)
    assert [one.first for one in store.read(0)] == [5, 6, 7, 8, 9, 10]
    assert store.trim(Retention(seconds=1), NOW + 1_000_004) == 0


def test_trimming_by_bytes(store: Store) -> None:
    store.append([batch(number, size=100) for number in range(10)])
    assert store.trim(Retention(bytes=450), NOW) == 6
    assert (store.first, store.payload_bytes) == (7, 400)


def test_trimming_nothing_without_a_bound(store: Store) -> None:
    store.append([batch(0, time_micros=0)])
    assert store.trim(Retention(), NOW) == 0


def test_trimming_keeps_what_it_is_told_to(store: Store) -> None:
    store.append([batch(number, 10) for number in range(0, 50, 10)])
    assert store.trim(Retention(bytes=0), NOW, keep_from=25) == 2
    assert store.first == 21


def test_offsets_go_on_after_everything_was_trimmed(store: Store) -> None:
    store.append([batch(0, 5)])
    assert store.trim(Retention(bytes=0), NOW) == 1
    again = reopened(store)
    assert (again.first, again.head, again.read(0), again.damaged) == (6, 5, [], ())
    assert again.append([batch(5)]) == [6]
    again.close()


def test_trimming_does_a_portion_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TRIM_BATCHES", 4)
    store.append([batch(number, size=100) for number in range(10)])
    portions = [store.trim(Retention(bytes=0), NOW) for _ in range(4)]
    assert portions == [4, 4, 2, 0]
    monkeypatch.setattr(store_module, "TRIM_BYTES", 250)
    store.append([batch(number, size=100) for number in range(10, 14)])
    assert [store.trim(Retention(bytes=0), NOW) for _ in range(3)] == [3, 1, 0]


def test_trimming_gives_space_back(store: Store) -> None:
    store.append([batch(number, size=50_000) for number in range(200)])
    store = reopened(store)
    before = store.path.stat().st_size
    assert before > 200 * 50_000
    assert store.trim(Retention(bytes=0), NOW) == 200
    store.close()
    assert store.path.stat().st_size < before / 5


def test_a_silent_publisher_is_forgotten_after_a_week(store: Store) -> None:
    store.append([batch(0), batch(0, publisher="bob", time_micros=NOW + DAY)])
    assert store.trim(Retention(bytes=0), NOW + PUBLISHER_MICROS + 1) == 2
    assert store.accepted() == {"bob": 1}
    again = reopened(store)
    assert again.accepted() == {"bob": 1}
    assert again.append([batch(0)]) == [3]
    again.close()


def test_offsets_go_on_after_everybody_was_forgotten(store: Store) -> None:
    store.append([batch(0, 5)])
    store.trim(Retention(bytes=0), NOW + PUBLISHER_MICROS + 1)
    again = reopened(store)
    assert (again.first, again.head, again.accepted()) == (6, 5, {})
    again.close()


# Other threads and other programs


def test_a_reader_in_another_thread(store: Store) -> None:
    reader = store.reader()
    store.append([batch(0)])
    store.create("quotes", "TRUE", {"b1": 1})
    seen: list[object] = []

    def look() -> None:
        seen.extend([reader.read(0), reader.subscription("quotes")])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [[logged(1, batch(0))], ("TRUE", {"b1": 1})]
    reader.close()


def test_the_write_ahead_log_is_moved_when_it_is_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append([batch(0, size=100_000)])
    before = store.path.stat().st_size
    store.checkpoint()
    assert store.path.stat().st_size == before
    monkeypatch.setattr(store_module, "CHECKPOINT_PAGES", 10)
    store.checkpoint()
    assert store.path.stat().st_size > before + 100_000


def test_one_broker_at_a_time(store: Store) -> None:
    with pytest.raises(StoreError, match="in use by another broker"):
        Store(store.path)
    program = (
        f"import sluice.broker.store.store as s\ntry: s.Store({str(store.path)!r})\nexcept s.StoreError as e: print(e)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "in use by another broker" in found.stdout
    assert reopened(store).incarnation == 2


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database at all, and long enough to be asked\n" * 100)
    with pytest.raises(StoreError, match="not a store of Sluice"):
        Store(tmp_path / "text")
    with closing(apsw.Connection(str(tmp_path / "other.db"))) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="database of another program"):
        Store(tmp_path / "other.db")
    (tmp_path / "directory").mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "directory")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "text" / "below.db")


def test_another_version_is_refused(store: Store) -> None:
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"another version of Sluice .format 99"):
        Store(store.path)


def without_moments(other: apsw.Connection) -> None:
    """Makes the file one of the second version."""
    incarnation, first, head = next(other.execute("SELECT incarnation, first, head FROM state"))
    other.execute("ALTER TABLE state DROP COLUMN moment; ALTER TABLE batch DROP COLUMN moment")
    other.execute("UPDATE state SET crc = ?", (checksum(incarnation, first, head),))
    query = "SELECT first, count, time_micros, publisher, last_number, payload FROM batch"
    rows: list[Any] = other.execute(query).fetchall()
    for at, count, micros, name, number, payload in rows:
        crc = store_module._batch_checksum(at, count, micros, name, number, payload, None)
        other.execute("UPDATE batch SET crc = ? WHERE first = ?", (crc, at))
    other.execute("PRAGMA user_version = 2")


def test_a_store_of_the_first_version_is_brought_up_to_date(store: Store) -> None:
    store.create("quotes", "price > 3", {"b1": 7})
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        without_moments(other)
        other.execute("ALTER TABLE subscription RENAME TO newer")
        other.execute("CREATE TABLE subscription (name PRIMARY KEY, where_text, crc) WITHOUT ROWID")
        for name, crc in ((b"quotes", checksum(b"quotes", b"price > 3")), (b"damaged", 1)):
            other.execute("INSERT INTO subscription VALUES (?, ?, ?)", (name, b"price > 3", crc))
        other.execute("DROP TABLE newer; PRAGMA user_version = 1")
    for _ in range(2):
        with closing(Store(store.path)) as again:
            assert again.subscription("quotes") == ("price > 3", {"b1": 7})
            # Nobody can know what a damaged one was, so all is kept until it is forgotten.
            assert again.holds("b1") == {"damaged": 0}
            with pytest.raises(StoreError, match=r"'damaged' in .* is damaged"):
                again.subscription("damaged")


def test_moments_are_kept_and_no_earlier_one_is_given_after_a_restart(store: Store) -> None:
    store.append([replace(batch(0, 2), moment=5), replace(batch(0, 1, "bob"), moment=9)])
    assert [each.moment for each in store.read(0)] == [5, 9] and store.moment >= 9
    store.reserve(1 << 40)
    store.reserve(3)
    store.trim(Retention(bytes=0), NOW, None)
    again = reopened(store)
    assert again.moment == 1 << 40 and again.read(0) == []
    again.append([replace(batch(1, 1, "bob"), moment=again.moment + 1)])
    assert again.moment > (1 << 40) + 1
    again.close()


def test_a_store_without_moments_is_brought_up_to_date(store: Store) -> None:
    store.append([batch(0, 2)])
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        without_moments(other)
    for _ in range(2):
        with closing(Store(store.path)) as again:
            assert [(each.first, each.moment) for each in again.read(0)] == [(1, 0)] and again.moment == 0
            assert again.damaged == () and again.head == 2


def test_holds_are_kept(store: Store) -> None:
    store.create("archive", "TRUE", {"b1": 3}, holds=True)
    store.create("quotes", "TRUE", {"b1": 1})
    assert store.holds("b1") == {"archive": 3} and store.holds("b2") == {"archive": 0}
    store.append([], [("archive", {"b1": 5}), ("quotes", {"b1": 9}), ("nobody", {"b1": 2})])
    assert store.holds("b1") == {"archive": 5}
    again = reopened(store)
    assert again.holds("b1") == {"archive": 5}
    again.forget("archive")
    assert again.holds("b1") == {}
    again.close()


# Damage


def damage(store: Store, find: bytes, put: bytes) -> None:
    """Overwrites bytes in the closed file, behind SQLite's back."""
    store.close()
    content = store.path.read_bytes()
    assert content.count(find) == 1
    store.path.write_bytes(content.replace(find, put))


def test_a_damaged_record_is_never_served(store: Store) -> None:
    store.append([batch(0, 3), batch(3, 2), batch(5, 4)])
    damage(store, b"alice 4-5", b"alice 4~5")
    again = Store(store.path)
    assert list(again.damaged) == [(4, 5)]
    assert [one.first for one in again.read(0)] == [1, 6]
    assert (again.head, again.accepted()) == (9, {"alice": 9})
    assert again.append([batch(9)]) == [10]
    assert again.trim(Retention(bytes=0), NOW, keep_from=6) == 2
    assert list(again.damaged) == []
    again.close()


def test_a_damaged_last_record_gives_no_offset_away_twice(store: Store) -> None:
    store.append([batch(0, 3), batch(3, 2)])
    damage(store, b"alice 4-5", b"alice 4~5")
    again = Store(store.path)
    assert (again.damaged, again.head, again.accepted()) == (((4, 5),), 5, {"alice": 5})
    again.close()


def test_an_offset_of_which_nothing_sound_is_left_is_not_given_again(store: Store) -> None:
    store.append([batch(0, 3), batch(3, 2)])
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("UPDATE batch SET crc = 0 WHERE first = 4; UPDATE publisher SET crc = 0")
    again = Store(store.path)
    assert (again.damaged, again.head) == (((4, 4),), 4)
    assert again.append([batch(3, 2)]) == [5]
    again.close()


def test_a_record_damaged_after_the_opening_is_not_served_either(store: Store) -> None:
    store.append([batch(0), batch(1), batch(2)])
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("UPDATE batch SET time_micros = time_micros + 1 WHERE first = 2")
    assert [one.first for one in store.read(0)] == [1, 3]


@pytest.mark.parametrize("column", ["count", "time_micros", "publisher", "last_number", "payload", "crc"])
@pytest.mark.parametrize("value", ["NULL", "'text'", "x'ff'", "12345", "1.5"])
def test_every_column_is_checked(store: Store, column: str, value: str) -> None:
    store.append([batch(0, 2), batch(2, 2), batch(4, 2)])
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute(f"UPDATE batch SET {column} = {value} WHERE first = 3")
    again = Store(store.path)
    assert again.damaged == ((3, 4),)
    assert [one.first for one in again.read(0)] == [1, 5]
    assert (again.head, again.accepted()) == (6, {"alice": 6})
    while again.trim(Retention(bytes=0), NOW):
        pass
    assert (again.payload_bytes, again.first) == (0, 7)
    again.close()


def test_a_damaged_publisher_is_made_good_from_the_log(store: Store) -> None:
    store.append([batch(0, 2)])
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("UPDATE publisher SET last_number = 7")
    again = Store(store.path)
    assert again.accepted() == {"alice": 2}
    again.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE subscription SET where_text = x'464f4f'",
        "UPDATE position SET offset = 4",
        "UPDATE position SET stream = 'b1'",
    ],
)
def test_a_damaged_subscription_says_so(store: Store, change: str) -> None:
    store.create("quotes", "TRUE", {"b1": 3})
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute(change)
    again = Store(store.path)
    with pytest.raises(StoreError, match="damaged: forget it and subscribe again"):
        again.subscription("quotes")
    again.close()


def test_a_damaged_beginning_is_refused(store: Store) -> None:
    store.append([batch(0)])
    store.close()
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("UPDATE state SET head = 0, first = 7")
    with pytest.raises(StoreError, match=r"is damaged .*: move it away"):
        Store(store.path)


def test_no_flipped_bit_is_served(store: Store) -> None:
    """Whichever bit of the file is wrong: the file is refused, or what is served is what was logged."""
    batches = [batch(number, size=300 if number % 5 else 6_000) for number in range(40)]
    store.append(batches)
    store.create("quotes", "TRUE", {"b1": 3})
    store.close()
    sound = store.path.read_bytes()
    truth = {first: logged(first, one) for first, one in enumerate(batches, 1)}
    refused = served = 0
    chance = random.Random(1)
    for _ in range(150):
        content = bytearray(sound)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        store.path.write_bytes(content)
        try:
            again = Store(store.path)
        except StoreError:
            refused += 1
            continue
        found = again.read(0, max_bytes=1 << 30)
        assert all(truth.get(one.first) == one for one in found)
        missing = {offset for start, end in again.damaged for offset in range(start, end + 1)}
        assert missing == truth.keys() - {one.first for one in found}
        served += len(found)
        again.close()
    assert refused and served


@pytest.mark.parametrize("page", [0, 1, 2, 3, -1])
def test_a_destroyed_page_is_reported(store: Store, page: int) -> None:
    store.append([batch(number, size=2_000) for number in range(100)])
    store.close()
    content = bytearray(store.path.read_bytes())
    start = page * 4096 % len(content)
    content[start : start + 4096] = b"\xa5" * 4096
    store.path.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|not a store"):
        Store(store.path)


# Full disks


def test_a_full_disk_refuses_and_recovers(store: Store) -> None:
    store.append([batch(0, size=1_000)])
    pages = store._number("PRAGMA page_count")
    store._rows(f"PRAGMA max_page_count = {pages + 10}")
    with pytest.raises(StoreError, match="the disk is full"):
        store.append([batch(1, size=1_000_000)], [])
    assert (store.head, store.accepted(), store.payload_bytes) == (1, {"alice": 1}, 1_000)
    assert [one.first for one in store.read(0)] == [1]
    store._rows("PRAGMA max_page_count = 1000000")
    assert store.append([batch(1, size=1_000_000)]) == [2]
    assert [one.first for one in reopened(store).read(0)] == [1, 2]


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_a_failing_disk_refuses_and_recovers(tmp_path: Path, error: type[apsw.Error]) -> None:
    with disk(seed=0) as failing:
        store = Store(tmp_path / "log.db", vfs=failing.vfs)
        store.append([batch(0)])
        failing.failing = error
        for _ in range(3):
            with pytest.raises(StoreError, match=r"the disk is full|check the disk"):
                store.append([batch(1)])
            assert [one.first for one in store.read(0)] == [1]
        failing.failing = None
        assert store.append([batch(1)]) == [2]
        store.close()
    again = Store(tmp_path / "log.db")
    assert [one.first for one in again.read(0)] == [1, 2]
    again.close()


# Power cuts


class Life:
    """A store in use, and what it has promised so far; the checks say whether a later store keeps all of that."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.incarnation = 0
        self.acknowledged: dict[int, NewBatch] = {}
        self.submitted: dict[bytes, NewBatch] = {}
        #: Trimming was asked for below the first, and acknowledged up to the second.
        self.trim_asked = self.trim_done = 1
        self.positions_asked: list[int] = [0]
        self.position_done = 0

    def use(self, store: Store, steps: int) -> None:
        """Appends, commits positions, trims and moves the log, by chance; every promise is noted once it is made."""
        self.incarnation = store.incarnation
        if store.subscription("quotes") is None:
            store.create("quotes", "TRUE", {"b1": self.position_done})
        for _ in range(steps):
            match self.chance.choice("aaaaaapptc"):
                case "a":
                    self.append(store)
                case "p":
                    position = self.positions_asked[-1] + 1
                    self.positions_asked.append(position)
                    store.append([], [("quotes", {"b1": position})])
                    self.position_done = position
                case "t":
                    self.trim_asked = max(self.trim_asked, store.first + self.chance.randrange(4))
                    store.trim(Retention(bytes=0), NOW, keep_from=self.trim_asked)
                    self.trim_done = store.first
                case "c":
                    store.checkpoint()

    def append(self, store: Store) -> None:
        group = []
        last = store.accepted()
        for _ in range(self.chance.randrange(1, 6)):
            publisher = self.chance.choice(["alice", "bob", "carol"])
            after = last.get(publisher, 0)
            new = batch(after, self.chance.randrange(1, 4), publisher, size=self.chance.choice([30, 300, 9_000]))
            new = NewBatch(
                publisher, after, new.last_number, new.count, NOW, new.payload + b"%d" % self.chance.getrandbits(60)
            )
            last[publisher] = new.last_number
            group.append(new)
            self.submitted[new.payload] = new
        for first, new in zip(store.append(group), group, strict=True):
            assert isinstance(first, int)
            self.acknowledged[first] = new

    def broken_promises(self, store: Store) -> Iterator[str]:
        """What the store, opened after a power cut, should hold and does not."""
        found = store.read(0, max_bytes=1 << 30)
        if store.damaged:
            yield f"damaged: {store.damaged}"
        if store.incarnation <= self.incarnation:
            yield f"incarnation {store.incarnation} after {self.incarnation}"
        if not self.trim_done <= store.first <= self.trim_asked + 3:
            yield f"the log begins at {store.first}, trimmed to {self.trim_done}, asked for {self.trim_asked}"
        by_first = {one.first: one for one in found}
        for first, new in self.acknowledged.items():
            if first >= store.first and by_first.get(first) != logged(first, new):
                yield f"offset {first} was acknowledged and is not there"
            if store.last_number(new.publisher) < new.last_number:
                yield f"{new.publisher} is known up to {store.last_number(new.publisher)}, not {new.last_number}"
        if any(one.last + 1 != following.first for one, following in pairwise(found)):
            yield "there is a hole"
        if (found[0].first, found[-1].last) != (store.first, store.head) if found else store.first != store.head + 1:
            yield "first and head are not those of the log"
        if any(logged(one.first, self.submitted[one.payload]) != one for one in found):
            yield "something else was logged"
        if len({one.payload for one in found}) != len(found):
            yield "something was logged twice"
        subscription = store.subscription("quotes")
        if self.position_done and (subscription is None or subscription[1]["b1"] < self.position_done):
            yield f"a position was lost: {subscription}"
        # From here on, what was found counts as acknowledged: a later cut must not take it away.
        self.acknowledged = {one.first: self.submitted[one.payload] for one in found}


Opening = Callable[[Path, Disk], Store]


def broken_by_power_cuts(
    seed: int, place: Path, opening: Opening, *, lives: int = 3, ignores_sync: bool = False
) -> list[str]:
    """What was promised and broken when the power is cut several times, each time somewhere in the work of a store."""
    life = Life(seed)
    place.mkdir()
    for number in range(lives):
        with disk(seed * 10 + number, ignores_sync=ignores_sync) as failing:
            failing.cut_at = int(life.chance.choice([30, 100, 300]) * life.chance.random()) + 1
            store = None
            try:
                store = opening(place / "log.db", failing)
                life.use(store, steps=60)
                # It did not come to a cut: then it is now.
                failing.cut_at = failing.operations
            except StoreError as error:
                assert failing.off, error
            if store is not None:
                store.close()
            place = place.parent / f"{place.name}-{number}"
            failing.survivors(place)
            try:
                again = Store(place / "log.db")
            except StoreError as error:
                return [str(error)]
            broken = list(life.broken_promises(again))
            again.close()
            if broken:
                return broken
    return []


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log is moved often, so that cuts fall into that too."""
    monkeypatch.setattr(store_module, "CHECKPOINT_PAGES", 10)
    monkeypatch.setattr(store_module, "SPARE_PAGES", 2)


@pytest.mark.usefixtures("short_log")
def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    for seed in range(100):
        broken = broken_by_power_cuts(seed, tmp_path / str(seed), lambda path, on: Store(path, vfs=on.vfs))
        assert not broken, f"seed {seed}: {broken}"


@pytest.mark.usefixtures("short_log")
def test_the_test_finds_a_store_that_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    opening: Opening = lambda path, on: Store(path, vfs=on.vfs, fsync=False)  # noqa: E731
    broken = [broken_by_power_cuts(seed, tmp_path / str(seed), opening) for seed in range(15)]
    assert any("was acknowledged and is not there" in str(one) for one in broken)
    assert not any("damaged" in str(one) for one in broken), "it may lose the last records, but not the file"


@pytest.mark.usefixtures("short_log")
def test_the_test_finds_a_disk_that_does_not_sync(tmp_path: Path) -> None:
    broken = [
        broken_by_power_cuts(seed, tmp_path / str(seed), lambda path, on: Store(path, vfs=on.vfs), ignores_sync=True)
        for seed in range(15)
    ]
    assert sum(map(bool, broken)) > 5
