"""A SQLite file that one broker has for itself: its lock, its name on the disk, and what SQLite says of it in our words."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from sluice.errors import StoreError


def damaged(path: Path, problem: str) -> StoreError:
    """The error of a file that cannot be trusted."""
    return StoreError(
        f"{path} is damaged ({problem}): move it away together with {path.name}-wal, keep both for repair, and start "
        "the broker with a backup or with an empty data directory"
    )


def locked(path: Path) -> int:
    """A lock on the store at `path`, held until it is closed or the process ends, however it does."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file of its own: SQLite's locks on the database would be lost with the first descriptor of it that is closed.
        lock = os.open(path.with_name(f"{path.name}-lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened ({error.strerror}): give the broker a directory it may write in"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(
            f"{path} is in use by another broker: stop that one, or give this one its own directory"
        ) from None
    return lock


def sync_names(path: Path) -> None:
    """Makes sure that a file is found under its name after a power cut: that is for the directories to remember."""
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Says in our words what SQLite reports in its own."""
    try:
        yield
    except apsw.FullError:
        raise StoreError(
            f"the disk is full: nothing more can be stored in {path}; free some space or shorten the retention, then try again"
        ) from None
    except apsw.NotADBError:
        raise StoreError(f"{path} is not a store of Sluice: give the broker a data directory of its own") from None
    except apsw.CorruptError as error:
        raise damaged(path, str(error)) from None
    except (apsw.BusyError, apsw.LockedError):
        raise StoreError(f"{path} is locked by another program: close it there, then try again") from None
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise StoreError(
            f"{path} cannot be opened for writing ({error}): check who may write it and its directory"
        ) from None
    except apsw.Error as error:
        raise StoreError(f"reading or writing {path} failed ({error}): check the disk, then try again") from None


def checksum(*columns: object) -> int:
    """What a row carries to tell that none of its columns has changed."""
    return zlib.crc32(repr(columns).encode())
