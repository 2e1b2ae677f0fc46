"""Which of a million subscriptions does this record satisfy? The matcher answers, for one record or a batch at a time.

Subscriptions come and go at any time, in place. The matcher keeps their texts and an index of their clauses
(`sluice.match.index`); what the index cannot decide alone it confirms with the exact algebra of `sluice.model`, so that the
answer is always that of `sluice.match.naive`. All methods may be called from several threads.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.errors import MatcherError
from sluice.match import query, store
from sluice.match.clause import Clause, check, clauses
from sluice.match.encode import encode
from sluice.match.explain import Explanation, explain
from sluice.match.fields import FALSE_CODE, KIND_CODES, OTHER_BIT, Fields
from sluice.match.index import Ids, Index
from sluice.match.kernels import scan
from sluice.match.kernels.cover import PENDING
from sluice.match.kernels.layout import STEP
from sluice.match.keys import EXACT, text_key, utf8
from sluice.match.loading import CHUNK, no_collection, pairs, parse_row
from sluice.match.merging import MergeIndex
from sluice.match.reading import meaning, remember, text_of
from sluice.match.texts import Texts
from sluice.model.filter import Filter
from sluice.model.notification import attributes
from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.model.values import Kind

Offsets = npt.NDArray[np.int64]
MAX_ID = 2**31 - 1
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: What a text has that asks for types.
_INSTANCEOF = "instanceof"
_NUMBER, _STRING = KIND_CODES[Kind.NUMBER], KIND_CODES[Kind.STRING]


class Matcher:
    """A set of subscriptions that tells which of them a record satisfies.

    >>> matcher = Matcher()
    >>> cheap = matcher.add("symbol = 'IBM' AND price < 100")
    >>> any_ibm = matcher.add("symbol = 'IBM'")
    >>> sorted(matcher.match({"symbol": "IBM", "price": 95.5}).tolist()) == [cheap, any_ibm]
    True
    >>> matcher.remove(cheap)
    >>> offsets, ids = matcher.match_batch([{"symbol": "IBM", "price": 1}, {"symbol": "SUN"}])
    >>> offsets.tolist(), ids.tolist()
    ([0, 1, 1], [1])
    """

    def __init__(self) -> None:
        self._fields = Fields()
        self._index = Index(self._fields)
        self._texts = Texts()
        #: Of each slot: its public id, or -1 if free.
        self._ids: Ids = np.full(1024, -1, np.int32)
        self._slots: dict[int, int] | None = None  # public id to slot, where they differ somewhere
        self._count = 0
        self._top = 0
        self._free: list[int] = []
        #: Of each entry: its slot.
        self._owner: Ids = np.zeros(1024, np.int32)
        self._entries: dict[int, list[int]] = {}  # of slots with other than exactly one entry of the same number
        self._rowless: set[int] = set()  # slots without any entry: what they ask for, no record has
        self._confirm: set[int] = set()
        #: Of slots that ask for types: what their texts meant, and the clauses of that. Types may have been declared since.
        self._typed: dict[int, tuple[Subscription, list[Clause]]] = {}
        self._merging: MergeIndex | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, id: object) -> bool:
        return self._find(_whole(id)) is not None

    def __iter__(self) -> Iterator[int]:
        """The ids, in rising order."""
        ids = self._ids[: self._top]
        return iter(np.sort(ids[ids >= 0]).tolist())

    def __getitem__(self, id: SupportsIndex) -> Subscription:
        """The subscription with this id."""
        return meaning(self._texts[self._slot(id)])

    @property
    def index_bytes(self) -> int:
        """The size of the index, without the texts."""
        return 8 * (self._index.used_words + self._index.entries) + 4 * (len(self._owner) + self._top)

    @property
    def attributes(self) -> tuple[str, ...] | None:
        """The names of all attributes that decide what matches; None where a subscription may look at any."""
        return None if self._confirm else tuple(sorted(self._fields.by_name))

    # --- subscriptions come and go ----------------------------------------------------------------------------------

    def add(self, subscription: Subscription | Filter | str, id: SupportsIndex | None = None) -> int:
        """Adds a subscription, a filter or the text of one; returns its id, the given one or a free one.

        >>> matcher = Matcher()
        >>> matcher.add("price > 3"), matcher.add("price > 7", id=42)
        (0, 42)
        """
        wanted = _subscription(subscription)
        if isinstance(subscription, str):
            text = subscription
            remember(text, wanted)
        else:
            text = text_of(wanted)
        with self._lock:
            return self._add_many([(self._free_id() if id is None else id, text, wanted)])[0]

    def remove(self, id: SupportsIndex) -> None:
        """Takes a subscription out.

        >>> matcher = Matcher()
        >>> matcher.remove(matcher.add("price > 3"))
        >>> len(matcher)
        0
        """
        with self._lock:
            slot = self._slot(id)
            compiled = self._typed.pop(slot) if slot in self._typed else self._compiled(meaning(self._texts[slot]))
            subscription, parts = compiled
            entries = self._entries.pop(slot, [slot])
            if parts:
                self._index.remove(parts, entries)
            for clause in parts:
                for text in clause.symbols:
                    self._fields.release(text)
            if self._merging is not None:
                self._merging.remove(slot, subscription)
            self._confirm.discard(slot)
            self._rowless.discard(slot)
            del self._texts[slot]
            if self._slots is not None:
                del self._slots[int(self._ids[slot])]
            self._ids[slot] = -1
            self._free.append(slot)
            self._count -= 1

    def load(
        self,
        table: pa.Table | pa.RecordBatch | Iterable[tuple[SupportsIndex, str]],
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Adds many subscriptions at once: a table with columns `id` and `where`, or pairs. Returns how many.

        All or nothing: if one text is wrong, the error names it and none of them is added. `progress` is called with the
        number added so far.

        >>> matcher = Matcher()
        >>> matcher.load([(1, "price > 3"), (2, "symbol = 'IBM'")])
        2
        """
        with self._lock, no_collection():
            before = self._count
            added: list[int] = []
            try:
                rows = pairs(table)
                while chunk := list(islice(rows, CHUNK)):
                    added += self._add_many([(id, text, parse_row(id, text)) for id, text in chunk])
                    self._texts.settle()
                    if progress is not None:
                        progress(self._count - before)
            except BaseException:
                for id in added:
                    self.remove(id)
                raise
            return self._count - before

    def _add_many(self, rows: Sequence[tuple[SupportsIndex, str, Subscription]]) -> list[int]:
        """Adds subscriptions with their ids and texts, and returns the ids; checks all of them before it changes anything."""
        ids = self._new_ids([id for id, _, _ in rows])
        try:
            compiled = [self._compiled(subscription) for _, _, subscription in rows]
        finally:
            self._index.fit_fields()
        parts: list[Clause] = []
        slots: list[int] = []
        flags: list[bool] = []
        for id, (_, text, _), (subscription, mine) in zip(ids, rows, compiled, strict=True):
            slot = self._new_slot(id, text)
            if _INSTANCEOF in text.lower():
                self._typed[slot] = subscription, mine
            boxes = subscription.filters
            confirm = any(clause.confirm for clause in mine)
            pending = confirm or (len(boxes) > 1 and _may_meet(boxes))
            if confirm:
                self._confirm.add(slot)
            for clause in mine:
                for symbol in clause.symbols:
                    self._fields.hold(symbol)
            parts += mine
            slots += [slot] * len(mine)
            flags += [pending] * len(mine)
            if len(mine) != 1:
                self._entries[slot] = []
            if not mine:
                self._rowless.add(slot)
            if self._merging is not None:
                self._merging.add(slot, subscription)
        if not parts:
            return ids
        entries = self._index.add(parts, slots, flags)
        top = max(entries) + 1
        if top > len(self._owner):
            self._owner = np.concatenate([self._owner, np.zeros(max(top, len(self._owner)), np.int32)])
        self._owner[entries] = slots
        for entry, slot in zip(entries, slots, strict=True):
            if slot in self._entries:
                self._entries[slot].append(entry)
            elif entry != slot:
                self._entries[slot] = [entry]
        return ids

    def _compiled(self, subscription: Subscription) -> tuple[Subscription, list[Clause]]:
        return subscription, [clause for box in subscription.filters for clause in clauses(box, self._fields)]

    def _new_ids(self, given: Sequence[SupportsIndex]) -> list[int]:
        """Ids for new subscriptions, none of which is taken."""
        ids: dict[int, None] = {}
        for each in given:
            id = _whole(each)
            if not 0 <= id <= MAX_ID:
                raise MatcherError(
                    f"the id {each!r} is not a whole number from 0 to {MAX_ID}: number your subscriptions"
                )
            if id in ids or self._find(id) is not None:
                raise MatcherError(f"the id {id} is taken: remove it first, or leave the id out to get a free one")
            ids[id] = None
        return list(ids)

    def _find(self, id: int) -> int | None:
        """The slot of an id, or None."""
        if self._slots is not None:
            return self._slots.get(id)
        return id if 0 <= id < self._top and self._ids[id] == id else None

    def _slot(self, id: SupportsIndex) -> int:
        slot = self._find(_whole(id))
        if slot is None:
            raise MatcherError(f"no subscription has the id {id!r}")
        return slot

    def _free_id(self) -> int:
        id = self._free[-1] if self._free else self._top
        while self._find(id) is not None:
            id += 1
        return id

    def _new_slot(self, id: int, text: str) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._top
            self._top += 1
            if slot == len(self._ids):
                self._ids = np.concatenate([self._ids, np.full(max(1024, len(self._ids)), -1, np.int32)])
        if self._slots is None and slot != id:
            used = self._ids[: self._top]
            self._slots = {slot: slot for slot in np.flatnonzero(used >= 0).tolist()}
        if self._slots is not None:
            self._slots[id] = slot
        self._ids[slot] = id
        self._texts[slot] = text
        self._count += 1
        return slot

    # --- matching ---------------------------------------------------------------------------------------------------

    def match(self, record: object) -> Ids:
        """The ids of the subscriptions that one record satisfies, in no particular order.

        >>> matcher = Matcher()
        >>> matcher.load([(7, "price > 3"), (8, "price > 30")])
        2
        >>> matcher.match({"price": 5}).tolist()
        [7]
        """
        with self._lock:
            if not self._write_record(record):
                return self.match_batch([record])[1]
            sure, candidates = self._index.match_record()
            if len(candidates):
                _, sure = self._settle(
                    np.array([0, len(sure)]), sure, candidates, lambda row: attributes(record), frozenset()
                )
            return sure if self._slots is None else self._ids[sure]

    def _write_record(self, record: object) -> bool:
        """Writes a flat record of plain scalars to the index; False (and nothing written) if it is anything else."""
        index = self._index
        longs, doubles = index.longs, index.doubles
        fields, symbols = self._fields.by_name, self._fields.symbols
        if type(record) is not dict:
            return False
        for name, value in record.items():
            entry = fields.get(name)
            kind = type(value)
            if entry is None:
                if kind in _PLAIN and type(name) is str:
                    continue
            elif kind is str:
                number = symbols.get(value)
                if entry.symbol and number is not None:
                    longs[entry.symbol] = number
                if entry.mask:
                    bit = entry.bits.get(number)
                    longs[entry.mask] = OTHER_BIT if bit is None else 1 << bit
                if entry.string:
                    longs[entry.string] = text_key(utf8(value))
                if entry.kind:
                    longs[entry.kind] = _STRING
                continue
            elif (kind is float and value == value) or (kind is int and -EXACT <= value <= EXACT):
                if entry.number:
                    doubles[entry.number] = value + 0.0
                if entry.kind:
                    longs[entry.kind] = _NUMBER
                continue
            elif kind is bool:
                if entry.kind:
                    longs[entry.kind] = FALSE_CODE + value
                continue
            elif value is None:
                continue
            index.words[:] = self._fields.defaults
            return False
        return True

    def match_batch(self, batch: pa.RecordBatch | Sequence[object]) -> tuple[Offsets, Ids]:
        """The matches of many records: those of record i are `ids[offsets[i]:offsets[i + 1]]`.

        >>> import pyarrow as pa
        >>> matcher = Matcher()
        >>> matcher.load([(0, "price > 3"), (1, "symbol = 'IBM'")])
        2
        >>> batch = pa.RecordBatch.from_pydict({"symbol": ["IBM", "SUN"], "price": [1.0, 9.0]})
        >>> offsets, ids = matcher.match_batch(batch)
        >>> offsets.tolist(), ids.tolist()
        ([0, 1, 2], [1, 0])
        """
        with self._lock:
            rows = encode(batch, self._fields)
            offsets, sure, candidates = self._index.match_rows(rows)
            if len(candidates) or rows.inexact:
                offsets, sure = self._settle(offsets, sure, candidates, rows.record, rows.inexact)
            return offsets, (sure if self._slots is None else self._ids[sure])

    def _settle(
        self, offsets: Offsets, sure: Ids, candidates: Offsets, record: Callable[[int], Any], inexact: frozenset[int]
    ) -> tuple[Offsets, Ids]:
        """Confirms candidates, counts each subscription once per record, and joins them with the sure matches."""
        events = candidates >> 32
        found = np.unique(events << 32 | self._owner[candidates & 0xFFFFFFFF])
        for row in sorted(inexact):
            mine = sure[offsets[row] : offsets[row + 1]]
            found = np.union1d(found, np.int64(row) << 32 | mine.astype(np.int64))
        if inexact:
            lengths = np.diff(offsets)
            keep = np.repeat(~np.isin(np.arange(len(lengths)), sorted(inexact)), lengths)
            lengths[sorted(inexact)] = 0
            sure, offsets = sure[keep], np.concatenate([[0], np.cumsum(lengths)])
        kept: list[int] = []
        last, flat = -1, {}
        for word in found.tolist():
            row, slot = word >> 32, word & 0xFFFFFFFF
            if row in inexact or slot in self._confirm:
                if row != last:
                    last, flat = row, record(row)
                if not any(box.matches(flat) for box in meaning(self._texts[slot]).filters):
                    continue
            kept.append(word)
        words = np.array(kept, np.int64)
        return scan.merge_rows(offsets, sure, words >> 32, (words & 0xFFFFFFFF).astype(np.int32))  # type: ignore[no-any-return]

    def explain(self, record: object, id: SupportsIndex) -> Explanation:
        """Why a record matches a subscription, or which constraint failed.

        >>> matcher = Matcher()
        >>> print(matcher.explain({"price": 5}, matcher.add("price > 3 AND symbol = 'IBM'")))
        no match
          yes  price > 3            price is 5
          NO   symbol = 'IBM'       symbol is missing
        """
        return explain(attributes(record), self[id])

    # --- filters against filters ------------------------------------------------------------------------------------

    def covering(self, filter: Subscription | Filter | str) -> list[int]:
        """The ids of the subscriptions that cover a filter (figure 4.7), in rising order.

        >>> matcher = Matcher()
        >>> matcher.load([(0, "price > 3"), (1, "price > 30")])
        2
        >>> matcher.covering("price BETWEEN 10 AND 20"), matcher.covered("price > 0")
        ([0], [0, 1])
        """
        wanted = _subscription(filter)
        with self._lock:
            slots: set[int] | None = None
            certain: set[int] = set()
            for box in wanted.filters:
                rows = query.covering_rows(box, self._fields)
                _, sure, candidates = self._index.match_rows(rows)
                mine = {*sure.tolist(), *self._owner[candidates & 0xFFFFFFFF].tolist()}
                slots = mine if slots is None else slots & mine
                if len(wanted.filters) == 1 and query.is_plain(box):
                    certain = set(sure.tolist())
            if slots is None:
                return list(self)
            return self._that(slots, certain, lambda other: other.covers(wanted))

    def covered(self, filter: Subscription | Filter | str) -> list[int]:
        """The ids of the subscriptions that a filter covers (figure 4.8), in rising order."""
        wanted = _subscription(filter)
        with self._lock:
            slots = set(self._rowless)
            certain: set[int] = set()
            for box in wanted.filters:
                entries = self._index.covered(*query.covered_box(box, self._fields))
                mine = self._owner[list(entries)].tolist()
                slots.update(mine)
                if query.is_plain(box):
                    certain.update(slot for slot in mine if slot not in self._confirm and self._is_one_row(slot))
            return self._that(slots, certain, wanted.covers)

    def _is_one_row(self, slot: int) -> bool:
        """Whether the whole subscription is one row of the index."""
        return len(self._entries.get(slot, (slot,))) == 1

    def overlapping(self, filter: Subscription | Filter | str) -> list[int]:
        """The ids of the subscriptions that overlap a filter: something may match both (Cor. 4.3), in rising order.

        >>> matcher = Matcher()
        >>> matcher.load([(0, "price > 3"), (1, "price > 30"), (2, "symbol = 'IBM'")])
        3
        >>> matcher.overlapping("price < 20")
        [0, 2]
        """
        wanted = _subscription(filter)
        with self._lock:
            sure, others = self._overlapping(wanted, first=False)
            ids = self._ids[sure].tolist()
            return sorted(ids + self._that(others, set(), wanted.overlaps) if others else ids)

    def overlaps(self, filter: Subscription | Filter | str) -> bool:
        """Whether any subscription overlaps a filter.

        >>> matcher = Matcher()
        >>> matcher.load([(0, "price > 3"), (1, "price > 30")])
        2
        >>> matcher.overlaps("price = 4"), matcher.overlaps("price = 3")
        (True, False)
        """
        wanted = _subscription(filter)
        with self._lock:
            sure, others = self._overlapping(wanted, first=True)
            return len(sure) > 0 or any(wanted.overlaps(meaning(self._texts[slot])) for slot in sorted(others))

    def _overlapping(self, wanted: Subscription, first: bool) -> tuple[Offsets, set[int]]:
        """The slots that surely overlap a filter and those that may; with `first` one sure slot is enough."""
        sure = np.zeros(self._top, np.bool_)
        others = set(self._rowless)
        for box in wanted.filters:
            if not box.constraints and not box.residuals:
                sure |= self._ids[: self._top] >= 0
                sure[list(self._rowless)] = False
                break
            for reach in query.overlap_reaches(box, self._fields):
                found = self._index.overlapping(*reach, first)
                doubt = found & 3
                if doubt.any():
                    others.update((found[doubt != 0] >> 2).tolist())
                    # A row is pending for other reasons too than that its matches are confirmed.
                    sure[list({*(found[doubt == PENDING] >> 2).tolist()} - self._confirm)] = True
                    found = found[doubt == 0]
                sure[found >> 2] = True
                if first and len(found):
                    return found >> 2, set()
        slots = np.flatnonzero(sure)
        return slots, others.difference(slots.tolist()) if others else others

    def merge_candidates(self, filter: Subscription | Filter | str) -> list[int]:
        """The ids of the subscriptions that differ from a filter in one attribute only (figure 4.9), in rising order.

        >>> matcher = Matcher()
        >>> matcher.load([(0, "symbol = 'IBM' AND price > 3"), (1, "symbol = 'IBM' AND volume > 3")])
        2
        >>> matcher.merge_candidates("symbol = 'SUN' AND price > 3")
        [0]
        """
        wanted = _subscription(filter)
        with self._lock:
            if self._merging is None:
                self._merging = MergeIndex()
                for id in self:
                    slot = self._slot(id)
                    self._merging.add(slot, self._typed[slot][0] if slot in self._typed else self[id])
            return sorted(self._ids[list(self._merging.candidates(wanted))].tolist())

    def _that(self, slots: set[int], certain: set[int], holds: Callable[[Subscription], bool]) -> list[int]:
        """The ids of the slots for which something is certain or holds, in rising order."""
        kept = [slot for slot in slots if slot in certain or holds(meaning(self._texts[slot]))]
        return sorted(self._ids[kept].tolist())

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes the matcher to a directory that `open` maps into memory.

        It may be new or empty, or hold another matcher, which is replaced. Anything else is refused and stays.
        """
        with self._lock:
            arrays: dict[str, npt.NDArray[Any]] = {
                "heap": self._index.heap[: self._index.used_words + STEP],
                "places": self._index.places[: self._index.entries],
                "owner": self._owner[: self._index.entries],
                "ids": self._ids[: self._top],
            }
            state = {
                "fields": self._fields.to_dict(),
                "free": self._free,
                "free_entries": self._index.free_entries,
                "entries": list(self._entries.items()),
                "confirm": sorted(self._confirm),
                "typed": [(slot, msgspec.to_builtins(mine)) for slot, (_, mine) in self._typed.items()],
                "identity": self._slots is None,
            }
            store.save(Path(path), arrays, self._texts.to_array(), state)

    @classmethod
    def open(cls, path: str | Path) -> Matcher:
        """A saved matcher, mapped into memory: processes that open the same one share its pages until they change it."""
        arrays, texts, state = store.load(Path(path))
        matcher = cls()
        with store.damage(Path(path)):
            matcher._fields = Fields.from_dict(state["fields"])
            check(chain.from_iterable(mine for _, mine in state.get("typed", ())), matcher._fields)
        matcher._index = Index(matcher._fields, arrays["heap"], arrays["places"])
        matcher._index.free_entries = list(state["free_entries"])
        matcher._owner, matcher._ids = arrays["owner"], arrays["ids"]
        matcher._texts = Texts(texts)
        matcher._top = len(matcher._ids)
        matcher._free = list(state["free"])
        matcher._entries = dict(state["entries"])
        matcher._rowless = {slot for slot, entries in matcher._entries.items() if not entries}
        matcher._confirm = set(state["confirm"])
        matcher._typed = {slot: (meaning(matcher._texts[slot]), mine) for slot, mine in state.get("typed", ())}
        matcher._count = matcher._top - len(matcher._free)
        if not state["identity"]:
            used = np.flatnonzero(matcher._ids >= 0).tolist()
            matcher._slots = {int(matcher._ids[slot]): slot for slot in used}
        return matcher


def _whole(id: object) -> int:
    """The whole number that is given as an id, of whatever type; -1, which no subscription has, if it is anything else."""
    if type(id) is int:
        return id
    try:
        return -1 if isinstance(id, bool) else operator.index(id)  # type: ignore[arg-type]
    except TypeError:
        return -1


def _subscription(filter: Subscription | Filter | str) -> Subscription:
    if isinstance(filter, str):
        return parse(filter)
    return Subscription([filter]) if isinstance(filter, Filter) else filter


def _may_meet(boxes: Sequence[Filter]) -> bool:
    """Whether a record may lie in two of the boxes; for many boxes that is taken for granted."""
    return len(boxes) > 8 or any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
