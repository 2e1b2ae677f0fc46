"""The demo from start to end: load the subscriptions, let the quotes flow until told to stop, sum it up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT, signal
from threading import Event

from rich.console import Console
from rich.live import Live
from rich.progress import Progress

from sluice.demo.feed import Delivery, Feed
from sluice.demo.lines import figures, summary
from sluice.demo.meter import Meter, Rates
from sluice.demo.screen import draw

UNWATCHED_SECONDS = 10.0
_SCREEN_SECONDS = 0.25
_LINE_SECONDS = 1.0


def run(
    *,
    subscriptions: int,
    seconds: float | None,
    seed: int,
    console: Console | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Run for so many seconds; by default until Ctrl-C in a terminal, ten seconds anywhere else."""
    console = console or Console()
    watched = console.is_terminal
    if seconds is None and not watched:
        seconds = UNWATCHED_SECONDS

    def say(text: str) -> None:
        # As it is: a plain line is not markup, and a pipe should see it when it happens.
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        console.file.flush()

    with _interruption() as interrupted:
        started = clock()
        with Progress(console=console, transient=True, disable=not watched) as bar:
            task = bar.add_task(f"loading {subscriptions:,} subscriptions", total=subscriptions)

            def count(loaded: int) -> None:
                bar.update(task, completed=loaded)
                if interrupted.is_set():
                    raise KeyboardInterrupt

            feed = Feed.open(subscriptions, seed, clock, count)
        say(f"{len(feed.matcher):,} subscriptions loaded in {clock() - started:.1f} s")

        if watched:
            with Live(console=console, auto_refresh=False, screen=True) as live:
                rates = flow(
                    feed,
                    seconds,
                    _SCREEN_SECONDS,
                    lambda r, d: live.update(draw(r, d, feed), refresh=True),
                    interrupted,
                )
        else:
            rates = flow(feed, seconds, _LINE_SECONDS, lambda r, _: say(figures(r)), interrupted)
        say(summary(rates, feed))


def flow(
    feed: Feed,
    seconds: float | None,
    every_seconds: float,
    show: Callable[[Rates, Delivery], None],
    interrupted: Event,
) -> Rates:
    """Let the quotes flow until the time is over or the event is set; the figures of all of it."""
    feed.step()  # the first batch meets cold caches and is in nobody's figures
    started = now = feed.clock()
    total, recent = Meter(started), Meter(started)
    while not interrupted.is_set() and (seconds is None or now - started < seconds):
        delivery = feed.step()
        total.count(delivery)
        recent.count(delivery)
        now = feed.clock()
        if now - recent.since >= every_seconds:
            show(recent.rates(now), delivery)
            recent = Meter(now)
    return total.rates(feed.clock())


@contextmanager
def _interruption() -> Iterator[Event]:
    """An event that Ctrl-C sets.

    A KeyboardInterrupt that strikes while a kernel is compiled or called is lost there, becomes another error or ends
    the process: this is entered before the first of them.
    """
    event = Event()
    before = signal(SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal(SIGINT, before)
