"""Sluice on a workload: matching in batches and one record at a time, loading, changing, saving and opening."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.timing import Runner, percentiles
from bench.workloads import Record, Subscriptions
from sluice import Matcher

#: Subscriptions replaced while matching goes on, unless time runs out first.
CHANGES = 20_000
#: Changes between two matched records.
CHANGES_PER_MATCH = 10


def texts(subscriptions: Subscriptions) -> pa.Table:
    """The subscriptions as users have them: a table of ids and WHERE texts."""
    rows = range(len(subscriptions))
    return pa.table({"id": pa.array(rows, pa.int32()), "where": pa.array([subscriptions.where(row) for row in rows])})


def warm(table: pa.Table, batch: pa.RecordBatch, record: Record) -> None:
    """Goes through everything once with a few subscriptions, so that compiling the kernels is not measured."""
    matcher = Matcher()
    matcher.load(table.slice(0, 100))
    matcher.match_batch(batch)
    matcher.match(record)
    matcher.remove(0)
    matcher.add(table["where"][0].as_py())


def load(table: pa.Table) -> tuple[Matcher, float]:
    """A matcher with all subscriptions, and the seconds it took."""
    matcher = Matcher()
    start = time.perf_counter()
    matcher.load(table)
    return matcher, time.perf_counter() - start


def batches(matcher: Matcher) -> Runner:
    """The matcher, asked with record batches."""

    def ids(result: tuple[Any, Any], events: int) -> list[list[int]]:
        return [part.tolist() for part in np.split(result[1], result[0][1:-1])]

    return Runner(matcher.match_batch, lambda result: len(result[1]), ids)


def records(matcher: Matcher) -> Runner:
    """The matcher, asked with one record at a time."""
    return Runner(matcher.match, len, lambda result, events: [result.tolist()])


def save_and_open(matcher: Matcher, batch: pa.RecordBatch) -> dict[str, float]:
    """Seconds to save, to open, and to match a first batch with what was opened; the size on disk."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "matcher"
        start = time.perf_counter()
        matcher.save(path)
        saved = time.perf_counter()
        opened = Matcher.open(path)
        ready = time.perf_counter()
        _, ids = opened.match_batch(batch)
        matched = time.perf_counter()
        if len(ids) != len(matcher.match_batch(batch)[1]):
            raise AssertionError("the opened matcher answers differently from the saved one")
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        del opened
    return {
        "save_seconds": saved - start,
        "open_seconds": ready - saved,
        "first_batch_seconds": matched - ready,
        "bytes_on_disk": float(size),
    }


def changes(matcher: Matcher, table: pa.Table, sample: list[Record], limit_seconds: float) -> dict[str, Any]:
    """Replaces subscriptions one by one, each with the text of another, and matches records in between.

    Latencies are those of `Matcher.match`, first with nothing else going on, then between the changes: a rebuild that a
    change leaves to the next match would show there, one that it makes itself in the latencies of `add` and `remove`.
    """
    quiet: list[float] = []
    for record in sample:
        start = time.perf_counter()
        matcher.match(record)
        quiet.append(time.perf_counter() - start)
    choice = random.Random(20260301)
    size = len(matcher)
    removing: list[float] = []
    adding: list[float] = []
    matching: list[float] = []
    end = time.perf_counter() + limit_seconds
    where = table["where"]
    while len(adding) < CHANGES and (not matching or time.perf_counter() < end):
        id, other = choice.randrange(size), choice.randrange(size)
        text = where[other].as_py()
        start = time.perf_counter()
        matcher.remove(id)
        removed = time.perf_counter()
        matcher.add(text, id=id)
        added = time.perf_counter()
        removing.append(removed - start)
        adding.append(added - removed)
        if len(adding) % CHANGES_PER_MATCH == 0:
            record = sample[len(matching) % len(sample)]
            start = time.perf_counter()
            matcher.match(record)
            matching.append(time.perf_counter() - start)
    return {
        "changes": len(adding),
        "adds_per_second": len(adding) / sum(adding),
        "removes_per_second": len(removing) / sum(removing),
        "add_microseconds": percentiles(adding),
        "remove_microseconds": percentiles(removing),
        "match_microseconds_quiet": percentiles(quiet),
        "match_microseconds_meanwhile": percentiles(matching),
    }
