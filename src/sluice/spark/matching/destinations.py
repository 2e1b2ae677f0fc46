"""Deliveries written to a place of each subscriber's own: one directory for each, with files in it.

A batch is one write. Of a stream each batch is a directory within those of its subscribers, and a batch that is run
again replaces what it wrote before, so that every delivery is there once.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.errors import ConfigurationError
from sluice.spark.matching.work import SUBSCRIPTION

_BATCH = "_batch"


def write_per_subscriber(
    deliveries: DataFrame, directory: str | Path, *, format: str = "parquet", batch_id: int | None = None
) -> None:
    """Writes deliveries to `directory/subscription=…/`, in any format that Spark writes.

    With the number of a batch, as `foreachBatch` gives it, to `directory/subscription=…/_batch=…/`, in place of what
    the same batch wrote there before; without one the directory must be new.
    """
    if SUBSCRIPTION not in deliveries.columns:
        raise ConfigurationError(f"there is no column {SUBSCRIPTION}: match with output='rows'")
    if batch_id is None:
        # One task for each subscriber, or each task would leave a file in each of the directories.
        parts = deliveries.repartition(SUBSCRIPTION)
        parts.write.format(format).partitionBy(SUBSCRIPTION).mode("error").save(str(directory))
        return
    parts = deliveries.withColumn(_BATCH, F.lit(batch_id)).repartition(SUBSCRIPTION)
    writer = parts.write.format(format).partitionBy(SUBSCRIPTION, _BATCH)
    writer.option("partitionOverwriteMode", "dynamic").mode("overwrite").save(str(directory))
