"""The demo on a terminal's whole screen: figures, a ticker of the last quotes, the inboxes of the named subscribers."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sluice.demo.feed import BATCH_QUOTES, Delivery, Feed, Inbox, Quote
from sluice.demo.lines import spoken
from sluice.demo.meter import Rates

TICKER_ROWS = 12


def draw(rates: Rates, delivery: Delivery, feed: Feed) -> RenderableType:
    """The screen as it should look now. A low terminal cuts its end off: what matters least comes last."""
    return Group(
        Panel(_figures(rates, len(feed.matcher)), title="sluice demo, Ctrl-C stops it", title_align="left"),
        Panel(_inboxes(feed.inboxes), title="what some subscribers received", title_align="left"),
        Panel(_ticker(delivery.last(TICKER_ROWS)), title="the last quotes", title_align="left"),
    )


def _figures(rates: Rates, subscriptions: int) -> Table:
    figures = {
        "subscriptions": f"{subscriptions:,}",
        "quotes/s": f"{rates.quotes_per_second:,.0f}",
        "matches/s": f"{rates.matches_per_second:,.0f}",
        f"{BATCH_QUOTES:,} quotes in": f"{rates.median_milliseconds:.2f} ms",
        "99% within": f"{rates.slow_milliseconds:.2f} ms",
    }
    table = Table(box=None, expand=True, header_style="dim")
    for name in figures:
        table.add_column(name, justify="center", style="bold cyan", ratio=1)
    table.add_row(*figures.values())
    return table


def _ticker(quotes: list[Quote]) -> Table:
    table = Table(box=None, expand=True, header_style="dim")
    table.add_column("symbol", style="bold")
    table.add_column("price", justify="right")
    table.add_column("volume", justify="right")
    table.add_column("exchange")
    table.add_column("subscribers who got it", justify="right", style="cyan")
    for quote in quotes:
        table.add_row(quote.symbol, f"{quote.price:,.2f}", f"{quote.volume:,}", quote.exchange, f"{quote.receivers:,}")
    return table


def _inboxes(inboxes: tuple[Inbox, ...]) -> Table:
    table = Table(box=None, expand=True, header_style="dim")
    table.add_column("who", style="bold")
    table.add_column("wants")
    table.add_column("received", justify="right", style="cyan")
    table.add_column("last")
    for inbox in inboxes:
        last = Text(spoken(inbox.last)) if inbox.last else Text("nothing yet", style="dim")
        table.add_row(inbox.owner.name, Text(inbox.owner.where), f"{inbox.received:,}", last)
    return table
