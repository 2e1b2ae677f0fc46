"""The demo: the same quotes for the same seed, right deliveries, a clean end, in a terminal and elsewhere."""

from __future__ import annotations

import io
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Event

import numpy as np
import pytest
from rich.console import Console

import sluice
from sluice.demo.feed import BATCH_QUOTES, Feed
from sluice.demo.market import EXCHANGES, SYMBOLS, Market
from sluice.demo.show import flow, run
from sluice.demo.subscribers import NAMED, crowd
from tests.patience import PATIENCE_SECONDS
from tests.terminal import at_terminal


def ticking(step: float = 0.1) -> Callable[[], float]:
    """A clock that goes on by itself, a little with every look at it."""
    return itertools.count(step=step).__next__


def test_quotes_follow_the_seed() -> None:
    one, same, other = Market(1), Market(1), Market(2)
    for _ in range(3):
        quotes = one.quotes(100)
        assert quotes.equals(same.quotes(100))
        assert not quotes.equals(other.quotes(100))


def test_quotes_look_like_quotes() -> None:
    market = Market(3)
    for _ in range(200):
        quotes = market.quotes(BATCH_QUOTES)
    assert len(market.symbols) == len(set(market.symbols)) == SYMBOLS
    assert set(quotes.column("symbol").to_pylist()) <= set(market.symbols)
    assert set(quotes.column("exchange").to_pylist()) == set(EXCHANGES)
    opening = dict(zip(market.symbols, market.opening.tolist(), strict=True))
    ratios = [quote["price"] / opening[quote["symbol"]] for quote in quotes.to_pylist()]
    assert 0.5 < min(ratios) < max(ratios) < 2, "prices are drawn back to where they began"


def test_each_quote_of_a_symbol_follows_the_one_before() -> None:
    market = Market(4)
    prices = [
        quote["price"] for _ in range(5) for quote in market.quotes(2_000).to_pylist() if quote["symbol"] == "IBM"
    ]
    assert len(prices) > 500
    assert max(abs(np.diff(np.log(prices)))) < 0.05


def test_the_feed_delivers_what_was_asked_for() -> None:
    feed = Feed.open(300, seed=5, clock=ticking())
    texts = [*(subscriber.where for subscriber in NAMED), *crowd(Market(5), 300, seed=5)]
    wanted = [sluice.parse(text) for text in texts]
    assert len(feed.matcher) == len(texts)
    received = [0] * len(NAMED)
    for _ in range(3):
        delivery = feed.step()
        for row, quote in enumerate(delivery.quotes.to_pylist()):
            expected = [id for id, subscription in enumerate(wanted) if subscription.matches(quote)]
            assert sorted(delivery.ids[delivery.offsets[row] : delivery.offsets[row + 1]].tolist()) == expected
            assert delivery.quote(row).receivers == len(expected)
            for id in expected:
                if id < len(NAMED):
                    received[id] += 1
                    assert feed.inboxes[id].owner.where == texts[id]
    assert [inbox.received for inbox in feed.inboxes] == received
    assert any(received)
    assert delivery.last(2) == [delivery.quote(BATCH_QUOTES - 1), delivery.quote(BATCH_QUOTES - 2)]


def test_the_flow_ends_when_its_time_is_over() -> None:
    feed = Feed.open(10, seed=6, clock=ticking())
    shown = []
    rates = flow(feed, 5.0, 1.0, lambda rates, delivery: shown.append((rates, delivery)), Event())
    assert 5.0 <= rates.seconds < 6.0
    assert rates.quotes % BATCH_QUOTES == 0
    assert 3 <= len(shown) <= 5
    assert sum(part.quotes for part, _ in shown) <= rates.quotes
    assert rates.quotes_per_second == pytest.approx(rates.quotes / rates.seconds)
    assert 0 < rates.median_milliseconds <= rates.slow_milliseconds


@pytest.mark.parametrize("calls", range(1, 6))
def test_control_c_ends_it_with_its_figures_however_early_it_comes(calls: int) -> None:
    """The clock is looked at before the subscriptions are loaded, after that, and around each batch."""
    tick, out, handlers = ticking(), io.StringIO(), []

    def clock() -> float:
        handlers.append(signal.getsignal(signal.SIGINT))
        if len(handlers) == calls:
            signal.raise_signal(signal.SIGINT)
        return tick()

    before = signal.getsignal(signal.SIGINT)
    if calls == 1:
        with pytest.raises(KeyboardInterrupt):
            run(subscriptions=10, seconds=None, seed=7, console=Console(file=out, width=60), clock=clock)
    else:
        run(subscriptions=10, seconds=100, seed=7, console=Console(file=out, width=60), clock=clock)
        assert f"against {10 + len(NAMED)} subscriptions" in out.getvalue()
        assert len(handlers) < 12
    assert all(handler is not before for handler in handlers)
    assert signal.getsignal(signal.SIGINT) is before


def test_plain_lines_and_a_summary() -> None:
    out = io.StringIO()
    run(subscriptions=100, seconds=4, seed=8, console=Console(file=out, width=60), clock=ticking())
    first, *seconds, total, rates, _ada, _grace, _edsger, _barbara, _alan = out.getvalue().splitlines()
    assert first.startswith(f"{100 + len(NAMED)} subscriptions loaded in ")
    assert seconds and all(" quotes/s " in line and " matches/s " in line for line in (*seconds, rates))
    assert f"against {100 + len(NAMED)} subscriptions" in total
    for subscriber in NAMED:
        assert any(
            line.split()[0] == subscriber.name and subscriber.where in line for line in out.getvalue().splitlines()[-5:]
        )


def test_the_screen_shows_it_all() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, height=40, force_terminal=True, color_system=None)
    run(subscriptions=100, seconds=4, seed=9, console=console, clock=ticking())
    for text in ("quotes/s", "matches/s", "the last quotes", "subscribers who got it", "Ctrl-C stops", NAMED[0].where):
        assert text in out.getvalue()


def test_control_c_in_a_terminal() -> None:
    shown = at_terminal("demo", "--subscriptions", 1000, interrupt_at="the last quotes")
    assert shown.status == 0
    assert "against 1,005 subscriptions" in shown.text
    assert "Traceback" not in shown.text


def test_the_command_ends_by_itself_where_nobody_watches() -> None:
    arguments = [sys.executable, "-m", "sluice", "demo", "--subscriptions", "100", "--seconds", "0.2"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "against 105 subscriptions" in done.stdout
