"""DataFrames from the brokers in one line: the short forms of `spark.read` and `spark.readStream`.

Both register the format with the session if need be, take the same options as `.option(name, value)`, and say the same errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.spark.session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

#: Where to begin: "earliest", "latest", the first offset of some streams, or a moment.
Start = str | Mapping[str, int] | datetime


def subscribe(
    spark: SparkSession,
    brokers: str | Iterable[str],
    where: str = "true",
    *,
    schema: StructType | str | None = None,
    start: Start = "latest",
    **options: object,
) -> DataFrame:
    """A streaming DataFrame of what matches, from now on unless `start` says otherwise; the filter runs in the brokers.

    Without a schema it is inferred from what the logs hold.
    """
    register(spark)
    return _loaded(spark.readStream, schema, {**options, "brokers": brokers, "where": where, "start": start})


def read(
    spark: SparkSession,
    brokers: str | Iterable[str],
    where: str = "true",
    *,
    schema: StructType | str | None = None,
    start: Start = "earliest",
    **options: object,
) -> DataFrame:
    """A DataFrame of what the logs hold now, as far as it matches; further filters of the query run in the brokers too."""
    register(spark)
    return _loaded(spark.read, schema, {**options, "brokers": brokers, "where": where, "start": start})


def _loaded(
    reader: DataFrameReader | DataStreamReader, schema: StructType | str | None, options: Mapping[str, object]
) -> DataFrame:
    reader = reader.format("sluice").options(
        **{name: text(value) for name, value in options.items() if value is not None}
    )
    return (reader if schema is None else reader.schema(schema)).load()


def text(value: Any) -> str:
    """The value of an option as Spark wants it.

    >>> text(["sluice://a", "sluice://b"]), text({"b1": 17}), text(True)
    ('sluice://a,sluice://b', '{"b1": 17}', 'true')
    """
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat()
        case Mapping():
            return json.dumps(dict(value))
        case Iterable():
            return ",".join(map(text, value))
    return str(value)
