"""Brokers as child processes: started on loopback with their data in a directory, stopped with all that they started.

A server is a session of processes of its own. So its processor time can be summed up, and stopping it reaches every process
that it has started, and no other.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.match import ROOT

#: Where child processes find this package and Sluice, also when neither is installed.
SOURCES: Mapping[str, str] = MappingProxyType(
    {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))}
)
START_SECONDS = 60.0
STOP_SECONDS = 15.0
_TICKS = os.sysconf("SC_CLK_TCK")


class ServerError(Exception):
    """A broker did not start; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running broker, or several that form one network."""

    addresses: tuple[str, ...]
    """Where clients connect: one address for each broker."""
    sessions: tuple[int, ...]
    """The sessions of its processes."""
    processes: tuple[int, ...] = ()
    """The process of each broker, where somebody may want to kill it."""

    @property
    def address(self) -> str:
        """The first broker's."""
        return self.addresses[0]

    def cpu_seconds(self) -> float:
        """Processor time that all its processes have used so far."""
        return sum(sum(cpu for _, cpu in _processes(session)) for session in self.sessions)


def all_cpu_seconds() -> float:
    """Processor time that all processes of this machine have used so far."""
    user, nice, system, _, _, interrupts, soft_interrupts, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts) / _TICKS


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], ready: Callable[[str], bool]
) -> Iterator[int]:
    """Runs a server until the block ends; gives its session once `ready`, which is shown what the server has said so far."""
    name = Path(command[0]).name
    log = directory / f"{name}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready(log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                # The lines of a Java trace that say something are those that are not indented.
                lines = [line for line in log.read_text(errors="replace").splitlines() if line[:1].strip()]
                raise ServerError(f"{name} did not start: {'; '.join(lines[-3:]) or 'it said nothing'}")
            time.sleep(0.05)
        yield process.pid
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends all processes of a session: politely, then not."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    while left := list(_processes(process.pid)):
        for pid, _ in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    process.wait()


def _processes(session: int) -> Iterator[tuple[int, float]]:
    """The processes of a session, and the processor time of each."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name of the program, in brackets, may have spaces in it: what follows counts from the state on.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                yield int(entry.name), (int(fields[11]) + int(fields[12])) / _TICKS
