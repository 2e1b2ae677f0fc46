"""Names of a package that are imported when somebody first asks for them: `sluice --help` needs no compiler, and no Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def imported_when_asked(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package that has each of these names from the module that is its home."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
