"""`sluice match --master`: the verb `match` on Spark, with a bar that shows how many of its tasks are done."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.errors import ConfigurationError
from sluice.spark.matching.destinations import write_per_subscriber
from sluice.spark.matching.files import ROW
from sluice.spark.matching.match import match
from sluice.spark.matching.work import COUNT, SUBSCRIPTIONS
from sluice.spark.progress import tasks_shown
from sluice.spark.session import session
from sluice.verb import progress_bar


def match_on_spark(arguments: argparse.Namespace) -> int:
    """Runs the verb and returns its exit status."""
    if arguments.count and arguments.output is not None:
        raise ConfigurationError("--count and --output: say what you want, a number or files")
    if "-" in (arguments.subscriptions, arguments.notifications):
        raise ConfigurationError("standard input cannot be shared out to workers: give files, or leave --master out")
    spark = session("sluice match", arguments.master)
    try:
        with progress_bar() as bar, tasks_shown(spark, bar, "matching"):
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
