"""`sluice.spark.match`: which of millions of subscriptions does each notification of a DataFrame satisfy?

The subscriptions are compiled into an index once; tasks map it into memory and match what Spark hands them in Arrow
batches, or what they read from files themselves. By default every task has the whole index and some of the
notifications; where the index is larger than a worker should hold, every task has a part of it, and meets all
notifications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from sluice.errors import ConfigurationError, MatcherError
from sluice.files import InputError
from sluice.spark.matching import index as indexes
from sluice.spark.matching import work
from sluice.spark.matching.files import ROW, Files
from sluice.spark.matching.index import BadSubscription, Index, Split
from sluice.spark.matching.subscriptions import Subscriptions, is_saved_matcher, table_of
from sluice.spark.rows import META, REST
from sluice.spark.session import cores, is_connect, session

Output = Literal["rows", "lists", "counts"]
Strategy = Literal["auto", "notifications", "subscriptions"]
#: An index beyond this is split, so that a worker holds a part of it only.
INDEX_BYTES_PER_WORKER = 2 << 30
#: Tasks for each core: more than one, because tasks are not equally long.
_TASKS_PER_CORE = 2


def match(
    notifications: DataFrame | str | Path | Sequence[str | Path],
    subscriptions: Subscriptions,
    *,
    output: Output = "rows",
    strategy: Strategy = "auto",
    index_bytes_per_worker: int = INDEX_BYTES_PER_WORKER,
    index_directory: str | Path | None = None,
    bad: list[BadSubscription] | None = None,
    tasks: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> DataFrame:
    """Who gets what: a DataFrame of deliveries, or of counts.

    `notifications` is a DataFrame, batch or streaming, or the paths of Parquet files or of a Delta table, which the
    workers read themselves (each row then has its place in `_row`). `subscriptions` has columns `id` and `where`: a
    DataFrame, an Arrow table, pairs, a file, a Delta table; or it is the path of a saved matcher.

    `output`: "rows" is a row for each delivery, the id in the column `subscription` before those of the notification;
    "lists" a row for each notification that somebody gets, with the ids in an array `subscriptions`; "counts" is
    `subscription` and `count`.

    `strategy`: "notifications" gives each task some notifications and the whole index, "subscriptions" a part of the
    index and all notifications; "auto" is the first unless the index is larger than `index_bytes_per_worker`.

    A filter that is wrong is an error that names its id, unless `bad` is a list, which then takes in all such
    subscriptions. Indexes are kept in `index_directory` and found there again by their content. `tasks` is how many
    tasks files are shared out to. `progress` is told how many subscriptions are compiled.
    """
    _check("output", output, get_args(Output))
    _check("strategy", strategy, get_args(Strategy))
    spark = notifications.sparkSession if isinstance(notifications, DataFrame) else _session()
    index = _index(spark, subscriptions, strategy, index_bytes_per_worker, index_directory, progress)
    if index.bad:
        if bad is None:
            first, more = index.bad[0], len(index.bad) - 1
            also = f" (and {more:,} more)" if more else ""
            raise MatcherError(f"the subscription with id {first.id!r} is wrong{also}: {first.problem}")
        bad.extend(index.bad)
    if output == "lists" and index.shards > 1:
        raise ConfigurationError(
            "the list of a notification needs the whole index: use strategy 'notifications', or rows"
        )
    ship(spark, index)
    if isinstance(notifications, DataFrame):
        return of_frame(notifications, index, output)
    return _of_files(spark, Files.at(notifications), index, output, tasks)


def _check(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ConfigurationError(f"{name} is {given!r}: say one of {', '.join(known)}")


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or session("sluice match")


def _index(
    spark: SparkSession,
    subscriptions: Subscriptions,
    strategy: Strategy,
    index_bytes: int,
    directory: str | Path | None,
    progress: Callable[[int], object] | None,
) -> Index:
    if is_saved_matcher(subscriptions):
        if strategy == "subscriptions":
            raise ConfigurationError("a saved matcher cannot be split: give the subscriptions themselves")
        return indexes.saved_matcher(Path(str(subscriptions)))
    table = table_of(subscriptions)
    match strategy:
        case "notifications":
            split = Split()
        case "auto":
            split = Split(bytes=index_bytes)
        case "subscriptions":
            split = Split(index_bytes, max(1, -(-table.num_rows // max(2, cores(spark)))))
    where = indexes.default_directory() if directory is None else Path(directory)
    return indexes.compiled(table, split, where.resolve(), progress)


def ship(spark: SparkSession, index: Index) -> None:
    """Sees to it that the workers have the index: nothing to do where they run on this machine, in this process's reach."""
    if is_connect(spark):
        spark.addArtifacts(f"{indexes.packed(index)}#{index.name}", archive=True)
        return
    context = spark.sparkContext
    master = context.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    wanted = f"{indexes.packed(index)}#{index.name}"
    if not any(added.endswith(f"#{index.name}") for added in context.listArchives):
        context.addArchive(wanted)


# --- DataFrames -----------------------------------------------------------------------------------------------------------


def of_frame(notifications: DataFrame, index: Index, output: Output, version: int | None = None) -> DataFrame:
    """The deliveries or counts of a DataFrame."""
    if output == "counts":
        notifications = notifications.select(*_quoted(_needed(notifications.columns, index)))
        as_blocks = not notifications.isStreaming
        kind = from_arrow_schema(work.BLOCKS) if as_blocks else _count_type(index)
        parts = [notifications.mapInArrow(work.Count(index, shard, as_blocks), kind) for shard in range(index.shards)]
        united = reduce(DataFrame.unionAll, parts)
        if as_blocks:
            return _summed(united, index)
        return united.groupBy(work.SUBSCRIPTION).agg(F.sum(work.COUNT).alias(work.COUNT))
    fields = [*_delivery_fields(index, output, notifications.columns), *notifications.schema.fields]
    if version is not None:
        fields.append(StructField(work.VERSION, LongType()))
    parts = [
        notifications.mapInArrow(work.Match(index, shard, output == "lists", version), StructType(fields))
        for shard in range(index.shards)
    ]
    return reduce(DataFrame.unionAll, parts)


def _needed(names: Sequence[str], index: Index) -> list[str]:
    """The columns that decide what matches, at least one of them; all where that cannot be said."""
    if index.attributes is None:
        return list(names)
    wanted = set(index.attributes) | {REST.name}
    roots = {name.split(".")[0] for name in wanted}
    found = [
        name
        for name in names
        if name in wanted
        or name in roots
        or any(each.startswith(f"{name}.") for each in wanted)
        or name.split(".")[0] in roots
    ]
    found = [name for name in found if name not in META.names]
    return found or list(names)[:1]


def _quoted(names: Sequence[str]) -> list[str]:
    return [f"`{name.replace('`', '``')}`" for name in names]


def _delivery_fields(index: Index, output: Output, columns: Sequence[str]) -> list[StructField]:
    name = work.SUBSCRIPTION if output == "rows" else work.SUBSCRIPTIONS
    for taken in (name, work.VERSION):
        if taken in columns:
            raise ConfigurationError(f"the notifications have a column {taken}, as the result has: rename it first")
    kind = from_arrow_type(index.id_type())
    return [StructField(name, kind if output == "rows" else ArrayType(kind))]


def _count_type(index: Index) -> StructType:
    kind = from_arrow_type(index.id_type())
    return StructType([StructField(work.SUBSCRIPTION, kind), StructField(work.COUNT, LongType())])


def _summed(blocks: DataFrame, index: Index) -> DataFrame:
    """Every block in one place, and summed up there."""
    count = -(-index.starts[-1] // work.BLOCK) + index.shards
    together = blocks.repartition(min(count, cores(blocks.sparkSession)), "first")
    return together.mapInArrow(work.Sum(index), _count_type(index))


# --- files ----------------------------------------------------------------------------------------------------------------


def _spark_fields(schema: pa.Schema) -> list[StructField]:
    """The columns of files as Spark has them."""
    try:
        return from_arrow_schema(schema).fields
    except PySparkException as error:
        raise InputError(f"the files have a column that Spark cannot have: {error}") from error


def _of_files(spark: SparkSession, files: Files, index: Index, output: Output, tasks: int | None) -> DataFrame:
    shares = files.shared_out(tasks or _TASKS_PER_CORE * cores(spark)) if files.pieces else []
    shards = range(index.shards)
    jobs: list[tuple[work.Match | work.Count, tuple[Any, ...]]]
    if output == "counts":
        schema = pa.schema([files.schema.field(name) for name in _needed(files.schema.names, index)])
        jobs = [(work.Count(index, shard, True), share) for shard in shards for share in shares]
        kind = from_arrow_schema(work.BLOCKS)
    else:
        fields = _spark_fields(files.schema)
        schema = to_arrow_schema(StructType(fields), timezone=spark.conf.get("spark.sql.session.timeZone"))
        row = StructField(ROW.name, LongType())
        kind = StructType([*_delivery_fields(index, output, schema.names), row, *fields])
        jobs = [(work.Match(index, shard, output == "lists"), share) for shard in shards for share in shares]
    numbers = spark.range(0, len(jobs), 1, max(1, len(jobs)))
    found = numbers.mapInArrow(work.OfFiles(tuple(jobs), schema), kind)
    return _summed(found, index) if output == "counts" else found
