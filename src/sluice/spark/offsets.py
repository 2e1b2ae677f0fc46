"""Where a streaming query stands in each stream: what it has read, and what a micro-batch reads next.

An offset of Spark is `{"b1": {"from": 1, "next": 18}}`: the query began at offset 1 of b1 and goes on at 18. Spark writes down
where a micro-batch ends before it runs, so a batch that is run again reads the same rows, also the first one of a stream: where
that began is written there too, and nobody needs to ask again for what may have changed meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypedDict

from sluice.errors import RequestError
from sluice.protocol.batch import Peer

logger = logging.getLogger("sluice.spark")


#: Where a stream was begun, and the next offset to read.
Position = TypedDict("Position", {"from": int, "next": int})
Offsets = Mapping[Peer, Position]


def advance(
    start: Offsets,
    held: Mapping[Peer, range],
    begin: Callable[[Peer, range], int],
    *,
    max_rows: int | None = None,
    fail_on_loss: bool = True,
) -> dict[Peer, Position]:
    """Where the next micro-batch ends, given what the streams hold; new streams begin where `begin` says.

    A stream that cannot be reached now stays where it is.

    >>> held = {"b1": range(1, 101), "b2": range(51, 61)}
    >>> advance({"b1": {"from": 1, "next": 81}}, held, lambda stream, held: held.start, max_rows=15)
    {'b1': {'from': 1, 'next': 91}, 'b2': {'from': 51, 'next': 56}}
    """
    reached: dict[Peer, Position] = {}
    for stream in sorted({*start, *held}):
        if stream not in held:
            logger.info("%s cannot be reached now, and is read on later", stream)
            reached[stream] = start[stream]
        elif stream not in start:
            first = begin(stream, held[stream])
            reached[stream] = {"from": first, "next": first}
        elif start[stream]["next"] > held[stream].stop:
            reached[stream] = _begun_anew(stream, start[stream]["next"], held[stream], fail_on_loss)
        else:
            reached[stream] = start[stream]
    waiting = {stream: held[stream].stop - at["next"] for stream, at in reached.items() if stream in held}
    total = sum(waiting.values())
    for stream, count in waiting.items():
        if max_rows is not None and total > max_rows:
            count = min(count, -(-max_rows * count // total))
        at = reached[stream]
        reached[stream] = {"from": at["from"], "next": at["next"] + count}
    return reached


def _begun_anew(stream: Peer, next_offset: int, held: range, fail_on_loss: bool) -> Position:
    problem = (
        f"the log of {stream} ends at offset {held.stop - 1}, and {next_offset - 1} was read: it is another log now"
    )
    if fail_on_loss:
        raise RequestError(
            f"{problem}; begin with a new checkpoint, or say fail_on_loss=false to read the new one from its beginning"
        )
    logger.warning("%s; the new one is read from its beginning", problem)
    return {"from": held.start, "next": held.start}


def ranges(start: Offsets, end: Offsets) -> dict[Peer, range]:
    """What a micro-batch reads of each stream, in the order of their names.

    >>> ranges({"b1": {"from": 1, "next": 81}}, {"b1": {"from": 1, "next": 91}, "b2": {"from": 51, "next": 56}})
    {'b1': range(81, 91), 'b2': range(51, 56)}
    """
    found = {}
    for stream in sorted(end):
        until, before = end[stream], start.get(stream)
        is_same = before is not None and before["from"] == until["from"] and before["next"] <= until["next"]
        first = before["next"] if before is not None and is_same else until["from"]
        if first < until["next"]:
            found[stream] = range(first, until["next"])
    return found
