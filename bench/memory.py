"""How much memory does a loaded matcher take? Asked in a process of its own, which does nothing else.

``python -m bench.memory FILE`` loads the subscriptions in an Arrow file and prints the memory of the process before and
after, and the most it ever had, as JSON.
"""

from __future__ import annotations

import gc
import json
import sys

import pyarrow as pa

from bench.machine import resident
from sluice import Matcher


def main(path: str) -> None:
    """Loads and reports."""
    record = {"symbol": "S0", "price": 50.0, "volume": 1, "exchange": "X0"}
    warm = Matcher()
    warm.add("symbol = 'S0' AND price BETWEEN 1.0 AND 99.0 AND exchange IN ('X0') AND volume > 0")
    warm.match(record)
    warm.match_batch(pa.RecordBatch.from_pylist([record]))
    del warm
    gc.collect()
    before = resident()["rss"]
    matcher = Matcher()
    with pa.memory_map(path) as source:
        matcher.load(pa.ipc.open_file(source).read_all())
    gc.collect()
    after = resident()
    print(
        json.dumps(
            {
                "subscriptions": len(matcher),
                "before_bytes": before,
                "after_bytes": after["rss"],
                "peak_bytes": after["peak"],
                "bytes_per_subscription": (after["rss"] - before) / len(matcher),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
