"""A subscription that is reliable and ordered: several streams become one, and nothing is given out before its turn."""

from __future__ import annotations

import math

import pytest

import sluice.client.session.merged as module
from sluice.client.session.merged import Merged
from sluice.client.session.seam import Begun, Missed
from sluice.protocol.batch import Batch, Logged, Peer, Records
from sluice.protocol.questions import Fetched
from tests.client.session.test_tracked import Voice


def batch(stream: Peer, offset: int, moment: int, count: int = 1) -> Batch:
    """Something that was stored together."""
    places = Logged(stream, range(offset, offset + count), 0, moment)
    return Records.of("alice", moment, [{"n": moment}] * count).placed(places)


def merged(*streams: Peer) -> tuple[Merged, Voice]:
    """A subscription that has started in some streams."""
    voice = Voice()
    made = Merged("a/1", "true", voice, 1_000)
    for stream in streams:
        made.started(stream, 1, 0.0)
    return made, voice


def came(made: Merged, stream: Peer, offset: int, moment: int, count: int = 1) -> None:
    assert made.came(batch(stream, offset, moment, count), 0.0) == (), "it is said when it is its turn"


def passed(made: Merged, moment: int) -> None:
    made.passed({}, moment, 0.0)


def given(voice: Voice) -> list[tuple[Peer, int]]:
    """The streams and offsets of what was given out, in order."""
    batches = [
        each.batch.logged for each in voice.said if not isinstance(each, Begun | Missed) and hasattr(each, "batch")
    ]
    return [(logged.stream, offset) for logged in batches if logged is not None for offset in logged.offsets]


def begun(voice: Voice) -> list[tuple[Peer, int]]:
    return [(each.stream, each.offset) for each in voice.said if isinstance(each, Begun)]


def test_streams_become_one_by_their_moments() -> None:
    made, voice = merged("s", "t")
    came(made, "s", 1, 5)
    came(made, "t", 1, 3)
    assert given(voice) == [] and made.waits_for == ["t"]
    came(made, "t", 2, 5)
    assert given(voice) == [("t", 1)] and made.waits_for == ["s", "t"]
    passed(made, 4)
    assert given(voice) == [("t", 1)]
    passed(made, 5)
    assert given(voice) == [("t", 1), ("s", 1), ("t", 2)] and made.waits_for == []
    came(made, "t", 3, 6)
    assert made.positions == {"s": 1, "t": 2}, "what is held back has not come"


def test_what_was_stored_together_need_not_come_together() -> None:
    made, voice = merged("a", "z")
    came(made, "z", 1, 4)
    came(made, "a", 1, 4)
    passed(made, 3)
    assert given(voice) == [], "more with the moment 4 may come of a, and precedes that of z"
    came(made, "a", 2, 4)
    passed(made, 4)
    assert given(voice) == [("a", 1), ("a", 2), ("z", 1)]


def test_a_stream_that_nobody_delivers_is_waited_for() -> None:
    made, voice = merged("s", "t")
    made.unlinked()
    made.started("s", 1, 0.0)
    came(made, "s", 1, 5)
    passed(made, 9)
    assert given(voice) == [] and made.waits_for == ["t"]
    made.started("t", 1, 0.0)
    came(made, "t", 1, 4)
    passed(made, 9)
    assert given(voice) == [("t", 1), ("s", 1)]


def test_what_was_read_comes_before_what_was_live_and_is_later() -> None:
    made, voice = merged("s", "t")
    made.unlinked()
    made.started("s", 3, 0.0)
    made.started("t", 1, 0.0)
    came(made, "t", 1, 6)
    passed(made, 9)
    assert given(voice) == [], "the log of s is still being read"
    came(made, "s", 3, 8)
    made.told("q1", Fetched((batch("s", 1, 4),), 1, 1, 9), 0.0)
    assert given(voice) == []
    made.told("q2", Fetched((batch("s", 2, 7),), 2, 1, 9), 0.0)
    assert given(voice) == [("s", 1), ("t", 1), ("s", 2), ("s", 3)]


def test_a_new_stream_begins_behind_all_that_was_given_out() -> None:
    made, voice = merged("s")
    came(made, "s", 1, 5)
    passed(made, 7)
    made.started("new", 4, 0.0)
    assert begun(voice) == [("s", 1)]
    came(made, "new", 4, 6)
    came(made, "s", 2, 12)
    came(made, "new", 5, 9)
    assert begun(voice) == [("s", 1), ("new", 5)], "the moment 6 is past"
    passed(made, 12)
    assert given(voice) == [("s", 1), ("new", 5), ("s", 2)]
    made.started("quiet", 1, 0.0)
    came(made, "s", 3, 13)
    passed(made, 12)
    assert begun(voice)[2:] == [("quiet", 1)] and made.waits_for
    passed(made, 13)
    assert given(voice)[3:] == [("s", 3)]


def test_a_new_stream_whose_link_breaks_before_it_begins_begins_anew() -> None:
    made, voice = merged("s")
    came(made, "s", 1, 5)
    passed(made, 7)
    made.started("new", 4, 0.0)
    made.unlinked()
    assert made.positions == {"s": 1}
    made.started("s", 2, 1.0)
    passed(made, 9)
    came(made, "s", 2, 9)
    assert made.waits_for == [] and given(voice) == [("s", 1)], "it came later than what its broker has promised"
    assert [(each.stream, each.first) for each in voice.said if isinstance(each, Missed)] == [("s", 2)]
    made.started("new", 6, 1.0)
    passed(made, 10)
    assert begun(voice) == [("s", 1), ("new", 6)]


def test_what_there_is_no_room_for_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    made, voice = merged("s", "t")
    for number in range(1, 7):
        came(made, "s", number, number)
    assert made.positions == {"s": 0, "t": 0} and voice.asked == [] and made.deadline == math.inf
    came(made, "t", 1, 10)
    assert given(voice) == [("s", 1), ("s", 2)], "what others wait for has room"
    [(stream, question)] = voice.asked
    assert (stream, question.after, question.until) == ("s", 3, 4)
    made.told("q1", Fetched((batch("s", 4, 4),), 4, 1, 6), 0.0)
    passed(made, 10)
    assert given(voice)[2:] == [("s", 3), ("s", 4), ("s", 5), ("s", 6), ("t", 1)]
