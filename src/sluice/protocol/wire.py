"""Messages as bytes: control messages in msgpack, notifications as the bytes their publisher made; never pickle.

Every message has a number, an encoder and a decoder in one table, `_FORMS`. Types are checked on the way in, and a message that
is not what it says raises `ProtocolError`, nothing else.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from sluice.errors import ProtocolError, SluiceError
from sluice.limits import MAX_BATCH, MAX_NAME, MAX_TOKEN
from sluice.model import parse
from sluice.protocol.batch import (
    Batch,
    Logged,
    Peer,
    Place,
    Records,
    Rows,
)
from sluice.protocol.frames import frame
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Answer,
    Change,
    Commit,
    Deliver,
    Describe,
    Described,
    Digest,
    Done,
    Entry,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Halted,
    Heard,
    Kind,
    Lost,
    Message,
    Notify,
    Question,
    Refused,
    Replay,
    ReplayEvent,
    Replaying,
    Reply,
    Request,
    Resume,
    Resumed,
    Role,
    Snapshot,
    Version,
)

#: The version of this protocol; both ends of a link speak the same.
PROTOCOL = 2


class Policy(IntEnum):
    """What a broker does when a subscriber is slower than what it asks for."""

    DROP_OLDEST = 0
    BLOCK = 1
    DISCONNECT = 2


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of whoever opened the connection."""

    protocol: int
    role: Role
    name: Peer
    incarnation: int
    #: How many notifications a client can take, to begin with.
    credit: int = 0
    policy: Policy = Policy.DROP_OLDEST
    #: What lets the peer in where tokens are asked for; it is a secret, and never shown.
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a hello."""

    protocol: int
    name: Peer
    incarnation: int
    #: What a durable broker has accepted from this client; None: it keeps no log.
    accepted: int | None
    heartbeat_seconds: float


@dataclass(frozen=True, slots=True)
class Bye:
    """The last message before a connection is closed, and why. `is_final`: to come again is useless."""

    reason: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? Sent when nothing else was."""


@dataclass(frozen=True, slots=True)
class Credit:
    """A subscriber can take this many notifications, counted from the beginning of the connection."""

    total: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A subscriber was too slow: so many of its notifications were dropped since it was last told."""

    count: int


#: What is said about the link itself, and not by the cores.
LinkMessage = Hello | Welcome | Bye | Ping | Credit | Dropped
Anything = Message | LinkMessage

Piece = bytes | memoryview
Pieces = Iterable[Piece]

_pack = msgspec.msgpack.Encoder().encode


def encode(message: Anything) -> list[Piece]:
    """A message as the pieces of its frames."""
    form = _BY_TYPE[type(message)]
    return [*frame(form.number, form.encode(message))]


def decode(type: int, payload: bytes) -> Anything:
    """The message in the payload of a frame."""
    form = _BY_NUMBER.get(type)
    if form is None:
        raise ProtocolError(f"a frame of the unknown type {type} came: is the peer of another version?")
    try:
        message: Anything = form.decode(payload)
        return message
    except ProtocolError:
        raise
    except (msgspec.MsgspecError, SluiceError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that should be {form.type.__name__} cannot be read: {error}") from None


# --- batches ----------------------------------------------------------------------------------------------------------

# form (0 records, 1 rows), publisher, count, numbers, lengths, place in a log
_Header = tuple[int, str, int, int | bytes, bytes, tuple[str, int | bytes, int] | None]
_header = msgspec.msgpack.Decoder(_Header)


def encode_batch(batch: Batch) -> list[Piece]:
    """A batch as bytes: the length of its header, the header, the records as they are."""
    body = batch.body
    logged = batch.logged
    place = None if logged is None else (logged.stream, _encode_numbers(logged.offsets), logged.time_micros)
    is_rows = isinstance(batch, Rows)
    lengths = _encode_array("I", batch.lengths) if isinstance(batch, Records) else b""
    header = _pack((int(is_rows), batch.publisher, len(batch), _encode_numbers(batch.numbers), lengths, place))
    return [len(header).to_bytes(4, "big"), header, body]


def decode_batch(payload: bytes) -> Batch:
    """The batch in these bytes, each of its records readable."""
    batch = open_batch(payload)
    _ = batch.notifications
    return batch


def open_batch(payload: bytes) -> Batch:
    """The batch in these bytes, which were read before: nobody looks at its records now, only at its header."""
    end = 4 + int.from_bytes(payload[:4], "big")
    if end > len(payload):
        raise ProtocolError("a batch ends within its header")
    form, publisher, count, numbers, lengths, place = _header.decode(payload[4:end])
    if not 1 <= count <= MAX_BATCH:
        raise ProtocolError(f"a batch of {count:,} notifications came, and batches have 1 to {MAX_BATCH:,}")
    _check_name(publisher)
    logged = None
    if place is not None:
        stream, offsets, time_micros = place
        logged = Logged(_check_name(stream), _decode_numbers(offsets, count), time_micros)
    rising = _decode_numbers(numbers, count)
    body = payload[end:]
    if form == 1:
        return Rows(publisher, rising, body=body, logged=logged)
    if form != 0:
        raise ProtocolError(f"a batch has the unknown form {form}")
    sizes = _decode_array("I", lengths, count)
    if sum(sizes) != len(body):
        raise ProtocolError(f"a batch has {len(body):,} bytes of records where {sum(sizes):,} were announced")
    return Records(publisher, rising, body=body, lengths=sizes, logged=logged)


def _encode_numbers(numbers: Sequence[int]) -> int | bytes:
    """Rising numbers: the first if they have no gaps."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return numbers[0]
    return _encode_array("q", numbers)


def _decode_numbers(said: int | bytes, count: int) -> Sequence[int]:
    if isinstance(said, int):
        if not 0 <= said < 1 << 62:
            raise ProtocolError(f"{said} is no number of a notification")
        return range(said, said + count)
    numbers = _decode_array("q", said, count)
    if numbers[0] < 0 or any(b <= a for a, b in pairwise(numbers)):
        raise ProtocolError("the numbers of a batch do not rise")
    return numbers


def _encode_array(code: str, numbers: Sequence[int]) -> bytes:
    return _little(
        numbers if isinstance(numbers, array) and numbers.typecode == code else array(code, numbers)
    ).tobytes()


def _decode_array(code: str, data: bytes, count: int) -> array[int]:
    numbers: array[int] = array(code)
    if len(data) != count * numbers.itemsize:
        raise ProtocolError(f"{len(data):,} bytes came where {count:,} numbers were announced")
    numbers.frombytes(data)
    return _little(numbers)


def _little(numbers: array[int]) -> array[int]:
    """Numbers with the bytes of each in the order in which they travel, the lowest first, or back again."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _check_name(name: str) -> str:
    if not name or len(name) > MAX_NAME:
        raise ProtocolError(f"a name has 1 to {MAX_NAME} characters, not {len(name):,}")
    return name


def _check_token(token: str | None) -> str | None:
    if token is not None and len(token) > MAX_TOKEN:
        raise ProtocolError(f"a token has at most {MAX_TOKEN:,} characters, not {len(token):,}")
    return token


# --- parts of messages ------------------------------------------------------------------------------------------------

_Entry = tuple[str, str | None, tuple[int | None, float | None] | None]
_Version = tuple[int, int]


def _encode_entry(entry: Entry) -> _Entry:
    replay = None if entry.replay is None else (entry.replay.last, entry.replay.seconds)
    return entry.where.to_sql(), entry.id, replay


def _decode_entry(said: _Entry) -> Entry:
    text, id, replay = said
    return Entry(parse(text), id, None if replay is None else _decode_replay(*replay))


def _decode_replay(last: int | None, seconds: float | None) -> Replay:
    if (last is not None and last < 0) or (seconds is not None and not seconds >= 0):
        raise ProtocolError(f"{last} notifications of the last {seconds} s cannot be replayed")
    return Replay(last, seconds)


def _decode_entries(said: list[_Entry]) -> tuple[Entry, ...]:
    return tuple(map(_decode_entry, said))


def _decode_change(kind: int, base: _Version, version: _Version, added: list[_Entry], removed: list[_Entry]) -> Change:
    change = Change(Kind(kind), Version(*base), Version(*version), _decode_entries(added), _decode_entries(removed))
    if len({*change.added, *change.removed}) < len(added) + len(removed):
        raise ProtocolError("a change names an entry twice")
    return change


def _encode_deliver(message: Deliver) -> list[Piece]:
    head = _pack((message.combinations, _encode_array("I", message.which)))
    return [len(head).to_bytes(4, "big"), head, *encode_batch(message.batch)]


_deliver_head = msgspec.msgpack.Decoder(tuple[tuple[tuple[str, ...], ...], bytes])


def _decode_deliver(payload: bytes) -> Deliver:
    end = 4 + int.from_bytes(payload[:4], "big")
    combinations, which = _deliver_head.decode(payload[4:end])
    batch = decode_batch(payload[end:])
    numbers: Sequence[int] = _decode_array("I", which, len(batch)) if which else ()
    if not combinations or (len(combinations) > 1 and not which) or any(one >= len(combinations) for one in numbers):
        raise ProtocolError("a delivery does not say whom it is for")
    return Deliver(batch, combinations, numbers)


def _decode_welcome(
    protocol: int, name: str, incarnation: int, accepted: int | None, heartbeat_seconds: float
) -> Welcome:
    if not 0 < heartbeat_seconds < math.inf:
        raise ProtocolError(f"a heart cannot beat every {heartbeat_seconds} s")
    return Welcome(protocol, _check_name(name), incarnation, accepted, heartbeat_seconds)


class _Part(NamedTuple):
    """A question or an answer: its name on the wire, and how its content is said."""

    type: type[Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _part(type: type[Any], content: Any, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> _Part:
    return _Part(type, encode, lambda said: decode(msgspec.convert(said, content)))


def _encode_fetched(answer: Fetched) -> Any:
    batches = [b"".join(encode_batch(batch)) for batch in answer.batches]
    return batches, answer.through, answer.first, answer.head, answer.missing


def _decode_fetched(said: Any) -> Fetched:
    batches, through, first, head, missing = said
    return Fetched(tuple(map(decode_batch, batches)), through, first, head, missing)


_FetchedContent = tuple[list[bytes], int, int, int, tuple[tuple[int, int], ...]]


def _encode_replay_event(question: ReplayEvent) -> Any:
    batches = [b"".join(encode_batch(batch)) for batch in question.batches]
    through = None if question.through is None else dict(question.through)
    return batches, question.after, through, question.missing


def _decode_replay_event(said: Any) -> ReplayEvent:
    batches, after, through, missing = said
    return ReplayEvent(tuple(map(decode_batch, batches)), _decode_place(after), through, missing)


def _decode_place(said: tuple[int, str, int] | None) -> Place | None:
    return None if said is None else Place(*said)


_PlaceContent = tuple[int, str, int] | None
_ReplayEventContent = tuple[list[bytes], _PlaceContent, dict[str, int] | None, tuple[tuple[str, int, int], ...]]

_QUESTIONS: dict[str, _Part] = {
    "fetch": _part(
        Fetch,
        tuple[int, int | None, str, int, float],
        lambda each: (each.after, each.until, each.where, each.max_bytes, each.wait_seconds),
        lambda said: Fetch(*said),
    ),
    "resume": _part(
        Resume,
        tuple[str, str, dict[str, int], bool],
        lambda each: (each.name, each.where, dict(each.start), each.holds),
        lambda said: Resume(*said),
    ),
    "commit": _part(
        Commit, tuple[str, dict[str, int]], lambda each: (each.name, dict(each.positions)), lambda said: Commit(*said)
    ),
    "forget": _part(Forget, str, lambda each: each.name, Forget),
    "describe": _part(Describe, None, lambda each: None, lambda said: Describe()),
    "replay": _part(ReplayEvent, _ReplayEventContent, _encode_replay_event, _decode_replay_event),
}
_ANSWERS: dict[str, _Part] = {
    "fetched": _part(Fetched, _FetchedContent, _encode_fetched, _decode_fetched),
    "resumed": _part(
        Resumed,
        tuple[str, dict[str, int]],
        lambda each: (each.where, dict(each.positions)),
        lambda said: Resumed(*said),
    ),
    "done": _part(Done, None, lambda each: None, lambda said: Done()),
    "described": _part(Described, dict[str, Any], lambda each: dict(each.report), Described),
    "failed": _part(Failed, str, lambda each: each.reason, Failed),
    "replaying": _part(
        Replaying,
        tuple[_PlaceContent, bool],
        lambda each: (each.after, each.is_over),
        lambda said: Replaying(_decode_place(said[0]), said[1]),
    ),
}
_NAMES = {part.type: name for parts in (_QUESTIONS, _ANSWERS) for name, part in parts.items()}


def _encode_part(part: Question | Answer) -> tuple[str, Any]:
    name = _NAMES[type(part)]
    return name, (_QUESTIONS.get(name) or _ANSWERS[name]).encode(part)


def _decode_part(parts: Mapping[str, _Part], name: str, said: Any) -> Any:
    if name not in parts:
        raise ProtocolError(f"{name!r} is none of {', '.join(parts)}")
    return parts[name].decode(said)


# --- the table of messages --------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """How one type of message looks."""

    number: int
    type: type[Any]
    encode: Callable[[Any], Pieces]
    decode: Callable[[bytes], Any]


def _packed(
    number: int, type: type[Any], content: Any, encode: Callable[[Any], Any], decode: Callable[..., Any]
) -> _Form:
    """A message that is one msgpack array of a fixed content."""
    decoder = msgspec.msgpack.Decoder(content)
    return _Form(
        number, type, lambda message: [_pack(encode(message))], lambda payload: decode(*decoder.decode(payload))
    )


_FORMS = (
    _packed(
        1,
        Hello,
        tuple[int, int, str, int, int, int, str | None],
        lambda m: (m.protocol, m.role, m.name, m.incarnation, m.credit, m.policy, m.token),
        lambda protocol, role, name, incarnation, credit, policy, token: Hello(
            protocol, Role(role), _check_name(name), incarnation, credit, Policy(policy), _check_token(token)
        ),
    ),
    _packed(
        2,
        Welcome,
        tuple[int, str, int, int | None, float],
        lambda m: (m.protocol, m.name, m.incarnation, m.accepted, m.heartbeat_seconds),
        _decode_welcome,
    ),
    _packed(3, Bye, tuple[str, bool], lambda m: (m.reason, m.is_final), Bye),
    _packed(4, Ping, tuple[()], lambda m: (), Ping),
    _packed(5, Credit, tuple[int], lambda m: (m.total,), Credit),
    _packed(6, Dropped, tuple[int], lambda m: (m.count,), Dropped),
    _packed(
        16,
        Change,
        tuple[int, _Version, _Version, list[_Entry], list[_Entry]],
        lambda m: (m.kind, m.base, m.version, [*map(_encode_entry, m.added)], [*map(_encode_entry, m.removed)]),
        _decode_change,
    ),
    _packed(
        17,
        Digest,
        tuple[int, _Version, int],
        lambda m: (m.kind, m.version, m.checksum),
        lambda kind, version, checksum: Digest(Kind(kind), Version(*version), checksum),
    ),
    _packed(18, Lost, tuple[int], lambda m: (m.kind,), lambda kind: Lost(Kind(kind))),
    _packed(
        19,
        Snapshot,
        tuple[int, _Version, list[_Entry]],
        lambda m: (m.kind, m.version, [*map(_encode_entry, m.entries)]),
        lambda kind, version, entries: Snapshot(Kind(kind), Version(*version), _decode_entries(entries)),
    ),
    _packed(
        20,
        Ack,
        tuple[int, _Version],
        lambda m: (m.kind, m.version),
        lambda kind, version: Ack(Kind(kind), Version(*version)),
    ),
    _Form(32, Notify, lambda m: encode_batch(m.batch), lambda payload: Notify(decode_batch(payload))),
    _Form(33, Deliver, _encode_deliver, _decode_deliver),
    _packed(34, Accepted, tuple[int], lambda m: (m.number,), Accepted),
    _packed(35, Refused, tuple[tuple[int, ...], str], lambda m: (m.numbers, m.reason), Refused),
    _packed(37, Halted, tuple[int, str], lambda m: (m.number, m.reason), Halted),
    _packed(38, Heard, tuple[()], lambda m: (), Heard),
    _packed(
        48,
        Request,
        tuple[str, str, str, Any],
        lambda m: (m.id, m.to, *_encode_part(m.question)),
        lambda id, to, name, said: Request(id, to, _decode_part(_QUESTIONS, name, said)),
    ),
    _packed(
        49,
        Reply,
        tuple[str, str, Any],
        lambda m: (m.id, *_encode_part(m.answer)),
        lambda id, name, said: Reply(id, _decode_part(_ANSWERS, name, said)),
    ),
)
_BY_TYPE = {form.type: form for form in _FORMS}
_BY_NUMBER = {form.number: form for form in _FORMS}
