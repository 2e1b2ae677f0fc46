"""A Spark session as Sluice needs it: quiet, with push-down on. Nothing in it overrides a wish."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.errors import ConfigurationError

#: More rows than any cluster has cores, and few enough to count in no time.
_ENOUGH_ROWS = 1 << 16
#: Without it, a read that offers to filter at the source is an error.
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
#: What differs from Spark's own defaults, and why.
SETTINGS = {
    PUSHDOWN: "true",
    # Half the time of a micro-batch is spent in the default one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # History names its files one by one: up to so many a driver looks at in a tenth of the time that a job takes.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1024",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def session(app: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on a master, by default all cores of this machine; with `sc://…` one of Spark Connect."""
    # Workers of this machine run the Python that runs now.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    wished = {**SETTINGS, **(settings or {})}
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
        # Of a server that runs already, only the settings of queries can be changed.
        wished = {name: value for name, value in wished.items() if name.startswith("spark.sql.")}
    else:
        builder = builder.appName(app).master(master or "local[*]")
        if (master or "local").startswith("local"):
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in wished.items():
        builder = builder.config(name, value)
    try:
        started = builder.getOrCreate()
    except Exception as error:
        raise ConfigurationError(
            f"Spark does not start on {master or 'this machine'}: {str(error).splitlines()[0]}; "
            "`sluice doctor` tells what is missing"
        ) from error
    register(started)
    return started


def register(spark: SparkSession) -> None:
    """Makes `format("sluice")` known to a session that was started elsewhere; once more does no harm."""
    from sluice.spark.format import SluiceFormat

    spark.conf.set(PUSHDOWN, "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was registered before
        spark.dataSource.register(SluiceFormat)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: its driver is a server, and nothing here reaches into that."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores(spark: SparkSession) -> int:
    """How many tasks run at the same time."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # Nobody tells, but what is not told otherwise is cut into as many parts as there are cores.
    parts = spark.range(_ENOUGH_ROWS).select(F.spark_partition_id().alias("part"))
    return int(parts.agg(F.max("part")).collect()[0][0]) + 1
