"""A session and a tiny job that tell whether Spark works with Sluice: `python -m sluice.spark.probe [MASTER]`.

It runs in a process of its own, so that `sluice doctor` can give it up when a cluster does not answer. What was found is one
line of JSON on standard output. As the main module, what it sends to the workers needs no package there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

#: Tasks for each core, so that every worker is likely to get one.
_TASKS_FOR_EACH_CORE = 4
_ANSWER = "host string, python string, sluice string"


def probe(master: str | None) -> dict[str, Any]:
    """What a master answers: the version of Spark, and what each worker has; or the error that ended it."""
    from sluice.spark.session import cores, session

    try:
        spark = session("sluice doctor", master)
    except Exception as error:
        return {"error": _first_line(error.__cause__ or error), "step": "session"}
    try:
        tasks = _TASKS_FOR_EACH_CORE * cores(spark)
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(look, _ANSWER).distinct().collect()
        return {"spark": spark.version, "workers": [answer.asDict() for answer in sorted(answers, key=str)]}
    except Exception as error:
        return {"error": _first_line(error), "step": "job", "spark": spark.version}
    finally:
        spark.stop()


def look(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on a worker: what is there?"""
    import importlib
    import platform

    import pyarrow as pa

    try:
        version = importlib.import_module("sluice").__version__
    except ImportError:
        version = None
    for _ in batches:
        yield pa.RecordBatch.from_pylist(
            [{"host": platform.node(), "python": platform.python_version(), "sluice": version}],
            schema=pa.schema([(name, pa.string()) for name in ("host", "python", "sluice")]),
        )


def _first_line(error: BaseException) -> str:
    """The line of an error of Spark that says what happened: that of Python, where it came from there."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or line.startswith("[")]
    return (told or lines or [type(error).__name__])[-1 if told else 0]


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1] if len(sys.argv) > 1 else None)))
