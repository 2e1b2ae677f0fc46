"""Which index a batch of a stream is matched with, where subscriptions change: decided once, written down, never changed.

Every change of the subscriptions makes a new *version* of the index. The first batch that a version is used for is
written to a file beside the checkpoint before that batch is matched, and so is the last batch for which a decision was
made: a batch that is run again, after a crash too, is matched with the same version as before, whatever has changed
since.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from sluice.errors import MatcherError, SluiceError, StoreError
from sluice.match.matcher import Matcher
from sluice.spark.matching import index as indexes
from sluice.spark.matching.index import Index

#: Versions before the one in use whose index is kept: Spark runs the last batch again at most.
_KEPT = 2
#: Versions whose first batch is remembered.
_REMEMBERED = 10_000
_FILE = "versions.json"


@dataclass(frozen=True, slots=True)
class Version:
    """From which batch on the subscriptions were what they are, and how many came and went with that."""

    number: int
    first_batch: int
    added: int
    removed: int


class Versions:
    """The versions of an index, in a directory; one stream at a time may use it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._matcher = Matcher()
        self._numbers: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._last_batch, self._versions = _read(directory / _FILE)
        if self._versions:
            self._matcher, self._numbers, self._texts = indexes.reopened(self._path(self._versions[-1]))

    @property
    def log(self) -> list[Version]:
        """All versions, the oldest first."""
        return list(self._versions)

    def of_batch(self, batch: int, subscriptions: Mapping[str, str]) -> tuple[Version, Index]:
        """The version for a batch: the one that it had before, or that of these subscriptions (texts by id) from now on."""
        if batch <= self._last_batch:
            found = [version for version in self._versions if version.first_batch <= batch]
            if not found or not self._path(found[-1]).exists():
                raise StoreError(
                    f"{self._directory}: batch {batch} is too old to be matched again: begin a new checkpoint"
                )
            return found[-1], indexes.read(self._path(found[-1]))
        if not self._versions or subscriptions != self._texts:
            self._change(batch, subscriptions)
        self._last_batch = batch
        self._write()
        return self._versions[-1], indexes.read(self._path(self._versions[-1]))

    def _change(self, batch: int, subscriptions: Mapping[str, str]) -> None:
        """Makes the next version. Its index is there before anybody is told of it."""
        removed = [id for id in self._texts if subscriptions.get(id) != self._texts[id]]
        added = {id: text for id, text in subscriptions.items() if self._texts.get(id) != text}
        for id in removed:
            self._matcher.remove(self._numbers.pop(id))
            del self._texts[id]
        for id, text in added.items():
            try:
                self._numbers[id] = self._matcher.add(text)
            except SluiceError as error:
                raise MatcherError(f"the subscription with id {id!r} is wrong: {error}") from error
            self._texts[id] = text
        number = self._versions[-1].number + 1 if self._versions else 1
        version = Version(number, batch, len(added), len(removed))
        path = self._path(version)
        shutil.rmtree(path, ignore_errors=True)  # of a life that ended before it wrote its decision down
        path.mkdir()
        by_number = {place: id for id, place in self._numbers.items()}
        ids = [by_number.get(place) for place in range(max(by_number, default=-1) + 1)]
        indexes.written(path, self._matcher, pa.array(ids, pa.string()))
        self._versions = [*self._versions[-_REMEMBERED + 1 :], version]

    def _path(self, version: Version) -> Path:
        return self._directory / f"index-{version.number:08}"

    def _write(self) -> None:
        state = {"last_batch": self._last_batch, "versions": [asdict(version) for version in self._versions]}
        path = self._directory / _FILE
        beside = path.with_suffix(".new")
        with beside.open("w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
        for version in self._versions[: -_KEPT - 1][-_KEPT:]:
            shutil.rmtree(self._path(version), ignore_errors=True)


def _read(path: Path) -> tuple[int, list[Version]]:
    if not path.exists():
        return -1, []
    try:
        state = json.loads(path.read_text())
        return int(state["last_batch"]), [Version(**version) for version in state["versions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): begin a new checkpoint") from None
