"""A table held by another peer: whatever happens to the messages, it is what was sent, or is asked for again."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sluice import parse
from sluice.protocol.export import Export, Replica, checksum
from sluice.protocol.messages import Change, Digest, Entry, Kind, Message, Replay, Snapshot, Version
from tests.protocol.drive import entry, list_of

A, B, C, D = (entry(f"x = {number}", f"a/{number}") for number in range(4))


def pair(*entries: Entry, incarnation: int = 1) -> tuple[Export, Replica]:
    """An export and a replica that holds it."""
    export, replica = Export(Kind.SUBSCRIPTIONS, Version(incarnation, 0)), Replica(0.0)
    export.change(entries, [])
    replica.snapshot(export.snapshot())
    return export, replica


def change(export: Export, added: list[Entry], removed: list[Entry]) -> Change:
    found = export.change(added, removed)
    assert found is not None
    return found


def test_a_change_says_from_where_to_where() -> None:
    export, replica = pair(A)
    message = change(export, [B], [A])
    assert message == Change(Kind.SUBSCRIPTIONS, Version(1, 1), Version(1, 2), (B,), (A,))
    assert replica.change(message) == ([B], [A])
    assert list(replica.entries) == [B] == list(export.sent) and replica.version == export.version == Version(1, 2)


def test_a_change_of_nothing_is_none() -> None:
    export, _ = pair(A)
    assert export.change([], []) is None and export.version == Version(1, 1)


def test_a_lost_change_is_noticed_at_the_next_one() -> None:
    export, replica = pair(A)
    change(export, [B], [])
    assert replica.change(change(export, [C], [])) is None
    assert list(replica.entries) == [A] and replica.version == Version(1, 1), "nothing is taken over"
    assert replica.snapshot(export.snapshot()) == ([B, C], [])
    assert replica.agrees(export.digest())


def test_a_repeated_change_is_not_applied_twice() -> None:
    export, replica = pair(A)
    message = change(export, [B], [A])
    replica.change(message)
    assert replica.change(message) is None
    assert list(replica.entries) == [B]


def test_a_change_fits_only_on_what_it_changes() -> None:
    """A version alone does not show damage."""
    export, replica = pair(A, B)
    del replica.entries[A]
    assert replica.change(change(export, [], [A])) is None
    export, replica = pair(A)
    replica.entries[B] = None
    assert replica.change(change(export, [B, C], [A])) is None
    assert list(replica.entries) == [A, B], "half a change is none"


def test_a_new_incarnation_fits_on_nothing_old() -> None:
    _, replica = pair(A)
    export = Export(Kind.SUBSCRIPTIONS, Version(2, 1))
    assert replica.change(change(export, [B], [])) is None
    assert not replica.agrees(export.digest())
    assert replica.snapshot(export.snapshot()) == ([B], [A])
    assert replica.version == Version(2, 2)


def test_a_change_before_any_snapshot_does_not_fit() -> None:
    assert Replica(0.0).change(change(Export(Kind.SUBSCRIPTIONS, Version(1, 0)), [A], [])) is None


def test_a_snapshot_tells_the_difference_and_ends_the_asking() -> None:
    export, replica = pair(A, B)
    replica.asked = True
    change(export, [C], [A])
    assert replica.snapshot(export.snapshot()) == ([C], [A]) and replica.asked is False
    assert replica.snapshot(export.snapshot()) == ([], [])


def test_a_cleared_replica_holds_nothing_and_fits_nothing() -> None:
    export, replica = pair(A, B)
    replica.asked = True
    assert replica.clear() == ([], [A, B])
    assert (replica.entries, replica.version, replica.asked) == ({}, None, False)
    assert replica.change(change(export, [C], [])) is None


def test_a_digest_shows_damage_of_entries_and_of_the_version() -> None:
    export, replica = pair(A, B)
    digest = export.digest()
    assert digest == Digest(Kind.SUBSCRIPTIONS, Version(1, 1), checksum([B, A])) and replica.agrees(digest)
    del replica.entries[A]
    assert not replica.agrees(digest)
    replica.entries[C] = None
    assert not replica.agrees(digest)
    _, replica = pair(A, B)
    replica.version = Version(1, 2)
    assert not replica.agrees(digest)


def settled(export: Export) -> bool:
    return export.is_settled


def test_acknowledgements_count_up_and_are_of_this_incarnation() -> None:
    export = Export(Kind.SUBSCRIPTIONS, Version(2, 0))
    assert not settled(export), "the first snapshot, though empty, is to be acknowledged"
    export.acknowledge(Version(2, 0))
    assert export.acked == 0 and settled(export)
    change(export, [A], [])
    change(export, [B], [])
    export.acknowledge(Version(1, 9))
    assert export.acked == 0
    export.acknowledge(Version(2, 1))
    export.acknowledge(Version(2, 0))
    assert export.acked == 1 and not settled(export)
    export.acknowledge(Version(2, 9))
    assert export.acked == 2 and settled(export), "nothing is acknowledged that was never sent"
    change(export, [C], [])
    assert not settled(export)


def test_a_checksum_does_not_depend_on_the_order() -> None:
    entries = [A, B, C, entry("y = 1"), entry("x = 1", "b/1")]
    for seed in range(5):
        shuffled = list(entries)
        random.Random(seed).shuffle(shuffled)
        assert checksum(shuffled) == checksum(entries)
    assert checksum([]) == 0 and 0 <= checksum(entries) < 2**64


def test_a_checksum_depends_on_everything_else() -> None:
    where = parse("x = 1")
    different = [
        Entry(where),
        Entry(where, "a/1"),
        Entry(where, "a/2"),
        Entry(parse("x = 2"), "a/1"),
        Entry(parse("x = '1'"), "a/1"),
        Entry(where, "a/1", Replay()),
        Entry(where, "a/1", Replay(last=1)),
        Entry(where, "a/1", Replay(last=2)),
        Entry(where, "a/1", Replay(seconds=1)),
        Entry(where, "a/1", reliable=True),
    ]
    assert len({checksum([each]) for each in different}) == len(different)
    assert len({checksum([A], clocks) for clocks in ({}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1})}) == 5
    assert checksum([A, B]) != checksum([A, C]) != checksum([A]) != checksum([A, A])


def test_a_checksum_is_the_same_in_every_process() -> None:
    entries = [entry("x = 1", "a/1"), entry("s = 'é'", None, Replay(3, 1.5))]
    assert checksum(entries) == 0xDDE6F3982D7DB152
    assert checksum(entries, ordered=True) == 0xDDE6F3982D7DB153


@given(st.integers(0, 2**32))
def test_a_replica_follows_through_loss_and_repetition(seed: int) -> None:
    """The receiver asks when something does not fit, or when a digest differs; in the end both are the same."""
    source = random.Random(seed)
    export, replica = pair(A)
    pool = [entry(f"x = {number}", f"a/{number}") for number in range(6)]
    way: list[Message] = []
    seen = dict(replica.entries)

    def arrive(message: Message) -> bool:
        match message:
            case Change():
                delta = replica.change(message)
            case Snapshot():
                delta = replica.snapshot(message)
            case Digest():
                delta = ([], []) if replica.agrees(message) else None
            case _:
                raise AssertionError(message)
        if delta is not None:
            for each in delta[1]:
                del seen[each]
            for each in delta[0]:
                assert each not in seen
                seen[each] = None
        return delta is not None

    for _ in range(source.randrange(30)):
        absent = [each for each in pool if each not in export.sent]
        added = source.sample(absent, min(len(absent), source.randrange(3)))
        removed = source.sample(list(export.sent), min(len(export.sent), source.randrange(3)))
        next_one = export.change(added, removed)
        if next_one is not None:
            way += [next_one] * source.choice((0, 1, 1, 1, 2))
        while way and source.random() < 0.6:
            if not arrive(way.pop(0)):
                way.append(export.snapshot())
    for message in way:
        arrive(message)
    if not arrive(export.digest()):
        assert arrive(export.snapshot())
    assert list_of(replica.entries) == list_of(export.sent) == list_of(seen)
    assert replica.version == export.version and replica.agrees(export.digest())
    assert not replica.agrees(replace(export.digest(), checksum=export.digest().checksum ^ 1))
