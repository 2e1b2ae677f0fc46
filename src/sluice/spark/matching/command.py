"""`sluice match --master`: the verb `match` on Spark, with a bar that shows how many of its tasks are done."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.progress import Progress

from sluice.errors import ConfigurationError
from sluice.spark.matching.destinations import write_per_subscriber
from sluice.spark.matching.files import ROW
from sluice.spark.matching.match import match
from sluice.spark.matching.work import COUNT, SUBSCRIPTIONS
from sluice.spark.session import is_connect, session

_GROUP = "sluice match"
_LOOK_SECONDS = 0.2


def match_on_spark(arguments: argparse.Namespace) -> int:
    """Runs the verb and returns its exit status."""
    if arguments.count and arguments.output is not None:
        raise ConfigurationError("--count and --output: say what you want, a number or files")
    if "-" in (arguments.subscriptions, arguments.notifications):
        raise ConfigurationError("standard input cannot be shared out to workers: give files, or leave --master out")
    spark = session("sluice match", arguments.master)
    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    try:
        with bar, _tasks_shown(spark, bar):
            compiling = bar.add_task("compiling subscriptions", total=None)

            def matched(output: Any) -> DataFrame:
                found = match(
                    arguments.notifications,
                    arguments.subscriptions,
                    output=output,
                    progress=lambda done: bar.update(compiling, completed=done),
                )
                bar.remove_task(compiling)
                return found

            if arguments.count:
                print(matched("counts").agg(F.sum(COUNT)).collect()[0][0] or 0)
            elif arguments.output is not None:
                write_per_subscriber(matched("rows"), arguments.output)
            else:
                _print_lines(matched("lists"))
    finally:
        spark.stop()
    return 0


def _print_lines(lists: DataFrame) -> None:
    """One line for each notification, in their order: tasks have them in order, and so has each task."""
    for row in lists.select(ROW.name, SUBSCRIPTIONS).sortWithinPartitions(ROW.name).toLocalIterator():
        sys.stdout.write(json.dumps({"notification": row[0], "ids": sorted(row[1])}) + "\n")


@contextmanager
def _tasks_shown(spark: SparkSession, bar: Progress) -> Iterator[None]:
    """Shows the tasks of the running jobs, where the session can tell of them."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    context.setJobGroup(_GROUP, "matching")
    ended = threading.Event()
    task = bar.add_task("matching", total=None)

    def look() -> None:
        tracker = context.statusTracker()
        while not ended.wait(_LOOK_SECONDS):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_GROUP)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            if known:
                total = sum(stage.numTasks for stage in known)
                bar.update(task, total=total, completed=sum(stage.numCompletedTasks for stage in known))

    looking = threading.Thread(target=look, name="sluice-progress", daemon=True)
    if not bar.disable:
        looking.start()
    try:
        yield
    finally:
        ended.set()
        if looking.is_alive():
            looking.join()
