"""The heap of the index from Python's side: room to grow, batches of clauses in and out, rows of keys against it.

Every method leaves the heap consistent: the kernels check that there is room before they change anything, and say how far
they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.match.clause import Clause
from sluice.match.encode import Rows, Words
from sluice.match.fields import Fields
from sluice.match.kernels import laying, mixed, scan, tally, tiles
from sluice.match.kernels.access import count_keys
from sluice.match.kernels.cover import covered, overlapping
from sluice.match.kernels.layout import HEADER, LEAF_ROWS, LIST, MAX_PAIRS, PAIRS, RANGES, ROWS, SINGLES, STEP, TOP
from sluice.match.kernels.rows import insert, remove
from sluice.match.kernels.tasks import note
from sluice.match.reserve import Reserve

_FIRST_WORDS = 256 * 1024
#: Records that are matched together: what they lead to is noted for all of them before it is matched.
_BATCH = 2048
#: Records that are counted together; the more, the fewer look-ups for each.
_COUNTED = 1024 * 1024
#: Rows of large groups that are tested in one go: a bit for each is kept until all are counted.
_TILE_ROWS = 64 * 1024 * 1024
#: Room at first: for matches of a batch, for candidates, and for runs of groups.
_PAIRS, _CANDIDATES, _RUNS = 1024 * 1024, 64 * 1024, 1024
_NONE = np.zeros(0, np.int64)
Ids = npt.NDArray[np.int32]


class Tile(NamedTuple):
    """Runs that were done in one go: from which to which, a bit for each row, and how many are set in each leaf."""

    start: int
    end: int
    bits: npt.NDArray[np.uint16]
    counts: Words


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
        #: What matches a batch: pairs of an event and a slot, or an entry; and runs. One record needs no events.
        self._events, self._slots = np.empty((2, _PAIRS), np.int32)
        self._candidate_events, self._candidates = np.empty((2, _CANDIDATES), np.int32)
        self._runs = np.empty(tiles.RUN * _RUNS, np.int64)
        self._cursor = np.zeros(5, np.int64)
        #: Of each field: the lowest and the highest end of an interval so far, to guess how selective the next one is.
        self._seen = np.empty((0, 2))
        self.fit_fields()

    def fit_fields(self) -> None:
        """Room for one record, and for what is known of each field, with the fields there are now."""
        if len(self._seen) == len(self.fields):
            return
        unseen = np.tile([np.inf, -np.inf], (len(self.fields) - len(self._seen), 1))
        self._seen = np.concatenate([self._seen, unseen])
        self._found = np.zeros(3 * len(self.fields) + MAX_PAIRS, np.int64)
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
            *(_address(self._found), _address(self._slots), _address(self._candidates), _address(self._cursor)),
        ]
        self._given = np.array(given, np.int64)
        self._given_address = _address(self._given)
        self._cursor[scan.ROOM], self._cursor[scan.PENDING_ROOM] = len(self._slots), len(self._candidates)
        self._state = memoryview(self._cursor)  # type: ignore[arg-type]

    def match_record(self) -> tuple[Ids, Words]:
        """Matches the record in `words` (numbers as doubles), which is blank again afterwards: sure slots and candidates."""
        while (written := _run(scan.match_record, self._given_address)) < 0:
            self._make_room()
        pending = self._state[scan.PENDING]
        candidates = self._candidates[:pending].astype(np.int64) if pending else _NONE
        return self._slots[:written].copy(), candidates

    def match_rows(self, rows: Rows) -> tuple[Words, Ids, Words]:
        """Matches rows of keys: offsets and sure slots as CSR, and candidates as event << 32 | entry."""
        if len(rows.upper) <= _BATCH:
            return self._match_batch(rows)
        parts = [self._match_batch(rows.part(at, at + _BATCH)) for at in range(0, len(rows.upper), _BATCH)]
        sizes = np.concatenate([np.diff(offsets) for offsets, _, _ in parts])
        candidates = np.concatenate([found + (_BATCH * i << 32) for i, (_, _, found) in enumerate(parts)])
        return _offsets(sizes), np.concatenate([slots for _, slots, _ in parts]), candidates

    def _match_batch(self, rows: Rows) -> tuple[Words, Ids, Words]:
        """`match_rows` for a batch of bounded size: what leads where is noted first, and each bucket is then read once."""
        tasks = self._note(rows)
        pairs, candidates, runs = self._collect(rows, tasks, False)
        sizes = np.zeros(len(rows.upper), np.int64)
        _run(mixed.count_pairs, _address(self._events), pairs, _address(sizes))
        collected = self._collect_tiles(rows, tasks, runs, sizes)
        offsets = _offsets(sizes)
        slots, places = np.empty(int(offsets[-1]), np.int32), offsets[:-1].copy()
        what = (_address(self._events), _address(self._slots), pairs)
        _run(mixed.place_pairs, *what, _address(places), _address(slots))
        for start, end, bits, counts in collected:
            where = (_address(self.heap), _address(tasks), _address(runs), start, end)
            _run(tiles.place, *where, _address(bits), _address(counts), _address(places), _address(slots))
        return offsets, slots, candidates

    def _note(self, rows: Rows) -> Words:
        """Which record leads to which bucket, those of the same bucket together."""
        count, fields = rows.upper.shape
        keys = sum(int(self.heap[head + 2]) for head in (SINGLES, PAIRS, RANGES))
        tasks: Words = np.empty(count * keys + 1, np.int64)
        spare = np.empty_like(tasks)
        given = (_address(self.heap), _address(rows.upper), _address(rows.lower), fields, count)
        noted: int = _run(note, *given, _address(tasks), _address(spare))
        return tasks[:noted]

    def _collect(self, rows: Rows, tasks: Words, only_candidates: bool) -> tuple[int, Words, Words]:
        """What matches in groups whose rows test different fields: how many pairs; candidates; and runs of other groups."""
        count, fields = rows.upper.shape
        most = (count + 2 * STEP) // STEP * STEP
        upper = _aligned(fields * most)
        lower = upper if rows.lower is rows.upper else _aligned(fields * most)
        laid, samples = np.empty(fields, np.int64), np.empty(most, np.int64)
        names, marks = np.empty(most, np.int32), np.empty(most, np.uint16)
        given, state = np.zeros(mixed.GIVEN, np.int64), np.zeros(mixed.STATE, np.int64)
        halves, halved = np.empty(rows.upper.shape, np.int32), np.zeros(fields, np.int64)
        scratch: tuple[npt.NDArray[Any], ...] = (self._picked, self._bits, upper, lower, laid, names, marks, samples)
        given[: laying.MOST + 1] = (
            *(_address(self.heap), _address(rows.upper), _address(rows.lower), fields, count),
            *(_address(self.fields.axes), _address(halves), _address(halved), _address(tasks), len(tasks)),
            *(*map(_address, scratch), most),
        )
        while True:
            given[laying.MOST + 1 :] = (
                *(_address(self._events), _address(self._slots), len(self._events)),
                *(_address(self._candidate_events), _address(self._candidates), len(self._candidates)),
                *(_address(self._runs), len(self._runs) // tiles.RUN, only_candidates),
            )
            if _run(mixed.collect, _address(given), _address(state)):
                break
            self._make_room()
        pairs, found, runs = state[mixed.PAIRS :].tolist()
        candidates = self._candidate_events[:found].astype(np.int64) << 32 | self._candidates[:found]
        return pairs, candidates, self._runs[: tiles.RUN * runs]

    def count_rows(self, rows: Rows, counts: Words) -> Words:
        """Adds to the counts by slot what matches rows of exact keys; candidates are returned, not counted."""
        parts = range(0, len(rows.upper), _COUNTED)
        return np.concatenate(
            [self._count(rows.part(at, at + _COUNTED), counts) + (at << 32) for at in parts] or [_NONE]
        )

    def _count(self, rows: Rows, counts: Words) -> Words:
        heap, keys = _address(self.heap), rows.upper
        fields = keys.shape[1]
        tasks = self._note(rows)
        often = np.zeros(fields, np.int64)
        most, has_pending = _run(tally.survey, heap, _address(tasks), len(tasks), _address(often))
        candidates = self._candidates_of(rows) if has_pending else _NONE
        # The records in the order of the field that most groups test.
        busiest = int(often.argmax())
        rows = Rows(keys := keys[np.argsort(keys[:, busiest])], keys, frozenset(), rows.record)
        tasks = self._note(rows)
        columns, laid, flags = np.empty(most * fields, np.int64), np.empty(fields, np.int64), np.empty(most, np.uint8)
        records = (_address(keys), fields, busiest, _address(tasks), len(tasks))
        room = (_address(columns), most, _address(laid), _address(flags))
        _run(tally.count_groups, heap, *records, *room, _address(counts))
        return candidates

    def _candidates_of(self, rows: Rows) -> Words:
        """The candidates alone, in batches of bounded size: room is made for all that may match at once."""
        parts = [(at, rows.part(at, at + _BATCH)) for at in range(0, len(rows.upper), _BATCH)]
        return np.concatenate([self._collect(part, self._note(part), True)[1] + (at << 32) for at, part in parts])

    def _collect_tiles(self, rows: Rows, tasks: Words, runs: Words, sizes: Words) -> list[Tile]:
        """Which rows of the groups in some runs hold, a bit each; adds to the size of each record how many those are."""
        heap, where, fields = _address(self.heap), _address(runs), rows.upper.shape[1]
        collected: list[Tile] = []
        done, count = 0, len(runs) // tiles.RUN
        while done < count:
            end, most, leaves = _run(tiles.bounds, heap, where, done, count, _TILE_ROWS)
            bits, counts = np.empty(most // STEP + leaves, np.uint16), np.empty(leaves, np.int64)
            keys = (_address(rows.upper), _address(rows.lower), fields)
            output = (_address(sizes), _address(bits), _address(counts))
            _run(tiles.collect, heap, *keys, _address(self._picked), _address(tasks), where, done, end, *output)
            collected.append(Tile(done, end, bits, counts))
            done = end
        return collected

    def _make_room(self) -> None:
        """Twice the room for what is found, with what is there already."""
        for name in ("_events", "_slots", "_candidate_events", "_candidates", "_runs"):
            buffer = getattr(self, name)
            setattr(self, name, np.concatenate([buffer, np.empty_like(buffer)]))
        self._note_addresses()

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


def _offsets(sizes: Words) -> Words:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _aligned(words: int) -> Words:
    """Words that begin where a step of them is within lines of the cache."""
    room = np.empty(words + STEP, np.int64)
    start = -(_address(room) // 8) % STEP
    return room[start : start + words]


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
