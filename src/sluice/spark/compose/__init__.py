"""Patterns over time: what several events mean together, found on Spark and told as new notifications.

A pattern is declared (`pattern`, or as TOML in `rules`), picks its events out of the stream (`select`), is evaluated by a pure
machine for each key (`evaluate`), and run by Spark (`stream`); `command` is `sluice compose`.
"""

from sluice.spark.compose.pattern import Absence, Change, Count, Pattern, Sequence
from sluice.spark.compose.rules import Rules, read_rules
from sluice.spark.compose.stream import compose

__all__ = ["Absence", "Change", "Count", "Pattern", "Rules", "Sequence", "compose", "read_rules"]
