"""A bar shows the tasks of the jobs that are started under it."""

from __future__ import annotations

import time
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from sluice.spark.progress import tasks_shown
from sluice.verb import progress_bar
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_are_counted(spark: SparkSession) -> None:
    with Progress(console=Console(file=StringIO(), force_terminal=True)) as bar, tasks_shown(spark, bar, "counting"):
        [shown] = bar.tasks
        assert (shown.description, shown.total) == ("counting", None)
        for jobs in (1, 2):
            spark.range(0, 100, 1, 5).write.format("noop").mode("overwrite").save()
            patience = time.monotonic() + PATIENCE_SECONDS
            while not shown.completed == shown.total == 5 * jobs:
                assert time.monotonic() < patience, "the bar does not show them"
                time.sleep(0.02)


def test_where_nobody_watches_nothing_is_shown(spark: SparkSession) -> None:
    with progress_bar() as bar, tasks_shown(spark, bar, "counting"):
        assert bar.disable
