"""A matcher as files: arrays as they lie in memory, texts as an Arrow file, the rest as JSON; all checked on opening."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.errors import MatcherError
from sluice.match.kernels import layout

#: Raised whenever the layout of the heap changes: an older file is refused, not misread.
VERSION = 3
_ARRAYS = ("heap", "places", "owner", "ids")
#: What else belongs to a saved matcher.
STATE = ("fields", "free", "free_entries", "entries", "confirm", "identity")


def save(path: Path, arrays: dict[str, npt.NDArray[Any]], texts: pa.Array, state: dict[str, Any]) -> None:
    """Writes everything beside `path` first and moves it there when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        kinds = {}
        for name in _ARRAYS:
            np.save(temporary / f"{name}.npy", arrays[name])
            kinds[name] = [len(arrays[name]), str(arrays[name].dtype)]
        table = pa.table({"text": texts})
        with pa.OSFile(str(temporary / "texts.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        state = {"version": VERSION, "arrays": kinds, **state}
        (temporary / "state.json").write_text(json.dumps(state))
        # Whoever has the old files mapped keeps them; at no time is there less than one whole matcher on the disk.
        old = temporary.with_name(f"{temporary.name}-old")
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: Path) -> tuple[dict[str, npt.NDArray[Any]], pa.Array, dict[str, Any]]:
    """What `save` wrote, mapped into memory; changes stay private to this process."""
    try:
        state = json.loads((path / "state.json").read_text())
    except (OSError, ValueError) as error:
        raise MatcherError(f"{path} is not a saved matcher ({error}): save one there first") from None
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise MatcherError(f"{path} was saved by another version of Sluice: load the subscriptions again and save")
    try:
        arrays = {name: np.load(path / f"{name}.npy", mmap_mode="c") for name in _ARRAYS}
        texts = pa.ipc.open_file(pa.memory_map(str(path / "texts.arrow"))).read_all().column("text")
        found = {name: [len(array), str(array.dtype)] for name, array in arrays.items()}
    except (OSError, ValueError, EOFError, TypeError, KeyError, pa.ArrowException) as error:
        raise MatcherError(f"{path} is damaged ({error}): save it again") from None
    if found != state.get("arrays") or set(state) != {"version", "arrays", *STATE}:
        raise MatcherError(f"{path} is damaged (its arrays are not the ones that were saved): save it again")
    if int(arrays["heap"][layout.TOP]) + layout.STEP != len(arrays["heap"]):
        raise MatcherError(f"{path} is damaged (its heap does not end where it says): save it again")
    packed = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.large_binary())
    return arrays, packed, state
