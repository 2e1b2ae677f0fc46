"""`sluice covers`: whether one WHERE takes in all that another does, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sluice.errors import SluiceError
from sluice.verb import Verb

if TYPE_CHECKING:
    from sluice.model.filter import Filter
    from sluice.model.subscription import Subscription

YES, NO = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `covers` takes."""
    parser.add_argument("a", metavar="A", help="the wider one")
    parser.add_argument("b", metavar="B", help="the narrower one")
    parser.set_defaults(run=covers)


COVERS = Verb(
    "covers",
    "tell whether one WHERE takes in all that another does",
    """\
Tell whether every notification that matches B matches A too, and why. The exit status is 0 for yes,
1 for no and 2 for an error. A yes is certain; a no can also mean that no proof was found.""",
    """\
  sluice covers "price > 100" "price BETWEEN 110 AND 120"
  sluice covers "symbol IN ('IBM', 'SAP')" "symbol LIKE 'I%'" || echo no
""",
    add_arguments,
)


def covers(arguments: argparse.Namespace) -> int:
    """Prints the answer and its reasons; 0 for yes, 1 for no."""
    from sluice import parse

    a, b = (_parse_named(name, text, parse) for name, text in (("A", arguments.a), ("B", arguments.b)))
    covered = a.covers(b)
    print("yes" if covered else "no")
    for line in _why_covers(a, b) if covered else _why_not_covers(a, b):
        print(f"  {line}")
    return YES if covered else NO


def _parse_named(name: str, text: str, parse: Any) -> Subscription:
    try:
        subscription: Subscription = parse(text)
    except SluiceError as error:
        raise SluiceError(f"{name}: {error}") from error
    return subscription


def _why_covers(a: Subscription, b: Subscription) -> Iterator[str]:
    if not b.filters:
        yield "nothing can match B"
    for theirs in b.filters:
        mine = next((box for box in a.filters if box.covers(theirs)), None)
        yield f"{theirs} lies inside {mine or 'the boxes of A together'}"


def _why_not_covers(a: Subscription, b: Subscription) -> Iterator[str]:
    """For each box of B that is left over, what stands against it in each box of A."""
    for theirs in b.filters:
        if any(mine.covers(theirs) for mine in a.filters):
            continue
        yield f"{theirs} does not lie inside A"
        if not a.filters:
            yield "  nothing can match A"
        for mine in a.filters:
            yield f"  not inside {mine}: {_obstacle(mine, theirs)}"


def _obstacle(mine: Filter, theirs: Filter) -> str:
    """The first thing that `mine` asks for and `theirs` does not ensure."""
    for name, side in mine.constraints.items():
        if name not in theirs.constraints:
            return f"B does not ask for {side.to_sql(name)}"
        if not side.covers(theirs.constraints[name]):
            return f"{side.to_sql(name)} does not follow from {theirs.constraints[name].to_sql(name)}"
    residual = next(residual for residual in mine.residuals if residual not in theirs.residuals)
    return f"B does not ask for {residual.to_sql()}"
