"""All brokers of a network on this machine, one process each: started in order, kept running, stopped cleanly.

`running` is for programs, tests and benchmarks, which kill and restart brokers themselves. `Supervisor` is what `sluice up`
runs: a broker that dies is started again, later each time it does so soon, and a signal stops them all.
"""

from __future__ import annotations

import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from sluice.broker.config import ServerConfig
from sluice.broker.process import BrokerProcess
from sluice.broker.topology import Topology
from sluice.net.address import Address

#: Before a broker that died is started again: at first, and at most. The time doubles until it has been up for long enough.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 30.0
LONG_ENOUGH_SECONDS = 60.0
#: How long brokers may take to stop before they are killed: a durable one finishes its log.
STOP_SECONDS = 30.0


class Network:
    """The processes of a network, by the names of its brokers."""

    def __init__(self, topology: Topology, *, pipe_logs: bool = False) -> None:
        self.topology = topology
        self._reserved = ExitStack()
        configs = _with_addresses(topology, self._reserved)
        self.brokers = {name: BrokerProcess(config, pipe_logs=pipe_logs) for name, config in configs.items()}

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each broker listens."""
        return {name: broker.address for name, broker in self.brokers.items()}

    @property
    def pids(self) -> dict[str, int]:
        """The number of each broker's process."""
        return {name: broker.pid for name, broker in self.brokers.items()}

    def start(self) -> None:
        """Starts all brokers, each when those that it dials listen, and returns when all listen."""
        waiting = dict.fromkeys(self.brokers)
        listening: set[str] = set()
        while waiting:
            ready = [name for name in waiting if listening.issuperset(self.topology.above.get(name, ()))]
            for name in ready:
                self.brokers[name].launch()
                del waiting[name]
            for name in ready:
                self.wait(name)
            listening.update(ready)

    def launch(self, name: str) -> None:
        """Starts one broker and does not wait for it."""
        self.brokers[name].launch()

    def wait(self, name: str) -> None:
        """Waits until a broker that was launched listens."""
        self.brokers[name].wait_until_it_listens()

    def kill(self, name: str) -> None:
        """Ends a broker as a crash would; it stays down until it is restarted."""
        self.brokers[name].kill()

    def restart(self, name: str) -> None:
        """Starts a broker again, at the same address, and waits until it listens; kills it first if it runs."""
        if self.brokers[name].is_running:
            self.kill(name)
        self.launch(name)
        self.wait(name)

    def stop(self) -> None:
        """Stops all brokers cleanly, all at once; kills what has not stopped in time."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        for broker in running:
            broker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for broker in running:
            broker.ends_within(deadline - time.monotonic())
        self.close()

    def close(self) -> None:
        """Kills what still runs and gives everything back."""
        for broker in self.brokers.values():
            if broker.is_running:
                broker.kill()
            broker.close()
        self._reserved.close()


@contextmanager
def running(topology: Topology) -> Iterator[Network]:
    """A network whose brokers all listen; they are stopped at the end, and killed if that ends badly.

    >>> from sluice.broker.topology import topology
    >>> with running(topology("line", 2, settings={"log_level": "error"})) as network:
    ...     network.kill("b2")
    ...     network.restart("b2")
    ...     sorted(network.addresses)
    ['b1', 'b2']
    """
    network = Network(topology)
    try:
        network.start()
        yield network
        network.stop()
    finally:
        network.close()


def _with_addresses(topology: Topology, reserved: ExitStack) -> dict[str, ServerConfig]:
    """The brokers with real ports, and with the addresses of those that each dials.

    A port that the kernel picks is reserved for as long as the network lives, also while its broker is down: a socket that is
    bound and does not listen keeps everybody away but a broker, which, like it, allows that the address is used again. Links
    that are changed at run time are remembered for as long, too, where a broker has no data directory.
    """
    configs: dict[str, ServerConfig] = {}
    folder = reserved.enter_context(TemporaryDirectory(prefix="sluice-"))
    for name, config in topology.brokers.items():
        address = config.address
        if address.port == 0:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            holder = reserved.enter_context(socket.socket(family))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((address.host, 0))
            address = address._replace(port=holder.getsockname()[1])
        links = tuple(configs[above].listen for above in topology.above.get(name, ()))
        if config.links_at is None:
            config = replace(config, links_file=Path(folder) / f"{name}.json")
        configs[name] = replace(config, listen=str(address), links=links)
    return configs


# --- for `sluice up` --------------------------------------------------------------------------------------------------


class State(StrEnum):
    """Where a broker is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    STOPPING = "stopping"
    STOPPED = "stopped"
    LEFT = "left"


@dataclass(slots=True)
class Kept:
    """A broker that is kept running, and how that goes."""

    broker: BrokerProcess
    state: State = State.WAITING
    restarts: int = 0
    #: How it ended when it did last.
    ending: str = ""
    retry_seconds: float = FIRST_RETRY_SECONDS
    #: When it is to be started again, or since when it has been up.
    since: float = 0.0


class Supervisor:
    """Keeps the brokers of a network running until a signal comes; `changed` is called with each broker whose state changes."""

    def __init__(self, network: Network, changed: Callable[[Kept], None]) -> None:
        self.kept: Mapping[str, Kept] = {name: Kept(broker) for name, broker in network.brokers.items()}
        self._above = network.topology.above
        self._network = network
        self._changed = changed
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Returns when all brokers have stopped, after a signal; a second one kills them."""
        with self._selector, _signals() as signals:
            self._selector.register(signals, selectors.EVENT_READ)
            try:
                while not self._signalled(signals, self._launch_what_is_due()):
                    pass
                self._stop(signals)
            finally:
                self._network.close()

    def _launch_what_is_due(self) -> float | None:
        """Starts whom it is time to start; returns in how many seconds it is time for the next one."""
        now = time.monotonic()
        pauses = []
        for name, kept in self.kept.items():
            above = self._above.get(name, ())
            if kept.state == State.WAITING and all(self.kept[one].state == State.UP for one in above):
                self._launch(kept)
            elif kept.state == State.DOWN and kept.since <= now:
                kept.restarts += 1
                self._launch(kept)
            elif kept.state == State.DOWN:
                pauses.append(kept.since - now)
        return min(pauses, default=None)

    def _launch(self, kept: Kept) -> None:
        kept.broker.launch()
        self._selector.register(kept.broker, selectors.EVENT_READ, kept)
        self._change(kept, State.STARTING)

    def _signalled(self, signals: socket.socket, timeout_seconds: float | None) -> bool:
        """Waits for something to happen, follows it, and tells whether a signal has come."""
        signalled = False
        for key, _ in self._selector.select(timeout_seconds):
            kept = key.data
            if kept is None:
                signals.recv(64)
                signalled = True
            elif not kept.broker.read():
                self._selector.unregister(kept.broker)
                self._ended(kept)
            elif kept.broker.listens and kept.state == State.STARTING:
                kept.since = time.monotonic()
                self._change(kept, State.UP)
        return signalled

    def _ended(self, kept: Kept) -> None:
        kept.ending = kept.broker.ending()
        if kept.state == State.STOPPING:
            self._change(kept, State.STOPPED)
            return
        if kept.broker.has_left:
            self._change(kept, State.LEFT)
            return
        if kept.state == State.STARTING and not kept.restarts:
            # It never worked: that is a mistake in the settings or a port that is taken, and to try again is no help.
            raise kept.broker.failure()
        now = time.monotonic()
        if kept.state == State.UP and now - kept.since > LONG_ENOUGH_SECONDS:
            kept.retry_seconds = FIRST_RETRY_SECONDS
        kept.since = now + kept.retry_seconds
        kept.retry_seconds = min(2 * kept.retry_seconds, LAST_RETRY_SECONDS)
        self._change(kept, State.DOWN)

    def _stop(self, signals: socket.socket) -> None:
        """Has all brokers stop, and waits until they have, or until a second signal or the time says not to."""
        for kept in self.kept.values():
            kept.broker.send_signal(signal.SIGTERM)
            if kept.state == State.LEFT:
                continue
            runs = kept.state in (State.STARTING, State.UP)
            self._change(kept, State.STOPPING if runs else State.STOPPED)
        deadline = time.monotonic() + STOP_SECONDS
        while len(self._selector.get_map()) > 1 and time.monotonic() < deadline:
            if self._signalled(signals, deadline - time.monotonic()):
                break

    def _change(self, kept: Kept, state: State) -> None:
        kept.state = state
        self._changed(kept)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket that becomes readable when this process is told to stop; nothing else happens then."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        wakeup = signal.set_wakeup_fd(theirs.fileno())
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        try:
            yield ours
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
