"""Questions on their way: who is to hear the answer, and what is said when there will be none."""

from __future__ import annotations

import pytest

from sluice.protocol import request as request_module
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Reply, Request
from sluice.protocol.questions import Describe, Failed
from sluice.protocol.request import Requests


def ask(requests: Requests, asker: Peer, id: str, to: Peer, way: Peer | None) -> list[tuple[Peer, str, str]]:
    """The failures that are known at once."""
    return failures(requests.ask(asker, Request(id, to, Describe()), way))


def failures(found: object) -> list[tuple[Peer, str, str]]:
    told = []
    for asker, reply in found:  # type: ignore[attr-defined]
        assert isinstance(reply, Reply) and isinstance(reply.answer, Failed)
        told.append((asker, reply.id, reply.answer.reason))
    return told


def test_an_answer_goes_to_the_one_who_asked_and_once() -> None:
    requests = Requests("b")
    assert ask(requests, "alice", "alice/1", "b", None) == [] == ask(requests, "c", "dora/1", "d", "d")
    assert len(requests) == 2
    assert requests.answer("b", "dora/1") is None and requests.answer("d", "alice/1") is None, "they were not asked"
    assert requests.answer("d", "dora/1") == "c" and requests.answer("b", "alice/1") == "alice"
    assert requests.answer("b", "alice/1") is None and requests.answer("b", "eve/1") is None and len(requests) == 0


def test_who_asks_for_a_stranger_is_told_so() -> None:
    requests = Requests("b")
    assert ask(requests, "alice", "alice/1", "nowhere", None) == [("alice", "alice/1", "b knows no way to 'nowhere'")]
    assert len(requests) == 0


def test_when_a_way_breaks_those_who_asked_through_it_are_told() -> None:
    requests = Requests("b")
    ask(requests, "alice", "alice/1", "d", "c")
    ask(requests, "alice", "alice/2", "e", "e")
    ask(requests, "c", "carol/1", "b", None)
    ask(requests, "c", "carol/2", "e", "e")
    assert failures(requests.forget("c")) == [("alice", "alice/1", "the way from b through c broke: ask again")]
    assert requests.answer("b", "carol/1") is None and requests.answer("e", "carol/2") is None, (
        "nobody is there to hear it"
    )
    assert requests.answer("e", "alice/2") == "alice"


def test_too_many_questions_push_the_oldest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "MAX_REQUESTS", 2)
    requests = Requests("b")
    assert ask(requests, "alice", "alice/1", "b", None) == [] == ask(requests, "c", "carol/1", "b", None)
    ((asker, id, reason),) = ask(requests, "alice", "alice/2", "b", None)
    assert (asker, id) == ("alice", "alice/1") and "ask again later" in reason
    assert len(requests) == 2 and requests.answer("b", "alice/1") is None and requests.answer("b", "carol/1") == "c"
