"""Clusters of real processes for tests, all on loopback: a standalone master with two workers, and programs that drive Spark.

Everything is started from PySpark's own package, on ports that the kernel picks, with this Python and this source tree on every
worker; everything waits for what a process says, never for a time. Whatever is started here ends with its `with` block.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
#: Longer than anything may take on a busy machine: whoever waits so long waits for something that does not come.
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.2
#: A cluster within the driver's process tree: two executors with a core and so many megabytes each.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
#: Memory is dear where the suite runs.
_DAEMON_MEMORY = "256m"
_EXECUTOR = "CoarseGrainedExecutorBackend"


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(LOOK_SECONDS)


def environment(folder: Path) -> dict[str, str]:
    """What every process of a cluster needs to know: where Spark, this Python and this source tree are."""
    return {
        **os.environ,
        "SPARK_HOME": str(_home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _home(folder: Path) -> Path:
    """A home of Spark in a folder: its executors work in there, and nobody else's do."""
    home = folder / "spark"
    home.mkdir(parents=True, exist_ok=True)
    for part in HOME.iterdir():
        if part.name != "work" and not (home / part.name).exists():
            (home / part.name).symlink_to(part)
    return home


class Process:
    """A process and all that it starts, with what it says in a file."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._log = log
        self._name = log.stem
        with log.open("ab") as output:
            # A session of its own, so that it can be killed with its children and nobody else.
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, start_new_session=True,
                env=environment(log.parent),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session too."""
        return self._process.pid

    @property
    def said(self) -> str:
        """All that it has written."""
        return self._log.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Returns when it has written something that a regular expression finds."""
        until(lambda: re.search(pattern, self.said) is not None or not self.runs, f"{self._name} says {pattern}")
        found = re.search(pattern, self.said)
        assert found is not None, f"{self._name} ended before it said {pattern}:\n{self.said[-5_000:]}"
        return found

    def wait(self) -> int:
        """Its status, once it has ended."""
        until(lambda: not self.runs, f"the end of {self._name}")
        return self._process.returncode

    def kill(self) -> None:
        """Ends it and all that it has started at once, as a machine does that fails."""
        if self.runs:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def executors(self) -> list[int]:
        """The processes among those it has started, directly or not, that are executors of Spark."""
        return [pid for pid in _descendants(self.pid) if _EXECUTOR in _command_line(pid)]


class Cluster:
    """A standalone master and its workers."""

    def __init__(self, master: str, workers: list[Process]) -> None:
        #: What to give Spark as its master.
        self.master = master
        self.workers = workers

    def executors(self) -> list[int]:
        """The executors that run now."""
        return [pid for worker in self.workers for pid in worker.executors()]


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers with a core and a gigabyte each; their logs and work are in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    spark_class = str(HOME / "bin" / "spark-class")
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Process:
            process = Process([spark_class, *arguments], folder / f"{name}.log")
            stack.callback(process.kill)
            return process

        master = start("master", "org.apache.spark.deploy.master.Master", *ports)
        address = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        size = ["--cores", "1", "--memory", "1G"]
        started = [
            start(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *ports, *size,
                "--work-dir", str(folder / f"work-{number}"), address,
            )
            for number in range(workers)
        ]  # fmt: skip
        for worker in started:
            worker.wait_for("Successfully registered with master")
        yield Cluster(address, started)


@contextmanager
def program(log: Path, module: str, *arguments: str) -> Iterator[Process]:
    """A Python module as a program of its own, such as a driver that is to be killed."""
    process = Process([sys.executable, "-m", module, *arguments], log)
    try:
        yield process
    finally:
        process.kill()


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
