"""The house rules, checked: which room may import which, what a module must have, what must not be in it."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "sluice"

#: A room imports from itself and from the rooms before it.
ROOMS = (
    "model",
    "match",
    "protocol",
    "files",
    "net",
    "broker",
    "client",
    "spark",
    "console",
    "sim",
    "lab",
    "demo",
    "usage",
    "cli",
)
#: Everybody may import these; they import no room.
GROUND = ("errors", "lazy", "limits", "verb")
#: These use the package the way its users do, through `from sluice import ...`.
USERS = ("demo", "cli")
#: A pure core knows no clock, chance, network, thread or environment.
IMPURE = {"asyncio", "socket", "time", "random", "threading", "uuid", "os"}
PURE_ROOMS = ("model", "protocol")
#: Composed of cores, and as pure as they are.
PURE_MODULES = (*(PACKAGE / "broker" / "core").glob("*.py"), *(PACKAGE / "client" / "session").glob("*.py"))

MODULES = sorted(PACKAGE.rglob("*.py"))
TEXTS = sorted(
    path
    for pattern in ("*", ".ci/*", "src/**/*", "tests/**/*", "bench/**/*", "docs/**/*", "tools/**/*")
    for path in ROOT.glob(pattern)
    if path.suffix in {".py", ".md", ".toml", ".txt", ".sh", ".json", ".yml", ""}
    and path.is_file()
    and not {"__pycache__", ".git"} & {*path.parts}
)
PAGES = [path for path in TEXTS if path.suffix == ".md"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def room_of(path: Path) -> str:
    """The room a module is in: its folder, or its own name right under the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """The full names of the modules that a module imports, wherever in it; `from m import n` gives m and m.n."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                here = ("sluice", *path.relative_to(PACKAGE).parts[:-1])
                module = ".".join((*here[: len(here) - node.level + 1], *filter(None, [module])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def packages_imported(path: Path) -> set[str]:
    """What a module imports, by the first names."""
    return {name.partition(".")[0] for name in imports_of(path)}


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a module imports from; "sluice" where it takes a name from the package itself."""
    known = {*GROUND, *ROOMS, "__init__", "__main__"}
    found = set()
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "sluice" and rest:
            room = rest.partition(".")[0]
            found.add(room if room in known else "sluice")
    return found


def test_imports_point_upward() -> None:
    known = {*GROUND, *ROOMS}
    for path in MODULES:
        room = room_of(path)
        if room in ("__init__", "__main__"):
            continue
        assert room in known, f"{named(path)} is in no known room: give it a place in ROOMS"
        own = GROUND if room in GROUND else (*GROUND, *ROOMS[: ROOMS.index(room) + 1])
        allowed = {*own, *(["sluice"] if room in USERS else [])}
        assert rooms_imported(path) <= allowed, named(path)


def test_the_tour_shows_every_room_where_it_is() -> None:
    tree = (ROOT / "docs" / "tour.md").read_text().split("src/sluice\n", 1)[1].split("```", 1)[0]
    shown: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        outer = [room for room in shown if "/" not in room][-1:] if line.startswith("    ") else []
        shown.append("/".join((*outer, name)))
    there = [path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*/__init__.py")]
    assert sorted(shown) == sorted(there)
    assert [room for room in ROOMS if room in shown] == [room for room in shown if "/" not in room]


def test_a_module_says_what_it_promises() -> None:
    silent = [named(path) for path in MODULES if not ast.get_docstring(parsed(path))]
    assert not silent, "these modules have no docstring"


def test_a_module_is_short() -> None:
    long = [named(path) for path in MODULES if len(text_of(path).splitlines()) > 600]
    assert not long, "over 600 lines: look for a second noun in them"


def test_pure_rooms_stay_pure() -> None:
    pure = [*(path for path in MODULES if room_of(path) in PURE_ROOMS), *PURE_MODULES]
    assert not [named(path) for path in pure if packages_imported(path) & IMPURE]


def test_nothing_is_pickled() -> None:
    picklers = {"pickle", "cloudpickle", "marshal", "shelve"}
    assert not [named(path) for path in MODULES if packages_imported(path) & picklers]
    assert not [named(path) for path in MODULES if "allow_pickle=True" in text_of(path)]


def test_no_path_of_a_machine() -> None:
    assert not found_in(TEXTS, r"(?<![\w.~])/(?:work|tmp|root|home|Users)/[\w.-]+")


def test_nothing_is_left_for_later() -> None:
    programs = [path for path in TEXTS if path.suffix == ".py"]
    assert not found_in(programs, r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def found_in(paths: list[Path], pattern: str) -> dict[str, list[str]]:
    """What a pattern finds in files, by their names."""
    return {named(path): found for path in paths if (found := re.findall(pattern, text_of(path)))}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_links_resolve(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file) if file else path
        assert page.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors_of(page), f"{page.name} has no heading for #{anchor}"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a rendered page has: its headings in small letters, words joined by dashes."""
    headings = re.findall(r"^#+ +(.*)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def package_of(requirement: str) -> str:
    return re.split(r"[=<>!~;\[ ]", requirement, maxsplit=1)[0]


@pytest.mark.parametrize("requirement", [one for group in DEPENDENCIES.values() for one in group])
def test_dependencies_are_pinned_and_explained(requirement: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][\w.]*", requirement), "pin it with =="
    assert requirement in (ROOT / "tools" / "constraints.txt").read_text().splitlines()
    assert f"`{package_of(requirement)}`" in (ROOT / "docs" / "dependencies.md").read_text()


def test_constraints_are_names_and_versions() -> None:
    for line in (ROOT / "tools" / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][\w.]*", line), line


def test_the_bare_package_needs_what_it_imports() -> None:
    """Outside the rooms that have an extra of their own, third-party imports and dependencies are the same."""
    extra_rooms = {"spark", "console", "lab"}
    imported = {name for path in MODULES if room_of(path) not in extra_rooms for name in packages_imported(path)}
    foreign = imported - set(sys.stdlib_module_names) - {"sluice", "__future__", ""}
    assert foreign == {package_of(one).replace("-", "_") for one in DEPENDENCIES[""]}


def test_continuous_integration_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


def test_the_package_is_code_alone() -> None:
    """What a merge or an editor leaves behind would go out with the package."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert [named(path) for path in files if path.suffix != ".py"] == ["src/sluice/py.typed"]
