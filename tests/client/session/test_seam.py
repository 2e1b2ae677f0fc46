"""Where the past meets what is live: what is asked, taken, kept and let go, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sluice.client.session import seam as seam_module
from sluice.client.session.seam import CaughtUp, Ended, Full, Live, Missed, Phase, Replayed, Seam, SeamNews
from sluice.protocol.batch import Batch, Logged, Peer, Place, Records
from sluice.protocol.messages import EntryId
from sluice.protocol.questions import (
    Answer,
    Describe,
    Described,
    Failed,
    Fetch,
    Fetched,
    Question,
    ReplayEvent,
    Replaying,
)


@dataclass
class Voice:
    """Remembers what a seam says."""

    said: list[SeamNews | Live] = field(default_factory=list)
    asked: list[tuple[Peer | None, Question]] = field(default_factory=list)
    answers: list[tuple[EntryId, Answer]] = field(default_factory=list)

    def say(self, news: SeamNews | Live) -> None:
        self.said.append(news)

    def ask(self, to: Peer | None, question: Question) -> EntryId:
        self.asked.append((to, question))
        return f"a/{len(self.asked)}"

    def answer(self, id: EntryId, answer: Answer) -> None:
        self.answers.append((id, answer))

    def take(self) -> list[tuple[type, list[int]]]:
        """What was given out since it was last asked for: how, and the offsets."""
        given = [
            (type(each), [*each.batch.logged.offsets])
            for each in self.said
            if isinstance(each, Replayed | CaughtUp | Live) and each.batch.logged is not None
        ]
        self.said = [each for each in self.said if not isinstance(each, Replayed | CaughtUp | Live)]
        return given


def at(*offsets: int, stream: Peer = "b", time: int | None = None) -> Batch:
    """What was logged at these offsets."""
    logged = Logged(stream, offsets, offsets[0] if time is None else time)
    return Records("pub", offsets, records=[{"n": offset} for offset in offsets], logged=logged)


def page(
    *batches: Batch, through: int, head: int, first: int = 1, missing: tuple[tuple[int, int], ...] = ()
) -> Fetched:
    return Fetched(batches, through, first, head, missing)


def new() -> tuple[Seam, Voice]:
    voice = Voice()
    return Seam("a/1", "TRUE", voice, 10.0, 1_000), voice


def joining(after: int = 2) -> tuple[Seam, Voice]:
    """A seam that has its past up to an offset of one stream, and has asked for the first page of what follows."""
    seam, voice = new()
    seam.completed(0.0)
    seam.asked("h/1", ReplayEvent((), None, {"b": after}), 0.0)
    seam.told("a/1", Described({"brokers": ["b"]}), 0.0)
    assert voice.asked == [(None, Describe()), ("b", Fetch(after, None, "TRUE", 1_000))]
    assert voice.said == [Ended("a/1", {"b": after})]
    voice.said.clear()
    return seam, voice


def test_the_past_is_taken_part_by_part_as_there_is_room() -> None:
    seam, voice = new()
    seam.asked("h/1", ReplayEvent(), 0.0)
    assert voice.answers == [("h/1", Replaying(None))]
    seam.asked("h/2", ReplayEvent((at(1), at(2))), 0.0)
    assert voice.take() == [(Replayed, [1]), (Replayed, [2])] and voice.said == [Full("a/1")]
    seam.asked("other/1", ReplayEvent((at(3),), Place(2, "b", 2)), 0.0)
    assert len(voice.answers) == 1 and voice.take() == [], "there is no room"
    seam.proceed(0.0)
    assert voice.answers[1:] == [("h/2", Replaying(Place(2, "b", 2))), ("other/1", Replaying(Place(2, "b", 2)))]


def test_what_does_not_follow_is_not_taken() -> None:
    seam, voice = new()
    seam.asked("h/1", ReplayEvent((at(2),)), 0.0)
    seam.proceed(0.0)
    for after in (None, Place(1, "b", 1), Place(2, "a", 2)):
        seam.asked("h/2", ReplayEvent((at(3),), after), 0.0)
    assert voice.take() == [(Replayed, [2])]
    assert voice.answers[1:] == [("h/2", Replaying(Place(2, "b", 2)))] * 3
    seam.asked("h/3", ReplayEvent((at(3),), Place(2, "b", 2), {"b": 5}, (("b", 4, 4),)), 0.0)
    assert voice.take() == [(Replayed, [3])] and voice.answers[-1] == ("h/3", Replaying(Place(3, "b", 3), is_over=True))
    assert voice.said[1:] == [
        Missed("a/1", "the history has lost them, or they are damaged", "b", 4, 4),
        Ended("a/1", {"b": 5}),
    ]
    seam.asked("h/4", ReplayEvent((at(6),), Place(3, "b", 3)), 0.0)
    assert voice.take() == [] and voice.answers[-1] == ("h/4", Replaying(Place(3, "b", 3), is_over=True))


def test_nothing_is_read_before_the_subscription_is_complete() -> None:
    seam, voice = new()
    seam.asked("h/1", ReplayEvent((), None, {"b": 2}), 0.0)
    assert voice.asked == []
    seam.completed(0.0)
    assert voice.asked == [(None, Describe())]


def test_the_head_divides_what_is_read_from_what_comes_live() -> None:
    seam, voice = joining(after=2)
    assert seam.came(at(3), 0.0) == () and seam.came(at(5, 6), 0.0) == ()
    seam.told("a/2", page(at(3), through=3, head=5), 0.0)
    assert voice.take() == [(CaughtUp, [3])] and len(voice.asked) == 2, "the next page waits for room"
    assert seam.came(at(7), 0.0) == ()
    seam.proceed(0.0)
    assert voice.asked[2:] == [("b", Fetch(3, 5, "TRUE", 1_000))]
    seam.told("a/3", page(at(4, 5), through=5, head=9), 0.0)
    assert voice.take() == [(CaughtUp, [4, 5]), (Live, [6]), (Live, [7])]
    assert [*seam.came(at(8, 9), 0.0)] == [0, 1] and [*seam.came(at(5), 0.0)] == []
    assert seam.positions == {"b": 9}


def test_what_comes_live_during_the_past_is_let_go() -> None:
    seam, voice = new()
    seam.completed(0.0)
    assert seam.came(at(1), 0.0) == () and voice.take() == []


def test_after_a_new_link_it_goes_on_from_what_was_given_out() -> None:
    seam, voice = joining(after=2)
    seam.told("a/2", page(through=2, head=2), 0.0)
    assert [*seam.came(at(4), 0.0)] == [0]
    seam.unlinked()
    assert seam.came(at(5), 1.0) == ()
    seam.completed(2.0)
    seam.told("a/3", Described({"brokers": ["b"]}), 2.0)
    assert voice.asked[2:] == [(None, Describe()), ("b", Fetch(4, None, "TRUE", 1_000))]


def test_what_a_broker_has_dropped_is_read() -> None:
    seam, voice = joining(after=2)
    seam.told("a/2", page(through=2, head=2), 0.0)
    seam.lagged(1.0)
    assert voice.asked[2:] == [(None, Describe())]


def test_each_stream_joins_in_its_own_time() -> None:
    seam, voice = new()
    seam.completed(0.0)
    seam.asked("h/1", ReplayEvent((), None, {"b": 2, "far": 7}), 0.0)
    seam.told("a/1", Described({"brokers": ["b"]}), 0.0)
    seam.told("a/2", page(through=2, head=2), 0.0)
    assert voice.asked[2:] == [("far", Fetch(7, None, "TRUE", 1_000))]
    seam.told("a/3", Failed("no way"), 0.0)
    assert [*seam.came(at(3), 0.0)] == [0], "the other is live already"
    assert len(voice.asked) == 3 and 0.0 < seam.deadline < 1.0
    seam.tick(seam.deadline)
    assert voice.asked[3:] == [("far", Fetch(7, None, "TRUE", 1_000))]
    seam.told("a/4", Failed("no way"), 1.0)
    assert seam.deadline > 1.0 + 2 * seam_module.RETRY_SECONDS - 0.01, "it is asked less and less often"


def test_a_stream_that_nobody_knew_is_read_from_its_beginning() -> None:
    seam, voice = joining(after=2)
    seam.told("a/2", page(through=2, head=2), 0.0)
    assert seam.came(at(9, stream="new"), 0.0) == ()
    assert voice.asked[2:] == [("new", Fetch(0, None, "TRUE", 1_000))]
    seam.told("a/3", page(at(5, stream="new"), through=9, head=9, first=4, missing=((1, 3),)), 0.0)
    assert voice.take() == [(CaughtUp, [5])] and voice.said == [Full("a/1")], "what was before is not missed"


def test_gaps_in_a_log_are_told() -> None:
    seam, voice = joining(after=2)
    seam.told("a/2", page(at(6), through=6, head=6, first=5, missing=((3, 4),)), 0.0)
    assert [each for each in voice.said if isinstance(each, Missed)] == [
        Missed("a/1", "they are past their retention, or damaged", "b", 3, 4)
    ]


def test_a_log_that_was_replaced_is_read_from_its_beginning() -> None:
    seam, voice = joining(after=7)
    seam.told("a/2", page(through=7, head=3), 0.0)
    assert [each.reason[:19] for each in voice.said if isinstance(each, Missed)] == ["its log was replaced"[:19]]
    assert voice.asked[2:] == [("b", Fetch(0, None, "TRUE", 1_000))]


def test_more_than_can_be_kept_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam_module, "MAX_KEPT", 2)
    seam, voice = joining(after=2)
    for offset in (4, 5, 6, 7):
        assert seam.came(at(offset), 0.0) == ()
    seam.told("a/2", page(through=3, head=3), 0.0)
    assert voice.take() == [] and voice.asked[2:] == [("b", Fetch(3, None, "TRUE", 1_000))]
    seam.told("a/3", page(at(4), at(5, 6, 7), through=7, head=7), 0.0)
    assert voice.take() == [(CaughtUp, [4]), (CaughtUp, [5, 6, 7])]
    assert [*seam.came(at(8), 0.0)] == [0]


def test_a_broker_without_a_log_is_live_and_told_of_after_a_new_link() -> None:
    seam, voice = joining(after=0)
    seam.told("a/2", Failed("b keeps no log: start it with a data directory"), 0.0)
    assert voice.said == [] and seam.deadline == float("inf")
    seam.unlinked()
    seam.completed(1.0)
    seam.told("a/3", Described({"brokers": ["b"]}), 1.0)
    seam.told("a/4", Failed("b keeps no log: start it with a data directory"), 1.0)
    (gap,) = voice.said
    assert isinstance(gap, Missed) and "keeps no log" in gap.reason and gap.stream is None


def test_without_a_history_it_goes_on_with_what_is_live() -> None:
    seam, voice = new()
    assert seam.deadline == float("inf")
    seam.completed(1.0)
    assert seam.deadline == 11.0
    seam.asked("h/1", ReplayEvent(), 5.0)
    assert seam.deadline == 15.0, "a history is there"
    seam.asked("h/2", ReplayEvent((at(1),)), 6.0)
    assert seam.deadline == float("inf"), "it is the program that takes its time"
    seam.proceed(20.0)
    phases = []
    for now in (29.9, 30.0):
        seam.tick(now)
        phases.append(seam.phase)
    assert phases == [Phase.PAST, Phase.GIVEN_UP] and isinstance(voice.said[-1], Missed)
    assert [*seam.came(at(5), 30.0)] == [0]
    seam.asked("h/3", ReplayEvent((at(2),), Place(1, "b", 1)), 31.0)
    assert voice.answers[-1] == ("h/3", Replaying(Place(1, "b", 1), is_over=True))


def test_a_question_without_an_answer_is_asked_again() -> None:
    seam, voice = joining(after=2)
    assert seam.deadline == 10.0
    assert seam.came(at(3), 1.0) == ()
    seam.tick(10.0)
    assert voice.asked[2:] == [("b", Fetch(2, None, "TRUE", 1_000))] and seam.deadline == 30.0
    seam.told("a/2", page(through=2, head=2), 11.0)
    assert seam.came(at(4), 11.0) == (), "an answer that is late counts for nothing"
    seam.told("a/3", page(at(3), through=3, head=3), 12.0)
    assert voice.take() == [(CaughtUp, [3]), (Live, [4])]
