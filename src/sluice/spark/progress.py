"""How far a command on Spark is, as a bar on standard error: how many tasks of its jobs are done.

A thread asks the driver of the session now and then. Spark Connect has nobody to ask, and where nobody watches there is no bar.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.progress import Progress

from sluice.spark.session import is_connect

_LOOK_SECONDS = 0.2


@contextmanager
def tasks_shown(spark: SparkSession, bar: Progress, what: str) -> Iterator[None]:
    """Shows the tasks of the jobs that are started within, where the session can tell of them."""
    task = bar.add_task(what, total=None)
    if bar.disable or is_connect(spark):
        yield
        return
    context = spark.sparkContext
    context.setJobGroup(what, what)
    ended = threading.Event()

    def look() -> None:
        tracker = context.statusTracker()
        while not ended.wait(_LOOK_SECONDS):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(what)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            if known:
                total = sum(stage.numTasks for stage in known)
                bar.update(task, total=total, completed=sum(stage.numCompletedTasks for stage in known))

    looking = threading.Thread(target=look, name="sluice-progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
