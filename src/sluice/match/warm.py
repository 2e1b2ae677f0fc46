"""Compiles the kernels ahead of time: `python -m sluice.match.warm`, run at set-up so that no first match waits for it.

Compiled code is kept beside the sources. Its cache notices a change in the file of a function but not in the files of the
functions that it calls, so this also throws the cache away when any kernel source has changed since it was made.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sluice.match.counting import Counting
from sluice.match.kernels.layout import COLUMN_ROWS
from sluice.match.matcher import Matcher

_KERNELS = Path(__file__).parent / "kernels"


def refresh(cache: Path) -> bool:
    """Empties the cache if it was made from other sources; says whether it did."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_KERNELS.glob("*.py")))).hexdigest()
    stamp = cache / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return False
    for compiled in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
        compiled.unlink()
    cache.mkdir(exist_ok=True)
    stamp.write_text(digest)
    return True


def warm() -> None:
    """Calls every kernel once, with the types it always has."""
    matcher = Matcher()
    matcher.load([(0, "a = 1 AND b > 2"), (1, "c IN ('x', 'y') OR a < 5"), (2, "a != 3 AND d LIKE '%x%'")])
    matcher.match({"a": 1, "b": 3})
    matcher.match_batch([{"a": 1, "b": 3, "c": "x", "d": "axb"}])
    matcher.covering("a = 1 AND b > 3")
    matcher.covered("a > 0")
    matcher.overlapping("a > 0")
    for id in (0, 1, 2):
        matcher.remove(id)
    matcher.load((id, f"a > {id} AND b > {id}") for id in range(2 * COLUMN_ROWS))
    matcher.match_batch([{"a": 3, "b": 3}])
    Counting(matcher).add([{"a": 3, "b": 3}])


if __name__ == "__main__":
    refresh(_KERNELS / "__pycache__")
    warm()
