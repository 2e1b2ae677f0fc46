"""Patterns over a stream of events on Spark: `compose` finds them as the watermark goes by, each once.

Every key of a pattern has a keeper with a small state (`transformWithState`). Spark's watermark says how late it is, and a
timer wakes a keeper when something of its own is due. Late rows must not vanish in Spark, so the column that the watermark is
taken from is left behind before the keepers, and they see for themselves what comes too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace as with_fields
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from sluice.errors import ConfigurationError
from sluice.spark.compose.evaluate import Event, Outcome, State, advance, arrive, wake
from sluice.spark.compose.pattern import Change, Pattern
from sluice.spark.compose.rules import DEFAULT_LATE_BY, LOGGED, Rules
from sluice.spark.compose.select import SELECTED_SPARK, Selection
from sluice.spark.rows import META, to_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What a result is: which pattern, what became of it, when and in which events; its attributes are in `_rest`, as JSON texts.
RESULTS = (
    "pattern string, outcome string, started timestamp, ended timestamp, "
    "events array<struct<stream: string, offset: bigint>>, _rest map<string, string>"
)

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(State).decode
_decode_event = msgspec.msgpack.Decoder(Event).decode


def compose(
    events: DataFrame,
    patterns: Iterable[Pattern],
    *,
    time: str = LOGGED,
    late_by: str = DEFAULT_LATE_BY,
    ticking: bool = False,
) -> DataFrame:
    """The results of patterns in a stream of events, in rows that `format("sluice")` can publish.

    `time` names the attribute that says when an event happened, and `late_by` how late it may come; what comes later is told
    with the outcome `late`. With `ticking` the watermark also follows the clock of this machine, so that what should have
    happened is missed also while nothing happens; that goes with the time of the brokers only. The session is set to keep
    state in RocksDB, as Spark demands for this.
    """
    rules = Rules(tuple(patterns), time, late_by)
    _check(events, rules, ticking)
    session = events.sparkSession
    session.conf.set(_PROVIDER, _ROCKS_DB)
    selected = events.mapInArrow(Selection(rules), SELECTED_SPARK)
    if ticking:
        seconds = session.readStream.format("rate").option("rowsPerSecond", 1).load()
        nothing = (F.lit(None).cast(kind).alias(name) for name, kind in (("pattern", "string"), ("key", "string")))
        selected = selected.unionByName(seconds.select(*nothing, F.lit(None).cast("binary").alias("event"), _clock()))
    keyed = (
        selected.withWatermark("time", f"{rules.late_by_milliseconds} milliseconds")
        .select("pattern", "key", "event")
        .groupBy("pattern", "key")
    )
    return keyed.transformWithState(Keeper(rules), RESULTS, "Append", "EventTime")


def _clock() -> Any:
    return F.col("timestamp").alias("time")


def _check(events: DataFrame, rules: Rules, ticking: bool) -> None:
    if not events.isStreaming:
        raise ConfigurationError("patterns are looked for in a stream: read the events with readStream")
    for name in META.names[:3]:
        if name not in events.columns:
            raise ConfigurationError(
                f"the events have no column {name}: read them with format('sluice'), or from an archive"
            )
    if ticking and rules.time != LOGGED:
        raise ConfigurationError(
            f"the clock of this machine says nothing about {rules.time!r}: leave ticking out, or time with it"
        )


class Keeper(StatefulProcessor):
    """Keeps the state of each key, and tells what is found."""

    def __init__(self, rules: Rules) -> None:
        self._patterns = {pattern.name: pattern for pattern in rules.patterns}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark gives access to what is kept."""
        self._handle = handle
        self._kept = handle.getValueState("kept", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Events of a key came."""
        pattern = self._pattern(key)
        if pattern is None:
            return
        watermark = timerValues.getCurrentWatermarkInMs()
        state, late = arrive(self._state(), (_decode_event(bytes(row.event)) for row in rows), watermark * 1_000)
        for outcome in late:
            yield _row(pattern, outcome)
        yield from self._advance(pattern, state, watermark)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed a time that the key has asked to be woken at."""
        pattern, state = self._pattern(key), self._state()
        if pattern is None:
            return
        if state.alarm == expiredTimerInfo.getExpiryTimeInMs():
            state = with_fields(state, alarm=None)
        yield from self._advance(pattern, state, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing is held that would have to be given back."""

    def _pattern(self, key: Any) -> Pattern | None:
        # Rows that only say how late it is have none; nor do those of a pattern that has left the rules since.
        return self._patterns.get(key[0])

    def _state(self) -> State:
        kept = self._kept.get()
        return State() if kept is None else _decode_state(bytes(kept[0]))

    def _advance(self, pattern: Pattern, state: State, watermark: int) -> Iterator[Row]:
        state, found = advance(pattern, state, watermark * 1_000)
        due = wake(pattern, state)
        if due is None:
            self._kept.clear()
        else:
            # The watermark counts milliseconds, and must be past the moment.
            alarm = due // 1_000 + 1
            # A timer that comes too early wakes for nothing and sets the next; so none is ever taken back.
            if state.alarm is None or alarm < state.alarm:
                self._handle.registerTimer(alarm)
                state = with_fields(state, alarm=alarm)
            self._kept.update((_encode(state),))
        for outcome in found:
            yield _row(pattern, outcome)


def _row(pattern: Pattern, outcome: Outcome) -> Row:
    rest = {name: outcome.events[0].values[name] for name in pattern.key}
    if outcome.kind == "found":
        for emitted in pattern.emitted:
            value = outcome.events[emitted.event].values.get(emitted.attribute)
            if value is not None:
                rest[emitted.name] = value
        if isinstance(pattern, Change):
            rest["percent"] = to_text(outcome.percent)
    return Row(
        pattern=pattern.name,
        outcome=outcome.kind,
        started=_moment(outcome.started),
        ended=_moment(outcome.ended),
        events=[Row(stream=event.stream, offset=event.offset) for event in outcome.events],
        _rest=rest,
    )


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
