"""Room for the heap: addresses set aside at once, memory taken page by page as the heap grows into them.

So the heap never moves and growing never stalls. Once it is larger than a few megabytes the system is asked to back it by
large pages: the matcher reads all over it, and finding small pages cost it a quarter of its time at a million subscriptions.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np
import numpy.typing as npt

#: Bytes of addresses that a heap gets, or less where the system allows less. They are not memory until they are written.
_SIZES = (1 << 36, 1 << 33, 1 << 30, 1 << 27)
#: Not to count addresses as memory; Python has no name for it before 3.13.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
#: From this size on a heap is worth large pages.
_LARGE_PAGES = 1 << 22


class Reserve:
    """A stretch of addresses for 64-bit words; those never written read as zero and take no memory."""

    def __init__(self, at_least: int) -> None:
        for size in (*(size for size in _SIZES if size >= 2 * at_least), 2 * at_least):
            try:
                self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
                break
            except OSError:
                continue
        else:
            raise MemoryError(f"no room for a heap of {at_least} bytes")
        self.words: npt.NDArray[np.int64] = np.frombuffer(self._map, np.int64)
        self._small = True

    def grow_to(self, count: int) -> bool:
        """Whether there is room for this many words."""
        if self._small and 8 * count > _LARGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
            self._small = False
        return count <= len(self.words)
