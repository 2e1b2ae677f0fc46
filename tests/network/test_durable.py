"""SIGKILL for a program with durable subscriptions: at least once to its handler, exactly once where it keeps the offset."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

from sluice.broker.topology import topology
from tests.network.drill import Publishing, until
from tests.network.handler import LIFE, NOTED
from tests.network.processes import restart, started

LIVES = 5
#: What waits in each log: so much that no life but the last comes to its end.
BACKLOG = 5_000


@contextmanager
def handler(address: str, directory: Path) -> Iterator[None]:
    """The program, until it is killed."""
    process = subprocess.Popen([sys.executable, "-m", "tests.network.handler", address, str(directory)])
    try:
        yield
        assert process.poll() is None, "the handler has failed"
    finally:
        process.kill()
        process.wait()


class Effects:
    """What the program has left behind."""

    def __init__(self, directory: Path) -> None:
        self._lines = directory / "lines.txt"
        self._database = directory / "effects.db"

    def lives(self) -> list[list[tuple[str, int, int]]]:
        """The lines of each life; a line that was cut off in its middle is none."""
        text = self._lines.read_text() if self._lines.exists() else ""
        lives: list[list[tuple[str, int, int]]] = []
        for line in text.splitlines(keepends=True):
            match line.split():
                case [word] if word == LIFE:
                    lives.append([])
                case [stream, offset, number] if line.endswith("\n"):
                    lives[-1].append((stream, int(offset), int(number)))
        return lives

    def rows(self) -> list[tuple[str, int, int]]:
        """What is in the database, in the order of the streams."""
        if not self._database.exists():
            return []
        database = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)
        try:
            return database.execute("SELECT stream, offset, number FROM effects ORDER BY stream, offset").fetchall()
        except sqlite3.OperationalError:  # the table is not there yet, or it is being written
            return []
        finally:
            database.close()


async def run(directory: Path) -> tuple[Effects, dict[str, int]]:
    """Has the program killed in the middle of its work several times, once together with its broker."""
    random = Random("durable")
    effects = Effects(directory)
    settings = {"log_level": "error"}
    async with started(topology("line", 2, data=directory / "data", settings=settings)) as (network, _):
        addresses = {name: str(address) for name, address in network.addresses.items()}
        publishers = [
            Publishing(f"p-{name}", name, addresses[name], Random(name), backlog=BACKLOG) for name in network.brokers
        ]
        async with asyncio.TaskGroup() as group:
            publishing = [group.create_task(one.run()) for one in publishers]
            await until(lambda: all(one.acknowledged >= BACKLOG for one in publishers), "the backlog is there")
            for life in range(LIVES - 1):
                with handler(addresses["b2"], directory):
                    lines, rows = NOTED + random.randrange(300), len(effects.rows()) + random.randrange(300)
                    await until(
                        lambda life=life, lines=lines, rows=rows: (  # type: ignore[misc]
                            len(effects.lives()) == life + 1
                            and len(effects.lives()[-1]) > lines
                            and len(effects.rows()) > rows
                        ),
                        f"life {life} has its effects",
                    )
                    if life == 2:
                        network.kill("b2")
                if life == 2:
                    await restart(network, "b2")
            with handler(addresses["b2"], directory):
                # They publish until the last life has begun: it must have something to do, whatever the others did.
                await until(lambda: len(effects.lives()) == LIVES, "the last life has begun")
                for one in publishers:
                    one.is_over = True
                await asyncio.gather(*publishing)
                total = sum(one.published for one in publishers)
                await until(lambda: len(effects.rows()) == total, "everything has had its effect")
                await until(
                    lambda: len({line for life in effects.lives() for line in life}) == total, "everything has its line"
                )
        return effects, {one.home: one.published for one in publishers}


def test_a_killed_handler_gets_everything_once_or_more_and_knows_which(tmp_path: Path) -> None:
    effects, published = asyncio.run(run(tmp_path))
    wanted = [(stream, number, number) for stream, count in published.items() for number in range(1, count + 1)]
    assert effects.rows() == wanted
    lives = effects.lives()
    assert len(lives) == LIVES
    assert sorted({line for life in lives for line in life}) == wanted
    for life in lives:
        for stream in published:
            offsets = [offset for name, offset, _ in life if name == stream]
            assert all(before < offset for before, offset in pairwise(offsets))
    # It went on where it had stopped, and did not begin anew.
    for before, life in pairwise(lives):
        noted = {(stream, offset) for stream, offset, _ in before[:NOTED]}
        assert not noted & {(stream, offset) for stream, offset, _ in life}
