"""Tables for people whose terminal may be narrow: no word of them is cut off.

A table that is too wide is shown as several, one below the other, each of them with the first column.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions
from rich.measure import measure_renderables
from rich.table import Column, Table

#: What a column takes besides its text.
_SPACE_COLUMNS = 3


class Folding:
    """A table with a line for each of the things that its first column names."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The table, or those that it is shown as."""
        first, *others = self._table.columns
        width = options.max_width - 1

        def taken(column: Column) -> int:
            return measure_renderables(console, options, [column.header, *column.cells]).maximum + _SPACE_COLUMNS

        parts: list[list[Column]] = [[]]
        room = width - taken(first)
        for column in others:
            if parts[-1] and taken(column) > room:
                parts.append([])
                room = width - taken(first)
            parts[-1].append(column)
            room -= taken(column)
        yield from (self._part([first, *part]) for part in parts)

    def _part(self, columns: list[Column]) -> Table:
        part = Table(box=self._table.box)
        for column in columns:
            part.add_column(column.header, justify=column.justify)
        for cells in zip(*(column.cells for column in columns), strict=True):
            part.add_row(*cells)
        return part
