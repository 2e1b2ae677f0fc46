"""A run of the broker benchmark as tables for the terminal and for Markdown, and as a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from bench.brokers.client import PERCENTILES
from bench.brokers.figures import BrokerRun, Entry
from bench.brokers.records import ARROW_ROWS, RECORD_BYTES
from bench.brokers.scenarios import WINDOW
from bench.report import Sheet
from bench.targets import Outcome

OURS = "Sluice"
ARROW = "Sluice, Arrow batches"
NATS = "NATS"
JETSTREAM = "NATS JetStream"
FILTER_PEERS = ("ActiveMQ selectors", "RabbitMQ headers")

#: Messages a second by those of the peer.
ONE_TO_ONE, ARROW_TO_ONE, FILTERS, DURABLE = 1.0, 5.0, 25.0, 1.0
#: Latency by that of the peer, at most.
LATENCY = 3.0


def outcomes(run: BrokerRun) -> list[Outcome]:
    """The targets of the scenarios that were run, one by one."""
    asked = {entry.scenario for entry in run.entries}
    found = []
    if "one-to-one" in asked:
        nats = [run.find("one-to-one", NATS)]
        ours, arrow = run.find("one-to-one", OURS), run.find("one-to-one", ARROW)
        found.append(_faster("one to one, one by one, against NATS", ours, nats, ONE_TO_ONE))
        found.append(_faster(f"Arrow batches of {ARROW_ROWS:,}, against NATS one by one", arrow, nats, ARROW_TO_ONE))
    if "filters" in asked:
        peers = [run.find("filters", label) for label in FILTER_PEERS]
        found.append(_faster("content filters, against the better peer", run.find("filters", OURS), peers, FILTERS))
    if "latency" in asked:
        ours, peer = run.find("latency", OURS), run.find("latency", NATS)
        found += [_quicker(percentile, ours, peer) for percentile in PERCENTILES]
    if "durable" in asked:
        ours, jetstream = run.find("durable", OURS), run.find("durable", JETSTREAM)
        found.append(_faster("durable publish with fsync, against JetStream without", ours, [jetstream], DURABLE))
    return found


def _faster(target: str, ours: Entry | None, peers: Sequence[Entry | None], at_least: float) -> Outcome:
    """How many times as many messages a second as the fastest of the peers."""
    fastest = max((peer for peer in peers if peer), key=lambda peer: peer.per_second, default=None)
    times = ours.per_second / fastest.per_second if ours and fastest else None
    shown = "not measured" if times is None or fastest is None else f"{times:.2f}× ({fastest.label})"
    return Outcome(target, f"≥ {at_least:g}×", shown, None if times is None else times >= at_least)


def _quicker(percentile: str, ours: Entry | None, peer: Entry | None) -> Outcome:
    times = ours.latency_us(percentile) / peer.latency_us(percentile) if ours and peer else None
    shown = "not measured" if times is None else f"{times:.2f}×"
    return Outcome(
        f"latency, {percentile}, against NATS", f"≤ {LATENCY:g}×", shown, None if times is None else times <= LATENCY
    )


def sheets(run: BrokerRun) -> list[Sheet]:
    """All tables of a run."""
    marks = {True: "yes", False: "NO", None: "–"}
    targets = [(one.target, one.wanted, one.found, marks[one.reached]) for one in outcomes(run)]
    found = [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        _rates(run, "one-to-one", f"One to one: records of {RECORD_BYTES} bytes", _ONE_TO_ONE),
        _rates(run, "filters", "Content filters: each message matches one subscription", _FILTERS),
        _latency(run),
        _rates(run, "durable", "Durable publish: acknowledged when on disk", _DURABLE),
        _sizes(run, "subscriptions", "Subscriptions on one broker", _SUBSCRIPTIONS),
        _sizes(run, "line", "Brokers in a line", _LINE),
        _links(run),
        Sheet(
            "Machine",
            ("what", "which"),
            [*run.machine.items(), ("started", run.started), ("command", f"`{run.command}`")],
            quiet(run),
            words=2,
        ),
    ]
    return [sheet for sheet in found if sheet.rows]


CPU_NOTE = (
    "CPU: processor time of the publisher, of all processes of the broker and of all subscribers, for one message."
)
_ONE_TO_ONE = (
    "From the first publication until the last message was received; none was lost. NATS carries the packed record as opaque "
    "bytes, which costs its clients nothing; beside it the same with clients that pack and unpack records, as Sluice's do. "
    f"Arrow: the same records, published and received in batches of {ARROW_ROWS:,}. {CPU_NOTE}"
)
_FILTERS = (
    "A subscription is an equality on a key; all keys in turn. ActiveMQ: a topic, and for each subscription a consumer with a "
    "selector. RabbitMQ: a headers exchange, a queue for each connection, a binding for each subscription. Each connection has "
    f"a process of its own. {CPU_NOTE}"
)
_DURABLE = (
    "From the first publication until the last acknowledgement. Sluice calls fsync before it acknowledges, for all that came "
    "meanwhile at once. This version of NATS cannot be told to: JetStream acknowledges without waiting for the disk, and calls "
    "fsync from a timer, a minute or more apart; a loss of power can take what it has acknowledged. *Files written through*: "
    "its directory is marked (`chattr +S`) so that the file system passes every write on to the disk at once. Unacknowledged "
    f"publications under way: up to {WINDOW:,} with nats-py, which is no faster with more, up to 65,536 with Sluice. *At "
    f"most {WINDOW:,} under way*: Sluice's publisher stops after every {WINDOW:,} until these are acknowledged. *Without "
    "fsync*: SQLite still calls it at its checkpoints."
)
_SUBSCRIPTIONS = (
    f"As content filters above, on up to ten connections: each message matches one subscription. {CPU_NOTE}"
)
_LINE = f"The publisher at one end, the subscriber at the other. {CPU_NOTE}"


def quiet(run: BrokerRun) -> str:
    """Whether the machine was, in a sentence."""
    disturbed, trials = run.disturbed
    if not disturbed:
        return "Nothing else used the machine meanwhile."
    return (
        f"In {disturbed} of {trials} measurements other processes used over a tenth of a core meanwhile: run again on a "
        "quiet machine."
    )


def _rates(run: BrokerRun, scenario: str, title: str, note: str) -> Sheet:
    """Messages a second of each contestant, and ours by the peers'."""
    rows = []
    entries = list(run.of(scenario))
    ours = run.find(scenario, OURS)
    for entry in entries:
        if entry.status != "ok":
            rows.append((entry.label, status(entry), *[""] * 5))
            continue
        times = f"{ours.per_second / entry.per_second:,.2f}×" if ours and entry.system != ours.system else ""
        rows.append((entry.label, *speed(entry), *cpu(entry), times))
    columns = ("system", "messages/s", "least – most", *CPU_COLUMNS, "Sluice is faster by")
    return Sheet(title, columns, rows, f"Medians of {run.rounds}. {note}")


CPU_COLUMNS = ("CPU, publisher, µs", "broker, µs", "subscribers, µs")


def status(entry: Entry) -> str:
    """How it went, and why."""
    return f"{entry.status}: {entry.reason}" if entry.reason else entry.status


def speed(entry: Entry) -> tuple[str, str]:
    """Messages a second: the median, and the least and the most."""
    rates = [trial.per_second for trial in entry.trials]
    return f"{entry.per_second:,.0f}", f"{min(rates):,.0f} – {max(rates):,.0f}"


def cpu(entry: Entry) -> tuple[str, str, str]:
    """Processor time for a message: of the publisher, the broker and the subscribers."""
    publisher = entry.median(lambda trial: trial.publisher_cpu_seconds / trial.count)
    broker = entry.median(lambda trial: trial.broker_cpu_seconds / trial.count)
    subscribers = entry.median(lambda trial: trial.subscriber_cpu_seconds / trial.count)
    return f"{publisher * 1e6:,.1f}", f"{broker * 1e6:,.1f}", f"{subscribers * 1e6:,.1f}"


def _latency(run: BrokerRun) -> Sheet:
    rows = []
    for entry in run.of("latency"):
        if entry.status != "ok":
            rows.append((entry.label, status(entry), *[""] * 4))
            continue
        rows.append((entry.label, *(f"{entry.latency_us(name):,.0f}" for name in PERCENTILES), *cpu(entry)))
    columns = ("system", *(f"{name}, µs" for name in PERCENTILES), *CPU_COLUMNS)
    note = (
        f"Medians of {run.rounds}. From the call that publishes until the subscriber has the unpacked record. What is due is "
        f"published every millisecond. {CPU_NOTE}"
    )
    return Sheet("Latency at a steady rate", columns, rows, note)


def _sizes(run: BrokerRun, scenario: str, title: str, note: str) -> Sheet:
    rows = []
    for entry in run.of(scenario):
        cells = (*speed(entry), *cpu(entry)) if entry.status == "ok" else (status(entry), *[""] * 4)
        rows.append((f"{entry.size:,}", *cells))
    what = "subscriptions" if scenario == "subscriptions" else "brokers"
    columns = (what, "delivered messages/s", "least – most", *CPU_COLUMNS)
    return Sheet(title, columns, rows, f"Medians of {run.rounds}. {note}", words=0)


def _links(run: BrokerRun) -> Sheet:
    """Bytes for a published message on each link, with and without routing by content."""
    each = {(link.routing, link.name): link.bytes / link.count for link in run.links}
    rows = []
    for name in dict.fromkeys(link.name for link in run.links):
        flooding, covering = each["flooding", name], each["covering", name]
        rows.append((name, f"{flooding:,.1f}", f"{covering:,.1f}", f"{covering / flooding:.0%}"))
    note = (
        "For each published message, in both directions. The publisher is at the first broker; every broker has a subscriber "
        f"for as many messages as any other, and half of them are for nobody. A message is a record of {RECORD_BYTES} bytes."
    )
    return Sheet("Bytes on each link", ("link", "flooding", "covering", "of flooding"), rows, note)


def print_to(console: Console, run: BrokerRun) -> None:
    """All tables, on a terminal or in a file."""
    for sheet in sheets(run):
        console.print(sheet.terminal())
        console.print()


def markdown(run: BrokerRun) -> str:
    """All tables as one page."""
    intro = (
        "# Brokers: Sluice and its peers\n\n"
        "Written by `make bench-broker`; what is measured and how is in [the README](../README.md#brokers), "
        "the raw figures are in [broker.json](broker.json).\n\n"
        "![messages a second of each system, and of Sluice against subscriptions and brokers](broker.png)\n"
    )
    return "\n".join([intro, *(sheet.markdown() for sheet in sheets(run))])


_COLOURS = {"ours": "#0b6e4f", "nats": "#2e6fb7", "rabbitmq": "#edae49", "activemq": "#d1495b"}


def plot(run: BrokerRun, path: Path) -> None:
    """Bars for the systems side by side, lines for Sluice by its number of subscriptions and brokers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    thousands = FuncFormatter(lambda value, _: f"{value / 1_000:,g}k" if value else "0")

    def bars(scenario: str, title: str) -> Callable[[Axes], None]:
        def draw(axis: Axes) -> None:
            entries = [entry for entry in run.of(scenario) if entry.trials][::-1]
            rates = [entry.per_second for entry in entries]
            drawn = axis.barh(
                [entry.label for entry in entries], rates, color=[_COLOURS[one.system] for one in entries]
            )
            axis.bar_label(drawn, [f" {rate:,.0f}" for rate in rates], fontsize=9)
            axis.set_xlim(0, 1.25 * max(rates, default=1.0))
            axis.xaxis.set_major_formatter(thousands)
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.set_title(f"{title}, messages/s", fontsize=11, loc="left")

        return draw

    def line(scenario: str, of: str, scale: str) -> Callable[[Axes], None]:
        def draw(axis: Axes) -> None:
            entries = [entry for entry in run.of(scenario) if entry.trials]
            rates = [entry.per_second for entry in entries]
            axis.plot([entry.size for entry in entries], rates, color=_COLOURS["ours"], marker="o", linewidth=2.4)
            axis.set_xscale(scale)
            axis.set_ylim(0, 1.15 * max(rates, default=1.0))
            axis.yaxis.set_major_formatter(thousands)
            axis.set_title(f"Sluice by its {of}, messages/s", fontsize=11, loc="left")
            axis.set_xlabel(of)
            axis.grid(True, which="major", color="#d9d9d9", linewidth=0.8)

        return draw

    panels = {
        "one-to-one": bars("one-to-one", "One to one"),
        "filters": bars("filters", "Content filters"),
        "durable": bars("durable", "Durable publish"),
        "subscriptions": line("subscriptions", "subscriptions", "log"),
        "line": line("line", "brokers in a line", "linear"),
    }
    drawn = [panel for scenario, panel in panels.items() if any(entry.trials for entry in run.of(scenario))]
    if not drawn:
        return
    figure, axes = pyplot.subplots(
        (len(drawn) + 1) // 2, 2, figsize=(12.0, 3.0 * ((len(drawn) + 1) // 2)), squeeze=False
    )
    for axis in axes.flat:
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    for axis, draw in zip(axes.flat, drawn, strict=False):
        draw(axis)
    for axis in list(axes.flat)[len(drawn) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
