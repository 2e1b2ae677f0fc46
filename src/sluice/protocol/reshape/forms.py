"""What brokers say to reshape their tree, as it travels: the number, the content and both ways of each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sluice.protocol.messages import Change, Snapshot
from sluice.protocol.packing import check_name
from sluice.protocol.reshape.messages import (
    Abort,
    Adopt,
    Back,
    Fate,
    Flip,
    Joined,
    Last,
    Neighbours,
    Parted,
    Plan,
    Prepare,
)
from sluice.protocol.wire.tables import (
    ChangeSaid,
    SnapshotSaid,
    decode_change,
    decode_snapshot,
    encode_change,
    encode_snapshot,
)

#: A table is said as a change or as a snapshot; the first part tells which.
TableSaid = tuple[bool, Any]
PlanSaid = tuple[str, str, str, str, str, str | None]


def _encode_tables(tables: Sequence[Change | Snapshot]) -> list[TableSaid]:
    return [
        (True, encode_change(each)) if isinstance(each, Change) else (False, encode_snapshot(each)) for each in tables
    ]


def _decode_table(said: TableSaid) -> Change | Snapshot:
    is_change, content = said
    if is_change:
        return decode_change(*msgspec.convert(content, ChangeSaid))
    return decode_snapshot(*msgspec.convert(content, SnapshotSaid))


def _decode_tables(said: list[TableSaid]) -> tuple[Change | Snapshot, ...]:
    return tuple(map(_decode_table, said))


def _decode_path(said: list[str]) -> tuple[str, ...]:
    return tuple(map(check_name, said))


def _encode_plan(plan: Plan) -> PlanSaid:
    return plan.job, plan.a, plan.b, plan.c, plan.d, plan.address


def _decode_plan(said: PlanSaid) -> Plan:
    job, a, b, c, d, address = said
    return Plan(check_name(job), check_name(a), check_name(b), check_name(c), check_name(d), address)


Form = tuple[int, type[Any], Any, Callable[[Any], Any], Callable[..., Any]]

#: For each message its number, its type, its content, and how one becomes the other.
RESHAPING: tuple[Form, ...] = (
    (
        96,
        Prepare,
        tuple[PlanSaid, list[str], bool, bool, tuple[int, int], list[TableSaid]],
        lambda m: (
            *(_encode_plan(m.plan), m.path, m.is_broken, m.is_steered),
            *(m.generations, _encode_tables(m.tables)),
        ),
        lambda plan, path, is_broken, is_steered, generations, tables: Prepare(
            _decode_plan(plan), _decode_path(path), is_broken, is_steered, generations, _decode_tables(tables)
        ),
    ),
    (
        97,
        Back,
        tuple[str, list[str], bool, tuple[int, int], list[TableSaid]],
        lambda m: (m.job, m.path, m.is_steered, m.generations, _encode_tables(m.tables)),
        lambda job, path, is_steered, generations, tables: Back(
            check_name(job), _decode_path(path), is_steered, generations, _decode_tables(tables)
        ),
    ),
    (
        98,
        Flip,
        tuple[str, list[TableSaid]],
        lambda m: (m.job, _encode_tables(m.tables)),
        lambda job, tables: Flip(check_name(job), _decode_tables(tables)),
    ),
    (99, Last, tuple[str], lambda m: (m.job,), lambda job: Last(check_name(job))),
    (100, Parted, tuple[int], lambda m: (m.generation,), Parted),
    (101, Joined, tuple[int], lambda m: (m.generation,), Joined),
    (
        102,
        Abort,
        tuple[str, str, bool],
        lambda m: (m.job, m.reason, m.is_lost),
        lambda job, *more: Abort(check_name(job), *more),
    ),
    (
        103,
        Fate,
        tuple[str, str, str, bool | None],
        lambda m: (m.job, m.to, m.by, m.took_place),
        lambda job, to, by, took_place: Fate(check_name(job), check_name(to), check_name(by), took_place),
    ),
    (
        104,
        Neighbours,
        tuple[dict[str, str | None]],
        lambda m: (dict(m.addresses),),
        lambda addresses: Neighbours({check_name(name): address for name, address in addresses.items()}),
    ),
    (
        105,
        Adopt,
        tuple[str, str, int],
        lambda m: (m.dead, m.job, m.generation),
        lambda dead, job, generation: Adopt(check_name(dead), check_name(job), generation),
    ),
)
