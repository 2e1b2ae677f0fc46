"""A disk whose power can be cut: it remembers what was written and what of that was synced, per file.

SQLite works on real files through it. At the operation that `cut_at` names (a write, truncation, deletion or sync) the power
goes, and from then on nothing can be changed. `survivors` then writes what the disk still holds: everything that was synced,
and of the rest nothing, all, or a part in sectors of 512 bytes, as the seed decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    size: int


@dataclass(slots=True)
class Kept:
    """What the disk knows of one file."""

    #: What a power cut cannot take away; None if not even the file's name.
    synced: bytes | None = None
    #: What happened since, oldest first.
    pending: list[Write | Truncate] = field(default_factory=list)
    deleted: bool = False


class Disk(apsw.VFS):
    """Real files, and a record of what of them would survive."""

    def __init__(self, seed: int, *, ignores_sync: bool = False) -> None:
        self.vfs = f"disk-{next(_numbers)}"
        self.random = random.Random(seed)
        self.ignores_sync = ignores_sync
        self.files: dict[str, Kept] = {}
        self.operations = 0
        self.cut_at: int | None = None
        #: What every write fails with for now: a full disk, or a broken one.
        self.failing: type[apsw.Error] | None = None
        super().__init__(self.vfs, base="")

    @property
    def off(self) -> bool:
        """Whether the power has been cut."""
        return self.cut_at is not None and self.operations >= self.cut_at

    def operate(self) -> None:
        """Counts a change; raises once the power is off."""
        if self.off:
            raise apsw.IOError("the power is off")
        self.operations += 1

    def after(self) -> None:
        """Raises if the power went during this very operation."""
        if self.off:
            raise apsw.IOError("the power was cut")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        # SQLite's own temporary files have no name, and nobody looks for them after a power cut.
        return apsw.VFSFile("", name, flags) if name is None else DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.operate()
        kept = self.files.setdefault(filename, Kept())
        kept.pending.append(Truncate(0))
        kept.deleted = True
        self.after()
        if syncdir and not self.ignores_sync:
            self.forget_deleted()
        super().xDelete(filename, syncdir)

    def forget_deleted(self) -> None:
        """The directory is synced: what was deleted is gone for good."""
        self.files = {name: kept for name, kept in self.files.items() if not kept.deleted}

    def survivors(self, directory: Path) -> None:
        """Writes the files that are there when the power is back into `directory`."""
        directory.mkdir()
        for name, kept in sorted(self.files.items()):
            content = self._surviving(kept)
            if content is not None:
                (directory / Path(name).name).write_bytes(content)

    def _surviving(self, kept: Kept) -> bytes | None:
        fate = self.random.choice(("nothing", "all", "part", "part"))
        if kept.synced is None and (kept.deleted or fate == "nothing"):
            return None
        if kept.deleted and fate == "all":
            return None
        content = bytearray(kept.synced or b"")
        for change in kept.pending if fate != "nothing" else ():
            match change:
                case Truncate(size):
                    if fate == "all" or self.random.random() < 0.5:
                        content = content[:size].ljust(size, b"\0")
                case Write(offset, data):
                    for start, piece in _sectors(offset, data):
                        if fate == "all" or self.random.random() < 0.5:
                            content.extend(bytes(max(0, start + len(piece) - len(content))))
                            content[start : start + len(piece)] = piece
        return bytes(content)


class DiskFile(apsw.VFSFile):
    """A file of the disk."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        self.is_log = bool(flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))
        self.name = name if isinstance(name, str) else name.filename()
        found = Path(self.name).read_bytes()
        if self.name not in disk.files:
            # What is there before the disk has seen it has been there for long.
            disk.files[self.name] = Kept(synced=found if found else None)
        disk.files[self.name].deleted = False

    @property
    def kept(self) -> Kept:
        return self.disk.files[self.name]

    def xWrite(self, data: Any, offset: int) -> None:
        if self.disk.failing is not None:
            raise self.disk.failing("as the test wants it")
        self.disk.operate()
        self.kept.pending.append(Write(offset, bytes(data)))
        self.disk.after()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self.disk.operate()
        self.kept.pending.append(Truncate(newsize))
        self.disk.after()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self.disk.operate()
        self.disk.after()
        if self.disk.ignores_sync:
            return
        if self.kept.synced is None and self.is_log:
            # SQLite syncs the directory with a new log, and thereby every deletion before.
            self.disk.forget_deleted()
        # The real file is what all writes together have made of it.
        self.kept.synced = Path(self.name).read_bytes()
        self.kept.pending.clear()


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The pieces of a write that each lie in one sector."""
    while data:
        size = SECTOR - offset % SECTOR
        yield offset, data[:size]
        offset += size
        data = data[size:]


@contextmanager
def disk(seed: int, *, ignores_sync: bool = False) -> Iterator[Disk]:
    """A disk that SQLite knows by its name within the block."""
    made = Disk(seed, ignores_sync=ignores_sync)
    try:
        yield made
    finally:
        made.unregister()
