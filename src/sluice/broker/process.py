"""A broker as a process of its own, started from this one, which it never outlives.

It says on its standard output when it listens, and ends when its standard input does: the kernel closes that when this process
is gone, however it went. It is in a process group of its own, so that a Ctrl-C is for whoever started it to pass on.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

from sluice.broker.config import ServerConfig
from sluice.broker.settings import PREFIX, flags_of
from sluice.errors import ConfigurationError
from sluice.net.address import Address

#: What a broker says at its end when it has left its network for good.
HAS_LEFT = "has left its network"
#: How long a broker may take until it listens: it may have a large log to check.
START_SECONDS = 120.0


class BrokerProcess:
    """A broker, from its configuration; `launch` may be called again once it has ended."""

    def __init__(self, config: ServerConfig, *, pipe_logs: bool = False) -> None:
        self.config = config
        self.name = config.name
        self._pipe_logs = pipe_logs
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.config.address

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was launched last."""
        if self._process is None:
            raise ConfigurationError(f"{self.name} has not been launched yet")
        return self._process

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    @property
    def listens(self) -> bool:
        """Whether it has said that it listens."""
        return self._said.endswith(b"\n")

    @property
    def has_left(self) -> bool:
        """Whether it has said that it left its network, and is not to be started again."""
        return HAS_LEFT.encode() in self._said

    def launch(self) -> None:
        """Starts the process, and does not wait for it."""
        if self.is_running:
            raise ConfigurationError(f"{self.name} is running already: stop it first")
        self.close()
        self._said = b""
        command = [sys.executable, "-m", "sluice", "broker", *flags_of(self.config), "--stop-on-eof"]
        # Everything is said with flags: what is in the environment is for whoever starts a broker without them.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self._pipe_logs else None,
            env=environment,
            process_group=0,
        )

    def fileno(self) -> int:
        """What becomes readable when it has something to say, or has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read(self) -> bool:
        """Reads what it says; False when it has ended."""
        said = os.read(self.fileno(), 1 << 12)
        self._said += said
        return bool(said)

    def wait_until_it_listens(self) -> None:
        """Waits; an error tells if it ends before."""
        deadline = time.monotonic() + START_SECONDS
        while not self.listens:
            if not select.select([self], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise ConfigurationError(f"{self.name} does not listen after {START_SECONDS:g} s: see its log")
            if not self.read():
                raise self.failure()

    def failure(self) -> ConfigurationError:
        """The error of a broker that ended before it listened."""
        return ConfigurationError(f"{self.name} {self.ending()} before it listened: its log says why")

    def ending(self) -> str:
        """How the process ended, which it has or is about to."""
        status = self.process.wait()
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def send_signal(self, number: int) -> None:
        """Sends a signal, if there is still anybody to take it."""
        if self.is_running:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Ends the process at once, as a crash would, and waits until it is gone."""
        self.send_signal(signal.SIGKILL)
        self.process.wait()

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end, so long at most, and tells whether it came."""
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Gives back what belongs to a process that has ended."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
