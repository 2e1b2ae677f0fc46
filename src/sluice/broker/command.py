"""`sluice broker` and `sluice up`: one broker in this process, or a whole network in processes of its own.

Importing this is cheap; the broker is loaded when a verb runs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from sluice.broker.process import HAS_LEFT
from sluice.broker.settings import SETTINGS, Loaded, Setting, load
from sluice.errors import ConfigurationError
from sluice.verb import Verb

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sluice.broker.config import ServerConfig
    from sluice.broker.supervise import Kept

#: The status of a process that a second Ctrl-C ended.
AT_ONCE = 130

BROKER_SUMMARY = "run a broker"
BROKER_DESCRIPTION = """\
Run a broker until Ctrl-C or SIGTERM, which let it finish what it has accepted; a second one ends it at once. One line on
standard output tells where it listens; logs go to standard error.

Settings come from a TOML file, then from the environment, then from flags; the later wins. A duration is written as 500ms,
5s, 2m, 1h or 7d, a size as 100kB, 16MiB or 4GiB. --check tells what the broker would do and where each value comes from.

`sluice broker join` runs one that becomes part of a network, `sluice broker leave` takes one out of it."""
BROKER_EXAMPLES = """\
  sluice broker --name b1
  sluice broker --name b2 --listen 127.0.0.1:7471 --link 127.0.0.1:7470 --data b2.data --retain-seconds 7d
  sluice broker --config b1.toml --check
  SLUICE_ROUTING=merging sluice broker --name b1 --log-format json
"""

UP_SUMMARY = "run a whole network of brokers on this machine"
UP_DESCRIPTION = """\
Run the brokers of a network, each in a process of its own, until Ctrl-C or SIGTERM, which stop them all. A broker that dies is
reported and started again, later each time. The file says how they are linked and how each is set; SLUICE_ variables are
left out of it. Where nobody watches (a pipe, a log) each change is a line."""
UP_EXAMPLES = """\
  sluice up --example > topology.toml
  sluice up topology.toml
"""


# --- broker -----------------------------------------------------------------------------------------------------------

#: How many objects a broker may make before Python looks for cycles among them; nearly none of its objects are in one.
GARBAGE_THRESHOLDS = (50_000, 20, 100)


def add_broker_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `sluice broker` takes: a flag for each setting, and where else settings are."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="a TOML file with settings")
    parser.add_argument("--check", action="store_true", help="tell what the broker would do, and start nothing")
    parser.add_argument(
        "--stop-on-eof", action="store_true", help="stop when standard input ends: for programs that start brokers"
    )
    group = parser.add_argument_group("settings")
    for setting in SETTINGS.values():
        group.add_argument(
            setting.flag,
            dest=setting.name,
            metavar=_metavar(setting),
            action="append" if setting.is_list else "store",
            default=argparse.SUPPRESS,
            help=_help(setting),
        )
    parser.usage = "sluice broker --name NAME [--SETTING VALUE ...]"
    parser.set_defaults(run=run_broker)


BROKER = Verb("broker", BROKER_SUMMARY, BROKER_DESCRIPTION, BROKER_EXAMPLES, add_broker_arguments)


def _metavar(setting: Setting) -> str:
    return {"true or false": "BOOL", "number": "N"}.get(setting.kind, setting.kind.upper())


def _help(setting: Setting) -> str:
    if setting.name == "name":
        return setting.about
    again = "; may be given several times" if setting.is_list else ""
    return f"{setting.about}{again} (default: {setting.show(setting.default)})".replace("%", "%%")


def flags_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags, by their names."""
    return {name: value for name, value in vars(arguments).items() if name in SETTINGS}


def run_broker(arguments: argparse.Namespace) -> int:
    """Runs a broker until it is stopped; 0 then."""
    flags = flags_in(arguments)
    loaded = load(arguments.config, os.environ, flags)
    if arguments.check:
        from sluice.broker.security import Security

        loaded.config.broker_config()
        Security.of(loaded.config)
        print("\n".join(account(loaded)))
        return 0
    from sluice.broker import logs

    config = loaded.config
    logs.set_up(config.name, level=config.log_level, form=config.log_format)
    _leave_pandas_out()
    asyncio.run(_serve(config, stop_on_eof=arguments.stop_on_eof))
    # All is done and written. The interpreter would take half a second more, to take apart what was compiled.
    logging.shutdown()
    os._exit(0)


def _leave_pandas_out() -> None:
    """Arrow loads pandas, where there is one, with the first array that it makes, and looks for it only then.

    A broker has no use for it: it would take a sixth of its start and 30 MB for nothing.
    """
    import pyarrow as pa

    class Nowhere(MetaPathFinder):
        def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
            if name == "pandas":
                raise ModuleNotFoundError("a broker does without", name=name)

    nowhere = Nowhere()
    sys.meta_path.insert(0, nowhere)
    pa.array([0])
    sys.meta_path.remove(nowhere)


def account(loaded: Loaded) -> Iterator[str]:
    """What a broker would do, and each setting with its source, in lines."""
    config = loaded.config
    yield f"{config.name} would listen on {config.address}"
    if config.node is not None:
        yield f"  and be of node {config.node}"
    for link in config.links:
        yield f"  and dial {link}"
    yield "  and keep nothing" if config.data is None else f"  and keep its log in {config.data}"
    shown = {name: setting.show(getattr(config, name)) for name, setting in SETTINGS.items()}
    width = max(map(len, shown.values()))
    yield from (f"{name:<20} {text:<{width}}  {loaded.sources[name]}" for name, text in shown.items())


async def _serve(config: ServerConfig, *, stop_on_eof: bool) -> None:
    """Runs a broker until a signal comes, or the end of standard input, or something inside it fails."""
    from sluice.broker.server import Server

    server = Server(config)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            os._exit(AT_ONCE)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if stop_on_eof:
        _watch_standard_input(loop, stopped.set)
    await server.start()
    # What a broker needs is loaded by now and stays; looking for garbage among it would make notifications wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    print(f"{config.name} listens on {server.address}", flush=True)
    stopping = loop.create_task(stopped.wait())
    serving = loop.create_task(server.serve_forever())
    await asyncio.wait((stopping, serving), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        stopping.cancel()
        serving.result()  # raises what made it fail
    await server.stop()
    await serving
    if server.is_leaving:
        print(f"{config.name} {HAS_LEFT}", flush=True)


def _watch_standard_input(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    """Calls `ended` when standard input does; what comes before its end is ignored."""
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 1 << 12):
            loop.remove_reader(descriptor)
            ended()

    try:
        loop.add_reader(descriptor, readable)
    except PermissionError:  # what the kernel says of files, whose end nobody can wait for
        raise ConfigurationError("--stop-on-eof needs a pipe as standard input, and this is a file") from None


# --- up ---------------------------------------------------------------------------------------------------------------


def add_up_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `sluice up` takes."""
    parser.add_argument(
        "topology", metavar="TOPOLOGY", nargs="?", type=Path, help="a TOML file that says which brokers"
    )
    parser.add_argument("--example", action="store_true", help="print such a file")
    parser.set_defaults(run=run_up)


UP = Verb("up", UP_SUMMARY, UP_DESCRIPTION, UP_EXAMPLES, add_up_arguments)


def run_up(arguments: argparse.Namespace) -> int:
    """Runs a network until it is stopped; 0 then."""
    from sluice.broker.supervise import Network, Supervisor
    from sluice.broker.topology import EXAMPLE, read_topology

    if arguments.example:
        print(EXAMPLE, end="")
        return 0
    if arguments.topology is None:
        raise ConfigurationError("which network? Name a file, and make one with: sluice up --example > topology.toml")
    topology = read_topology(arguments.topology)
    for config in topology.brokers.values():
        config.broker_config()
    is_watched = sys.stdout.isatty()
    network = Network(topology, pipe_logs=is_watched)
    with _screen() if is_watched else _lines() as show:
        supervisor = Supervisor(network, lambda kept: show(supervisor.kept, kept))
        supervisor.run()
    return 0


Show = Callable[["Mapping[str, Kept]", "Kept"], None]


@contextmanager
def _lines() -> Iterator[Show]:
    """A line for each change."""

    def show(_: Mapping[str, Kept], kept: Kept) -> None:
        print(f"{kept.broker.name} {state_of(kept)}", flush=True)

    yield show


@contextmanager
def _screen() -> Iterator[Show]:
    """A table that follows each change, and above it what the brokers log."""
    from rich.console import Console
    from rich.live import Live

    from sluice.broker.supervise import State

    console = Console()
    with Live(console=console, auto_refresh=False) as live:

        def show(everybody: Mapping[str, Kept], kept: Kept) -> None:
            if kept.state == State.STARTING and kept.broker.process.stderr is not None:
                Thread(target=_pass_on, args=(kept.broker.process.stderr, console), daemon=True).start()
            live.update(table_of(everybody), refresh=True)

        yield show


def _pass_on(logs: IO[bytes], console: Console) -> None:
    with logs:
        for line in logs:
            console.print(line.decode(errors="replace").rstrip("\n"), markup=False, highlight=False, soft_wrap=True)


def state_of(kept: Kept) -> str:
    """The state of a broker and what there is to know about it, in a line."""
    from sluice.broker.supervise import State

    match kept.state:
        case State.UP:
            node = kept.broker.config.node
            of_node = "" if node is None else f" of node {node}"
            return f"up at {kept.broker.address}, process {kept.broker.pid}{of_node}"
        case State.DOWN:
            return f"down: it {kept.ending}"
        case State.STARTING if kept.restarts:
            return f"starting again, restart {kept.restarts:,}"
        case _:
            return str(kept.state)


def table_of(everybody: Mapping[str, Kept]) -> Table:
    """Who is up, as a table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from sluice.broker.supervise import State

    has_nodes = any(kept.broker.config.node is not None for kept in everybody.values())
    columns = [*(["node"] if has_nodes else []), "broker", "address", "process", "state", "restarts"]
    table = Table(*columns, title="Ctrl-C stops them all", title_justify="left", box=box.SIMPLE_HEAD)
    colours = {State.UP: "green", State.DOWN: "red"}
    for name, kept in everybody.items():
        runs = kept.state in (State.STARTING, State.UP, State.STOPPING)
        state = f"down: it {kept.ending}" if kept.state == State.DOWN else str(kept.state)
        table.add_row(
            *([kept.broker.config.node or name] if has_nodes else []),
            name,
            str(kept.broker.address),
            str(kept.broker.pid) if runs else "",
            Text(state, style=colours.get(kept.state, "yellow")),
            f"{kept.restarts:,}",
        )
    return table
