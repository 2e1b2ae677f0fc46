"""Everything the documentation shows is run: Python examples, and commands with the output they promise.

In a page, all examples share one namespace and one folder, in the order in which they stand. A `console` block holds
commands after `$ ` (with `> ` before a continuation) and below each what it prints; `...` stands for anything. A `make`
command is not run, but its target must exist. A command that ends in ` &` goes on until the end of the page, and the next one
comes when it has printed what the page says. The ports 7470 to 7479 are others here, which nobody else uses.
"""

from __future__ import annotations

import doctest
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

#: What a command in the documentation may start with, beside `sluice` itself and `make`.
TOOLS = {"cat", "chmod", "echo", "printf", "head", "tail", "openssl", "python", "ls"}
#: What sets the stage on the reader's machine and cannot be run here.
STAGE = {"git", "cd", "pip"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command and what the page says it prints."""

    text: str
    output: str


def blocks_of(page: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        yield Block(found[1], found[2], page.count("\n", 0, found.start()) + 2)


def commands_of(block: Block) -> Iterator[Command]:
    text: list[str] = []
    output: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if text:
                yield Command("\n".join(text), "\n".join(output))
            text, output = [line[2:]], []
        elif line.startswith("> ") and not output:
            text.append(line[2:])
        else:
            output.append(line)
    if text:
        yield Command("\n".join(text), "\n".join(output))


def run_python(block: Block, names: dict[str, Any], page: Path) -> None:
    if ">>>" not in block.text:
        exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
    report: list[str] = []
    results = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)  # the test has worked on a copy; the next block goes on from there
    assert not results.failed, "".join(report)


def run_command(command: Command, folder: Path) -> None:
    words = [*dropwhile(lambda word: "=" in word, shlex.split(command.text.splitlines()[0], comments=True))]
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        for target in targets:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command.text
        return
    if words[0] in STAGE:
        return
    assert words[0] in TOOLS or Path(words[0]).name == "sluice", f"nobody runs this: {command.text}"
    done = subprocess.run(
        ["bash", "-c", command.text.replace(".venv/bin/sluice", "sluice")],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    if not command.output.strip():
        assert done.returncode == 0, f"{command.text}\n{done.stdout}"
        return
    checker = doctest.OutputChecker()
    shown = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    expected = command.output.strip()
    assert checker.check_output(expected + "\n", shown + "\n", doctest.ELLIPSIS), f"{command.text}\n{done.stdout}"


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}


@contextmanager
def in_background(command: Command, folder: Path) -> Iterator[None]:
    """Runs a command, from when it has printed what the page says until the end of the page."""
    text = command.text.removesuffix("&")
    assert shlex.split(text)[0] == "sluice", f"nobody runs this: {command.text}"
    with (folder / "background.log").open("ab") as logs:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {text}"], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=logs
        )
    with process:
        try:
            await_output(process, command)
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) in (0, 130), command.text
        finally:
            process.kill()


def await_output(process: subprocess.Popen[bytes], command: Command) -> None:
    assert process.stdout is not None
    expected = command.output.strip()
    printed = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(
        doctest.OutputChecker().check_output(f"{expected}{more}\n", f"{printed.decode().strip()}\n", doctest.ELLIPSIS)
        for more in ("", "\n...")
    ):
        is_readable = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
        said = os.read(process.stdout.fileno(), 1 << 16) if is_readable else b""
        assert said, f"{command.text}\n{printed.decode()}"
        printed += said


@contextmanager
def free_ports() -> Iterator[int]:
    """The first of ten ports that nobody else uses, as those of a page: a broker can take one that is held like this."""
    for first in range(5_000 + os.getpid() % 400 * 10, 10_000, 10):  # of four digits, so that nothing is shifted
        with ExitStack() as held:
            try:
                for port in range(first, first + 10):
                    holder = held.enter_context(socket.socket())
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield first
            return
    raise AssertionError("no ten ports in a row are free")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    with free_ports() as first, ExitStack() as background:
        monkeypatch.setenv("SLUICE_ADDRESS", f"sluice://127.0.0.1:{first}")
        for block in blocks_of(path.read_text()):
            block = replace(block, text=re.sub(r"\b747(\d)\b", lambda port: str(first + int(port[1])), block.text))
            if block.language == "python":
                run_python(block, names, path)
            elif block.language in ("console", "shell"):
                for command in commands_of(block):
                    if command.text.endswith(" &"):
                        background.enter_context(in_background(command, tmp_path))
                    else:
                        run_command(command, tmp_path)


def test_a_wrong_example_is_noticed(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    page = tmp_path / "page.md"
    run_python(Block("python", "n = 1\n", 1), names, page)
    run_python(Block("python", ">>> n + 1\n2\n>>> m = 5\n", 4), names, page)
    run_python(Block("python", "assert m == 5\n", 9), names, page)
    with pytest.raises(AssertionError):
        run_python(Block("python", ">>> n + 1\n3\n", 4), names, page)
    run_command(Command("echo one two", "one ..."), tmp_path)
    with pytest.raises(AssertionError):
        run_command(Command("echo one two", "three"), tmp_path)
    with pytest.raises(AssertionError):
        run_command(Command("make no-such-target", ""), tmp_path)
    with pytest.raises(AssertionError):
        run_command(Command("rm nothing", ""), tmp_path)


def test_a_command_in_the_background(tmp_path: Path) -> None:
    with in_background(Command("sluice demo --subscriptions 10 --seconds 60 &", "15 subscriptions ..."), tmp_path):
        pass
    command = Command("sluice explain 'a = 1' &", "canonical: a = 2")
    with pytest.raises(AssertionError, match="canonical: a = 1"), in_background(command, tmp_path):
        pass


def test_commands_are_cut_out_of_a_block() -> None:
    block = Block("console", "$ cat > a <<E\n> x\n> E\n$ echo b\nb\n\nc\n", 1)
    assert list(commands_of(block)) == [Command("cat > a <<E\nx\nE", ""), Command("echo b", "b\n\nc")]
