"""What passed lately serves those who have missed it, but a silence only those it knows of."""

from __future__ import annotations

from sluice.protocol.batch import Batch, Logged, Records
from sluice.protocol.messages import Passage, Runs
from sluice.protocol.reliable.cache import Cache


def batch(*offsets: int) -> Batch:
    records = Records.of("alice", offsets[0], [{"n": offset} for offset in offsets])
    return records.placed(Logged("s", offsets, 0))


def found(cache: Cache, runs: Runs, clock: int) -> list[tuple[Runs, list[int]]]:
    return [
        (each, [] if data is None or data.logged is None else [*data.logged.offsets])
        for each, data in cache.find("s", runs, "j", clock)
    ]


def test_data_serves_whatever_time_is_needed_and_silence_only_one_it_knows_of() -> None:
    cache = Cache(1 << 20)
    cache.keep(Passage("s", ((1, 5),), {"j": 3}), batch(2, 4))
    assert found(cache, ((1, 9),), 3) == [(((1, 5),), [2, 4])]
    assert found(cache, ((1, 9),), 4) == [(((2, 2), (4, 4)), [2, 4])]
    assert found(cache, ((1, 1), (3, 3)), 4) == []
    assert found(cache, ((2, 3),), 3) == [(((2, 3),), [2])]


def test_each_offset_is_found_once_and_the_latest_first() -> None:
    cache = Cache(1 << 20)
    cache.keep(Passage("s", ((1, 4),), {"j": 1}), batch(1, 2, 3, 4))
    cache.keep(Passage("s", ((3, 6),), {"j": 5}), None)
    assert found(cache, ((1, 6),), 5) == [(((3, 6),), []), (((1, 2),), [1, 2])]


def test_the_oldest_make_room() -> None:
    cache = Cache(300)
    for offset in range(1, 20):
        cache.keep(Passage("s", ((offset, offset),), {"j": 1}), batch(offset))
    kept = [runs for runs, _ in found(cache, ((1, 19),), 1)]
    assert kept == [((offset, offset),) for offset in range(19, 19 - len(kept), -1)]
    assert 0 < len(kept) < 6
