"""Patterns over time: what several events mean together, found on Spark and told as new notifications.

A pattern is declared (`pattern`, or as TOML in `rules`), picks its events out of the stream (`select`), is evaluated by a pure
machine for each key (`evaluate`), and run by Spark (`stream`); `command` is `sluice compose`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence
    from sluice.spark.compose.rules import Rules, read_rules
    from sluice.spark.compose.stream import compose

__all__ = ["Absence", "Change", "Count", "Pattern", "Rules", "Sequence", "compose", "read_rules"]

#: Where the names live that are imported only when somebody asks for them: the help of the command line needs no Spark.
_HOMES = {
    **dict.fromkeys(("Absence", "Change", "Count", "Pattern", "Sequence"), "pattern"),
    **dict.fromkeys(("Rules", "read_rules"), "rules"),
    "compose": "stream",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
