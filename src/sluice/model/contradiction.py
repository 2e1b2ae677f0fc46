"""Why nothing can match a WHERE: the parts of it that are never true, or that exclude each other, in words.

The smallest group of conditions that cannot hold together is looked for: one alone, then two, then all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from sluice.model.compile import compile_filters
from sluice.model.expression import to_sql
from sluice.model.language import parse_predicate
from sluice.model.predicate import And, Comparison, Constant, Or, Predicate
from sluice.model.subscription import Subscription


def contradictions(text: str) -> list[str]:
    """What stands in the way of every record, a line each; none if something can match.

    >>> contradictions("symbol = 'IBM' AND price > 10 AND price < 5")
    ['price > 10 and price < 5 exclude each other']
    >>> contradictions("price = NULL")
    ['price = NULL is never true, as nothing compares with NULL: write IS NULL or IS NOT NULL']
    >>> contradictions("price > 10")
    []
    """
    predicate = parse_predicate(text)
    return [*_reasons(predicate)] if _is_impossible(predicate) else []


def _reasons(node: Predicate) -> Iterator[str]:
    """Why a predicate that is never true is not."""
    match node:
        case Or(items):
            for item in items:
                yield from _reasons(item)
        case And(items):
            if never := [item for item in items if _is_impossible(item)]:
                yield from _reasons(never[0])
                return
            pair = next((pair for pair in combinations(items, 2) if _is_impossible(And(pair))), items)
            yield f"{' and '.join(_words(item) for item in pair)} exclude each other"
        case Comparison(_, Constant(None), _) | Comparison(_, _, Constant(None)):
            yield f"{_words(node)} is never true, as nothing compares with NULL: write IS NULL or IS NOT NULL"
        case _:
            yield f"{_words(node)} is never true"


def _is_impossible(predicate: Predicate) -> bool:
    return Subscription(compile_filters(predicate)).is_empty


def _words(node: Predicate) -> str:
    return f"({to_sql(node)})" if isinstance(node, Or) else to_sql(node)
