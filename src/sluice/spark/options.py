"""What can be said with `.option(name, value)` to the source and to the sink, checked when it is said.

Each option is one field: how its text is read, what it is if nobody says it, and what it means. Names are as in Spark, where
upper and lower case are the same; one that is not known is an error, because a misspelt wish must not go unheard.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal, Self, cast

from sluice.errors import ConfigurationError, SluiceError
from sluice.model import parse
from sluice.protocol.batch import Peer
from sluice.spark.network import PATIENCE_SECONDS, Network

#: A place in the streams: an end of all of them, an offset in each of some, or a moment.
Place = Literal["earliest", "latest"] | Mapping[Peer, int] | datetime
#: What Spark itself puts among the options of a streaming write.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


# --- reading texts ----------------------------------------------------------------------------------------------------


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _filter(text: str) -> str:
    parse(text)  # what is wrong with it is said at once, and not by a task
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("it is a whole number, 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("it is a number of seconds, more than 0")
    return seconds


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _keep_or_drop(text: str) -> str:
    if text not in ("keep", "drop"):
        raise ValueError("it is keep or drop")
    return text


def _publisher(text: str) -> str:
    if not 1 <= len(text) <= 100 or "/" in text:
        raise ValueError("it is a name of 1 to 100 characters without a slash")
    return text


def _place(text: str) -> Place:
    """
    >>> _place("latest"), _place('{"b1": 17}'), _place("2026-03-01T12:30:00+01:00")
    ('latest', {'b1': 17}, datetime.datetime(2026, 3, 1, 11, 30, tzinfo=datetime.timezone.utc))
    """
    if text in ("earliest", "latest"):
        return cast(Place, text)
    if text.lstrip().startswith("{"):
        return _offsets(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError('it is earliest, latest, offsets as in {"b1": 17}, or a time as in 2026-03-01T12:30') from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _offsets(text: str) -> Mapping[Peer, int]:
    try:
        offsets = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    for stream, offset in offsets.items():
        if type(offset) is not int or offset < 1:
            raise ValueError(f"the offset of {stream} is {offset!r}, and offsets count from 1")
    return cast(Mapping[Peer, int], offsets)


# --- the options ------------------------------------------------------------------------------------------------------


def _said(read: Callable[[str], Any], about: str) -> dict[str, Any]:
    """How the text of an option is read, and what it means, for people."""
    return {"read": read, "about": about}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How the brokers are reached, by source and sink alike."""

    brokers: tuple[str, ...] = field(metadata=_said(_names, "addresses of brokers, with commas between them"))
    token: str | None = field(
        default=None, repr=False, metadata=_said(str, "what lets the client in where tokens are asked for")
    )
    tls_authority: str | None = field(
        default=None,
        metadata=_said(str, "a PEM file, on every worker, with the authority that signed the brokers' certificates"),
    )
    patience_seconds: float = field(
        default=PATIENCE_SECONDS,
        metadata=_said(_seconds, "how long a broker that does not answer is asked again before the query fails"),
    )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Options as Spark hands them over; raises `ConfigurationError` for what is none."""
        known = {each.name: each for each in dataclasses.fields(cls)}
        found: dict[str, Any] = {}
        for name, text in options.items():
            if name.lower() in _OF_SPARK:
                continue
            if name.lower() not in known:
                raise ConfigurationError(f"{name!r} is no option of the {cls._what()}: {_advice(name.lower(), known)}")
            found[name.lower()] = _read(known[name.lower()], text)
        if not found.get("brokers"):
            raise ConfigurationError(
                'no broker is named: say .option("brokers", "sluice://127.0.0.1:7470"), and others after commas'
            )
        return cls(**found)

    @classmethod
    def _what(cls) -> str:
        return "network"

    @property
    def network(self) -> Network:
        """The brokers."""
        return Network(self.brokers, self.token, self.tls_authority, self.patience_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(NetworkOptions):
    """What `spark.read` and `spark.readStream` take."""

    where: str = field(default="true", metadata=_said(_filter, "what to read; the brokers filter"))
    streams: tuple[Peer, ...] = field(
        default=(),
        metadata=_said(_names, "names of the brokers whose logs are read, with commas between them; none: all"),
    )
    start: Place = field(
        default="earliest",
        metadata=_said(
            _place,
            'where reading begins: `earliest`, `latest`, the first offset of some streams as in `{"b1": 17}` (others: '
            "from their beginning), or a time (UTC unless it says otherwise)",
        ),
    )
    end: Place = field(
        default="latest",
        metadata=_said(_place, "where a batch read ends, said likewise; what is named is not read any more"),
    )
    max_rows_per_batch: int | None = field(
        default=None,
        metadata=_said(_count, "how many offsets a micro-batch goes on, about, over all streams; none: to the end"),
    )
    rows_per_partition: int = field(
        default=1_000_000, metadata=_said(_count, "how many offsets one task of a batch read goes through")
    )
    fail_on_loss: bool = field(
        default=True,
        metadata=_said(
            _flag, "whether the query fails when offsets are gone; if not, it warns and goes on behind them"
        ),
    )
    infer_rows: int = field(
        default=1_000,
        metadata=_said(_count, "how many offsets at each end of a stream are looked at to infer a schema"),
    )
    rest: str = field(
        default="keep",
        metadata=_said(
            _keep_or_drop, "what becomes of attributes without a column: `keep` them in `_rest`, or `drop` them"
        ),
    )

    @classmethod
    def _what(cls) -> str:
        return "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(NetworkOptions):
    """What `df.write` and `df.writeStream` take."""

    publisher: str | None = field(
        default=None, metadata=_said(_publisher, "under which name rows are published; none: one that nobody else has")
    )
    rows_per_publication: int = field(
        default=10_000, metadata=_said(_count, "how many rows are stored together at most")
    )

    @classmethod
    def _what(cls) -> str:
        return "sink"


def _read(option: dataclasses.Field[Any], text: str) -> Any:
    try:
        return option.metadata["read"](text)
    except (ValueError, SluiceError) as error:
        shown = "what was given" if option.name == "token" else repr(text)
        raise ConfigurationError(f"option {option.name}: {shown} cannot be: {error}") from None


def _advice(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"is it {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
