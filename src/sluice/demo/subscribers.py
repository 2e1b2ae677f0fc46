"""Those who asked: a few people with a name, whose quotes can be watched, and a crowd of any size made from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sluice.demo.market import EXCHANGES, SYMBOLS, Market, popular


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Somebody, and what they want to hear of."""

    name: str
    where: str


NAMED = (
    Subscriber("Ada", "symbol = 'IBM' AND price > 120"),
    Subscriber("Grace", "symbol IN ('AAPL', 'MSFT') AND volume >= 9900"),
    Subscriber("Edsger", "symbol LIKE 'RU%' AND exchange <> 'NYS'"),
    Subscriber("Barbara", "symbol = 'SAP' AND price * volume > 1500000"),
    Subscriber("Alan", "symbol = 'NOK' AND NOT price BETWEEN 3.5 AND 4.5"),
)


def crowd(market: Market, count: int, seed: int) -> Iterator[str]:
    """The texts of many subscriptions: a symbol and a price range; half name exchanges, a fifth ask for a volume.

    >>> next(crowd(Market(seed=1), 1, seed=1))
    "symbol = '...' AND price BETWEEN ... AND ..."
    """
    random = np.random.default_rng(seed)
    symbol = popular(random, SYMBOLS, count)
    opening = market.opening[symbol]
    low = np.round(opening * (1 - random.uniform(0, 0.3, count)), 2).tolist()
    high = np.round(opening * (1 + random.uniform(0, 0.3, count)), 2).tolist()
    exchanges = np.where(random.random(count) < 0.5, random.integers(2, 5, count), 0).tolist()
    chosen = np.argsort(random.random((count, len(EXCHANGES))), axis=1).tolist()
    volume = np.where(random.random(count) < 0.2, random.integers(0, 10_001, count), -1).tolist()
    for i in range(count):
        where = f"symbol = '{market.symbols[symbol[i]]}' AND price BETWEEN {low[i]} AND {high[i]}"
        if exchanges[i]:
            where += f" AND exchange IN ({', '.join(repr(EXCHANGES[k]) for k in sorted(chosen[i][: exchanges[i]]))})"
        if volume[i] >= 0:
            where += f" AND volume > {volume[i]}"
        yield where
