"""What a durable broker must not lose: its log of publications, who published how far, and durable subscriptions.

Everything is in one SQLite file in write-ahead mode, and a change is on the disk when the call that made it returns. Every row
carries a checksum over all of its columns, checked on opening and whenever the row is read: what fails it is never served.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from sluice.broker.store.database import checksum, damaged, explained, locked, sync_names
from sluice.broker.store.upgrade import VERSION, upgrade
from sluice.errors import ConfigurationError, StoreError
from sluice.limits import MOMENTS_RESERVED

#: Written into the header of the file ("SLUI"), so that a file of another program is told from one of ours.
APPLICATION = 0x534C5549
#: A publisher that was silent for so long is forgotten: should it retry something older still, that would be logged again.
PUBLISHER_MICROS = 7 * 24 * 3600 * 1_000_000
#: What one call of `trim` deletes at most, so that publications do not wait for long behind it.
TRIM_BATCHES = 10_000
TRIM_BYTES = 64 << 20
#: Pages in the write-ahead log (4 kB each) from which it is worth moving them into the database.
CHECKPOINT_PAGES = 4_000
#: Free pages that are kept for what comes next rather than given back: at least so many, or this part of all pages.
SPARE_PAGES = 256
SPARE_PART = 8
#: SQLite's integers end here.
LARGEST = 2**63 - 1

# Texts are kept as bytes: a damaged one can still be read, and then fails its check. No column is declared with a type for the
# same reason: SQLite's own check of the file would refuse the whole of it for one wrong value.
_TABLES = """
    CREATE TABLE state (id INTEGER PRIMARY KEY, incarnation, first, head, crc, moment);
    CREATE TABLE batch (first INTEGER PRIMARY KEY, count, time_micros, publisher, last_number, payload, crc, moment);
    CREATE TABLE publisher (name PRIMARY KEY, last_number, last_offset, time_micros, crc) WITHOUT ROWID;
    CREATE TABLE subscription (name PRIMARY KEY, where_text, holds, crc) WITHOUT ROWID;
    CREATE TABLE position (name, stream, offset, crc, PRIMARY KEY (name, stream)) WITHOUT ROWID;
"""

# All batches of a group in one statement: SQLite runs without Python's lock, and a busy event loop takes milliseconds to give
# that back, which once a row would be too often. ?1 lists the numbers of each row, ?2 has all publishers and payloads in a row.
_INSERT_BATCHES = """
    INSERT INTO batch
    SELECT value->>0, value->>1, value->>2, substr(?2, value->>3, value->>4), value->>5,
           substr(?2, value->>6, value->>7), value->>8, value->>9
    FROM json_each(?1)
"""
_SELECT_BATCHES = "SELECT first, count, time_micros, publisher, last_number, payload, crc, moment FROM batch"


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Publications of one publisher, as they came, to be logged together."""

    publisher: str
    #: The last number of this publisher that is logged, or in flight before this one.
    after_number: int
    #: The publisher's own number of the last publication in here.
    last_number: int
    count: int
    #: When the broker took it in (UTC).
    time_micros: int
    #: As `sluice.protocol.packing` encodes it; opaque here.
    payload: bytes
    #: Its moment in the order of all, later than those of all before it; 0: it has none.
    moment: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.after_number < self.last_number <= LARGEST or self.count < 1:
            raise StoreError(
                f"publications of {self.publisher!r} numbered after {self.after_number} up to {self.last_number}, "
                f"{self.count} of them, cannot be: number them upward from 1"
            )


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """Publications that were logged together; those of a stream have the offsets 1, 2, 3 and so on."""

    #: The offset of the first publication in here.
    first: int
    count: int
    time_micros: int
    publisher: str
    last_number: int
    payload: bytes
    moment: int = 0

    @property
    def last(self) -> int:
        """The offset of the last publication in here."""
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is kept: nothing older than `seconds`, and of that the newest `bytes` of payloads; None is no bound."""

    seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigurationError(
                f"retention of {self.seconds} seconds keeps nothing: give a positive number, or none"
            )
        if self.bytes is not None and self.bytes < 0:
            raise ConfigurationError(f"retention of {self.bytes} bytes makes no sense: give a positive number, or none")

    @property
    def doubled(self) -> Retention:
        """Twice as long and twice as much."""
        return Retention(
            seconds=None if self.seconds is None else 2 * self.seconds,
            bytes=None if self.bytes is None else 2 * self.bytes,
        )


class StoreReader:
    """Reads a store that another thread writes; sees what is committed, and waits for nobody."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self._connection = connection

    def read(self, after: int, until: int | None = None, max_bytes: int = 1 << 20) -> list[LoggedBatch]:
        """The whole batches with offsets from `after` + 1 up to `until`, about `max_bytes` of them, but one if there is any.

        The first and the last one may reach beyond the range. A damaged batch is left out: then an offset is missing.
        """
        found: list[LoggedBatch] = []
        size = 0
        # The batch that `after` + 1 is in may begin before it.
        query = (
            f"{_SELECT_BATCHES} WHERE first >= (SELECT coalesce(max(first), 0) FROM batch WHERE first <= ?1)"
            " AND first <= ?2 ORDER BY first"
        )
        with explained(self.path), closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(query, (after + 1, LARGEST if until is None else until)):
                batch = _batch_of(row)
                if batch is None or batch.last <= after:
                    continue
                size += len(batch.payload)
                if found and size > max_bytes:
                    break
                found.append(batch)
        return found

    def subscription(self, name: str) -> tuple[str, dict[str, int]] | None:
        """The filter text of a durable subscription and how far it has read each stream; None if there is none."""
        key = name.encode()
        # One statement, so that the filter and the positions are of the same moment.
        rows = self._rows(
            "SELECT where_text, holds, subscription.crc, stream, offset, position.crc"
            " FROM subscription LEFT JOIN position USING (name) WHERE name = ? ORDER BY stream",
            (key,),
        )
        positions = {}
        for where, holds, crc, stream, offset, position_crc in rows:
            at_start = (stream, offset, position_crc) == (None, None, None)
            if crc != checksum(key, where, holds) or not (at_start or position_crc == checksum(key, stream, offset)):
                raise StoreError(
                    f"the durable subscription {name!r} in {self.path} is damaged: forget it and subscribe again, "
                    "from an offset of your choice"
                )
            if not at_start:
                positions[stream.decode()] = offset
        return (rows[0][0].decode(), positions) if rows else None

    def close(self) -> None:
        """Closes the connection; the store and other readers stay open."""
        self._connection.close()

    def _rows(self, query: str, bindings: Sequence[object] = ()) -> list[Any]:
        with explained(self.path):
            return self._connection.execute(query, tuple(bindings)).fetchall()

    def _number(self, query: str) -> int:
        return int(self._rows(query)[0][0])


class Store(StoreReader):
    """The log of one broker and the durable subscriptions on it, in one file that no other broker may use meanwhile.

    One thread at a time may use it. `accepted`, `last_number` and `holds` may be asked from any; for the rest see `reader`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(Path(folder.name) / "log.db")
    >>> store.append([NewBatch("alice", 0, 3, 3, 1_700_000_000_000_000, b"three of them")])
    [1]
    >>> store.head, store.read(after=0)[0].payload, store.accepted()
    (3, b'three of them', {'alice': 3})
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, fsync: bool = True, vfs: str | None = None) -> None:
        """Opens or creates the file and checks every record in it; `fsync=False` may lose the last of them in a power cut."""
        path = Path(path)
        self._vfs = vfs
        self._wal_pages = 0
        #: When to look for publishers to forget.
        self._forget_micros = 0
        self._lock = locked(path)
        try:
            with explained(path):
                super().__init__(path, apsw.Connection(str(path), vfs=vfs))
                self._open(fsync)
                self._check()
                self._begin_incarnation()
            if fsync:
                sync_names(path)
        except BaseException:
            self.close()
            raise

    def _open(self, fsync: bool) -> None:
        """Makes sure that the file is ours and sound, and creates the tables in a new one."""
        connection = self._connection
        connection.set_busy_timeout(5_000)
        application = self._number("PRAGMA application_id")
        if application == 0 and self._number("SELECT count(*) FROM sqlite_schema") == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        elif application != APPLICATION:
            raise StoreError(
                f"{self.path} is a database of another program: give the broker a data directory of its own"
            )
        elif self._number("PRAGMA user_version") not in range(1, VERSION + 1):
            raise StoreError(
                f"{self.path} was written by another version of Sluice (format {self._number('PRAGMA user_version')}, "
                f"this one reads {VERSION}): use that version, or another data directory"
            )
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}").fetchall()
        # Checkpoints are made between groups, not within the commit that somebody waits for.
        connection.set_wal_hook(self._note_wal)
        if application == 0:
            with self._transaction():
                connection.execute(_TABLES)
                self._write_state(incarnation=0, first=1, head=0, moment=0)
                connection.execute(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}")
        problem = self._rows("PRAGMA quick_check(1)")[0][0]
        if problem != "ok":
            raise damaged(self.path, problem)
        version = self._number("PRAGMA user_version")
        if version < VERSION:
            with self._transaction():
                upgrade(connection, version)

    def _check(self) -> None:
        """Reads every record; the offsets that no sound one accounts for are damaged."""
        state = self._rows("SELECT incarnation, first, head, moment, crc FROM state")
        if len(state) != 1 or state[0][4] != checksum(*state[0][:4]):
            raise damaged(self.path, "the row that says where the log begins fails its check")
        self.incarnation: int = state[0][0]
        self._first: int = state[0][1]
        self._head: int = state[0][2]
        #: No batch has a later moment.
        self._moment: int = state[0][3]
        #: Publisher -> its last number, and when it was heard of. Other threads look into it.
        self._publishers: dict[str, tuple[int, int]] = {}
        heard = self._publishers
        # Who published how far is in the log and beside it: a damaged row of one is made good by the other.
        for name, number, offset, micros, crc in self._rows("SELECT * FROM publisher"):
            if crc == checksum(name, number, offset, micros):
                heard[name.decode()] = number, micros
                self._head = max(self._head, offset)
        self._holds = self._read_holds()
        holes: list[tuple[int, int]] = []
        row: Any
        self._payload_bytes = 0
        expected = self._first
        for row in self._connection.execute(f"{_SELECT_BATCHES} ORDER BY first"):
            self._payload_bytes += len(row[5]) if isinstance(row[5], bytes) else 0
            batch = _batch_of(row)
            if batch is None:
                self._head = max(self._head, row[0])
                continue
            if batch.first > expected:
                holes.append((expected, batch.first - 1))
            expected = batch.last + 1
            self._head = max(self._head, batch.last)
            number, micros = heard.get(batch.publisher, (0, 0))
            heard[batch.publisher] = max(number, batch.last_number), max(micros, batch.time_micros)
        if expected <= self._head:
            holes.append((expected, self._head))
        self._damaged = tuple(holes)

    def _read_holds(self) -> dict[str, dict[str, int]]:
        """The durable subscriptions that hold the log, and how far they are. A damaged one may be of them, anywhere."""
        held: dict[str, dict[str, int]] = {}
        for name, where, holds, crc in self._rows("SELECT name, where_text, holds, crc FROM subscription"):
            if holds or crc != checksum(name, where, holds):
                held[name.decode(errors="replace")] = {}
        for name, stream, offset, crc in self._rows("SELECT name, stream, offset, crc FROM position"):
            if crc == checksum(name, stream, offset) and name.decode() in held:
                held[name.decode()][stream.decode()] = offset
        return held

    def _begin_incarnation(self) -> None:
        with self._transaction():
            self._write_state(self.incarnation + 1, self._first, self._head, self._moment)
        self.incarnation += 1

    @property
    def latest_micros(self) -> int:
        """When the last batch that is held was logged; 0 if none is."""
        return self._number("SELECT ifnull((SELECT time_micros FROM batch ORDER BY first DESC LIMIT 1), 0)")

    @property
    def first(self) -> int:
        """The first offset that is still held; `head` + 1 if none is."""
        return self._first

    @property
    def head(self) -> int:
        """The last offset that was given; it never goes back, also when everything has been trimmed."""
        return self._head

    @property
    def moment(self) -> int:
        """No batch has a later moment in the order of all, and none that is logged after a restart may have an earlier one."""
        return self._moment

    def reserve(self, moment: int) -> None:
        """After a restart `moment` is at least this."""
        if moment > self._moment:
            with explained(self.path), self._transaction():
                self._write_state(self.incarnation, self._first, self._head, moment)
            self._moment = moment

    @property
    def damaged(self) -> tuple[tuple[int, int], ...]:
        """The ranges of offsets, from and to, whose records failed their check on opening; they are never served."""
        return self._damaged

    @property
    def payload_bytes(self) -> int:
        """The bytes of all payloads held: what retention by bytes looks at."""
        return self._payload_bytes

    def accepted(self) -> dict[str, int]:
        """For each publisher the last number that is logged."""
        # A copy is made in one step, so that another thread may ask while this one appends.
        return {name: number for name, (number, _) in self._publishers.copy().items()}

    def last_number(self, publisher: str) -> int:
        """The last number of a publisher that is logged; 0 for one that is not known."""
        return self._publishers.get(publisher, (0, 0))[0]

    def holds(self, stream: str) -> dict[str, int]:
        """The durable subscriptions that hold the log, which is of this stream, and how far they have read it."""
        return {name: positions.get(stream, 0) for name, positions in self._holds.copy().items()}

    def append(
        self, batches: Sequence[NewBatch], positions: Sequence[tuple[str, Mapping[str, int]]] = ()
    ) -> list[int | StoreError]:
        """Logs batches and notes positions of durable subscriptions, all at once; for each batch its first offset, or why not.

        A batch that does not follow the last number of its publisher is refused: an earlier one has failed, so this one must.
        If the disk fails, nothing of it is stored and StoreError is raised. Positions of a subscription that is unknown (since
        it has been forgotten) are left out.
        """
        results: list[int | StoreError] = []
        rows: list[tuple[int, ...]] = []
        texts: list[bytes] = []
        heard: dict[str, tuple[int, int, int]] = {}
        head, size, place, moment = self._head, 0, 1, self._moment
        for batch in batches:
            known = heard[batch.publisher][0] if batch.publisher in heard else self.last_number(batch.publisher)
            if batch.after_number != known:
                results.append(_out_of_turn(batch, known))
                continue
            name, payload = batch.publisher.encode(), batch.payload
            first, head = head + 1, head + batch.count
            crc = _batch_checksum(first, batch.count, batch.time_micros, name, batch.last_number, payload, batch.moment)
            middle = place + len(name)
            of_texts = place, len(name), batch.last_number, middle, len(payload)
            rows.append((first, batch.count, batch.time_micros, *of_texts, crc, batch.moment))
            if batch.moment > moment:
                moment = batch.moment + MOMENTS_RESERVED
            texts += name, payload
            place = middle + len(payload)
            size += len(payload)
            heard[batch.publisher] = batch.last_number, head, batch.time_micros
            results.append(first)
        if rows or positions:
            with explained(self.path), self._transaction():
                if rows:
                    self._connection.execute(_INSERT_BATCHES, (json.dumps(rows), b"".join(texts)))
                    self._connection.executemany(
                        "REPLACE INTO publisher VALUES (?, ?, ?, ?, ?)", map(_publisher_row, heard.items())
                    )
                if moment > self._moment:
                    self._write_state(self.incarnation, self._first, self._head, moment)
                for name_text, offsets in positions:
                    self._write_positions(name_text, offsets)
        self._head, self._moment = head, moment
        self._payload_bytes += size
        for publisher, (number, _, micros) in heard.items():
            self._publishers[publisher] = number, micros
        for name_text, offsets in positions:
            if name_text in self._holds:
                self._holds[name_text] = {**self._holds[name_text], **offsets}
        return results

    def create(self, name: str, where: str, positions: Mapping[str, int], *, holds: bool = False) -> None:
        """Makes a durable subscription that has read each stream up to the offset given; it may hold the log (see `holds`)."""
        check_positions(name, positions)
        row = (name.encode(), where.encode(), int(holds))
        with explained(self.path), self._transaction():
            if self._rows("SELECT 1 FROM subscription WHERE name = ?", row[:1]):
                raise StoreError(f"there is a durable subscription {name!r} already: continue it, or forget it first")
            self._connection.execute(
                "INSERT INTO subscription (name, where_text, holds, crc) VALUES (?, ?, ?, ?)", (*row, checksum(*row))
            )
            self._write_positions(name, positions)
        if holds:
            self._holds[name] = dict(positions)

    def forget(self, name: str) -> None:
        """From now on there is no durable subscription of this name."""
        with explained(self.path), self._transaction():
            self._connection.execute("DELETE FROM subscription WHERE name = ?", (name.encode(),))
            self._connection.execute("DELETE FROM position WHERE name = ?", (name.encode(),))
        self._holds.pop(name, None)

    def trim(self, retention: Retention, now_micros: int, keep_from: int | None = None) -> int:
        """Deletes the oldest whole batches that need not be kept, a portion of them; how many, 0 when nothing is left to do.

        A batch with an offset of `keep_from` or later stays. Publishers that were not heard of for a week are forgotten.
        """
        with explained(self.path):
            doomed, size, first = self._doomed(retention, now_micros, LARGEST if keep_from is None else keep_from)
            silent = self._silent(now_micros)
            if not doomed and not silent:
                return 0
            with self._transaction():
                self._connection.execute("DELETE FROM batch WHERE first < ?", (first,))
                self._connection.executemany(
                    "DELETE FROM publisher WHERE name = ?", ((name.encode(),) for name in silent)
                )
                self._write_state(self.incarnation, first, self._head, self._moment)
                self._give_back()
        self._first = first
        self._payload_bytes -= size
        self._damaged = tuple((max(start, first), end) for start, end in self._damaged if end >= first)
        for name in silent:
            del self._publishers[name]
        return doomed

    def _silent(self, now_micros: int) -> list[str]:
        """The publishers to forget; looks for them once an hour."""
        if now_micros < self._forget_micros:
            return []
        self._forget_micros = now_micros + 3600 * 1_000_000
        return [name for name, (_, micros) in self._publishers.items() if micros < now_micros - PUBLISHER_MICROS]

    def _doomed(self, retention: Retention, now_micros: int, keep_from: int) -> tuple[int, int, int]:
        """How many batches to delete, the bytes of their payloads, and the first offset that stays."""
        oldest = 0 if retention.seconds is None else now_micros - int(retention.seconds * 1_000_000)
        excess = 0 if retention.bytes is None else self._payload_bytes - retention.bytes
        doomed = size = 0
        query = "SELECT first, count, time_micros, iif(typeof(payload) = 'blob', length(payload), 0) FROM batch ORDER BY first"
        row: Any
        with closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(query):
                first, count, micros, length = row
                damaged = any(start <= first <= end for start, end in self._damaged)
                last = first if damaged else first + count - 1
                goes = damaged or micros < oldest or size < excess
                if not goes or last >= keep_from or doomed == TRIM_BATCHES or size >= TRIM_BYTES:
                    return doomed, size, first if doomed else self._first
                doomed += 1
                size += length
        return doomed, size, self._head + 1 if doomed else self._first

    def _give_back(self) -> None:
        """Returns free pages to the file system, except for as many as the next publications will need."""
        spare = max(SPARE_PAGES, self._number("PRAGMA page_count") // SPARE_PART)
        excess = self._number("PRAGMA freelist_count") - spare
        if excess > 0:
            self._connection.execute(f"PRAGMA incremental_vacuum({excess})").fetchall()

    def checkpoint(self) -> None:
        """Moves what the write-ahead log holds into the database once there is enough of it; losing nothing either way."""
        if self._wal_pages >= CHECKPOINT_PAGES:
            with explained(self.path):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def reader(self) -> StoreReader:
        """A reader with a connection of its own, for another thread."""
        with explained(self.path):
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY, vfs=self._vfs)
            connection.set_busy_timeout(5_000)
        return StoreReader(self.path, connection)

    def close(self) -> None:
        """Closes the file and lets others use it."""
        try:
            if hasattr(self, "_connection"):
                # What could not be moved into the database now is in the write-ahead log, and will be at the next opening.
                with suppress(apsw.Error):
                    self._connection.close()
        finally:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, and on the disk at the end of the block."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # Some errors make SQLite roll back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _write_state(self, incarnation: int, first: int, head: int, moment: int) -> None:
        row = (incarnation, first, head, moment)
        columns = "(id, incarnation, first, head, moment, crc)"
        self._connection.execute(f"REPLACE INTO state {columns} VALUES (1, ?, ?, ?, ?, ?)", (*row, checksum(*row)))

    def _write_positions(self, name: str, positions: Mapping[str, int]) -> None:
        key = name.encode()
        rows = [(key, stream.encode(), offset) for stream, offset in positions.items()]
        self._connection.executemany(
            "REPLACE INTO position SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM subscription WHERE name = ?1)",
            [(*row, checksum(*row)) for row in rows],
        )

    def _note_wal(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK


def check_positions(name: str, positions: Mapping[str, int]) -> None:
    """Raises StoreError for a position that no stream can have."""
    for stream, offset in positions.items():
        if not 0 <= offset <= LARGEST:
            raise StoreError(
                f"the durable subscription {name!r} cannot be at offset {offset} of {stream!r}: offsets count from 1"
            )


def _batch_of(row: Sequence[Any]) -> LoggedBatch | None:
    """The batch in a row; None if the row fails its check."""
    first, count, time_micros, name, last_number, payload, crc, moment = row
    try:
        sound = crc == _batch_checksum(first, count, time_micros, name, last_number, payload, moment)
    except TypeError:
        # The damage is such that a column is not even of its kind.
        sound = False
    return LoggedBatch(first, count, time_micros, name.decode(), last_number, payload, moment or 0) if sound else None


def _batch_checksum(
    first: int, count: int, time_micros: int, name: bytes, last_number: int, payload: bytes, moment: int | None
) -> int:
    """The checksum of a row; one without a moment is of a time when there were none."""
    of_order = () if moment is None else (moment,)
    numbers = checksum(first, count, time_micros, last_number, *of_order)
    return zlib.crc32(payload, zlib.crc32(name, numbers))


def _publisher_row(heard: tuple[str, tuple[int, int, int]]) -> tuple[bytes, int, int, int, int]:
    name, (number, offset, micros) = heard
    row = (name.encode(), number, offset, micros)
    return (*row, checksum(*row))


def _out_of_turn(batch: NewBatch, known: int) -> StoreError:
    return StoreError(
        f"publications of {batch.publisher!r} up to number {batch.last_number} were to follow number {batch.after_number}, but "
        f"number {known} is the last one logged: publish again from number {known + 1}"
    )
