"""`sluice doctor`: what Sluice needs to run on Spark, what of it is there, and how to mend what is not.

Each check is a function that yields what it found. A check that cannot work because of an earlier one is not tried. Nothing but
Sluice itself is needed to run it: without PySpark it says what to install.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sluice
from sluice.client.verbs.credentials import Credentials, add_credentials, credentials_of
from sluice.verb import Verb

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = "tell what is missing to run on Spark, and how to mend it"
DESCRIPTION = """\
Check what Sluice needs to run on Spark: this Python, the packages and their versions, Java, a session on the master, what
the workers have, and brokers that can be reached and keep a log. The exit status is 0 if all is well, 1 if not."""
EXAMPLES = """\
  sluice doctor
  sluice doctor --master spark://cluster.example:7077 --brokers sluice://b1.example:7470,sluice://b2.example:7470
  sluice doctor --json
"""

#: What Spark needs.
JAVA = 17
#: How long a cluster may take to start a session and to run a tiny job, and a host to answer at all.
PROBE_SECONDS, REACH_SECONDS = 300.0, 5.0
#: Where a server of Spark Connect listens.
_CONNECT_PORT = 15_002
_INSTALL = "pip install 'sluice[spark]'"


class State(StrEnum):
    """What a check came to."""

    OK = "ok"
    MISSING = "missing"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    #: What to do about it; nothing if all is well.
    mend: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `doctor` takes."""
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*], this machine)")
    parser.add_argument(
        "--brokers",
        metavar="ADDRESSES",
        default=os.environ.get("SLUICE_ADDRESS", ""),
        help="of some brokers, with commas between (default: $SLUICE_ADDRESS, or none are asked)",
    )
    parser.add_argument("--json", action="store_true", help="print an array with all that was found, on one line")
    add_credentials(parser)
    parser.set_defaults(run=run)


DOCTOR = Verb("doctor", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Prints what was found; 0 if all is well."""
    from rich.console import Console

    brokers = [address for address in arguments.brokers.split(",") if address]
    with Console(stderr=True).status("looking"):
        checks = [*examine(arguments.master, brokers, credentials_of(arguments))]
    if arguments.json:
        print(json.dumps([asdict(check) for check in checks]))
    else:
        console = Console() if sys.stdout.isatty() else Console(width=200)
        console.print(table_of(checks))
    return 0 if all(check.state == State.OK for check in checks) else 1


def examine(master: str | None, brokers: Sequence[str], credentials: Credentials) -> Iterator[Check]:
    """Looks at everything, one thing after the other."""
    here = [*_python(), *_packages(), *([] if _is_connect(master) else [_java()]), *_master(master)]
    yield from here
    if any(check.state == State.MISSING for check in here):
        yield Check("session", State.MISSING, "not tried", "mend what is missing above first")
    else:
        yield from _session(master)
    for address in brokers:
        yield from _broker(address, credentials)


def table_of(checks: Sequence[Check]) -> Table:
    """What was found, for people."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    colours = {State.OK: "green", State.MISSING: "red", State.WRONG: "yellow"}
    table = Table("", "check", "found", "how to mend it", box=box.SIMPLE_HEAD)
    for check in checks:
        table.add_row(Text(check.state, style=colours[check.state]), check.name, Text(check.found), Text(check.mend))
    return table


# --- this machine -----------------------------------------------------------------------------------------------------


def _python() -> Iterator[Check]:
    """This Python, and whether it can say what Sluice needs."""
    yield Check("Python", State.OK, platform.python_version())
    try:
        installed = metadata.version("sluice")
    except metadata.PackageNotFoundError:
        found = f"{sluice.__version__}, not installed, so that nothing says which packages it needs"
        yield Check("sluice", State.WRONG, found, f"{_INSTALL}, or pip install -e '.[spark]' in its folder")
        return
    if installed == sluice.__version__:
        yield Check("sluice", State.OK, installed)
    else:
        yield Check(
            "sluice", State.WRONG, f"{sluice.__version__}, but {installed} is installed", "take one off PYTHONPATH"
        )


def _packages() -> Iterator[Check]:
    """The packages that Sluice pins, those of the extra included."""
    for name, wanted in pinned():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Check(name, State.MISSING, "not installed", _INSTALL)
            continue
        if installed == wanted:
            yield Check(name, State.OK, installed)
        else:
            yield Check(name, State.WRONG, f"{installed}, and {wanted} is tested", f"pip install {name}=={wanted}")


def pinned() -> list[tuple[str, str]]:
    """Names and versions of what Sluice needs on Spark, as its installation says; nothing where it is not installed."""
    try:
        required = metadata.requires("sluice") or []
    except metadata.PackageNotFoundError:
        required = []
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)(?:\s*;\s*extra == .(\w+).)?", each) for each in required]
    return [(each[1], each[2]) for each in found if each and each[3] in (None, "spark")]


def _java() -> Check:
    """A Java that is new enough, where Spark looks for it: in JAVA_HOME, then in PATH."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    mend = f"install OpenJDK {JAVA} or newer, and set JAVA_HOME if it is not in PATH"
    if command is None:
        return Check("Java", State.MISSING, f"none in JAVA_HOME, {home}" if home else "none in PATH", mend)
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", State.MISSING, f"{command} does not run: {error}", mend)
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said.stderr + said.stdout)
    if version is None:
        return Check("Java", State.MISSING, f"{command} does not say its version", mend)
    found = f"{version[0].removeprefix('version ')} in {command}".replace('"', "")
    return Check("Java", State.OK, found) if int(version[1]) >= JAVA else Check("Java", State.MISSING, found, mend)


# --- Spark ------------------------------------------------------------------------------------------------------------


def _is_connect(master: str | None) -> bool:
    return master is not None and master.startswith("sc://")


def _master(master: str | None) -> Iterator[Check]:
    """Whether anybody listens where the master should be: Spark itself would try for a minute before it says so."""
    if master is None or "://" not in master:
        return
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "sc"):
        return
    problems = []
    for place in re.split(r"[/;]", rest)[0].split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(_CONNECT_PORT))
        try:
            socket.create_connection((host, int(port)), REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            problems.append(f"{place}: {error}")
        else:
            yield Check("master", State.OK, f"{scheme}://{place} answers")
            return
    yield Check("master", State.MISSING, "; ".join(problems), "start it, or give --master where it is")


def _session(master: str | None) -> Iterator[Check]:
    """A session on the master, and what the workers say in a tiny job."""
    answer = _probe(master)
    step, error = answer.get("step"), answer.get("error", "")
    if step == "session":
        mend = "the master must run Spark of the version of pyspark here, and have room for a session"
        yield Check("session", State.WRONG, error, _INSTALL if "No module named" in error else mend)
        return
    yield Check("session", State.OK, f"Spark {answer['spark']} on {master or 'local[*]'}")
    if step == "job":
        mend = f"install Python {_minor(platform.python_version())} and {_INSTALL} on every worker"
        yield Check("workers", State.WRONG, error, mend)
        return
    for worker in answer["workers"]:
        yield _worker(worker)


def _probe(master: str | None) -> dict[str, Any]:
    """What the probe found, in a process that is given up when it takes too long."""
    command = [sys.executable, "-m", "sluice.spark.probe", *([] if master is None else [master])]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, process_group=0
    )
    try:
        out, err = process.communicate(timeout=PROBE_SECONDS)
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer
    except subprocess.TimeoutExpired:
        error = f"no worker has done a tiny job within {PROBE_SECONDS:g} s: are there any, with free cores and memory?"
        return {"error": error, "step": "session"}
    except (IndexError, ValueError):
        return {"error": (err.strip().splitlines() or ["it ended without a word"])[-1], "step": "session"}
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process with all that it has started, such as a Java."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _worker(worker: dict[str, str | None]) -> Check:
    """What one worker has."""
    name, theirs, ours = f"worker {worker['host']}", str(worker["python"]), platform.python_version()
    if _minor(theirs) != _minor(ours):
        mend = f"run it with Python {_minor(ours)}: set PYSPARK_PYTHON"
        return Check(name, State.WRONG, f"Python {theirs}, and this is {ours}", mend)
    if worker["sluice"] is None:
        mend = f"pip install 'sluice[spark]=={sluice.__version__}' there, or set PYTHONPATH there"
        return Check(name, State.MISSING, f"Python {theirs}, without the package sluice", mend)
    if worker["sluice"] != sluice.__version__:
        mend = f"pip install 'sluice[spark]=={sluice.__version__}' there"
        return Check(name, State.WRONG, f"sluice {worker['sluice']}, and this is {sluice.__version__}", mend)
    return Check(name, State.OK, f"Python {theirs}, sluice {sluice.__version__}")


def _minor(version: str) -> str:
    """
    >>> _minor("3.11.7")
    '3.11'
    """
    return ".".join(version.split(".")[:2])


# --- brokers ----------------------------------------------------------------------------------------------------------


def _broker(address: str, credentials: Credentials) -> Iterator[Check]:
    """A broker that was named, and all that it knows of: the pipeline reads the logs of all of them."""
    from sluice.client.survey import survey
    from sluice.errors import SluiceError

    async def ask() -> list[Any]:
        from sluice.client.connect import connect

        async with connect(address, connect_seconds=REACH_SECONDS, **credentials) as bus:
            return [*await survey(bus)]

    try:
        reports = asyncio.run(ask())
    except (SluiceError, OSError) as error:
        yield Check(f"broker at {address}", State.MISSING, str(error), "start it, or give --brokers where it is")
        return
    for report in reports:
        name = f"broker {report['name']}"
        if "error" in report:
            yield Check(name, State.MISSING, str(report["error"]), "start it again, or its link")
        elif report["log"] is None:
            yield Check(name, State.WRONG, "it keeps no log, and Spark reads logs", "start it with --data DIR")
        else:
            yield Check(name, State.OK, f"its log holds offsets up to {report['log']['head']:,}")
