"""The parts of the Spark benchmark, one after the other: ``python -m bench.spark [PART ...] [--quick] [--output DIR]``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

#: Modules of this package whose `main` takes `--quick` and `--output` and returns an exit status.
PARTS = ("match", "archive")


def main() -> int:
    """Runs the parts that are asked for; the status is that of the worst of them."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)} (default: all)")
    known, further = parser.parse_known_args()
    for part in known.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}: choose from {', '.join(PARTS)}")
    statuses: list[int] = [import_module(f"bench.spark.{part}").main(further) for part in known.parts or PARTS]
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
