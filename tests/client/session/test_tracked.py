"""A reliable subscription at its client: nothing twice, and what lies between two links is read from the log."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import sluice.client.session.tracked as module
from sluice.client.session.seam import CaughtUp, Live, Missed, SeamNews
from sluice.client.session.tracked import Tracked
from sluice.protocol.batch import Batch, Logged, Peer, Records
from sluice.protocol.messages import EntryId
from sluice.protocol.questions import Answer, Failed, Fetch, Fetched, Question


@dataclass
class Voice:
    """Writes down what is said and asked."""

    said: list[SeamNews | Live] = field(default_factory=list)
    asked: list[tuple[Peer | None, Fetch]] = field(default_factory=list)

    def say(self, news: SeamNews | Live) -> None:
        self.said.append(news)

    def ask(self, to: Peer | None, question: Question) -> EntryId:
        assert isinstance(question, Fetch)
        self.asked.append((to, question))
        return f"q{len(self.asked)}"

    def answer(self, id: EntryId, answer: Answer) -> None:
        raise AssertionError("nobody has asked")

    def got(self) -> list[int]:
        """The offsets that were given out after having been read or kept."""
        batches = [news.batch for news in self.said if isinstance(news, CaughtUp | Live)]
        return [offset for each in batches if each.logged is not None for offset in each.logged.offsets]


def batch(*offsets: int) -> Batch:
    return Records.of("alice", offsets[0], [{"n": offset} for offset in offsets]).placed(Logged("s", offsets, 0))


def tracked() -> tuple[Tracked, Voice]:
    voice = Voice()
    return Tracked("a/1", "true", voice, 1_000), voice


def test_what_comes_before_the_start_or_twice_is_let_go() -> None:
    subscription, _ = tracked()
    assert subscription.came(batch(3), 0.0) == ()
    subscription.started("s", 5, 0.0)
    assert subscription.starts == {"s": 5}
    assert [*subscription.came(batch(4, 5, 6), 0.0)] == [1, 2]
    assert [*subscription.came(batch(6, 7), 0.0)] == [1]
    assert subscription.positions == {"s": 7}


def test_what_was_not_for_it_is_not_read_again() -> None:
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.came(batch(1), 0.0)
    subscription.passed({"s": 7, "t": 3}, 0, 0.0)
    assert subscription.positions == {"s": 7}
    subscription.passed({"s": 5}, 0, 0.0)
    subscription.unlinked()
    subscription.started("s", 10, 0.0)
    assert [question.after for _, question in voice.asked] == [7]
    subscription.passed({"s": 9}, 0, 0.0)
    assert subscription.positions == {"s": 7}, "what is read may be for it"


def test_a_new_link_reads_what_lies_between() -> None:
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.came(batch(1, 2), 0.0)
    subscription.unlinked()
    subscription.started("s", 6, 1.0)
    assert subscription.starts == {"s": 1}
    [(to, question)] = voice.asked
    assert (to, question.after, question.until) == ("s", 2, 5)
    assert subscription.came(batch(6, 7), 1.0) == ()
    subscription.told("q1", Fetched((batch(3),), 3, 1, 7), 1.0)
    assert voice.asked[1][1].after == 3
    subscription.told("q2", Fetched((batch(5),), 5, 1, 7), 1.0)
    assert voice.got() == [3, 5, 6, 7] and subscription.positions == {"s": 7}
    assert [*subscription.came(batch(8), 1.0)] == [0]


def test_what_is_lost_is_told_by_its_range() -> None:
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.unlinked()
    subscription.started("s", 9, 0.0)
    subscription.told("q1", Fetched((), 8, 5, 8, ((1, 4),)), 0.0)
    subscription.skipped("s", ((9, 11),))
    lost = [(each.stream, each.first, each.last) for each in voice.said if isinstance(each, Missed)]
    assert lost == [("s", 1, 4), ("s", 9, 11)]


def test_a_log_that_does_not_answer_is_asked_again() -> None:
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.unlinked()
    subscription.started("s", 3, 0.0)
    subscription.told("q1", Failed("the way broke"), 0.0)
    assert 0.0 < subscription.deadline < 1.0
    subscription.tick(subscription.deadline)
    subscription.tick(subscription.deadline)
    assert len(voice.asked) == 3
    subscription.told("q1", Fetched((batch(1),), 2, 1, 2), 50.0)
    assert voice.got() == []
    subscription.told("q3", Fetched((batch(1),), 2, 1, 2), 50.0)
    assert voice.got() == [1] and subscription.deadline == float("inf")


def test_more_than_can_be_kept_is_read_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.unlinked()
    subscription.started("s", 3, 0.0)
    for offset in range(3, 9):
        assert subscription.came(batch(offset), 0.0) == ()
    subscription.told("q1", Fetched((batch(1, 2),), 2, 1, 8), 0.0)
    assert voice.asked[1][1].after == 2 and voice.asked[1][1].until == 6
    subscription.told("q2", Fetched((batch(3, 4, 5, 6),), 6, 1, 8), 0.0)
    assert voice.got() == [*range(1, 9)]


def test_what_was_dropped_on_its_last_way_is_read_up_to_the_end() -> None:
    subscription, voice = tracked()
    subscription.started("s", 1, 0.0)
    subscription.came(batch(1), 0.0)
    subscription.lagged(0.0)
    assert voice.asked[0][1].after == 1 and voice.asked[0][1].until is None
    assert subscription.came(batch(4), 0.0) == ()
    subscription.told("q1", Fetched((batch(2, 3),), 3, 1, 3), 0.0)
    assert voice.got() == [2, 3, 4]
