"""A program that is to be killed: reads streams with Spark and publishes what it reads elsewhere.

python -m tests.spark.driver MASTER FROM TO CHECKPOINT
"""

from __future__ import annotations

import sys

from sluice.spark import session, subscribe

#: Few rows at a time, so that there is always a batch in the middle of which it can be killed.
ROWS_PER_BATCH = 400


def main(master: str, brokers: str, sink: str, checkpoint: str) -> None:
    """Runs until it is killed."""
    spark = session("driver", master, {"spark.executor.memory": "512m", "spark.driver.memory": "512m"})
    frame = subscribe(
        spark,
        brokers,
        "n >= 0",
        schema="n BIGINT, _rest MAP<STRING, STRING>",
        start="earliest",
        streams="b1,b2",
        max_rows_per_batch=ROWS_PER_BATCH,
    )
    query = frame.writeStream.format("sluice").option("brokers", sink).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
