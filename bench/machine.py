"""Which machine and which versions produced the figures, and how to keep a measurement on one core."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

import sluice

PACKAGES = ("numpy", "numba", "pyarrow", "sqlglot", "duckdb", "polars", "rule-engine")

#: Thread pools read these once, when they are imported: they are set for the measuring processes from outside.
ONE_THREAD: Mapping[str, str] = MappingProxyType(
    {"POLARS_MAX_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
)


def stay_on_one_core() -> None:
    """Ties this process to one of the cores it may use, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def describe() -> dict[str, str]:
    """The machine and the versions, as pairs to print."""
    found = {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sluice": sluice.__version__,
        "commit": _commit(),
    }
    return found | {name: metadata.version(name) for name in PACKAGES}


def resident() -> dict[str, int]:
    """Memory of this process in bytes: now (`rss`), the most so far (`peak`)."""
    fields = {"VmRSS": "rss", "VmHWM": "peak"}
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in fields:
            found[fields[name]] = int(rest.split()[0]) * 1024
    return found


def _commit() -> str:
    """Which commit of this repository is measured, and whether something was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
