"""Spark as real processes on this machine: a standalone master with workers, or a server of Spark Connect.

Everything is started from PySpark's own package, on loopback and on ports that the kernel picks, with this Python and this
source tree on every worker; everything waits for what a process says, never for a time. Whatever is started here ends with
its `with` block. Benchmarks and tests share it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
#: Longer than anything may take on a busy machine: whoever waits so long waits for something that does not come.
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.2
#: Memory is dear where the tests run; a server of Spark Connect is a driver, and needs more.
_DAEMON_MEMORY, _SERVER_MEMORY = "256m", "1g"
_LOOPBACK = "127.0.0.1"


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(LOOK_SECONDS)


class Process:
    """A process and all that it starts, with what it says in a file."""

    def __init__(self, arguments: list[str], log: Path, daemon_memory: str = _DAEMON_MEMORY) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._name = log.stem
        with log.open("ab") as output:
            # A session of its own, so that it can be killed with its children and nobody else.
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, start_new_session=True,
                env=environment(log.parent) | {"SPARK_DAEMON_MEMORY": daemon_memory},
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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A standalone master and its workers."""

    #: What to give Spark as its master.
    master: str
    workers: tuple[Process, ...]


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers with a core and a gigabyte each; their logs and work are in a folder."""
    ports = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Process:
            process = Process([str(HOME / "bin" / "spark-class"), *arguments], folder / f"{name}.log")
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
        yield Cluster(address, tuple(started))


@contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """A server of Spark Connect on a master; what to give Spark as its master instead. Its log and work are in a folder."""
    settings = {
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    arguments = [each for name, value in settings.items() for each in ("--conf", f"{name}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    server = Process(
        [str(HOME / "bin" / "spark-submit"), "--class", main, "--master", master, *arguments],
        folder / "connect.log",
        _SERVER_MEMORY,
    )
    try:
        port = server.wait_for(r"Spark Connect server started at: \S*:(\d+)")[1]
        yield f"sc://{_LOOPBACK}:{port}"
    finally:
        server.kill()


def environment(folder: Path) -> dict[str, str]:
    """What every process of a cluster needs to know: where Spark, this Python and this source tree are."""
    return {
        **os.environ,
        "SPARK_HOME": str(_home(folder)),
        "SPARK_LOCAL_IP": _LOOPBACK,
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
