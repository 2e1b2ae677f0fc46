"""Questions and answers as they travel in a request and its reply: each by its name, and its content as msgpack knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from sluice.errors import ProtocolError
from sluice.protocol.batch import Place
from sluice.protocol.packing import decode_batch, encode_batch
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Question,
    Recall,
    ReplayEvent,
    Replaying,
    Resume,
    Resumed,
)
from sluice.protocol.rewiring import Connect, Leave, Ordered, Part, Replace


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

QUESTIONS: dict[str, _Part] = {
    "fetch": _part(
        Fetch,
        tuple[int, int | None, str, int, float],
        lambda each: (each.after, each.until, each.where, each.max_bytes, each.wait_seconds),
        lambda said: Fetch(*said),
    ),
    "resume": _part(
        Resume,
        tuple[str, str, dict[str, int], bool, dict[str, int]],
        lambda each: (each.name, each.where, dict(each.start), each.holds, dict(each.reached)),
        lambda said: Resume(*said),
    ),
    "recall": _part(Recall, str, lambda each: each.name, Recall),
    "commit": _part(
        Commit, tuple[str, dict[str, int]], lambda each: (each.name, dict(each.positions)), lambda said: Commit(*said)
    ),
    "forget": _part(Forget, str, lambda each: each.name, Forget),
    "connect": _part(Connect, str, lambda each: each.address, Connect),
    "part": _part(Part, str, lambda each: each.neighbour, Part),
    "replace": _part(
        Replace,
        tuple[str, str, str, str],
        lambda each: (each.neighbour, each.near, each.far, each.address),
        lambda said: Replace(*said),
    ),
    "leave": _part(Leave, None, lambda each: None, lambda said: Leave()),
    "describe": _part(Describe, None, lambda each: None, lambda said: Describe()),
    "replay": _part(ReplayEvent, _ReplayEventContent, _encode_replay_event, _decode_replay_event),
}
ANSWERS: dict[str, _Part] = {
    "fetched": _part(Fetched, _FetchedContent, _encode_fetched, _decode_fetched),
    "resumed": _part(
        Resumed,
        tuple[str, dict[str, int]],
        lambda each: (each.where, dict(each.positions)),
        lambda said: Resumed(*said),
    ),
    "done": _part(Done, None, lambda each: None, lambda said: Done()),
    "ordered": _part(Ordered, str, lambda each: each.job, Ordered),
    "described": _part(Described, dict[str, Any], lambda each: dict(each.report), Described),
    "failed": _part(Failed, str, lambda each: each.reason, Failed),
    "replaying": _part(
        Replaying,
        tuple[_PlaceContent, bool],
        lambda each: (each.after, each.is_over),
        lambda said: Replaying(_decode_place(said[0]), said[1]),
    ),
}
_NAMES = {part.type: name for parts in (QUESTIONS, ANSWERS) for name, part in parts.items()}


def encode_part(part: Question | Answer) -> tuple[str, Any]:
    """The name of a question or an answer, and its content."""
    name = _NAMES[type(part)]
    return name, (QUESTIONS.get(name) or ANSWERS[name]).encode(part)


def decode_part(parts: Mapping[str, _Part], name: str, said: Any) -> Any:
    """The question or the answer of a name with this content."""
    if name not in parts:
        raise ProtocolError(f"{name!r} is none of {', '.join(parts)}")
    return parts[name].decode(said)
