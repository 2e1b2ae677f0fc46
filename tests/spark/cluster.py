"""What tests do to clusters and to programs that drive them: start one, find its executors, kill something."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.spark.cluster import Process

#: A cluster within the driver's process tree: two executors with a core and so many megabytes each.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@contextmanager
def program(log: Path, module: str, *arguments: str) -> Iterator[Process]:
    """A Python module as a program of its own, such as a driver that is to be killed."""
    process = Process([sys.executable, "-m", module, *arguments], log)
    try:
        yield process
    finally:
        process.kill()


def executors(*processes: Process) -> list[int]:
    """The processes among those that these have started, directly or not, that are executors of Spark."""
    return [pid for process in processes for pid in _descendants(process.pid) if _EXECUTOR in _command_line(pid)]


def kill(pid: int) -> None:
    """Kills one process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue  # it has ended meanwhile
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
