"""A program that handles events and may be killed at any moment: `python -m tests.network.handler ADDRESS DIRECTORY`.

It handles every event twice over. A durable subscription writes a line into a file, which is at least once: what was handled
and not yet noted comes again to the next life. A second one keeps the offset with its effects, in one transaction of a
database, and starts from there: exactly once.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

import sluice
from sluice.client.durable import Start

NAME = "handler"
#: After so many events of a life, it makes sure that they are noted.
NOTED = 50
#: A line of this stands at the beginning of each life.
LIFE = "life"


async def write_lines(bus: sluice.Bus, file: Path) -> None:
    """At least once."""
    lines = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(lines, f"{LIFE}\n".encode())
    count = 0
    async with bus.subscribe("number IS NOT NULL", durable=NAME, start="earliest") as events:
        async for event in events:
            os.write(lines, f"{event.stream} {event.offset} {event['number']}\n".encode())
            count += 1
            if count == NOTED:
                await events.commit()


async def have_effects(bus: sluice.Bus, file: Path) -> None:
    """Exactly once: an effect that comes again would break the key of its table."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")  # a process is killed here, not a machine
    database.execute("CREATE TABLE IF NOT EXISTS effects (stream, offset, number, PRIMARY KEY (stream, offset))")
    database.execute("CREATE TABLE IF NOT EXISTS positions (stream PRIMARY KEY, offset)")
    positions = dict(database.execute("SELECT stream, offset + 1 FROM positions").fetchall())
    start: Start = positions or "earliest"
    async with bus.subscribe("number IS NOT NULL", start=start) as events:
        async for event in events:
            database.execute("BEGIN")
            database.execute("INSERT INTO effects VALUES (?, ?, ?)", (event.stream, event.offset, event["number"]))
            database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (event.stream, event.offset))
            database.execute("COMMIT")


async def main(address: str, directory: str) -> None:
    """Handles events until it is killed."""
    async with sluice.connect(address, NAME) as bus, asyncio.TaskGroup() as group:
        group.create_task(write_lines(bus, Path(directory) / "lines.txt"))
        group.create_task(have_effects(bus, Path(directory) / "effects.db"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
