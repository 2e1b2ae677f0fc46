"""Patterns over time: what several events mean together, found on Spark and told as new notifications.

A pattern is declared (`pattern`, or as TOML in `rules`), picks its events out of the stream (`select`), is evaluated by a pure
machine for each key (`evaluate`), and run by Spark (`stream`); `command` is `sluice compose`.
"""

from typing import TYPE_CHECKING

from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence
    from sluice.spark.compose.rules import Rules, read_rules
    from sluice.spark.compose.stream import compose

__all__ = ["Absence", "Change", "Count", "Pattern", "Rules", "Sequence", "compose", "read_rules"]

__getattr__ = imported_when_asked(
    __name__,
    {
        **dict.fromkeys(("Absence", "Change", "Count", "Pattern", "Sequence"), f"{__name__}.pattern"),
        **dict.fromkeys(("Rules", "read_rules"), f"{__name__}.rules"),
        "compose": f"{__name__}.stream",
    },
)
