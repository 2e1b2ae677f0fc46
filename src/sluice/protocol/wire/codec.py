"""Messages as bytes: control messages in msgpack, notifications as the bytes their publisher made; never pickle.

Every message has a number, an encoder and a decoder in one table, `_FORMS`. Types are checked on the way in, and a message that
is not what it says raises `ProtocolError`, nothing else. Vectors of clocks are spelled out once on each connection: whoever
has one encodes all of its messages with the same `ClocksSaid`, in order, and decodes what comes with the same `ClocksHeard`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sluice.errors import ProtocolError, SluiceError
from sluice.limits import MAX_ADDRESS, MAX_TOKEN
from sluice.protocol.batch import MARKED, Batch, Stamp
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Await,
    Change,
    Clocks,
    Deliver,
    Digest,
    Floor,
    Gone,
    Halted,
    Head,
    Heard,
    Kind,
    Lost,
    Missing,
    Notify,
    Passage,
    Passed,
    Quiet,
    Reached,
    Ready,
    Refused,
    Reply,
    Request,
    Role,
    Skipped,
    Snapshot,
    Started,
    Version,
)
from sluice.protocol.packing import Piece, check_name, decode_array, decode_batch, encode_array, encode_batch
from sluice.protocol.reshape.forms import RESHAPING
from sluice.protocol.wire.frames import frame
from sluice.protocol.wire.link import Anything, Bye, Channel, Credit, Dropped, Elsewhere, Hello, Ping, Policy, Welcome
from sluice.protocol.wire.questions import ANSWERS, QUESTIONS, decode_part, encode_part
from sluice.protocol.wire.tables import (
    ChangeSaid,
    SnapshotSaid,
    VersionSaid,
    decode_change,
    decode_snapshot,
    encode_change,
    encode_snapshot,
)
from sluice.protocol.wire.vectors import (
    ClocksHeard,
    ClocksSaid,
    Vector,
    check_clocks,
    check_covered,
    decode_runs,
    encode_runs,
)

Pieces = Iterable[Piece]

_pack = msgspec.msgpack.Encoder().encode


def encode(message: Anything, said: ClocksSaid | None = None) -> list[Piece]:
    """A message as the pieces of its frames; `said` knows what was spelled out on the connection before."""
    form = _BY_TYPE[type(message)]
    return [*frame(form.number, form.encode(message, said or ClocksSaid()))]


def decode(type: int, payload: bytes, heard: ClocksHeard | None = None) -> Anything:
    """The message in the payload of a frame; `heard` knows what was spelled out on the connection before."""
    form = _BY_NUMBER.get(type)
    if form is None:
        raise ProtocolError(f"a frame of the unknown type {type} came: is the peer of another version?")
    try:
        message: Anything = form.decode(payload, heard or ClocksHeard())
        return message
    except ProtocolError:
        raise
    except (msgspec.MsgspecError, SluiceError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that should be {form.type.__name__} cannot be read: {error}") from None


def _check_optional(name: str | None) -> str | None:
    return None if name is None else check_name(name)


def _check_offset(number: int) -> int:
    if not 0 <= number < 1 << 63:
        raise ProtocolError(f"{number} is neither an offset of a stream nor a time of a clock")
    return number


def _check_address(address: str) -> str:
    if len(address) > MAX_ADDRESS:
        raise ProtocolError(f"an address has at most {MAX_ADDRESS:,} characters, not {len(address):,}")
    return address


def _check_addresses(said: list[str]) -> tuple[str, ...]:
    return tuple(map(_check_address, said))


def _check_token(token: str | None) -> str | None:
    if token is not None and len(token) > MAX_TOKEN:
        raise ProtocolError(f"a token has at most {MAX_TOKEN:,} characters, not {len(token):,}")
    return token


# --- parts of messages ------------------------------------------------------------------------------------------------


def _with_head(head: bytes, batch: Batch) -> list[Piece]:
    """A batch behind something that is said of it."""
    return [len(head).to_bytes(4, "big"), head, *encode_batch(batch)]


def _after_head(payload: bytes) -> tuple[bytes, Batch]:
    end = 4 + int.from_bytes(payload[:4], "big")
    if end > len(payload):
        raise ProtocolError("a message ends within the head of its batch")
    return payload[4:end], decode_batch(payload[end:])


_Passage = tuple[list[int], Vector, str | None]
_Stamp = tuple[int, str, bool]


def _encode_stamp(stamp: Stamp | None) -> _Stamp | None:
    return None if stamp is None else (stamp.time, stamp.broker, stamp.is_marked)


def _decode_stamp(said: _Stamp | None) -> Stamp | None:
    if said is None or said == MARKED:
        return None if said is None else MARKED
    time, broker, is_marked = said
    return Stamp(_check_offset(time), check_name(broker), is_marked)


def _encode_notify(message: Notify, said: ClocksSaid) -> list[Piece]:
    passage, batch = message.passage, message.batch
    if passage is None and batch.stamp is None:
        return _with_head(b"", batch)
    passed: _Passage | None = None
    if passage is not None:
        assert batch.logged is not None and batch.logged.stream == passage.stream
        passed = encode_runs(passage.runs), said.number(passage.clocks), passage.to
    return _with_head(_pack((passed, _encode_stamp(batch.stamp), message.floor)), batch)


_notify_head = msgspec.msgpack.Decoder(tuple[_Passage | None, _Stamp | None, int | None])


def _decode_notify(payload: bytes, heard: ClocksHeard) -> Notify:
    head, batch = _after_head(payload)
    if not head:
        return Notify(batch)
    passed, stamp, floor = _notify_head.decode(head)
    batch.stamp = _decode_stamp(stamp)
    if floor is not None:
        _check_offset(floor)
    if passed is None:
        return Notify(batch, None, floor)
    if batch.logged is None:
        raise ProtocolError("a passage came with a batch of no log")
    said_runs, vector, to = passed
    runs = decode_runs(said_runs)
    check_covered(batch.logged.offsets, runs)
    return Notify(batch, Passage(batch.logged.stream, runs, heard.vector(vector), _check_optional(to)), floor)


def _decode_quiet(stream: str, runs: list[int], clocks: Clocks, to: str | None) -> Quiet:
    return Quiet(Passage(check_name(stream), decode_runs(runs), clocks, _check_optional(to)))


def _decode_head(stream: str, offset: int, clocks: Clocks, moment: int) -> Head:
    return Head(check_name(stream), _check_offset(offset), clocks, _check_offset(moment))


def _decode_missing(stream: str, by: str, runs: list[int], clock: int, moment: int) -> Missing:
    missing = decode_runs(runs) if runs else ()
    return Missing(check_name(stream), check_name(by), missing, _check_offset(clock), _check_offset(moment))


def _decode_reached(stream: str, offsets: dict[str, int]) -> Reached:
    return Reached(check_name(stream), check_clocks(offsets))


def _encode_deliver(message: Deliver, _: ClocksSaid) -> list[Piece]:
    stamp = _encode_stamp(message.batch.stamp) if message.ordered else None
    head = _pack((message.combinations, encode_array("I", message.which), message.reliable, stamp))
    return _with_head(head, message.batch)


_deliver_head = msgspec.msgpack.Decoder(tuple[tuple[tuple[str, ...], ...], bytes, bool, _Stamp | None])


def _decode_deliver(payload: bytes, _: ClocksHeard) -> Deliver:
    head, batch = _after_head(payload)
    combinations, which, reliable, stamp = _deliver_head.decode(head)
    batch.stamp = _decode_stamp(stamp)
    numbers: Sequence[int] = decode_array("I", which, len(batch)) if which else ()
    if not combinations or (len(combinations) > 1 and not which) or any(one >= len(combinations) for one in numbers):
        raise ProtocolError("a delivery does not say whom it is for")
    return Deliver(batch, combinations, numbers, reliable, stamp is not None)


def _decode_hello(
    protocol: int,
    role: int,
    name: str,
    incarnation: int,
    credit: int,
    policy: int,
    token: str | None,
    node: str | None,
    address: str | None,
    job: str | None,
) -> Hello:
    check_name(name)
    return Hello(
        protocol,
        Role(role),
        name,
        incarnation,
        credit,
        Policy(policy),
        _check_token(token),
        _check_optional(node),
        None if address is None else _check_address(address),
        _check_optional(job),
    )


def _decode_welcome(
    protocol: int,
    name: str,
    incarnation: int,
    accepted: int | None,
    heartbeat_seconds: float,
    node: str | None,
    unreliable: str | None,
    unordered: str | None,
) -> Welcome:
    if not 0 < heartbeat_seconds < math.inf:
        raise ProtocolError(f"a heart cannot beat every {heartbeat_seconds} s")
    return Welcome(
        protocol,
        check_name(name),
        incarnation,
        accepted,
        heartbeat_seconds,
        _check_optional(node),
        unreliable,
        unordered,
    )


# --- the table of messages --------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """How one type of message looks."""

    number: int
    type: type[Any]
    encode: Callable[[Any, ClocksSaid], Pieces]
    decode: Callable[[bytes, ClocksHeard], Any]


def _packed(
    number: int, type: type[Any], content: Any, encode: Callable[[Any], Any], decode: Callable[..., Any]
) -> _Form:
    """A message that is one msgpack array of a fixed content."""
    decoder = msgspec.msgpack.Decoder(content)
    return _Form(
        number, type, lambda message, _: [_pack(encode(message))], lambda payload, _: decode(*decoder.decode(payload))
    )


def _timed(
    number: int,
    type: type[Any],
    content: Any,
    encode: Callable[[Any, ClocksSaid], Any],
    decode: Callable[[Any, ClocksHeard], Any],
) -> _Form:
    """The same with clocks in it."""
    decoder = msgspec.msgpack.Decoder(content)
    return _Form(
        number,
        type,
        lambda message, said: [_pack(encode(message, said))],
        lambda payload, heard: decode(decoder.decode(payload), heard),
    )


_FORMS = (
    _packed(
        1,
        Hello,
        tuple[int, int, str, int, int, int, str | None, str | None, str | None, str | None],
        lambda m: (
            *(m.protocol, m.role, m.name, m.incarnation, m.credit),
            *(m.policy, m.token, m.node, m.address, m.job),
        ),
        _decode_hello,
    ),
    _packed(
        2,
        Welcome,
        tuple[int, str, int, int | None, float, str | None, str | None, str | None],
        lambda m: (
            *(m.protocol, m.name, m.incarnation, m.accepted),
            *(m.heartbeat_seconds, m.node, m.unreliable, m.unordered),
        ),
        _decode_welcome,
    ),
    _packed(
        3,
        Bye,
        tuple[str, bool, list[str]],
        lambda m: (m.reason, m.is_final, m.elsewhere),
        lambda reason, is_final, elsewhere: Bye(reason, is_final, _check_addresses(elsewhere)),
    ),
    _packed(4, Ping, tuple[()], lambda m: (), Ping),
    _packed(5, Credit, tuple[int], lambda m: (m.total,), Credit),
    _packed(6, Dropped, tuple[int], lambda m: (m.count,), Dropped),
    _packed(7, Channel, tuple[str], lambda m: (m.job,), Channel),
    _packed(8, Elsewhere, tuple[list[str]], lambda m: (m.addresses,), lambda said: Elsewhere(_check_addresses(said))),
    _packed(16, Change, ChangeSaid, encode_change, decode_change),
    _packed(
        17,
        Digest,
        tuple[int, VersionSaid, int],
        lambda m: (m.kind, m.version, m.checksum),
        lambda kind, version, checksum: Digest(Kind(kind), Version(*version), checksum),
    ),
    _packed(18, Lost, tuple[int], lambda m: (m.kind,), lambda kind: Lost(Kind(kind))),
    _packed(19, Snapshot, SnapshotSaid, encode_snapshot, decode_snapshot),
    _packed(
        20,
        Ack,
        tuple[int, VersionSaid],
        lambda m: (m.kind, m.version),
        lambda kind, version: Ack(Kind(kind), Version(*version)),
    ),
    _Form(32, Notify, _encode_notify, _decode_notify),
    _Form(33, Deliver, _encode_deliver, _decode_deliver),
    _packed(34, Accepted, tuple[int], lambda m: (m.number,), Accepted),
    _packed(35, Refused, tuple[tuple[int, ...], str], lambda m: (m.numbers, m.reason), Refused),
    _packed(37, Halted, tuple[int, str], lambda m: (m.number, m.reason), Halted),
    _packed(38, Heard, tuple[()], lambda m: (), Heard),
    _packed(
        39,
        Started,
        tuple[str, int, tuple[str, ...]],
        lambda m: (m.stream, m.offset, m.subscriptions),
        lambda stream, offset, ids: Started(check_name(stream), _check_offset(offset), ids),
    ),
    _packed(40, Ready, tuple[tuple[str, ...]], lambda m: (m.subscriptions,), Ready),
    _packed(
        41,
        Skipped,
        tuple[str, list[int], tuple[str, ...]],
        lambda m: (m.stream, encode_runs(m.runs), m.subscriptions),
        lambda stream, runs, ids: Skipped(check_name(stream), decode_runs(runs), ids),
    ),
    _packed(
        42,
        Passed,
        tuple[dict[str, int], tuple[str, ...], int],
        lambda m: (dict(m.offsets), m.subscriptions, m.moment),
        lambda offsets, ids, moment: Passed(check_clocks(offsets), ids, _check_offset(moment)),
    ),
    _packed(
        48,
        Request,
        tuple[str, str, str, Any],
        lambda m: (m.id, m.to, *encode_part(m.question)),
        lambda id, to, name, said: Request(id, to, decode_part(QUESTIONS, name, said)),
    ),
    _packed(
        49,
        Reply,
        tuple[str, str, Any],
        lambda m: (m.id, *encode_part(m.answer)),
        lambda id, name, said: Reply(id, decode_part(ANSWERS, name, said)),
    ),
    _timed(
        64,
        Quiet,
        tuple[str, list[int], Vector, str | None],
        lambda m, said: (
            m.passage.stream,
            encode_runs(m.passage.runs),
            said.number(m.passage.clocks),
            m.passage.to,
        ),
        lambda content, heard: _decode_quiet(content[0], content[1], heard.vector(content[2]), content[3]),
    ),
    _timed(
        65,
        Head,
        tuple[str, int, Vector, int],
        lambda m, said: (m.stream, m.offset, said.number(m.clocks), m.moment),
        lambda content, heard: _decode_head(content[0], content[1], heard.vector(content[2]), content[3]),
    ),
    _packed(
        66,
        Missing,
        tuple[str, str, list[int], int, int],
        lambda m: (m.stream, m.by, encode_runs(m.runs), m.clock, m.moment),
        _decode_missing,
    ),
    _packed(
        67,
        Gone,
        tuple[str, list[int], str],
        lambda m: (m.stream, encode_runs(m.runs), m.to),
        lambda stream, runs, to: Gone(check_name(stream), decode_runs(runs), check_name(to)),
    ),
    _packed(68, Reached, tuple[str, dict[str, int]], lambda m: (m.stream, dict(m.offsets)), _decode_reached),
    _packed(80, Floor, tuple[int], lambda m: (m.time,), lambda time: Floor(_check_offset(time))),
    _packed(81, Await, tuple[int], lambda m: (m.time,), lambda time: Await(_check_offset(time))),
    *(_packed(*form) for form in RESHAPING),
)
_BY_TYPE = {form.type: form for form in _FORMS}
_BY_NUMBER = {form.number: form for form in _FORMS}
