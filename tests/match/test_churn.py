"""Subscriptions come and go while records are matched: after every phase the matcher is what a fresh one would be."""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sluice
from sluice.match import naive
from tests.generate import Generator, batch_of, filters, records, typed_records


class Churn(RuleBasedStateMachine):
    """Adds, removes and matches in any order, against a dictionary of subscriptions."""

    def __init__(self) -> None:
        super().__init__()
        self.matcher = sluice.Matcher()
        self.subscriptions: dict[int, sluice.Subscription] = {}
        self.record: dict[str, Any] = {}

    @initialize(record=records)
    def begin(self, record: dict[str, Any]) -> None:
        self.record = record

    @rule(text=filters, id=st.one_of(st.none(), st.integers(0, 20), st.integers(0, 2**31 - 1)))
    def add(self, text: str, id: int | None) -> None:
        try:
            subscription = sluice.parse(text)
        except sluice.LimitError:
            return
        if id in self.subscriptions:
            with pytest.raises(sluice.MatcherError):
                self.matcher.add(text, id=id)
            return
        number = self.matcher.add(text, id=id)
        assert number not in self.subscriptions and id in (None, number)
        self.subscriptions[number] = subscription

    @rule(rows=st.lists(filters, max_size=6), start=st.integers(0, 30))
    def load(self, rows: list[str], start: int) -> None:
        pairs = [(start + i, text) for i, text in enumerate(rows)]
        try:
            found = {id: sluice.parse(text) for id, text in pairs}
        except sluice.LimitError:
            found = {}
        if len(found) < len(pairs) or found.keys() & self.subscriptions.keys():
            if pairs:
                with pytest.raises(sluice.MatcherError):
                    self.matcher.load(pairs)
            return
        assert self.matcher.load(pairs) == len(pairs)
        self.subscriptions |= found

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.subscriptions)))
        self.matcher.remove(id)
        del self.subscriptions[id]

    @rule(record=records)
    def match(self, record: dict[str, Any]) -> None:
        self.record = record

    @rule(found=st.lists(typed_records, max_size=3))
    def match_batch(self, found: list[dict[str, Any]]) -> None:
        offsets, ids = self.matcher.match_batch(batch_of(found))
        got = [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]
        assert got == naive.match_batch(found, self.subscriptions)

    @invariant()
    def agrees(self) -> None:
        assert sorted(self.matcher.match(self.record).tolist()) == naive.match(self.record, self.subscriptions)
        assert list(self.matcher) == sorted(self.subscriptions) and len(self.matcher) == len(self.subscriptions)


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=40, stateful_step_count=30)


NAMES = ["IBM", "SUN", "HP", "abcdefgh", "abcdefgi", *(f"S{i}" for i in range(80))]


def market_filter(source: random.Random) -> str:
    """A filter as the market has them: few shapes, many of each, so that groups fill and leaves split."""
    low = source.choice([source.randrange(1_000), source.randrange(1_000) / 4, source.randrange(3)])
    parts = [
        f"symbol = '{source.choice(NAMES)}'",
        f"price > {low}",
        f"price < {low + 100}",
        f"volume BETWEEN {low} AND {low + source.randrange(50)}",
        f"venue IN ({', '.join(repr(name) for name in source.sample(NAMES, source.randint(2, 20)))})",
        f"venue NOT IN ({', '.join(repr(name) for name in source.sample(NAMES, source.randint(1, 4)))})",
        f"day >= TIMESTAMP '2020-01-{source.randint(1, 28):02} 00:00:00'",
        f"note LIKE '%{source.choice('abc')}%'",
        f"volume IN ({', '.join(str(source.randrange(100)) for _ in range(source.randint(2, 18)))})",
    ]
    text = " AND ".join(source.sample(parts, source.choice([1, 1, 2, 2, 3, 4])))
    return f"{text} OR a{source.randrange(40)} = {source.randrange(5)}" if source.random() < 0.1 else text


def market_record(source: random.Random) -> dict[str, Any]:
    record: dict[str, Any] = {
        "symbol": source.choice(NAMES),
        "price": source.choice([source.randrange(1_100), source.randrange(1_100) / 4]),
        "volume": source.randrange(1_050),
        "venue": source.choice([*NAMES, "elsewhere"]),
        "note": source.choice(["abc", "xyz", "b"]),
        f"a{source.randrange(40)}": source.randrange(5),
    }
    for name in list(record):
        if source.random() < 0.1:
            del record[name]
    return record


def check(matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription], found: list[dict[str, Any]]) -> None:
    want = naive.match_batch(found, subscriptions)
    offsets, ids = matcher.match_batch(found)
    assert [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)] == want
    offsets, ids = matcher.match_batch(pa.RecordBatch.from_pylist([{"symbol": None, **record} for record in found[:1]]))
    assert sorted(ids.tolist()) == want[0]
    for record, right in zip(found, want, strict=True):
        assert sorted(matcher.match(record).tolist()) == right
    assert len(matcher) == len(subscriptions)


@pytest.mark.parametrize("seed", range(3))
def test_thousands_come_and_go(seed: int) -> None:
    """Grow, shrink to a few, grow again with other shapes, shrink to nothing, and start over."""
    source = random.Random(seed)
    generator = Generator(source)
    matcher, subscriptions = sluice.Matcher(), dict[int, sluice.Subscription]()

    def add(count: int, make: Any, bulk: bool) -> None:
        texts = [make() for _ in range(count)]
        if bulk:
            start = source.randrange(10**6) + max(subscriptions, default=0)
            matcher.load((start + i, text) for i, text in enumerate(texts))
            subscriptions.update((start + i, sluice.parse(text)) for i, text in enumerate(texts))
            return
        for text in texts:
            subscriptions[matcher.add(text)] = sluice.parse(text)

    def remove(count: int) -> None:
        for id in source.sample(sorted(subscriptions), count):
            matcher.remove(id)
            del subscriptions[id]

    def verify() -> None:
        check(matcher, subscriptions, [market_record(source) for _ in range(8)])
        if subscriptions:
            query = subscriptions[source.choice(sorted(subscriptions))]
            assert matcher.covering(query) == naive.covering(query, subscriptions)
            assert matcher.covered(query) == naive.covered(query, subscriptions)
            assert matcher.overlapping(query) == naive.overlapping(query, subscriptions)

    for make, bulk in (
        (lambda: market_filter(source), True),
        (generator.term, False),
        (lambda: market_filter(source), False),
    ):
        add(3_000, make, bulk)
        verify()
        for _ in range(3):
            remove(800)
            add(300, make, not bulk)
            verify()
        remove(len(subscriptions) - 5)
        verify()
    remove(len(subscriptions))
    verify()
    assert matcher.match({}).tolist() == []


def test_one_group_grows_and_vanishes() -> None:
    """Rows of one shape and one key: many leaves of one group, emptied from either end and from the middle."""
    source = random.Random(8)
    for order in ("first", "last", "random"):
        matcher, subscriptions = sluice.Matcher(), dict[int, sluice.Subscription]()
        texts = [
            f"symbol = 'IBM' AND price > {source.randrange(500)} AND volume < {source.randrange(500)}"
            for _ in range(6_000)
        ]
        matcher.load(enumerate(texts))
        subscriptions = {i: sluice.parse(text) for i, text in enumerate(texts)}
        ids = list(subscriptions)
        if order == "random":
            source.shuffle(ids)
        elif order == "last":
            ids.reverse()
        for start in range(0, 6_000, 1_500):
            for id in ids[start : start + 1_500]:
                matcher.remove(id)
                del subscriptions[id]
            found = [
                {"symbol": "IBM", "price": source.randrange(500), "volume": source.randrange(500)} for _ in range(4)
            ]
            check(matcher, subscriptions, found)
        again = matcher.add("symbol = 'IBM' AND price > 1 AND volume < 9")
        assert matcher.match({"symbol": "IBM", "price": 2, "volume": 1}).tolist() == [again]


def test_matching_while_others_come_and_go() -> None:
    """One thread matches while another adds and removes: the lasting ones are always found, and none that never was."""
    matcher = sluice.Matcher()
    matcher.load((i, f"symbol = 'IBM' AND price > {i % 100}") for i in range(1_000))
    lasting = {i for i in range(1_000) if i % 100 < 50}
    done = threading.Event()
    wrong: list[object] = []
    rounds = 0

    def watch() -> None:
        nonlocal rounds
        batch = pa.RecordBatch.from_pydict({"symbol": ["IBM", "SUN"], "price": [50, 50]})
        try:
            while not done.is_set() or rounds == 0:
                found = set(matcher.match({"symbol": "IBM", "price": 50}).tolist())
                offsets, ids = matcher.match_batch(batch)
                both = set(ids[: offsets[1]].tolist())
                for ids_found in (found, both):
                    if not lasting <= ids_found or any(id < 1_000 for id in ids_found - lasting):
                        wrong.append(ids_found ^ lasting)
                if offsets[2] != offsets[1]:
                    wrong.append(offsets)
                rounds += 1
        except BaseException as error:
            wrong.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    source = random.Random(3)
    mine: list[int] = []
    try:
        for step in range(4_000):
            if mine and source.random() < 0.45:
                matcher.remove(mine.pop(source.randrange(len(mine))))
            else:
                mine.append(
                    matcher.add(
                        f"symbol = 'IBM' AND {'price' if step % 2 else f'new{step % 60}'} < {step}", id=5_000 + step
                    )
                )
    finally:
        done.set()
        watcher.join()
    assert not wrong and rounds
    for id in mine:
        matcher.remove(id)
    assert set(matcher.match({"symbol": "IBM", "price": 50}).tolist()) == lasting
