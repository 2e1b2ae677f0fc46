"""Brings the store of an earlier release up to this one, in one transaction. What is damaged in it stays so."""

from __future__ import annotations

import apsw

from sluice.broker.store.database import checksum

#: Raised whenever the tables change: a file of another version is brought up to this one or refused, not misread.
VERSION = 3


def upgrade(connection: apsw.Connection, version: int) -> None:
    """Changes what has to be changed since a version; the caller has begun a transaction."""
    if version == 1:
        _add_holds(connection)
    if version <= 2:
        _add_moments(connection)
    if version < VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _add_holds(connection: apsw.Connection) -> None:
    """Nobody held a log before."""
    connection.execute("ALTER TABLE subscription ADD COLUMN holds")
    for name, where, crc in connection.execute("SELECT name, where_text, crc FROM subscription").fetchall():
        if crc == checksum(name, where):
            connection.execute(
                "UPDATE subscription SET holds = 0, crc = ? WHERE name = ?", (checksum(name, where, 0), name)
            )


def _add_moments(connection: apsw.Connection) -> None:
    """Nothing had a moment before; batches keep the checksums that they have."""
    connection.execute("ALTER TABLE batch ADD COLUMN moment; ALTER TABLE state ADD COLUMN moment")
    for incarnation, first, head, crc in connection.execute(
        "SELECT incarnation, first, head, crc FROM state"
    ).fetchall():
        if crc == checksum(incarnation, first, head):
            connection.execute("UPDATE state SET moment = 0, crc = ?", (checksum(incarnation, first, head, 0),))
