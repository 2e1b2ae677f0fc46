"""The doctor finds what is missing, here, on the master, on its workers and at the brokers, and says how to mend it."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import socket
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sluice import __version__
from sluice.cli import main
from sluice.client.verbs.credentials import Credentials
from sluice.spark import doctor
from sluice.spark.doctor import Check, State
from tests.broker.raw import running
from tests.certificates import secret

#: For brokers that ask for nothing.
NOTHING = Credentials(token=None, tls_authority=None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation of Sluice that needs packages of which some are there."""
    folder = tmp_path / "site" / f"sluice-{__version__}.dist-info"
    folder.mkdir(parents=True)
    required = f"""\
Metadata-Version: 2.4
Name: sluice
Version: {__version__}
Requires-Dist: pyarrow=={metadata.version("pyarrow")}
Requires-Dist: numpy==0.0.1
Requires-Dist: no-such-package==1.2.3 ; extra == "spark"
Requires-Dist: no-such-tool==1.2.3 ; extra == "dev"
"""
    (folder / "METADATA").write_text(required)
    monkeypatch.syspath_prepend(folder.parent)


@pytest.fixture
def nobody() -> Iterator[str]:
    """A host and a port where nobody listens, for as long as the test lasts."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


# --- this machine -----------------------------------------------------------------------------------------------------


def test_packages_are_as_the_installation_says(installed: None) -> None:
    assert [*doctor._packages()] == [
        Check("pyarrow", State.OK, metadata.version("pyarrow")),
        Check("numpy", State.WRONG, f"{metadata.version('numpy')}, and 0.0.1 is tested", "pip install numpy==0.0.1"),
        Check("no-such-package", State.MISSING, "not installed", "pip install 'sluice[spark]'"),
    ]


def test_what_this_project_pins_can_be_read() -> None:
    """The forms that requirements have in the metadata are those that are understood."""
    if not (required := _requires()):
        pytest.skip("Sluice is not installed here")
    here = {name for name, _ in doctor.pinned()}
    assert {"pyspark", "pandas", "deltalake", "pyarrow"} <= here and "ruff" not in here
    wanted = [each for each in required if "extra ==" not in each or "spark" in each.split("extra ==")[1]]
    assert len(wanted) == len(here)


def _requires() -> list[str]:
    try:
        return metadata.requires("sluice") or []
    except metadata.PackageNotFoundError:
        return []


def test_an_installation_that_is_not_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.9")
    assert [check.state for check in doctor._python()] == [State.OK, State.WRONG]

    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    *_, sluice = doctor._python()
    assert sluice.state == State.WRONG and "not installed" in sluice.found and "pip install" in sluice.mend


def java(folder: Path, says: str) -> Path:
    """A Java that says a version, and the folder where it is at home."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\nprintf '{says}\\n' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "state", "found"),
    [
        ('openjdk version "17.0.15" 2025-04-15', State.OK, "17.0.15 in"),
        ('java version "21" 2023-09-19', State.OK, "21 in"),
        ('openjdk version "11.0.2" 2019-01-15', State.MISSING, "11.0.2 in"),
        ('java version "1.8.0_392"', State.MISSING, "1.8.0_392 in"),
        ("I am a teapot", State.MISSING, "does not say its version"),
    ],
)
def test_a_java_must_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: State, found: str
) -> None:
    home = java(tmp_path / "home", says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    check = doctor._java()
    assert check.state == state and found in check.found
    assert (check.mend == "") == (state == State.OK) and ("OpenJDK 17" in check.mend or state == State.OK)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/bin")
    assert doctor._java() == check


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._java() == Check(
        "Java", State.MISSING, "none in PATH", "install OpenJDK 17 or newer, and set JAVA_HOME if it is not in PATH"
    )
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'java', 'version 17') / 'bin'}")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # which Spark believes, whatever is in PATH
    assert doctor._java().found == "none in JAVA_HOME, /nowhere"


# --- Spark ------------------------------------------------------------------------------------------------------------


def test_a_dead_master_is_noticed_at_once(nobody: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--master", f"spark://{nobody}", "--json", "--brokers", ""]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["master"]["state"] == "missing" and f"{nobody}: [Errno 111]" in checks["master"]["found"]
    assert checks["session"]["found"] == "not tried"


def test_one_living_master_is_enough(nobody: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        alive = f"127.0.0.1:{server.getsockname()[1]}"
        for master in (f"spark://{nobody},{alive}", f"spark://{alive}", f"sc://{alive}/;user_id=ann"):
            assert [check.state for check in doctor._master(master)] == [State.OK], master
    assert [check.state for check in doctor._master("sc://localhost:no")] == [State.MISSING]
    assert not [*doctor._master(None), *doctor._master("local[2]"), *doctor._master("yarn")]


def test_spark_connect_needs_no_java(monkeypatch: pytest.MonkeyPatch, nobody: str) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for master, asks in ((f"spark://{nobody}", True), (f"sc://{nobody}", False)):
        assert ("Java" in [check.name for check in doctor.examine(master, [], NOTHING)]) is asks


GOOD = {"host": "w1", "python": platform.python_version(), "sluice": __version__}
ANSWERS: dict[str, tuple[dict[str, Any], list[tuple[str, State]], str]] = {
    "all is well": ({"spark": "4.3.0", "workers": [GOOD]}, [("session", State.OK), ("worker w1", State.OK)], ""),
    "no session": ({"step": "session", "error": "no room"}, [("session", State.WRONG)], "same version|of the version"),
    "no package here": (
        {"step": "session", "error": "ModuleNotFoundError: No module named 'pyspark'"},
        [("session", State.WRONG)],
        r"pip install 'sluice\[spark\]'",
    ),
    "no job": (
        {"step": "job", "spark": "4.3.0", "error": "[PYTHON_VERSION_MISMATCH] ..."},
        [("session", State.OK), ("workers", State.WRONG)],
        r"install Python 3\.\d+ and pip install",
    ),
    "an older Python": (
        {"spark": "4.3.0", "workers": [GOOD, {**GOOD, "host": "w2", "python": "3.10.2"}]},
        [("session", State.OK), ("worker w1", State.OK), ("worker w2", State.WRONG)],
        r"run it with Python 3\.\d+: set PYSPARK_PYTHON",
    ),
    "another version": (
        {"spark": "4.3.0", "workers": [{**GOOD, "sluice": "0.0.9"}]},
        [("session", State.OK), ("worker w1", State.WRONG)],
        f"pip install 'sluice.spark.=={__version__}' there",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_the_workers_answer_is_judged(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, expected, mend = ANSWERS[case]
    monkeypatch.setattr(doctor, "_probe", lambda master: answer)
    checks = [*doctor._session("local[1]")]
    assert [(check.name, check.state) for check in checks] == expected
    assert re.search(mend, checks[-1].mend)


def test_a_cluster_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is somebody here who never says anything, and who starts somebody else."""
    (tmp_path / "never").write_text("#!/bin/sh\nsleep 1000 &\nsleep 1000\n")
    (tmp_path / "never").chmod(0o755)
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr("sys.executable", str(tmp_path / "never"))
    (check,) = doctor._session(None)
    assert check.state == State.WRONG and "no worker has done a tiny job within 0.2 s" in check.found


# --- brokers ----------------------------------------------------------------------------------------------------------


def test_brokers_are_reached_and_durable_or_not(tmp_path: Path, nobody: str) -> None:
    async def look() -> list[Check]:
        tokens = secret(tmp_path / "tokens", 'ann = "ann-shows-this-token"\n')
        async with (
            running("b1", data=tmp_path / "b1", fsync=False, tokens_file=tokens) as durable,
            running("b2") as other,
        ):

            def checks() -> list[Check]:
                ann = Credentials(token="ann-shows-this-token", tls_authority=None)
                return [
                    *doctor._broker(str(durable.address), ann),
                    *doctor._broker(str(durable.address), NOTHING),
                    *doctor._broker(str(other.address), NOTHING),
                ]

            return await asyncio.to_thread(checks)

    good, refused, forgetful = asyncio.run(look())
    assert good == Check("broker b1", State.OK, "its log holds offsets up to 0")
    assert refused.state == State.MISSING and "asks for a token" in refused.found
    assert forgetful.state == State.WRONG and forgetful.mend == "start it with --data DIR"


def test_a_broker_that_is_not_there(
    nobody: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "REACH_SECONDS", 0.1)
    assert main(["doctor", "--master", f"spark://{nobody}", "--brokers", nobody]) == 1
    said = capsys.readouterr().out
    assert f"broker at {nobody}" in said and "no broker at" in said and "start it, or give --brokers" in said


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: iter([Check("Python", State.OK, "3.11")]))
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "Python", "state": "ok", "found": "3.11", "mend": ""}]
