"""The subscriptions as an index in a directory: compiled once on the driver, found again by its content, mapped by the workers.

An index is one saved matcher or, where it would be larger than a worker should hold, several (*shards*) that share the
subscriptions out; `ids.arrow` has the id of each, `about.json` the rest. Python workers of a host that open the same
index share its pages, and a worker process opens it once, however many tasks it is given.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.errors import ConfigurationError, MatcherError, SluiceError
from sluice.match.matcher import Matcher
from sluice.match.store import VERSION, load
from sluice.model import parse

#: Subscriptions that are compiled in one go, and after which the size of a shard is looked at.
_CHUNK = 4_096
_ABOUT, _IDS = "about.json", "ids.arrow"
#: What every saved matcher has.
_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class BadSubscription:
    """A subscription that cannot be used: its id, its text and what is wrong with it."""

    id: int | str
    where: str
    problem: str


@dataclass(frozen=True, slots=True)
class Split:
    """When a shard is full: at so many bytes, or at so many subscriptions. Without either there is one shard."""

    bytes: int | None = None
    subscriptions: int | None = None

    def is_full(self, matcher: Matcher) -> bool:
        """Whether the next subscription begins another shard."""
        return (self.bytes is not None and matcher.index_bytes >= self.bytes) or (
            self.subscriptions is not None and len(matcher) >= self.subscriptions
        )


@dataclass(frozen=True, slots=True)
class Index:
    """What tasks need to know of an index: where it is, and how its shards share out the subscriptions."""

    path: str
    #: Of each shard the place of its first subscription, and at the end the number of all.
    starts: tuple[int, ...]
    #: The attributes that decide; None where a subscription may ask for any.
    attributes: tuple[str, ...] | None
    #: Whether subscriptions have ids of their own, in a file; else they are the numbers that the matcher gives.
    has_ids: bool = True
    #: When it was written: what is there at another time is another index.
    written_nanoseconds: int = 0
    bad: tuple[BadSubscription, ...] = field(default=(), repr=False)

    @property
    def shards(self) -> int:
        """How many matchers share the subscriptions."""
        return len(self.starts) - 1

    @property
    def name(self) -> str:
        """What the index is called where it is shipped to: no other one is, be it of another stream or of another time."""
        place = hashlib.sha256(f"{self.path} {self.written_nanoseconds}".encode()).hexdigest()
        return f"sluice-{Path(self.path).name}-{place[:16]}"

    def id_type(self) -> pa.DataType:
        """The Arrow type of the ids."""
        return _read_ids(Path(self.path)).type if self.has_ids else pa.int64()


def compiled(table: pa.Table, split: Split, directory: Path, progress: Callable[[int], object] | None = None) -> Index:
    """The index of a table of `id` and `where`: compiled, or found in the directory if it was compiled before."""
    path = directory / _digest(table, split)
    if not (path / _ABOUT).exists():
        directory.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=directory))
        try:
            _compile(table, split, building, progress)
            try:
                building.rename(path)
            except OSError:
                # Somebody else was quicker with the same.
                if not (path / _ABOUT).exists():
                    raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return read(path)


def read(path: Path) -> Index:
    """The index in a directory that `compiled` or `written` made."""
    try:
        about = json.loads((path / _ABOUT).read_text())
        bad = tuple(BadSubscription(**each) for each in about["bad"])
        attributes = about["attributes"]
        return Index(
            str(path),
            tuple(about["starts"]),
            None if attributes is None else tuple(attributes),
            written_nanoseconds=(path / _ABOUT).stat().st_mtime_ns,
            bad=bad,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MatcherError(f"{path} is no compiled index ({error}): remove the directory, it is made again") from None


def saved_matcher(path: Path) -> Index:
    """A matcher that somebody saved, as an index: its own numbers are the ids."""
    return Index(
        str(path.resolve()),
        (0, len(_slots(path))),
        Matcher.open(path).attributes,
        has_ids=False,
        written_nanoseconds=(path / _STATE).stat().st_mtime_ns,
    )


def written(path: Path, matcher: Matcher, ids: pa.Array) -> Index:
    """Writes an index of one matcher that gave its numbers itself; `ids` are by number, null where it has none."""
    matcher.save(path / "0")
    return _finish(path, [0, len(ids)], [matcher.attributes], ids, [])


def reopened(path: Path) -> tuple[Matcher, dict[str, int], dict[str, str]]:
    """What `written` wrote, to be changed further: the matcher, and the numbers and texts of its subscriptions by id."""
    packed = load(path / "0")[1].to_pylist()
    numbers = {id: number for number, id in enumerate(_read_ids(path).to_pylist()) if id is not None}
    texts = {id: packed[number].decode("utf-8", "surrogatepass") for id, number in numbers.items()}
    return Matcher.open(path / "0"), numbers, texts


def _finish(
    path: Path, starts: list[int], attributes: list[tuple[str, ...] | None], ids: pa.Array, bad: list[BadSubscription]
) -> Index:
    names = {name for some in attributes for name in some or ()}
    with pa.OSFile(str(path / _IDS), "wb") as file, pa.ipc.new_file(file, pa.schema([("id", ids.type)])) as writer:
        writer.write_table(pa.table({"id": ids}))
    about = {
        "starts": starts,
        "attributes": None if None in attributes else sorted(names),
        "bad": [asdict(each) for each in bad],
    }
    (path / _ABOUT).write_text(json.dumps(about))
    return read(path)


def _digest(table: pa.Table, split: Split) -> str:
    """A name that equal tables have, split in the same way, and no others."""
    digest = hashlib.sha256(json.dumps([VERSION, split.bytes, split.subscriptions]).encode())
    sink = pa.BufferOutputStream()
    # Written as one batch, equal tables are equal bytes, however they were cut.
    whole = pa.Table.from_arrays([column.combine_chunks() for column in table.columns], table.column_names)
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    digest.update(sink.getvalue())
    return digest.hexdigest()[:32]


def _compile(table: pa.Table, split: Split, path: Path, progress: Callable[[int], object] | None) -> None:
    """Compiles shard after shard; only one of them is in memory."""
    ids, texts = table.column("id").to_pylist(), table.column("where").to_pylist()
    numbers: list[int] = []
    starts, attributes, bad = [0], list[tuple[str, ...] | None](), list[BadSubscription]()
    step = min(_CHUNK, split.subscriptions or _CHUNK)
    matcher = Matcher()
    for start in range(0, len(ids), step):
        rows = range(start, min(start + step, len(ids)))
        if len(matcher) and split.is_full(matcher):
            matcher.save(path / str(len(attributes)))
            attributes.append(matcher.attributes)
            starts.append(len(numbers))
            matcher = Matcher()
        good = _load(matcher, rows, ids, texts, bad)
        numbers += good
        if progress is not None:
            progress(rows.stop)
    matcher.save(path / str(len(attributes)))
    attributes.append(matcher.attributes)
    starts.append(len(numbers))
    _finish(path, starts, attributes, table.column("id").combine_chunks().take(pa.array(numbers, pa.int64())), bad)


def _load(matcher: Matcher, rows: range, ids: list[Any], texts: list[str], bad: list[BadSubscription]) -> list[int]:
    """Adds rows to a matcher, numbered on; returns those that are no bad ones, which are noted."""
    good = list(rows)
    try:
        matcher.load(enumerate([texts[row] for row in good], len(matcher)))
    except SluiceError:
        good = []
        for row in rows:
            try:
                parse(texts[row])
                good.append(row)
            except SluiceError as error:
                bad.append(BadSubscription(ids[row], texts[row], str(error)))
        matcher.load(enumerate([texts[row] for row in good], len(matcher)))
    return good


# --- shipping -----------------------------------------------------------------------------------------------------------


def packed(index: Index) -> Path:
    """The index as one file that Spark unpacks where its workers run."""
    path = Path(index.path)
    # Beside a matcher that somebody saved it is not ours to leave files.
    directory = path.parent if index.has_ids else default_directory()
    file = directory / f"{index.name}.tar"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        building = file.with_suffix(f".{os.getpid()}")
        with tarfile.open(building, "w") as archive:
            for each in sorted(path.iterdir()):  # Spark refuses an entry for the directory itself
                archive.add(each, arcname=each.name)
        building.rename(file)
    return file


# --- in the workers -----------------------------------------------------------------------------------------------------


class Shard:
    """A matcher, and the ids of what it matches."""

    def __init__(self, index: Index, number: int) -> None:
        path = local(index)
        if index.has_ids:
            self.matcher = Matcher.open(path / str(number))
            first, last = index.starts[number : number + 2]
            self._ids: pa.Array | None = _read_ids(path).slice(first, last - first)
        else:
            self.matcher, self._ids = Matcher.open(path), None

    def ids(self, found: np.ndarray[Any, Any]) -> pa.Array:
        """The ids of what the matcher found."""
        return pa.array(found, pa.int64()) if self._ids is None else self._ids.take(pa.array(found))


_opened: dict[tuple[str, int], Shard] = {}


def shard(index: Index, number: int) -> Shard:
    """A shard of an index, opened once in a worker process. Only the last one stays open: another one means another task."""
    key = (index.name, number)
    if key not in _opened:
        _opened.clear()
        _opened[key] = Shard(index, number)
    return _opened[key]


def ids_between(index: Index, first: int, last: int) -> pa.Array:
    """The ids of subscriptions by their places in the index."""
    path = local(index)
    if not index.has_ids:
        return pa.array(_slots(path)[first:last], pa.int64())
    return _read_ids(path).slice(first, last - first)


def local(index: Index) -> Path:
    """Where the index is on this machine: where it was made, or where Spark has unpacked it."""
    if (Path(index.path) / (_ABOUT if index.has_ids else _STATE)).exists():
        return Path(index.path)
    from pyspark import SparkFiles

    for path in (Path(SparkFiles.getRootDirectory()) / index.name, Path(index.name)):
        if path.exists():
            return path
    raise ConfigurationError(f"the index {index.name} was not shipped to this worker: start the query again")


def _slots(path: Path) -> np.ndarray[Any, Any]:
    """The numbers of the subscriptions of a saved matcher, by their places in it."""
    return load(path)[0]["ids"]


def _read_ids(path: Path) -> pa.Array:
    column = pa.ipc.open_file(pa.memory_map(str(path / _IDS))).read_all().column("id")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def default_directory() -> Path:
    """Where compiled indexes are kept: a directory of this user among the temporary ones. It may be emptied at any time."""
    path = Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise ConfigurationError(f"{path} belongs to somebody else: give a directory for indexes of your own")
    return path / "indexes"
