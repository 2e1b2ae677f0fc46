"""A matcher as files: arrays as they lie in memory, texts as an Arrow file, the rest as JSON; all checked on opening."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.errors import MatcherError
from sluice.match.clause import Clause
from sluice.match.fields import FieldsState, Number
from sluice.match.kernels import layout

#: Raised whenever the layout of the heap changes: an older file is refused, not misread.
VERSION = 3
_ARRAYS = ("heap", "places", "owner", "ids")
_TEXTS, _STATE = "texts.arrow", "state.json"
#: The files of a saved matcher, in every version so far.
_FILES = frozenset({*(f"{name}.npy" for name in _ARRAYS), _TEXTS, _STATE})
#: What reading damaged files raises.
_DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, RecursionError),
    *(msgspec.ValidationError, pa.ArrowException),
)


class State(TypedDict):
    """What else belongs to a saved matcher, as `state.json` says it: what is not of these types is damaged."""

    version: int
    #: Of each array its length and the type of its items.
    arrays: dict[str, tuple[int, str]]
    fields: FieldsState
    free: list[Number]
    free_entries: list[Number]
    entries: list[tuple[Number, list[Number]]]
    confirm: list[Number]
    typed: NotRequired[list[tuple[Number, list[Clause]]]]
    identity: bool


def save(path: Path, arrays: dict[str, npt.NDArray[Any]], texts: pa.Array, state: dict[str, Any]) -> None:
    """Makes `path` a saved matcher, in place of another one or of an empty directory; anything else there is refused."""
    if not path.name:
        raise MatcherError(
            f"{path} has no name that a new directory could take: give the path of one for the matcher alone"
        )
    try:
        _check_place(path)
        # A link stays one, and leads to the new matcher.
        _write(Path(os.path.realpath(path)), arrays, texts, state)
    except (OSError, ValueError) as error:  # a ValueError is a path that cannot be one
        raise MatcherError(
            f"no matcher can be saved to {path} ({error}): save it where there is room and access"
        ) from None


def _check_place(path: Path) -> None:
    """Refuses what would be lost: all that is neither an empty directory nor a saved matcher, be it old or damaged."""
    if not path.exists():
        return
    if not path.is_dir():
        raise MatcherError(
            f"{path} is a file, which is not replaced by a matcher: save to another path, or remove it first"
        )
    found = {each.name if each.is_file() else f"{each.name}/" for each in path.iterdir()}
    # Of a damaged matcher a file may be gone; with fewer of them it may be something of the same name.
    strange = found - _FILES or (found if 0 < len(found) < len(_FILES) - 1 else set())
    if strange:
        raise MatcherError(
            f"{path} is no saved matcher, and is not replaced by one: it has {', '.join(sorted(strange)[:3])}"
            f"{' and more' if len(strange) > 3 else ''}; save to another path, or remove what is there first"
        )


def _write(path: Path, arrays: dict[str, npt.NDArray[Any]], texts: pa.Array, state: dict[str, Any]) -> None:
    """Writes everything beside `path` first and moves it there when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        kinds = {}
        for name in _ARRAYS:
            np.save(temporary / f"{name}.npy", arrays[name])
            kinds[name] = [len(arrays[name]), str(arrays[name].dtype)]
        table = pa.table({"text": texts})
        with pa.OSFile(str(temporary / _TEXTS), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        state = {"version": VERSION, "arrays": kinds, **state}
        (temporary / _STATE).write_text(json.dumps(state))
        # Whoever has the old files mapped keeps them; at no time is there less than one whole matcher on the disk.
        old = temporary.with_name(f"{temporary.name}-old")
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: Path) -> tuple[dict[str, npt.NDArray[Any]], pa.Array, State]:
    """What `save` wrote, mapped into memory; changes stay private to this process."""
    try:
        written = (path / _STATE).read_bytes()
    except (OSError, ValueError) as error:  # a ValueError is a path that cannot be one
        raise MatcherError(f"{path} is not a saved matcher ({error}): save one there first") from None
    with damage(path):
        said = json.loads(written)
        if not isinstance(said, dict) or said.get("version") != VERSION:
            raise MatcherError(f"{path} was saved by another version of Sluice: load the subscriptions again and save")
        # Not read by msgspec itself: strings in a filter may hold half a surrogate pair, which it refuses.
        state = msgspec.convert(said, State)
        arrays = {name: np.load(path / f"{name}.npy", mmap_mode="c") for name in _ARRAYS}
        texts = pa.ipc.open_file(pa.memory_map(str(path / _TEXTS))).read_all().column("text")
        _check(arrays, state)
        return arrays, pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.large_binary()), state


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Makes whatever goes wrong while a saved matcher is read the one error that says so."""
    try:
        yield
    except _DAMAGE as error:
        raise MatcherError(f"{path} is damaged ({error}): save it again") from None


def _check(arrays: dict[str, npt.NDArray[Any]], state: State) -> None:
    """Whether files and state belong together; kernels believe the numbers of slots and entries without looking."""
    if {name: (len(array), str(array.dtype)) for name, array in arrays.items()} != state["arrays"]:
        raise ValueError("its arrays are not the ones that were saved")
    if int(arrays["heap"][layout.TOP]) + layout.STEP != len(arrays["heap"]):
        raise ValueError("its heap does not end where it says")
    ids, owner = arrays["ids"], arrays["owner"]
    if sorted(state["free"]) != np.flatnonzero(ids < 0).tolist():
        raise ValueError("its free slots are not the ones without an id")
    listed, entries = _numbers(slot for slot, _ in state["entries"]), [mine for _, mine in state["entries"]]
    used = np.flatnonzero(ids >= 0)
    is_alone = ids >= 0
    is_alone[listed] = False
    alone = np.flatnonzero(is_alone)
    owners = np.concatenate([alone, np.repeat(listed, _numbers(map(len, entries)))])
    if (owner[np.concatenate([alone, _numbers(chain.from_iterable(entries))])] != owners).any():
        raise ValueError("its entries belong to other subscriptions")
    if (
        ids[_numbers(chain(state["confirm"], listed.tolist(), (slot for slot, _ in state.get("typed", ()))))] < 0
    ).any() or max(state["free_entries"], default=-1) >= len(owner):
        raise ValueError("it names subscriptions or entries that it does not have")
    if state["identity"] and (ids[used] != used).any():
        raise ValueError("its ids are other ones than it says")


def _numbers(numbers: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.fromiter(numbers, np.int64)
