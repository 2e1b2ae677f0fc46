"""`sluice explain`: what a WHERE means, as its canonical form and its boxes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.verb import Verb

if TYPE_CHECKING:
    from sluice.model.filter import Filter
    from sluice.model.subscription import Subscription


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `explain` takes."""
    parser.add_argument("where", metavar="WHERE", help="the text of a subscription")
    parser.set_defaults(run=explain)


EXPLAIN = Verb(
    "explain",
    "show what a WHERE means: its canonical form and its boxes",
    """\
Show the canonical form of a WHERE and the boxes it is a union of. What no box can hold, such as
arithmetic across attributes, is residual: it is evaluated after its box has matched.""",
    """\
  sluice explain "symbol = 'IBM' AND price > 120"
  sluice explain "NOT (price BETWEEN 10 AND 20) OR price * volume > 1000000"
""",
    add_arguments,
)


def explain(arguments: argparse.Namespace) -> int:
    """Prints it; 0 when done."""
    from sluice import parse

    subscription = parse(arguments.where)
    if sys.stdout.isatty():
        _print_pretty(subscription)
    else:
        print("\n".join(explanation(subscription)))
    if subscription.is_empty:
        from sluice.model.contradiction import contradictions

        print("\n".join(f"  {line}" for line in contradictions(arguments.where)))
    return 0


def explanation(subscription: Subscription) -> Iterator[str]:
    """The canonical form, then each box with its sides and what is residual, as plain lines."""
    yield f"canonical: {subscription.to_sql()}"
    if not subscription.filters:
        yield "no box: nothing can match"
    for number, box in enumerate(subscription.filters, 1):
        yield f"box {number} of {len(subscription.filters)}{'' if _sides(box) else ': everything matches'}"
        width = max((len(name) for name, _ in _sides(box)), default=0)
        yield from (f"  {name:<{width}}  {text}" for name, text in _sides(box))


def _sides(box: Filter) -> list[tuple[str, str]]:
    """The attribute and the constraint of each side; what is residual comes last, under that name."""
    sides = [(name, side.to_sql(name)) for name, side in box.constraints.items()]
    return sides + [("(residual)", residual.to_sql()) for residual in box.residuals]


def _print_pretty(subscription: Subscription) -> None:
    """The same for people at a terminal."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    def sql(text: str) -> Syntax:
        return Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True)

    console = Console()
    console.print(Panel(sql(subscription.to_sql()), title="canonical form", title_align="left"))
    if not subscription.filters:
        console.print("no box: nothing can match", style="yellow")
    for number, box in enumerate(subscription.filters, 1):
        table = Table.grid(padding=(0, 2))
        for name, text in _sides(box) or [("", "everything matches")]:
            table.add_row(Text(name, style="yellow" if name == "(residual)" else "bold"), sql(text))
        console.print(Panel(table, title=f"box {number} of {len(subscription.filters)}", title_align="left"))
