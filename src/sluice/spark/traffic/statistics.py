"""What traffic looks like, counted by Spark: the statistics of any DataFrame with the rows of the source or the archive.

One pass over the rows counts everything there is a column for, with sketches that stay small whatever the size: distinct values
(HyperLogLog), frequent ones (frequent items), quantiles (Greenwald-Khanna for numbers and times, a random sample for texts and
bytes, which Spark has no sketch for). A second pass looks at `_rest`, if there is anything in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.errors import SparkError
from sluice.files import read_statistics, write_statistics
from sluice.model.notification import attributes
from sluice.model.statistics import FREQUENT, STEPS, Statistics, Values, values_of
from sluice.model.values import Kind, Scalar, Value, is_ordered, kind_of
from sluice.spark.rows import RESERVED, REST, from_text

#: Items that a sketch of frequent values tracks: it overestimates a count by at most 3.5 / TRACKED of all, about.
TRACKED = 1 << 16
#: A value counts as frequent from here on; below, the sketch could as well have made it up.
LEAST_SHARE = 2 * 3.5 / TRACKED
#: Values in a sample of an attribute: quantiles from it are off by about 1 / sqrt(SAMPLE) = 0.7 %.
SAMPLE = 20_000
#: The relative error of the number of distinct values.
DISTINCT_ERROR = 0.02
#: 1 / ACCURACY is the error of a quantile of numbers and times.
ACCURACY = 10_000
#: Attributes of `_rest` that are looked at, the most frequent ones: names there are not bounded by a schema.
MAX_REST = 200

_CHANCE = "_chance"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def statistics(rows: DataFrame) -> Statistics:
    """The statistics of all rows; columns that say where a notification stands are left out."""
    if rows.isStreaming:
        raise SparkError(
            "statistics of a stream have no end: use writeStream.foreachBatch(updating_statistics(FILE)), batch by batch"
        )
    columns = list(_columns(rows.schema))
    found = _total(rows, columns)
    count = found["count"]
    attributes_found: dict[str, dict[Kind, Values]] = {}
    for number, column in enumerate(columns):
        kinds = column.read({name: found[f"{name}_{number}"] for name in column.asks}, count)
        if kinds:
            attributes_found.setdefault(column.name, {}).update(kinds)
    if found.asDict().get("rest"):
        for name, kinds in _rest(rows, count):
            # What did not fit a column is of another kind than its values, except for numbers beyond its type.
            attributes_found[name] = {**kinds, **attributes_found.get(name, {})}
    return Statistics(
        count, {name: dict(sorted(kinds.items())) for name, kinds in sorted(attributes_found.items()) if kinds}
    )


def updating_statistics(file: str | Path) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: each batch of a stream is added to the statistics in a file, which brokers may read at any time.

    A file that is there is continued. A batch that Spark repeats after a failure counts twice, which shares hardly show.
    """

    def update(rows: DataFrame, batch: int) -> None:
        new = statistics(rows)
        if new.count:
            write_statistics(file, read_statistics(file).joined(new) if Path(file).exists() else new)

    return update


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of one attribute: what Spark is asked about it, and what the answers say."""

    name: str
    asks: Mapping[str, Column]
    #: The values of the statistics for what comes back from Spark; None where there is no order, and only the share counts.
    kind: Kind
    value_of: Callable[[Any], Scalar] | None = None

    def read(self, found: Mapping[str, Any], count: int) -> dict[Kind, Values]:
        """What the answers say."""
        kinds = {Kind.NAN: Values(found["nan"] / count)} if found.get("nan") else {}
        present = found["present"]
        if not present:
            return kinds
        if self.value_of is None:
            return {self.kind: Values(present / count), **kinds}
        # The sketch counts NULL as a value.
        frequent = [(self.value_of(item), much) for item, much in found["frequent"] if item is not None]
        if sum(much for _, much in frequent) == present:
            return {self.kind: values_of(Counter(dict(frequent)), count), **kinds}  # these are all there are
        if "quantiles" in self.asks:
            quantiles = tuple(map(self.value_of, found["quantiles"]))
        else:
            quantiles = values_of(Counter(map(self.value_of, found["sample"])), count).quantiles
        return {self.kind: _sketched(present, found["distinct"], frequent, quantiles, count), **kinds}


def _sketched(
    present: int, distinct: int, frequent: list[tuple[Scalar, int]], quantiles: tuple[Scalar, ...], count: int
) -> Values:
    """Values from sketches: what is too rare to be told from an error of the sketch is not frequent."""
    kept = [(value, min(much, present) / count) for value, much in frequent[:FREQUENT] if much >= LEAST_SHARE * present]
    excess = sum(share for _, share in kept) * count / present
    if excess > 1:  # the sketch counts too much rather than too little
        kept = [(value, share / excess) for value, share in kept]
    return Values(present / count, max(distinct, len(kept), 1), tuple(kept), quantiles)


def _columns(schema: T.StructType) -> Iterator[_Column]:
    for field in schema.fields:
        if field.name not in RESERVED:
            yield from _of(field.name, F.col(f"`{field.name}`"), field.dataType)


def _of(name: str, column: Column, kind: T.DataType) -> Iterator[_Column]:
    """The columns of an attribute: its own, and those of the parts of a record."""
    match kind:
        case T.StructType():
            yield _Column(name, {"present": F.count(column)}, Kind.RECORD)
            for field in kind.fields:
                yield from _of(f"{name}.{field.name}", column.getField(field.name), field.dataType)
        case T.BooleanType():
            yield _Column(name, _asks(column, column.cast("int")), Kind.BOOL, bool)
        case T.FloatType() | T.DoubleType() | T.DecimalType():
            number = F.when(~F.isnan(column.cast("double")), column.cast("double"))
            asks = {**_asks(number, number), "nan": F.count_if(F.isnan(column.cast("double")))}
            yield _Column(name, asks, Kind.NUMBER, float)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            yield _Column(name, _asks(column, column.cast("bigint")), Kind.NUMBER, int)
        case T.TimestampType() | T.TimestampNTZType() | T.DateType():
            micros = F.unix_micros(column.cast("timestamp"))
            yield _Column(name, _asks(column, micros), Kind.TIMESTAMP, _moment)
        case T.StringType():
            yield _Column(name, _asks(column, None, column), Kind.STRING, str)
        case T.BinaryType():
            yield _Column(name, _asks(column, None, F.hex(column)), Kind.BYTES, bytes.fromhex)
        case T.ArrayType():
            yield _Column(name, {"present": F.count(column)}, Kind.MULTI)
        case _:
            yield _Column(name, {"present": F.count(column)}, Kind.RECORD)


def _asks(column: Column, number: Column | None, text: Column | None = None) -> dict[str, Column]:
    """What is asked about a column with an order: of numbers their quantiles, of texts a sample."""
    values = number if number is not None else text
    assert values is not None
    asks = {
        "present": F.count(column),
        "distinct": F.approx_count_distinct(values, DISTINCT_ERROR),
        "frequent": _frequent(values),
    }
    if number is not None:
        asks["quantiles"] = F.percentile_approx(number, [i / STEPS for i in range(STEPS + 1)], ACCURACY)
    else:
        asks["sample"] = _sample(values)
    return asks


def _frequent(values: Column) -> Column:
    return F.call_function("approx_top_k", values, F.lit(FREQUENT + 1), F.lit(TRACKED))


def _sample(values: Column) -> Column:
    return F.max_by(values, F.when(values.isNotNull(), F.col(_CHANCE)), SAMPLE)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _total(rows: DataFrame, columns: list[_Column]) -> Row:
    """Everything about all columns in one row."""
    asks = [F.count(F.lit(1)).alias("count")]
    if REST.name in rows.columns:
        asks.append(F.count_if(F.size(F.col(REST.name)) > 0).alias("rest"))
    for number, column in enumerate(columns):
        asks += [ask.alias(f"{name}_{number}") for name, ask in column.asks.items()]
    return rows.withColumn(_CHANCE, F.rand(1)).agg(*asks).collect()[0]


# --- what has no column -----------------------------------------------------------------------------------------------


def _rest(rows: DataFrame, count: int) -> Iterator[tuple[str, dict[Kind, Values]]]:
    """The statistics of what is in `_rest`, which has the values as texts: they are told apart here."""
    each = rows.select(F.explode(REST.name).alias("name", "text")).withColumn(_CHANCE, F.rand(1))
    found = (
        each.groupBy("name")
        .agg(
            F.count("text").alias("present"),
            F.approx_count_distinct("text", DISTINCT_ERROR).alias("distinct"),
            _frequent(F.col("text")).alias("frequent"),
            _sample(F.col("text")).alias("sample"),
        )
        .orderBy(F.desc("present"), "name")
        .limit(MAX_REST)
    )
    for row in found.collect():
        yield row["name"], _of_texts(row, count)


def _of_texts(row: Row, count: int) -> dict[Kind, Values]:
    """The kinds of one attribute: shares, distinct values and quantiles as in a sample, frequent values as in the sketch."""
    sample: dict[Kind, Counter[Value]] = {}
    for text in row["sample"]:
        value = _value(row["name"], text)
        kind = kind_of(value)
        if kind != Kind.NULL:
            sample.setdefault(kind, Counter())[value if is_ordered(kind) else None] += 1
    frequent: dict[Kind, list[tuple[Scalar, int]]] = {}
    for text, much in row["frequent"]:
        value = _value(row["name"], text)
        if is_ordered(kind_of(value)):
            frequent.setdefault(kind_of(value), []).append((value, much))
    size = len(row["sample"])
    found = {}
    for kind, counts in sample.items():
        present = max(1, round(row["present"] * counts.total() / size))
        if is_ordered(kind):
            distinct = round(row["distinct"] * len(counts) / sum(map(len, sample.values())))
            found[kind] = _sketched(present, distinct, frequent.get(kind, []), values_of(counts, size).quantiles, count)
        else:
            found[kind] = Values(present / count)
    return found


def _value(name: str, text: str) -> Value:
    """A value of `_rest` as constraints see it."""
    return attributes({"value": from_text(text)}).get("value")
