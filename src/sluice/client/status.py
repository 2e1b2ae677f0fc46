"""`sluice status`: every broker's account of itself, asked for over one connection, as a table or as JSON.

A broker counts from its start on; what happens in a second is the difference of two accounts of the same incarnation, divided
by the time that the broker itself says has passed between them.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sluice.client.connect import connect
from sluice.client.folding import Folding
from sluice.client.survey import Report, survey
from sluice.client.verbs.credentials import Credentials

#: Shows the accounts of all brokers, and the ones before them.
Show = Callable[[Sequence[Report], Sequence[Report]], None]

#: Between two accounts.
PAUSE_SECONDS = 1.0
#: Columns where nobody watches: enough that nothing is folded.
WIDE = 200

#: The counters whose rates are shown, and what their columns are called.
RATES = {"published": "in/s", "delivered": "out/s", "forwarded": "forwarded/s"}


def status(address: str | None, credentials: Credentials, *, watch: bool, as_json: bool) -> int:
    """Prints how a network is, once or again and again; 0 when done."""
    asyncio.run(_status(address, credentials, watch=watch, as_json=as_json))
    return 0


async def _status(address: str | None, credentials: Credentials, *, watch: bool, as_json: bool) -> None:
    async with connect(address, **credentials) as bus:
        with _json_lines() if as_json else _tables(in_place=watch and sys.stdout.isatty()) as show:
            reports = await survey(bus)
            if as_json:  # which has counters and no rates: there is nothing to wait for
                show([], reports)
            while watch or not as_json:
                await asyncio.sleep(PAUSE_SECONDS)
                before, reports = reports, await survey(bus)
                show(before, reports)
                if not watch:
                    break


# --- what is shown ----------------------------------------------------------------------------------------------------


@contextmanager
def _json_lines() -> Iterator[Show]:
    yield lambda _, reports: print(json.dumps(reports), flush=True)


@contextmanager
def _tables(*, in_place: bool) -> Iterator[Show]:
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    if not in_place:
        yield lambda before, after: console.print(tables_of(before, after))
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda before, after: live.update(tables_of(before, after), refresh=True)


def tables_of(before: Sequence[Report], after: Sequence[Report]) -> Group:
    """The brokers, how those who rely on them fare, what goes over each link, and which links are not as they should be.

    What goes to clients is shown where they take it slowly.
    """
    earlier = {report["name"]: report for report in before}
    links = Table("from", "to", "because of", box=box.SIMPLE_HEAD)
    for column in ("bytes/s", "waiting", "dropped"):
        links.add_column(column, justify="right")
    for report in after:
        sent = bytes_per_second(earlier.get(report["name"], {}), report)
        for link in report.get("links", ()):
            peer, is_client = link["peer"], link["role"] == "client"
            links.add_row(
                report["name"],
                f"[yellow]{peer}, slow" if is_client else peer,
                link.get("from") or "",
                "" if sent[peer] is None else f"{sent[peer]:,.0f}",
                decimal(link["waiting_bytes"]),
                _alarming(link["dropped"]),
            )
    tables = (_differing(after), _relied(after), _ordered(after), _reshaped(after), links, _unlinked(after))
    return Group(*(Folding(table) for table in (_brokers(earlier, after), *tables) if table.row_count))


def _differing(after: Sequence[Report]) -> Table:
    """A line for each setting that all brokers should have in common, and do not."""
    table = Table("all should have the same", "but there are", box=box.SIMPLE_HEAD)
    told = [report for report in after if "settings" in report]
    for name in told[0]["settings"] if told else ():
        brokers: dict[str, list[str]] = {}
        for report in told:
            brokers.setdefault(report["settings"].get(name, "none"), []).append(report["name"])
        if len(brokers) > 1:
            table.add_row(name, "\n".join(f"[red]{value}[/] at {', '.join(names)}" for value, names in brokers.items()))
    return table


def _relied(after: Sequence[Report]) -> Table:
    """A line for each broker that has to do with reliable subscriptions: its own, those behind it, and those of its stream."""
    table = Table("broker", box=box.SIMPLE_HEAD)
    for column in ("reliable", "behind", "asked again", "silences", "sent again", "relied on by", "lag", "waits for"):
        table.add_column(column, justify="right")
    for report in after:
        reliable = report.get("reliable", {})
        if any(reliable.values()):
            table.add_row(
                report["name"],
                f"{reliable['subscriptions']:,}",
                f"{reliable['gap_offsets']:,} of {count_of(reliable['streams_behind'], 'stream')}",
                f"{reliable['asked']:,}",
                f"{reliable['silences']:,}",
                f"{reliable['from_cache'] + reliable['from_log']:,}",
                count_of(reliable["brokers_relying"], "broker"),
                f"{reliable['lag_offsets']:,}",
                ", ".join(report.get("waits_for", ())),
            )
    return table


def _ordered(after: Sequence[Report]) -> Table:
    """A line for each broker that has to do with order: who asks for it, what is held back, and how long that takes.

    Where a root gives all places, also whom each broker takes for it, and how much has found no way there.
    """
    has_root = any(report.get("order", {}).get("root") for report in after)
    table = Table("broker", box=box.SIMPLE_HEAD)
    for column in (
        "ordered",
        "stamped",
        "held back",
        "for",
        "were held",
        "on average",
        "at most",
        "floors",
        "questions",
        *(("root", "lost") if has_root else ()),
    ):
        table.add_column(column, justify="right")
    for report in after:
        order = report.get("order", {})
        if any(order.values()):
            average = order["held_seconds"] / order["held"] if order["held"] else 0.0
            table.add_row(
                report["name"],
                f"{order['subscriptions']:,}",
                f"{order['stamped']:,}",
                f"{order['waiting'] + order['unstamped']:,}",
                milliseconds(order["waiting_seconds"]),
                f"{order['held']:,}",
                milliseconds(average),
                milliseconds(order["longest_seconds"]),
                f"{order['floors']:,}",
                f"{order['questions']:,}",
                *((order["root"], _alarming(order["lost"])) if has_root else ()),
            )
    return table


def _reshaped(after: Sequence[Report]) -> Table:
    """A line for each broker whose links were replaced, by order or because they broke: how often, and how that ended."""
    columns = {
        "done": "replaced by order",
        "refused": "refused",
        "failed": "failed",
        "held": "broke",
        "returned": "came back",
        "repaired": "repaired",
        "given_up": "given up",
    }
    table = Table("broker", box=box.SIMPLE_HEAD)
    for column in columns.values():
        table.add_column(column, justify="right")
    for report in after:
        counts = [report.get("reshape", {}).get(name, 0) for name in columns]
        if any(counts):
            table.add_row(report["name"], *(f"{count:,}" for count in counts))
    return table


def _unlinked(after: Sequence[Report]) -> Table:
    """A line for each link that is being replaced, is broken or was replaced, for each end of it that says so."""
    table = Table("broker", "no link to", "because", box=box.SIMPLE_HEAD)
    for report in after:
        reshape, missing = report.get("reshape", {}), report.get("missing_links", ())
        broken, doubts = reshape.get("broken", {}), reshape.get("doubts", {})
        reasons = {
            peer: f"[yellow]held for {duration(left)}, and another is looked for" for peer, left in broken.items()
        }
        reasons |= {end: f"[red]in doubt: {keeper} is asked if it was replaced" for end, keeper in doubts.items()}
        for link in missing:
            reasons.setdefault(link["peer"] or link["address"], f"[red]broken: {escape(link['reason'])}")
        for peer in reshape.get("replaced_links", ()):
            reasons.setdefault(peer, "replaced")
        for peer, reason in reasons.items():
            table.add_row(report["name"], peer, reason)
        if reshape.get("job"):
            table.add_row(report["name"], "", f"takes part in {reshape['job']} with {', '.join(reshape['path'])}")
    return table


def count_of(count: int, noun: str) -> str:
    """How many there are of something.

    >>> count_of(1, "broker"), count_of(2_000, "broker")
    ('1 broker', '2,000 brokers')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    """A short time.

    >>> milliseconds(0.01234)
    '12.3 ms'
    """
    return f"{seconds * 1_000:,.1f} ms"


def _brokers(earlier: Mapping[str, Report], after: Sequence[Report]) -> Table:
    """A line for each broker; tables that are empty everywhere, nodes, logs and holds where there are none, have no column."""
    kinds = [
        kind
        for kind in dict.fromkeys(kind for report in after for kind in report.get("tables", ()))
        if kind != "brokers" and any(report.get("tables", {}).get(kind) for report in after)
    ]
    has_logs = any(report.get("log") for report in after)
    has_holds = any((report.get("log") or {}).get("holds") for report in after)
    of_logs = [*(["log", "kept"] if has_logs else []), *(["held after"] if has_holds else [])]
    has_nodes = any(report.get("node", report["name"]) != report["name"] for report in after)
    table = Table("broker", *(["node"] if has_nodes else []), "up", "linked to", box=box.SIMPLE_HEAD)
    for column in ("clients", *RATES.values(), *kinds, *of_logs, "waiting", "dropped"):
        table.add_column(column, justify="right")
    for report in after:
        if "error" in report:
            table.add_row(report["name"], *([""] if has_nodes else []), "[red]no answer")
            continue
        rates = rates_of(earlier.get(report["name"], {}), report)
        table.add_row(
            report["name"],
            *([report["node"]] if has_nodes else []),
            duration(report["uptime_seconds"]),
            ", ".join(sorted(link["peer"] for link in report["links"] if link["role"] == "broker")),
            f"{report['clients']:,}",
            *("" if rate is None else f"{rate:,.0f}" for rate in rates.values()),
            *(f"{report['tables'].get(kind, 0):,}" for kind in kinds),
            *_about_log(report["log"])[: len(of_logs)],
            decimal(report["memory_bytes"]),
            _alarming(report["dropped"]),
        )
    return table


def _about_log(log: Mapping[str, Any] | None) -> list[str]:
    """How far it is, what it keeps, and who holds it."""
    if log is None:
        return ["", "", ""]
    holds = (f"{offset:,} by {name}" for name, offset in sorted(log["holds"].items()))
    return [f"{log['head']:,}", decimal(log["bytes"]), "\n".join(holds)]


def _alarming(count: int) -> str:
    return f"[red]{count:,}" if count else "0"


def rates_of(before: Report, after: Report) -> dict[str, float | None]:
    """What happened in a second, by counter; None where nobody can know, since the broker was started in between.

    >>> first = {"incarnation": 1, "uptime_seconds": 5.0, "published": 100, "delivered": 7, "forwarded": 0}
    >>> rates_of(first, {**first, "uptime_seconds": 7.0, "published": 300})
    {'published': 100.0, 'delivered': 0.0, 'forwarded': 0.0}
    """
    if before.get("incarnation") != after["incarnation"]:
        return dict.fromkeys(RATES)
    seconds = after["uptime_seconds"] - before["uptime_seconds"]
    return {name: (after[name] - before[name]) / seconds if seconds > 0 else None for name in RATES}


def bytes_per_second(before: Report, after: Report) -> dict[str, float | None]:
    """What a broker sends to each peer in a second; None where the link is new, or the broker is."""
    seconds = after.get("uptime_seconds", 0.0) - before.get("uptime_seconds", 0.0)
    is_same = before.get("incarnation") == after.get("incarnation") and seconds > 0
    earlier = {link["peer"]: link["bytes_out"] for link in before.get("links", ())} if is_same else {}
    return {
        link["peer"]: (link["bytes_out"] - earlier[link["peer"]]) / seconds
        if earlier.get(link["peer"], math.inf) <= link["bytes_out"]
        else None
        for link in after.get("links", ())
    }


def duration(seconds: float) -> str:
    """A time in its two largest units.

    >>> [duration(seconds) for seconds in (4.7, 65, 7_322, 200_000)]
    ['4s', '1m 5s', '2h 2m', '2d 7h']
    """
    left = int(seconds)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])
