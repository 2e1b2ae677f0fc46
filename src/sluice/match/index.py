"""The heap of the index from Python's side: room to grow, batches of clauses in and out, rows of keys against it.

Every method leaves the heap consistent: the kernels check that there is room before they change anything, and say how far
they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.match.clause import Clause
from sluice.match.encode import Rows, Words
from sluice.match.fields import Fields
from sluice.match.kernels import scan, tally, tiles
from sluice.match.kernels.access import count_keys
from sluice.match.kernels.cover import covered, overlapping
from sluice.match.kernels.layout import HEADER, LARGE, LEAF_ROWS, LIST, MAX_PAIRS, ROWS, STEP, TOP
from sluice.match.kernels.rows import insert, remove
from sluice.match.reserve import Reserve

_FIRST_WORDS = 256 * 1024
#: Large groups per record, on average, that a batch can put off; more are matched at once.
_TASKS = 256
#: Rows of large groups that are tested in one go: a bit for each is kept until all are counted.
_TILE_ROWS = 64 * 1024 * 1024
Ids = npt.NDArray[np.int32]


class Index:
    """Rows in buckets, and where each entry lies. Not thread-safe: the matcher holds its lock around every call."""

    def __init__(self, fields: Fields, heap: Words | None = None, places: Words | None = None) -> None:
        self.fields = fields
        #: Where the heap grows; none as long as it is a file that was opened.
        self._reserve: Reserve | None = None
        if heap is None:
            self._reserve = Reserve(8 * _FIRST_WORDS)
            heap = self._reserve.words[:_FIRST_WORDS]
            heap[TOP] = HEADER
        self.heap = heap
        self.places = np.zeros(1024, np.int64) if places is None else places
        self.entries = 0 if places is None else len(places)
        self.free_entries: list[int] = []
        self._bits = np.zeros(LEAF_ROWS // STEP, np.uint16)
        self._picked = np.zeros(LEAF_ROWS + STEP, np.int32)
        self._expected, self._expected_candidates = 64 * 1024, 4 * 1024
        self._out = np.empty(self._expected, np.int32)
        self._candidates = np.empty(self._expected_candidates, np.int64)
        self._cursor = np.zeros(8, np.int64)
        #: Of each field: the lowest and the highest end of an interval so far, to guess how selective the next one is.
        self._seen = np.empty((0, 2))
        self.fit_fields()

    def fit_fields(self) -> None:
        """Room for one record, and for what is known of each field, with the fields there are now."""
        if len(self._seen) == len(self.fields):
            return
        unseen = np.tile([np.inf, -np.inf], (len(self.fields) - len(self._seen), 1))
        self._seen = np.concatenate([self._seen, unseen])
        self._found = np.zeros(2 * (3 * len(self.fields) + MAX_PAIRS), np.int64)
        self.words = self.fields.defaults.copy()
        self.longs = memoryview(self.words)  # type: ignore[arg-type]
        self.doubles = memoryview(self.words.view(np.float64))  # type: ignore[arg-type]
        self._note_addresses()

    @property
    def used_words(self) -> int:
        """Words of the heap in use."""
        return int(self.heap[TOP])

    def add(self, clauses: Sequence[Clause], slots: Sequence[int], pending: Sequence[bool]) -> list[int]:
        """Adds clauses, each for a slot; returns their entries."""
        entries = [self._new_entry() for _ in clauses]
        tests, starts, pairs = self._flatten(clauses)
        axes, done = self.fields.axes, 0
        while done < len(clauses):
            done += _run(count_keys, _address(self.heap), len(self.heap), tests, starts[done:], axes, 1)
            if done < len(clauses):
                self._grow()
        numbers, flags = np.array(slots, np.int64), np.array(pending, np.int64)
        where, done = np.array(entries, np.int64), 0
        while done < len(clauses):
            rest = slice(done, None)
            done += _run(
                insert,
                _address(self.heap),
                len(self.heap),
                _address(self.places),
                tests,
                starts[rest],
                pairs,
                numbers[rest],
                where[rest],
                flags[rest],
                axes,
                self._seen,
            )
            if done < len(clauses):
                self._grow()
        return entries

    def remove(self, clauses: Sequence[Clause], entries: Sequence[int]) -> None:
        """Takes entries out; `clauses` are what they were made of."""
        _run(remove, _address(self.heap), _address(self.places), np.array(entries, np.int64))
        tests, starts, _ = self._flatten(clauses)
        done = 0
        while done < len(clauses):
            done += _run(count_keys, _address(self.heap), len(self.heap), tests, starts[done:], self.fields.axes, -1)
            if done < len(clauses):
                self._grow()
        self.free_entries += entries

    def _flatten(self, clauses: Sequence[Clause]) -> tuple[Words, Words, Words]:
        """The tests of all clauses in one table, sorted by field within each, and the intervals of their lists."""
        tests: list[tuple[int, int, int]] = []
        pairs: list[tuple[int, int]] = []
        starts = [0]
        for clause in clauses:
            mine = clause.tests
            if clause.lists:
                mine = list(mine)
                for field, intervals in clause.lists:
                    mine.append((field * 4 + LIST, len(pairs), len(intervals)))
                    pairs += intervals
            tests += sorted(mine) if mine else [(0, 0, 0)]
            starts.append(len(tests))
        flat = np.array(pairs, np.int64).reshape(-1)
        return np.array(tests, np.int64), np.array(starts, np.int64), flat

    def _new_entry(self) -> int:
        if self.free_entries:
            return self.free_entries.pop()
        if self.entries == len(self.places):
            larger = np.zeros(max(1024, 2 * len(self.places)), np.int64)
            larger[: self.entries] = self.places
            self.places = larger
        self.entries += 1
        return self.entries - 1

    def _grow(self) -> None:
        """More room at the end of the heap, which stays where it is unless it is a file or its reserve is used up."""
        words = len(self.heap) + max(len(self.heap) // 2, _FIRST_WORDS)
        if self._reserve is None or not self._reserve.grow_to(words):
            self._reserve = Reserve(8 * words)
            self._reserve.grow_to(words)
            self._reserve.words[: len(self.heap)] = self.heap
        self.heap = self._reserve.words[:words]
        self._note_addresses()

    def _note_addresses(self) -> None:
        """Looks up once where everything is that matching one record needs."""
        fields = self.fields
        given = [
            *(_address(self.heap), _address(self.words), _address(fields.defaults), len(fields)),
            *(_address(fields.numbers), len(fields.numbers), _address(self._bits), _address(self._picked)),
            *(_address(self._found), _address(self._out), _address(self._candidates), _address(self._cursor)),
        ]
        self._given = np.array(given, np.int64)
        self._given_address = _address(self._given)
        self._cursor[scan.ROOM], self._cursor[scan.PENDING_ROOM] = len(self._out), len(self._candidates)
        self._state = memoryview(self._cursor)  # type: ignore[arg-type]

    def match_record(self) -> tuple[Ids, Words]:
        """Matches the record in `words` (numbers as doubles), which is blank again afterwards: sure slots and candidates."""
        while True:
            _run(scan.match_record, self._given_address)
            written, pending, full = self._state[:3]
            if not full:
                return self._out[:written].copy(), self._candidates[:pending]
            self._out, self._candidates = self._more(self._out), self._more(self._candidates)
            self._note_addresses()

    def match_rows(self, rows: Rows) -> tuple[Words, Ids, Words]:
        """Matches rows of keys: offsets and sure slots as CSR, and candidates as event << 32 | entry."""
        offsets, out, candidates, tasks = self._scan_rows(rows, LARGE)
        if len(tasks):
            offsets, out = self._match_tiles(rows, tasks, offsets, out)
        return offsets, out, candidates

    def _scan_rows(self, rows: Rows, large: int) -> tuple[Words, Ids, Words, Words]:
        """What `match_rows` returns but for groups of so many rows or more, and the tasks that are left for those."""
        count, fields = rows.upper.shape
        offsets = np.zeros(count + 1, np.int64)
        out, candidates = np.empty(self._expected, np.int32), np.empty(self._expected_candidates, np.int64)
        tasks = np.empty(_TASKS * count if count < 1 << scan.EVENT_BITS else 0, np.int64)
        cursor = np.zeros(8, np.int64)
        cursor[scan.TASK_ROOM], cursor[scan.TASK_ROWS] = len(tasks), large
        done = 0
        while done < count:
            cursor[scan.ROOM], cursor[scan.PENDING_ROOM] = len(out), len(candidates)
            done = _run(
                scan.match_rows,
                _address(self.heap),
                _address(rows.upper),
                _address(rows.lower),
                fields,
                _address(self._bits),
                _address(self._picked),
                _address(self._found),
                len(self._found) // 2,
                _address(out),
                _address(candidates),
                _address(cursor),
                _address(tasks),
                _address(offsets),
                count,
                done,
            )
            if done < count:
                out, candidates = self._more(out), self._more(candidates)
        written, pending, left = (int(cursor[i]) for i in (scan.WRITTEN, scan.PENDING, scan.TASKS))
        self._expected = written + written // 4 + 64 * 1024
        self._expected_candidates = pending + pending // 4 + 4 * 1024
        return offsets, out[:written], candidates[:pending], tasks[:left]

    def count_rows(self, rows: Rows, counts: Words) -> Words:
        """Adds to the counts by slot what matches rows of exact keys; candidates are returned, not counted."""
        _, out, candidates, tasks = self._scan_rows(rows, 1)
        _run(tally.count_slots, _address(out), len(out), _address(counts))
        if len(tasks):
            self._count_tasks(rows.upper, tasks, counts)
        return candidates

    def _count_tasks(self, keys: Words, tasks: Words, counts: Words) -> None:
        """Counts what was left for later, with the records in the order of the field that most groups test."""
        heap, todo, fields = _address(self.heap), _address(tasks), keys.shape[1]
        often = np.zeros(fields, np.int64)
        tasks.sort()
        most = _run(tally.survey, heap, todo, len(tasks), _address(often))
        busiest = int(often.argmax())
        order = np.argsort(keys[:, busiest])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        _run(tally.rename, todo, len(tasks), _address(rank))
        tasks.sort()
        records = (_address(keys := keys[order]), fields, busiest, todo, len(tasks))
        columns, laid, flags = np.empty(most * fields, np.int64), np.empty(fields, np.int64), np.empty(most, np.uint8)
        room = (_address(columns), most, _address(laid), _address(flags))
        _run(tally.count_groups, heap, *records, *room, _address(counts))

    def _match_tiles(self, rows: Rows, tasks: Words, offsets: Words, out: Ids) -> tuple[Words, Ids]:
        """Matches what was left for later, sorted by group, and joins it with what is there."""
        tasks.sort()
        sizes = np.diff(offsets)
        heap, todo, fields = _address(self.heap), _address(tasks), rows.upper.shape[1]
        collected: list[tuple[int, int, npt.NDArray[Any], Words]] = []
        done = 0
        while done < len(tasks):
            end, most, leaves = _run(tiles.bounds, heap, todo, done, len(tasks), _TILE_ROWS)
            bits, counts = np.empty(most // STEP + leaves, np.uint16), np.empty(leaves, np.int64)
            keys = (_address(rows.upper), _address(rows.lower), fields)
            output = (_address(sizes), _address(bits), _address(counts))
            _run(tiles.collect, heap, *keys, _address(self._picked), todo, done, end, *output)
            collected.append((done, end, bits, counts))
            done = end
        joined = np.concatenate([[0], np.cumsum(sizes)])
        slots = np.empty(int(joined[-1]), np.int32)
        places = joined[:-1].copy()
        _run(scan.move_rows, offsets, out, slots, places)
        for start, end, bits, counts in collected:
            output = (_address(bits), _address(counts), _address(places))
            _run(tiles.place, heap, todo, start, end, *output, _address(slots))
        return joined, slots

    @staticmethod
    def _more(buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A buffer of twice the size with the same contents."""
        return np.concatenate([buffer, np.empty_like(buffer)])

    def covered(self, low: Words, high: Words, given: npt.NDArray[np.bool_]) -> Iterable[int]:
        """The entries whose tests lie in a box of keys."""
        out = np.empty(1024, np.int64)
        while True:
            found = _run(covered, _address(self.heap), low, high, given, int(given.sum()), out)
            if found >= 0:
                return out[:found].tolist()  # type: ignore[no-any-return]
            out = np.empty(4 * len(out), np.int64)

    def overlapping(self, low: Words, high: Words, how: Words, first: bool) -> Words:
        """Slot * 4 + doubt of each row that may meet a box of keys; with `first` one without doubt ends the search."""
        out = np.empty(int(self.heap[ROWS]), np.int64)
        given = (_address(self.heap), _address(low), _address(high), _address(how))
        return out[: _run(overlapping, *given, first, _address(out))]


def _run(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a kernel. Ctrl-C during one arrives as a SystemError from the compiler's wrapper: it is handed on as itself."""
    try:
        return kernel(*arguments)
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def _address(array: npt.NDArray[Any]) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
