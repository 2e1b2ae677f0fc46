"""Tables as they travel: entries, versions, changes and snapshots as arrays of msgpack."""

from __future__ import annotations

from typing import Any

from sluice.errors import ProtocolError
from sluice.model import parse
from sluice.protocol.messages import Change, Entry, Kind, Replay, Snapshot, Version
from sluice.protocol.wire.vectors import check_clocks

EntrySaid = tuple[str, str | None, tuple[int | None, float | None] | None, bool, bool]
VersionSaid = tuple[int, int]
ChangeSaid = tuple[int, VersionSaid, VersionSaid, list[EntrySaid], list[EntrySaid], dict[str, int], bool]
SnapshotSaid = tuple[int, VersionSaid, list[EntrySaid], dict[str, int], bool]


def encode_entry(entry: Entry) -> EntrySaid:
    """The content of an entry."""
    replay = None if entry.replay is None else (entry.replay.last, entry.replay.seconds)
    return entry.where.to_sql(), entry.id, replay, entry.reliable, entry.ordered


def decode_entry(said: EntrySaid) -> Entry:
    """The entry that a content is of."""
    text, id, replay, reliable, ordered = said
    return Entry(parse(text), id, None if replay is None else _decode_replay(*replay), reliable, ordered)


def _decode_replay(last: int | None, seconds: float | None) -> Replay:
    if (last is not None and last < 0) or (seconds is not None and not seconds >= 0):
        raise ProtocolError(f"{last} notifications of the last {seconds} s cannot be replayed")
    return Replay(last, seconds)


def decode_entries(said: list[EntrySaid]) -> tuple[Entry, ...]:
    """The entries of a table."""
    return tuple(map(decode_entry, said))


def encode_change(message: Change) -> tuple[Any, ...]:
    """The content of a change."""
    added, removed = [*map(encode_entry, message.added)], [*map(encode_entry, message.removed)]
    return message.kind, message.base, message.version, added, removed, dict(message.clocks), message.ordered


def decode_change(
    kind: int,
    base: VersionSaid,
    version: VersionSaid,
    added: list[EntrySaid],
    removed: list[EntrySaid],
    clocks: dict[str, int],
    ordered: bool,
) -> Change:
    """The change that a content is of."""
    change = Change(
        Kind(kind),
        Version(*base),
        Version(*version),
        decode_entries(added),
        decode_entries(removed),
        check_clocks(clocks),
        ordered,
    )
    if len({*change.added, *change.removed}) < len(added) + len(removed):
        raise ProtocolError("a change names an entry twice")
    return change


def encode_snapshot(message: Snapshot) -> tuple[Any, ...]:
    """The content of a snapshot."""
    return (
        message.kind,
        message.version,
        [*map(encode_entry, message.entries)],
        dict(message.clocks),
        message.ordered,
    )


def decode_snapshot(
    kind: int, version: VersionSaid, entries: list[EntrySaid], clocks: dict[str, int], ordered: bool
) -> Snapshot:
    """The snapshot that a content is of."""
    return Snapshot(Kind(kind), Version(*version), decode_entries(entries), check_clocks(clocks), ordered)
