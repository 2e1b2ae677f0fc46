"""Runs the command in a terminal of its own, as a person would, and keeps what it shows."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from dataclasses import dataclass

from tests.patience import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Shown:
    """How a command ended, and all that the terminal was sent."""

    status: int
    text: str


def at_terminal(*arguments: object, interrupt_at: str | None = None) -> Shown:
    """Run `sluice` with these arguments; press Ctrl-C once the given text has appeared."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "sluice", *map(str, arguments)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while data := _read(ours):
            shown += data
            if interrupt_at is not None and interrupt_at.encode() in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
    os.close(ours)
    return Shown(process.returncode, shown.decode())


def _read(terminal: int) -> bytes:
    if not select.select([terminal], [], [], PATIENCE_SECONDS)[0]:
        raise TimeoutError("the command shows nothing more and does not end")
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux tells that the other side is closed
        return b""
