"""A matcher as files: what was saved is what is opened, processes share it, changes stay private, damage is refused."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sluice
from sluice.match import naive, store
from sluice.match.fields import FieldsState
from tests.generate import Generator


def generated(count: int, seed: int = 9) -> dict[int, str]:
    generator = Generator(random.Random(seed))
    found: dict[int, str] = {}
    while len(found) < count:
        text = generator.filter()
        try:
            sluice.parse(text)
        except sluice.LimitError:
            continue
        found[len(found)] = text
    return found


def some_records(count: int = 30) -> list[dict[str, Any]]:
    generator = Generator(random.Random(4))
    return [generator.record(typed=False) for _ in range(count)]


def answers(matcher: sluice.Matcher, records: list[dict[str, Any]]) -> list[list[int]]:
    return [sorted(matcher.match(record).tolist()) for record in records]


@pytest.fixture(scope="module")
def texts() -> dict[int, str]:
    return generated(400)


@pytest.fixture(scope="module")
def index(texts: dict[int, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    matcher = sluice.Matcher()
    matcher.load(texts.items())
    folder = tmp_path_factory.mktemp("store") / "index"
    matcher.save(folder)
    return folder


@pytest.fixture
def saved(index: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(index, tmp_path / "index"))


def test_opened_is_what_was_saved(saved: Path, texts: dict[int, str]) -> None:
    opened = sluice.Matcher.open(saved)
    subscriptions = {id: sluice.parse(text) for id, text in texts.items()}
    records = some_records()
    assert answers(opened, records) == naive.match_batch(records, subscriptions)
    assert len(opened) == len(texts) and list(opened) == sorted(texts)
    assert opened[7] == subscriptions[7]
    query = subscriptions[3]
    assert opened.covering(query) == naive.covering(query, subscriptions)
    assert opened.covered(query) == naive.covered(query, subscriptions)
    assert opened.overlapping(query) == naive.overlapping(query, subscriptions)
    assert opened.merge_candidates(query) == naive.merge_candidates(query, subscriptions)


def test_it_goes_on_after_opening(saved: Path, texts: dict[int, str]) -> None:
    """Adds, removes, and save and open again, with ids of one's own and slots used again."""
    matcher = sluice.Matcher.open(saved)
    subscriptions = {id: sluice.parse(text) for id, text in texts.items()}
    source = random.Random(1)
    records = some_records()
    more = list(generated(300, seed=10).values())
    for round in range(3):
        for id in source.sample(sorted(subscriptions), 120):
            matcher.remove(id)
            del subscriptions[id]
        for text in more[100 * round : 100 * round + 100]:
            free = (
                None
                if source.random() < 0.5
                else next(n for n in iter(lambda: source.randrange(5_000), -1) if n not in subscriptions)
            )
            subscriptions[matcher.add(text, id=free)] = sluice.parse(text)
        assert answers(matcher, records) == naive.match_batch(records, subscriptions)
        matcher.save(saved)
        matcher = sluice.Matcher.open(saved)
        assert answers(matcher, records) == naive.match_batch(records, subscriptions)
        assert list(matcher) == sorted(subscriptions)


def test_changes_stay_private(saved: Path, texts: dict[int, str]) -> None:
    records = some_records()
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    first, second = sluice.Matcher.open(saved), sluice.Matcher.open(saved)
    want = answers(second, records)
    for id in list(texts)[:200]:
        first.remove(id)
    for _ in range(500):
        first.add("n = 1")
    assert answers(second, records) == want
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_opened_is_mapped_not_read(saved: Path) -> None:
    """The large arrays come from the file's own pages, so that processes share them."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not tell what is mapped")
    opened = sluice.Matcher.open(saved)
    assert str(saved / "heap.npy") in maps.read_text()
    assert len(opened)


def test_other_processes_open_it(saved: Path, texts: dict[int, str]) -> None:
    """Two at a time, while this one has it open and changed."""
    mine = sluice.Matcher.open(saved)
    want = sorted(mine.match({"n": 1, "s": "ab"}).tolist())
    mine.remove(0)
    script = "import sluice, sys; print(sorted(sluice.Matcher.open(sys.argv[1]).match({'n': 1, 's': 'ab'}).tolist()))"
    others = [
        subprocess.Popen([sys.executable, "-c", script, str(saved)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for other in others:
        output, _ = other.communicate()
        assert other.returncode == 0 and json.loads(output) == want


def test_an_empty_matcher(tmp_path: Path) -> None:
    sluice.Matcher().save(tmp_path / "empty")
    opened = sluice.Matcher.open(tmp_path / "empty")
    assert len(opened) == 0 and opened.match({"a": 1}).tolist() == []
    id = opened.add("a = 1")
    assert opened.match({"a": 1}).tolist() == [id]


def test_texts_of_any_characters(tmp_path: Path) -> None:
    matcher = sluice.Matcher()
    for text in ("a = '\U0001f600'", "a = 'x\\u0000y'", "`\u00e9 b` = 1", "a = '\ud800'"):
        matcher.add(text)
    matcher.save(tmp_path / "index")
    opened = sluice.Matcher.open(tmp_path / "index")
    for value in ("\U0001f600", "x\0y", "\ud800"):
        assert len(opened.match({"a": value})) == 1
    assert opened.match({"\u00e9 b": 1}).tolist() == [2]


def test_saving_over_a_saved_one(saved: Path) -> None:
    matcher = sluice.Matcher()
    id = matcher.add("a = 1")
    matcher.save(saved)
    assert list(sluice.Matcher.open(saved)) == [id]
    assert sorted(file.name for file in saved.parent.iterdir()) == [saved.name], "something was left behind"


@pytest.mark.parametrize("damage", ["no state", "noise", "no heap", "another version"])
def test_saving_over_an_old_or_a_damaged_one(saved: Path, damage: str) -> None:
    """What cannot be opened says "save it again": that works."""
    match damage:
        case "no state":
            (saved / "state.json").unlink()
        case "noise":
            (saved / "state.json").write_bytes(random.Random(0).randbytes(2_000))
        case "no heap":
            (saved / "heap.npy").unlink()
        case "another version":
            (saved / "state.json").write_text('{"version": 1, "sizes": {}}')
    with pytest.raises(sluice.MatcherError):
        sluice.Matcher.open(saved)
    sluice.Matcher().save(saved)
    assert len(sluice.Matcher.open(saved)) == 0
    assert [file.name for file in saved.parent.iterdir()] == [saved.name], "something was left behind"


def test_saving_over_one_that_others_have_open(saved: Path, texts: dict[int, str]) -> None:
    records = some_records()
    reader = sluice.Matcher.open(saved)
    want = answers(reader, records)
    sluice.Matcher().save(saved)
    assert len(sluice.Matcher.open(saved)) == 0
    assert answers(reader, records) == want and len(reader) == len(texts)


def test_saving_to_an_empty_directory_and_below_new_ones(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "new" / "newer" / "index"):
        sluice.Matcher().save(path)
        assert len(sluice.Matcher.open(path)) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty", "new"], "something was left behind"


def test_saving_through_a_link_keeps_the_link(saved: Path) -> None:
    link = saved.with_name("current")
    link.symlink_to(saved)
    sluice.Matcher().save(link)
    assert link.is_symlink() and len(sluice.Matcher.open(saved)) == len(sluice.Matcher.open(link)) == 0
    assert sorted(file.name for file in saved.parent.iterdir()) == ["current", "index"], "something was left behind"


def everything_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        (["thesis.txt"], "is a file"),
        (["thesis.txt/chapter.txt"], r"no saved matcher.*chapter\.txt"),
        (["thesis.txt/state.json"], r"no saved matcher.*state\.json"),
        (["thesis.txt/heap.npy/chapter.txt"], r"no saved matcher.*heap\.npy/"),
        ([f"thesis.txt/{n}" for n in range(9)], "0, 1, 2 and more"),
    ],
)
def test_saving_replaces_nothing_but_a_matcher(tmp_path: Path, there: list[str], problem: str) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("years of work")
    before = everything_in(tmp_path)
    with pytest.raises(sluice.MatcherError, match=problem):
        sluice.Matcher().save(tmp_path / "thesis.txt")
    assert everything_in(tmp_path) == before


def test_saving_keeps_what_is_beside_the_files_of_a_matcher(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    before = everything_in(saved.parent)
    with pytest.raises(sluice.MatcherError, match=r"notes\.txt"):
        sluice.Matcher().save(saved)
    assert everything_in(saved.parent) == before and len(sluice.Matcher.open(saved))


@pytest.mark.parametrize("path", [".", "", "..", "/", "file/index", "x" * 300, "a\0b"])
def test_saving_where_nothing_can_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("file").write_text("x")
    before = everything_in(tmp_path)
    with pytest.raises(sluice.MatcherError):
        sluice.Matcher().save(path)
    assert everything_in(tmp_path) == before


def test_a_full_disk_leaves_the_old_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = everything_in(saved.parent)
    monkeypatch.setattr(np, "save", full)
    with pytest.raises(sluice.MatcherError, match=r"index \(.*No space left"):
        sluice.Matcher().save(saved)
    assert everything_in(saved.parent) == before


FILES = ("heap.npy", "places.npy", "owner.npy", "ids.npy", "texts.arrow", "state.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "noise"])
def test_damaged_files_are_refused(saved: Path, name: str, damage: str) -> None:
    file = saved / name
    match damage:
        case "gone":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(file.read_bytes()[:-100])
        case "noise":
            file.write_bytes(random.Random(0).randbytes(2_000))
    with pytest.raises(sluice.MatcherError, match="index"):
        sluice.Matcher.open(saved)


@pytest.mark.parametrize(
    "state",
    [
        "[]",
        "null",
        "5",
        "{}",
        '{"version": 0}',
        '{"version": 1}',
        '{"version": 1, "sizes": {}}',
        '{"version": 1, "sizes": 5}',
    ],
)
def test_a_wrong_state_is_refused(saved: Path, state: str) -> None:
    (saved / "state.json").write_text(state)
    with pytest.raises(sluice.MatcherError, match="index"):
        sluice.Matcher.open(saved)


#: No key of a state has a value like one of these.
WRONG: tuple[object, ...] = (None, {}, "x", 1.5, [-1], [[]], [["x", "y"]], [[1, 2, 3]])


def damaged(at: tuple[str, ...], value: object) -> Any:
    """What is in the place of one value of the state."""
    return pytest.param(at, value, id=f"{'.'.join(at)}={json.dumps(value)[:20]}")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *(damaged((key,), value) for key in store.State.__annotations__ if key != "version" for value in WRONG),
        *(damaged(("fields", key), value) for key in FieldsState.__annotations__ for value in WRONG),
        damaged(("fields", "fields"), [["n", 99]]),
        damaged(("fields", "bits"), [["no such attribute", [], []]]),
        damaged(("fields", "bits"), [["n", [[0, 63]], []]]),
        damaged(("fields", "symbols"), [["x", 2**70]]),
        *(damaged((key,), [10**6]) for key in ("free", "free_entries", "confirm")),
        damaged(("free",), [0]),
        damaged(("entries",), []),
        damaged(("entries",), [[10**6, []]]),
        damaged(("entries",), [[0, [10**6]]]),
        damaged(("entries",), [[0, [1]]]),
    ],
)
def test_a_state_that_says_something_else_is_damaged(saved: Path, at: tuple[str, ...], value: object) -> None:
    state = json.loads((saved / "state.json").read_text())
    inner = state
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    (saved / "state.json").write_text(json.dumps(state))
    with pytest.raises(sluice.MatcherError, match=r"index is damaged \("):
        sluice.Matcher.open(saved)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "\0",
        "[" * 100_000,
        f'{{"version": {store.VERSION}, "fields": {"[" * 900}',
        f'{{"version": {store.VERSION}}}',
    ],
    ids=["empty", "cut", "noise", "deep", "deep and cut", "nothing but a version"],
)
def test_a_state_that_does_not_say_enough_is_damaged(saved: Path, text: str) -> None:
    (saved / "state.json").write_text(text)
    with pytest.raises(sluice.MatcherError, match=r"index is damaged \("):
        sluice.Matcher.open(saved)


def test_a_state_that_denies_ids_is_damaged(tmp_path: Path) -> None:
    matcher = sluice.Matcher()
    matcher.add("a = 1", id=7)
    matcher.save(tmp_path / "index")
    state = tmp_path / "index" / "state.json"
    state.write_text(state.read_text().replace('"identity": false', '"identity": true'))
    with pytest.raises(sluice.MatcherError, match=r"index is damaged \(its ids"):
        sluice.Matcher.open(tmp_path / "index")


def test_an_array_of_another_type_is_refused(saved: Path) -> None:
    for name in ("heap", "places", "owner", "ids"):
        right = np.load(saved / f"{name}.npy")
        np.save(saved / f"{name}.npy", right.astype(np.float32))
        with pytest.raises(sluice.MatcherError, match="index"):
            sluice.Matcher.open(saved)
        np.save(saved / f"{name}.npy", right)
    assert len(sluice.Matcher.open(saved))


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(sluice.MatcherError, match="not a saved matcher"):
        sluice.Matcher.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(sluice.MatcherError, match="not a saved matcher"):
        sluice.Matcher.open(tmp_path / "file")
