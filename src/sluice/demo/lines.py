"""The demo in plain lines: the figures of a second, and the summary at the end."""

from __future__ import annotations

from sluice.demo.feed import BATCH_QUOTES, Feed, Quote
from sluice.demo.meter import Rates


def figures(rates: Rates) -> str:
    """How fast it went, on one line.

    >>> print(figures(Rates(2.0, 2048, 6000, 0.25, 0.5)))
         1,024 quotes/s          3,000 matches/s   1,024 quotes in 0.25 ms, 99% within 0.50 ms
    """
    return (
        f"{rates.quotes_per_second:>10,.0f} quotes/s {rates.matches_per_second:>14,.0f} matches/s   "
        f"{BATCH_QUOTES:,} quotes in {rates.median_milliseconds:.2f} ms, 99% within {rates.slow_milliseconds:.2f} ms"
    )


def summary(rates: Rates, feed: Feed) -> str:
    """What happened in all, and what the named subscribers received."""
    lines = [
        f"{rates.quotes:,} quotes in {rates.seconds:.1f} s against {len(feed.matcher):,} subscriptions: "
        f"{rates.matches:,} matches",
        figures(rates),
    ]
    width = max(len(inbox.owner.where) for inbox in feed.inboxes)
    for inbox in feed.inboxes:
        last = f", last {spoken(inbox.last)}" if inbox.last else ""
        lines.append(f"  {inbox.owner.name:<8} {inbox.owner.where:<{width}}  received {inbox.received:,}{last}")
    return "\n".join(lines)


def spoken(quote: Quote) -> str:
    """A quote in words.

    >>> spoken(Quote("IBM", 121.5, 2000, "NYS", 7))
    'IBM 121.50 × 2,000'
    """
    return f"{quote.symbol} {quote.price:.2f} × {quote.volume:,}"
