"""A stock market that never closes: endless quotes, a thousand symbols, made from a seed.

A few symbols are quoted very often and most rarely (Zipf's law). Each price wanders at random but is drawn back to
where it began, so that ranges around it stay meaningful however long the stream runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

EXCHANGES = ("AMS", "FRA", "HKG", "LSE", "NDQ", "NYS", "PAR", "SWX", "TSE", "TSX")
SYMBOLS = 1_000

_KNOWN = {
    "IBM": 118.0,
    "AAPL": 190.0,
    "MSFT": 410.0,
    "ORCL": 125.0,
    "INTC": 42.0,
    "AMD": 165.0,
    "SAP": 180.0,
    "NOK": 4.0,
}
_STEP = 0.003  # of one quote to the next of its symbol, relative to the price
_PULL = 0.01  # of the way back to where it began, once a batch


class Market:
    """An endless stream of quotes; two markets of one seed say the same.

    >>> Market(seed=1).quotes(3).schema.names
    ['symbol', 'price', 'volume', 'exchange']
    >>> Market(seed=1).quotes(3).equals(Market(seed=1).quotes(3))
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.symbols = (*_KNOWN, *_more_symbols(SYMBOLS - len(_KNOWN)))
        prices = np.exp(self._random.uniform(np.log(5), np.log(500), SYMBOLS))
        prices[: len(_KNOWN)] = list(_KNOWN.values())
        self.opening = np.round(prices, 2)
        self._drift = np.zeros(SYMBOLS)
        self._names = pa.array(self.symbols)
        self._exchanges = pa.array(EXCHANGES)

    def quotes(self, count: int) -> Any:
        """The next quotes, as a pyarrow.RecordBatch of plain columns."""
        random = self._random
        symbol = popular(random, SYMBOLS, count)
        price = np.maximum(0.01, np.round(self.opening[symbol] * np.exp(self._wander(symbol)), 2))
        return pa.RecordBatch.from_pydict(
            {
                "symbol": self._names.take(pa.array(symbol)),
                "price": price,
                "volume": random.integers(1, 10_001, count),
                "exchange": self._exchanges.take(pa.array(random.integers(0, len(EXCHANGES), count))),
            }
        )

    def _wander(self, symbol: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How far (in logarithms) each quote is from its opening price; quotes of one symbol follow one another."""
        order = np.argsort(symbol, kind="stable")
        grouped = symbol[order]
        first = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
        walked = np.cumsum(self._random.normal(0, _STEP, len(symbol)))
        before = np.r_[0.0, walked][first]
        walked -= np.repeat(before, np.diff(np.r_[first, len(symbol)]))
        drift = np.empty(len(symbol))
        drift[order] = self._drift[grouped] + walked
        self._drift[symbol] = drift  # for a symbol quoted twice the later one stays
        self._drift *= 1 - _PULL
        return drift


def popular(random: np.random.Generator, kinds: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Draws of 0 to kinds - 1, where k comes up in proportion to 1 / (k + 1)."""
    share = np.cumsum(1 / np.arange(1, kinds + 1))
    return np.searchsorted(share, random.uniform(0, share[-1], count), side="right").astype(np.int64)


def _more_symbols(count: int) -> list[str]:
    """Made-up symbols of four letters: consonant, vowel, consonant, X; none of them is a known one."""
    made = (a + b + c + "X" for a in "BCDFGHKLMNPRSTVZ" for b in "AEIOU" for c in "BDFGKLMNPRSTVZ")
    return [symbol for symbol, _ in zip(made, range(count), strict=False)]
