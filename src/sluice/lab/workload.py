"""The consumers of the experiments (section 6.2.2): clients of ten subscriptions each, spread evenly over the local brokers.

A *quote* subscription asks for one of 1,000 stocks; an *interval* subscription also for a price from 50 - t1 to 50 + t2 with
t1 and t2 uniform in [0, 50]. One seed fixes all, and a seed draws the same stocks for both kinds of filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from sluice.model.filter import Filter
from sluice.model.ordered import between, equals
from sluice.model.subscription import Subscription

Filters = Literal["quote", "interval"]
FILTERS: tuple[Filters, ...] = ("quote", "interval")

STOCKS = 1_000
SUBSCRIPTIONS_PER_CLIENT = 10
MIDDLE_PRICE = 50.0
MOST_DEVIATION = 50.0


@dataclass(frozen=True, slots=True)
class Consumer:
    """A client of the experiment: where it is connected (a number of a local broker) and what it may ask for."""

    number: int
    home: int
    wanted: tuple[Subscription, ...]


def consumers(subscriptions: int, homes: int, filters: Filters, seed: int = 1) -> Iterator[Consumer]:
    """Clients with so many subscriptions in all; no two homes differ by more than one client.

    >>> for one in consumers(25, 2, "quote"):
    ...     print(one.number, one.home, len(one.wanted), one.wanted[0])
    0 0 10 symbol = 'S993'
    1 1 10 symbol = 'S630'
    2 0 5 symbol = 'S84'
    """
    chance = Random(f"stocks/{seed}")
    draw = _Drawer(filters, seed)
    for number, home in enumerate(homes_of(clients_for(subscriptions), homes, seed)):
        count = min(SUBSCRIPTIONS_PER_CLIENT, subscriptions - number * SUBSCRIPTIONS_PER_CLIENT)
        stocks = chance.sample(range(STOCKS), count)
        yield Consumer(number, home, tuple(draw(stock) for stock in stocks))


def clients_for(subscriptions: int) -> int:
    """How many clients have so many subscriptions; the last one may have fewer than the others."""
    return -(-subscriptions // SUBSCRIPTIONS_PER_CLIENT)


def homes_of(clients: int, homes: int, seed: int) -> list[int]:
    """The local broker of each client: in turn, and in a random order, so that a few clients do not all sit near the root."""
    order = list(range(homes))
    Random(f"homes/{seed}").shuffle(order)
    return [order[number % homes] for number in range(clients)]


def quote(stock: int) -> Subscription:
    """All quotes of a stock.

    >>> print(quote(7))
    symbol = 'S7'
    """
    return Subscription([Filter.of({"symbol": equals(f"S{stock}")})])


def quote_interval(stock: int, low: float, high: float) -> Subscription:
    """The quotes of a stock with a price in a range.

    >>> print(quote_interval(7, 10.0, 20.5))
    price BETWEEN 10.0 AND 20.5 AND symbol = 'S7'
    """
    return Subscription([Filter.of({"symbol": equals(f"S{stock}"), "price": between(low, high)})])


class _Drawer:
    """Makes the subscription to a stock. There are only so many quote subscriptions: each is made once."""

    def __init__(self, filters: Filters, seed: int) -> None:
        # Another stream of chance than that of the stocks, so that they are the same for both kinds of filters.
        self._chance = Random(f"prices/{seed}")
        self._quotes = [quote(stock) for stock in range(STOCKS)] if filters == "quote" else None

    def __call__(self, stock: int) -> Subscription:
        if self._quotes is not None:
            return self._quotes[stock]
        low = MIDDLE_PRICE - self._chance.uniform(0, MOST_DEVIATION)
        return quote_interval(stock, low, MIDDLE_PRICE + self._chance.uniform(0, MOST_DEVIATION))
