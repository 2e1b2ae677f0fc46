"""What happened at the interface of the network, in order: a trace, the only thing that the specification looks at.

An event is one interface operation (table 2.1 of the thesis, with advertisements, interest and acknowledgements) or one act
of the environment. Each carries the true time; events of the same time stand in the order in which they happened. A trace can
be written to a file of JSON lines and read back exactly, and its hash is that of the file.

A client that goes down is a program that ended: all it asked for ends with it, and what it asks for after it came up again is
recorded again. A link that is lost, also one between a client and its broker, takes nothing back: whoever asked still asks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from sluice.sim.trace import ordered, streamed
from sluice.sim.trace.codec import TraceError, from_json, to_json, to_text
from sluice.sim.trace.ordered import OfOrder
from sluice.sim.trace.streamed import Streamed

Names = tuple[str, ...]
Links = tuple[tuple[str, str], ...]
Record = Mapping[str, Any]


# The stage


@dataclass(frozen=True, slots=True)
class Configured:
    """What the network promises, beyond routing; the first event, where there is something to say.

    Without it, advertisements are in use if somebody advertises, nothing is cached, and delays are not known.
    """

    at: float
    #: Whether publications outside of their publisher's advertisements are refused.
    advertisements: bool = False
    #: A broker keeps at least this many notifications,
    cache_notifications: int = 0
    #: for at least this long in true time (divide by the rate of the fastest clock); None: as long as there is room.
    cache_seconds: float | None = None
    #: No message is longer on a link than this; None: not known.
    delay_seconds: float | None = None
    #: So long after the last fault all is right again; None: only at `Quiet`.
    recovery_seconds: float | None = None
    #: The broker over which everything goes that is in order, as long as it is there; None: there is no such broker.
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The brokers and the links among them: a tree. All are up."""

    at: float
    brokers: Names
    links: Links


@dataclass(frozen=True, slots=True)
class Attached:
    """A client is up and connected to a broker."""

    at: float
    client: str
    broker: str


# The operations of clients


@dataclass(frozen=True, slots=True)
class Subscribed:
    """sub(Y, F): a client asks for a filter under an id of its own."""

    at: float
    client: str
    id: str
    where: str


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """unsub(Y, F)."""

    at: float
    client: str
    id: str


@dataclass(frozen=True, slots=True)
class Completed:
    """ack(Y, F): the client is told that what it asked for misses nothing from now on. `kind` as in "subscriptions"."""

    at: float
    client: str
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Advertised:
    """adv(X, F): a client says what it is going to publish."""

    at: float
    client: str
    id: str
    where: str


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """unadv(X, F)."""

    at: float
    client: str
    id: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A client wants to know of the subscriptions of others that overlap a filter."""

    at: float
    client: str
    id: str
    where: str


@dataclass(frozen=True, slots=True)
class Unwatched:
    """It no longer wants to."""

    at: float
    client: str
    id: str


@dataclass(frozen=True, slots=True)
class Published:
    """pub(X, n): the notification is known by its publisher and the publisher's number for it."""

    at: float
    client: str
    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class Refused:
    """The publisher is told that its notification lies outside of its advertisements, or that there is no room for it."""

    at: float
    client: str
    number: int


@dataclass(frozen=True, slots=True)
class Notified:
    """notify(Y, n), with the subscriptions of the client that it satisfies."""

    at: float
    client: str
    publisher: str
    number: int
    subscriptions: Names


@dataclass(frozen=True, slots=True)
class Replayed:
    """A client gets a notification of the past, for one of its subscriptions."""

    at: float
    client: str
    subscription: str
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Interested:
    """A watcher is told that somebody has subscribed."""

    at: float
    client: str
    subscription: str
    where: str


@dataclass(frozen=True, slots=True)
class Uninterested:
    """A watcher is told that the subscription is no more."""

    at: float
    client: str
    subscription: str


# The environment


@dataclass(frozen=True, slots=True)
class BrokerDown:
    """A broker crashes, with all its state and links."""

    at: float
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerUp:
    """It is back, empty, and its links to all that are up work."""

    at: float
    broker: str


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The link between two brokers, or a client and its broker, is gone with all that was on it."""

    at: float
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class LinkHealed:
    """It works again."""

    at: float
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class ClientDown:
    """A client vanishes without a word; all it asked for ends."""

    at: float
    client: str


@dataclass(frozen=True, slots=True)
class ClientUp:
    """It is back and connected, and asks for nothing yet."""

    at: float
    client: str


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Something in the memory of a broker has been changed behind its back."""

    at: float
    broker: str
    what: str


@dataclass(frozen=True, slots=True)
class Tampered:
    """A message from `a` to `b` was lost, doubled, altered or made up."""

    at: float
    a: str
    b: str
    what: str


@dataclass(frozen=True, slots=True)
class Quiet:
    """Faults are over and the tables are at rest: until the next fault everything must be right."""

    at: float


Stage = Configured | Topology | Attached
Operation = (
    Subscribed
    | Unsubscribed
    | Completed
    | Advertised
    | Unadvertised
    | Watched
    | Unwatched
    | Published
    | Refused
    | Notified
    | Replayed
    | Interested
    | Uninterested
)
Fault = BrokerDown | BrokerUp | LinkLost | LinkHealed | ClientDown | ClientUp | Corrupted | Tampered
TraceEvent = Stage | Operation | Fault | Streamed | OfOrder | Quiet

#: The acts of the environment after which something may be wrong for a while.
FAULTS: frozenset[type] = frozenset(get_args(Fault))
_CLASSES: dict[str, type] = {cls.__name__: cls for cls in get_args(TraceEvent)}
_FIELDS: dict[type, tuple[tuple[str, str], ...]] = {
    cls: tuple((field.name, str(field.type)) for field in fields(cls)) for cls in _CLASSES.values()
}


class Trace:
    """A list of events that only grows.

    >>> trace = Trace([Subscribed(0.5, "alice", "alice/1", "price > 3"), Published(1.0, "bob", 1, {"price": 5})])
    >>> trace.append(Notified(1.25, "alice", "bob", 1, ("alice/1",)))
    >>> print("\\n".join(trace.story()))
        0.500  alice subscribes alice/1: price > 3
        1.000  bob publishes bob#1 {'price': 5}
        1.250  alice is notified of bob#1 for alice/1
    >>> trace.hash()[:12]
    '93b363a2e755'
    """

    __slots__ = ("append", "events")

    def __init__(self, events: Iterable[TraceEvent] = ()) -> None:
        self.events: list[TraceEvent] = list(events)
        #: Adds an event; the list's own method, because the simulator calls it for every operation.
        self.append = self.events.append

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def __getitem__(self, index: int) -> TraceEvent:
        return self.events[index]

    def lines(self) -> Iterator[str]:
        """One line of JSON for each event; the same run gives the same lines."""
        return map(to_line, self.events)

    def hash(self) -> str:
        """The SHA-256 of the trace, in hexadecimal: that of the file that `save` writes."""
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(_bytes(line))
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON lines."""
        with open(path, "wb") as stream:
            for line in self.lines():
                stream.write(_bytes(line))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that was saved."""
        trace = cls()
        try:
            with open(path, "rb") as stream:
                for number, line in enumerate(stream, 1):
                    try:
                        trace.append(from_line(line.decode("utf-8", "surrogatepass")))
                    except (TraceError, UnicodeDecodeError) as error:
                        raise TraceError(f"{os.fspath(path)}, line {number}: {error}") from None
        except OSError as error:
            raise TraceError(f"{os.fspath(path)}: {error.strerror}") from error
        return trace

    def story(self) -> list[str]:
        """The trace for people: one line an event, with its time."""
        return [f"{event.at:9.3f}  {tell(event)}" for event in self.events]


def _bytes(line: str) -> bytes:
    # A lone surrogate is no UTF-8, but a Python string may have one.
    return line.encode("utf-8", "surrogatepass") + b"\n"


def to_line(event: TraceEvent) -> str:
    """An event as a line of JSON.

    >>> to_line(Notified(1.25, "alice", "bob", 1, ("alice/1",)))
    '{"event": "Notified", "at": 1.25, "client": "alice", "publisher": "bob", "number": 1, "subscriptions": ["alice/1"]}'
    """
    cls = type(event)
    found: dict[str, Any] = {"event": cls.__name__}
    for name, kind in _FIELDS[cls]:
        value = getattr(event, name)
        found[name] = to_json(value) if kind in _ENCODED else value
    return to_text(found)


def from_line(line: str) -> TraceEvent:
    """The event that `to_line` was given."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise TraceError('an event is a JSON object with the key "event"')
    name = found.pop("event")
    cls = _CLASSES.get(name)
    if cls is None:
        raise TraceError(f"there is no event {name}; known are {', '.join(_CLASSES)}")
    wanted = _FIELDS[cls]
    if found.keys() != {field for field, _ in wanted}:
        raise TraceError(f"{name} has the fields {', '.join(field for field, _ in wanted)}, not {', '.join(found)}")
    values = []
    for field, kind in wanted:
        value = found[field]
        if kind in _ENCODED:
            value = from_json(value)
        elif kind == "Names" and isinstance(value, list):
            value = tuple(value)
        elif kind == "Links" and isinstance(value, list):
            value = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in value)
        if not _is_a(value, kind):
            raise TraceError(f"the field {field} of {name} is {value!r}, which is no {kind}")
        values.append(value)
    event: TraceEvent = cls(*values)
    return event


#: Fields that may hold what JSON cannot say.
_ENCODED = frozenset({"Record", "float", "float | None"})


def _is_a(value: object, kind: str) -> bool:
    match kind:
        case "str":
            return isinstance(value, str)
        case "str | None":
            return value is None or isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "float | None":
            return value is None or _is_a(value, "float")
        case "bool":
            return isinstance(value, bool)
        case "Names":
            return isinstance(value, tuple) and all(isinstance(name, str) for name in value)
        case "Links":
            return isinstance(value, tuple) and all(_is_a(pair, "Names") and len(pair) == 2 for pair in value)
        case "Record":
            return isinstance(value, dict)
    raise AssertionError(f"a field of an event has the type {kind}, which no trace can hold")


def tell(event: TraceEvent) -> str:
    """An event in words.

    >>> tell(LinkLost(3.0, "a", "b"))
    'the link a-b is lost'
    """
    match event:
        case Configured():
            said = [f"{name}={getattr(event, name)}" for name, _ in _FIELDS[Configured][1:]]
            return f"the network promises {', '.join(said)}"
        case Topology(_, brokers, links):
            joined = f", linked {' '.join(f'{a}-{b}' for a, b in links)}" if links else ""
            return f"brokers {' '.join(brokers)}{joined}"
        case Attached(_, client, broker):
            return f"{client} is at {broker}"
        case Subscribed(_, client, id, where):
            return f"{client} subscribes {id}: {where}"
        case Unsubscribed(_, client, id):
            return f"{client} unsubscribes {id}"
        case Completed(_, client, kind, id):
            return f"{client} is told that {id} of its {kind} is complete"
        case Advertised(_, client, id, where):
            return f"{client} advertises {id}: {where}"
        case Unadvertised(_, client, id):
            return f"{client} withdraws the advertisement {id}"
        case Watched(_, client, id, where):
            return f"{client} watches {id}: {where}"
        case Unwatched(_, client, id):
            return f"{client} stops watching {id}"
        case Published(_, client, number, record):
            return f"{client} publishes {client}#{number} {dict(record)}"
        case Refused(_, client, number):
            return f"{client}#{number} is refused"
        case Notified(_, client, publisher, number, subscriptions):
            return f"{client} is notified of {publisher}#{number} for {', '.join(subscriptions) or 'no subscription'}"
        case Replayed(_, client, subscription, publisher, number):
            return f"{client} gets {publisher}#{number} replayed for {subscription}"
        case Interested(_, client, subscription, where):
            return f"{client} learns of the subscription {subscription}: {where}"
        case Uninterested(_, client, subscription):
            return f"{client} learns that the subscription {subscription} is gone"
        case BrokerDown(_, broker):
            return f"broker {broker} crashes"
        case BrokerUp(_, broker):
            return f"broker {broker} is back"
        case LinkLost(_, a, b):
            return f"the link {a}-{b} is lost"
        case LinkHealed(_, a, b):
            return f"the link {a}-{b} works again"
        case ClientDown(_, client):
            return f"{client} vanishes"
        case ClientUp(_, client):
            return f"{client} is back"
        case Corrupted(_, broker, what):
            return f"the memory of {broker} is corrupted: {what}"
        case Tampered(_, a, b, what):
            return f"a message from {a} to {b} is {what}"
        case Quiet():
            return "faults are over, the tables are at rest"
        case ordered.Ordered() | ordered.Marked() | ordered.Withheld():
            return ordered.tell(event)
    return streamed.tell(event)
