"""The small world of simulated runs: every record that is ever published, and what people ask for.

Three attributes with a handful of values each make at most a hundred different records (`POINTS`), so that equal, covering,
overlapping, disjoint and mergeable filters all occur in every run, and two filters can be compared on every record there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import product
from random import Random
from typing import Any

from sluice.model.parse import parse

parsed = cache(parse)

SYMBOLS = ("A", "B", "C")
PRICES = range(6)
VOLUMES = range(2)

Record = Mapping[str, Any]


def _points() -> tuple[Record, ...]:
    """Every record of the domain, also those that lack an attribute."""
    return tuple(
        {name: value for name, value in (("symbol", symbol), ("price", price), ("volume", volume)) if value is not None}
        for symbol, price, volume in product((*SYMBOLS, None), (*PRICES, None), (*VOLUMES, None))
    )


#: Every record that is ever published.
POINTS = _points()


#: What the producers of a factory make, by their names.
SERVICES = {symbol: parse(f"symbol = '{symbol}'") for symbol in SYMBOLS}


def _pool(random: Random, size: int) -> tuple[str, ...]:
    """Texts of filters over the domain, all different."""
    found: dict[str, None] = {}
    while len(found) < size:
        found[_text(random)] = None
    return tuple(found)


def _text(random: Random) -> str:
    shape = random.random()
    if shape < 0.3:
        return _prices(random)
    if shape < 0.4:
        return _symbols(random)
    if shape < 0.7:
        return f"{_symbols(random)} AND {_prices(random)}"
    if shape < 0.8:
        return f"{_prices(random)} AND volume = {random.choice(VOLUMES)}"
    if shape < 0.9:
        return f"{_symbols(random)} AND {_prices(random)} OR {_symbols(random)} AND {_prices(random)}"
    return random.choice(
        (
            "price > volume",
            f"price + volume > {random.choice(PRICES)}",
            f"symbol = '{random.choice(SYMBOLS)}' AND price - volume > {random.choice((0, 2))}",
            "symbol IS NULL",
            f"NOT {_prices(random)}",
            "true",
            "price > 3 AND price < 1",
        )
    )


def _symbols(random: Random) -> str:
    some = sorted(random.sample(SYMBOLS, random.choice((1, 1, 2))))
    return f"symbol = '{some[0]}'" if len(some) == 1 else "symbol IN ({})".format(", ".join(f"'{one}'" for one in some))


def _prices(random: Random) -> str:
    low, high = sorted((random.choice(PRICES), random.choice(PRICES)))
    return random.choice(
        (
            f"price BETWEEN {low} AND {high}",
            f"price BETWEEN {low} AND {high}",
            f"price >= {low}",
            f"price < {high}",
            f"(price < {low} OR price > {high})",
        )
    )


#: What is asked for, in all runs; each run takes a few of them.
TEXTS = _pool(Random("texts"), 160)


@cache
def records_of(text: str) -> tuple[Record, ...]:
    """The records of the domain that match a text."""
    return tuple(point for point in POINTS if parsed(text).matches(point))
