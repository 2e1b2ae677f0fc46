"""Millions of pairs of filter and record against the plain matcher: `python -m tests.soak`.

A round is fixed by its seed: subscriptions of every construct come and go, and after each phase the matcher must say what the
plain matcher says, for single records, lists and Arrow batches, and for filters against filters. The first difference ends
the run with the one command that repeats its round.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import sluice
from sluice.match import naive
from tests.generate import Generator, Record, batch_of, corner_records

PAIRS = 5_000_000


class Difference(Exception):
    """The matcher and the plain matcher do not agree."""


class Round:
    """One life of a matcher, made from one seed."""

    def __init__(self, seed: int, done: Callable[[int], object]) -> None:
        self.generator = Generator(random.Random(seed))
        self.random = self.generator.random
        self.done = done
        self.matcher = sluice.Matcher()
        self.subscriptions: dict[int, sluice.Subscription] = {}
        self.texts: dict[int, str] = {}

    def run(self) -> None:
        """Grows in one go, then changes phase by phase, and is checked after each."""
        count = self.random.choice((20, 200, 1_000, 3_000))
        self.load(count)
        self.check()
        for _ in range(3):
            self.remove(self.random.randint(0, len(self.texts)))
            for _ in range(self.random.randint(0, count // 4)):
                self.add()
            self.check()
        if self.random.random() < 0.2:
            self.reopen()
            self.check()
        self.remove(len(self.texts))
        self.check()

    def filter(self) -> tuple[str, sluice.Subscription]:
        while True:
            text = self.generator.term() if self.generator.chance(0.5) else self.generator.filter()
            try:
                subscription = sluice.parse(text)
            except sluice.LimitError:
                continue
            if sluice.parse(subscription.to_sql()) != subscription:
                raise Difference(f"the text of {text} does not parse to the same: {subscription}")
            return text, subscription

    def keep(self, id: int, text: str, subscription: sluice.Subscription) -> None:
        self.subscriptions[id], self.texts[id] = subscription, text

    def load(self, count: int) -> None:
        start = self.random.choice((0, 0, 12_345))
        rows = [self.filter() for _ in range(count)]
        self.matcher.load((start + i, text) for i, (text, _) in enumerate(rows))
        for i, (text, subscription) in enumerate(rows):
            self.keep(start + i, text, subscription)

    def add(self) -> None:
        text, subscription = self.filter()
        id = self.random.randrange(10**6) if self.generator.chance(0.3) else None
        if id in self.texts:
            id = None
        self.keep(self.matcher.add(text if self.generator.chance(0.7) else subscription, id=id), text, subscription)

    def remove(self, count: int) -> None:
        for id in self.random.sample(sorted(self.texts), count):
            self.matcher.remove(id)
            del self.texts[id], self.subscriptions[id]

    def reopen(self) -> None:
        if not self.texts:
            return
        with tempfile.TemporaryDirectory() as folder:
            self.matcher.save(Path(folder) / "index")
            self.matcher = sluice.Matcher.open(Path(folder) / "index")

    def check(self) -> None:
        typed = [self.generator.record() for _ in range(15)]
        mixed = [self.generator.record(typed=False) for _ in range(15)]
        if self.texts:
            for id in self.random.sample(sorted(self.texts), min(5, len(self.texts))):
                mixed += list(corner_records(self.subscriptions[id], self.random, 6))[:6]
        want = naive.match_batch(typed + mixed, self.subscriptions)
        self.compare("match_batch of a list", typed + mixed, self.rows(typed + mixed), want)
        self.compare("match_batch of an Arrow batch", typed, self.rows(batch_of(typed)), want[: len(typed)])
        single = [sorted(self.matcher.match(record).tolist()) for record in typed + mixed]
        self.compare("match", typed + mixed, single, want)
        for _ in range(2 if self.texts else 0):
            query = self.subscriptions[self.random.choice(sorted(self.texts))]
            for name in ("covering", "covered", "overlapping", "merge_candidates"):
                if getattr(self.matcher, name)(query) != getattr(naive, name)(query, self.subscriptions):
                    raise Difference(f"{name} of {query}")
            if not query.is_empty and not self.matcher.overlaps(query):
                raise Difference(f"overlaps of {query}, which is there itself")
        self.done(len(self.texts) * len(typed + mixed))

    def rows(self, batch: Any) -> list[list[int]]:
        offsets, ids = self.matcher.match_batch(batch)
        return [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]

    def compare(self, what: str, records: list[Record], got: list[list[int]], want: list[list[int]]) -> None:
        for record, mine, right in zip(records, got, want, strict=True):
            if mine != right:
                ids = sorted(set(mine) ^ set(right)) or mine
                filters = "\n".join(
                    f"  {'extra' if id in mine else 'lost'} {id}: {self.texts.get(id)}" for id in ids[:3]
                )
                raise Difference(f"{what} differs for {record}\n{filters}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Checks generated filters and records against the plain matcher."
    )
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help=f"pairs of filter and record to check (default {PAIRS:,})"
    )
    parser.add_argument("--minutes", type=float, help="go on for so long instead")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round (default 0)")
    options = parser.parse_args()
    console = Console()
    started, pairs, seed = time.monotonic(), 0, options.seed
    columns = (
        TextColumn("round {task.fields[seed]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("pairs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("soak", total=None if options.minutes else options.pairs, seed=seed)

        def done(count: int) -> None:
            nonlocal pairs
            pairs += count
            progress.update(task, completed=pairs)

        while (time.monotonic() - started < 60 * options.minutes) if options.minutes else (pairs < options.pairs):
            progress.update(task, seed=seed)
            try:
                Round(seed, done).run()
            except Exception as error:
                progress.stop()
                console.print(
                    f"round {seed}: {type(error).__name__}: {error}", style="red", markup=False, highlight=False
                )
                console.print(
                    f"repeat it with: python -m tests.soak --seed {seed} --pairs 1", markup=False, highlight=False
                )
                return 1
            seed += 1
    console.print(f"{pairs:,} pairs in {seed - options.seed} rounds from seed {options.seed}: all agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
