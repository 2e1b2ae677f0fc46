"""What programs build on interest: demand, factories and histories."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluice import parse
from sluice.errors import ConfigurationError
from sluice.match import filterset
from sluice.protocol import interest
from sluice.protocol.batch import Notification, NotificationId
from sluice.protocol.interest import Demand, Factory, History, Start, Stop
from sluice.protocol.messages import Entry, Replay
from tests.protocol.drive import entry
from tests.protocol.route.some import Some, any_matches


def note(number: int, **record: Any) -> Notification:
    return Notification(NotificationId("p", number), record)


def test_demand_follows_interest() -> None:
    demand = Demand()
    assert not demand.wants({"x": 1})
    demand.update([entry("x = 1", "a/1"), entry("x < 3", "a/2")], [])
    assert len(demand) == 2 and list(demand) == ["a/1", "a/2"]
    assert demand.wants({"x": 1}) and demand.wants({"x": 2}) and not demand.wants({"x": 3})
    assert demand.wanted_by(parse("x BETWEEN 2 AND 9")) == ["a/2"]
    demand.update([], [entry("x < 3", "a/2")])
    assert demand.wants({"x": 1}) and not demand.wants({"x": 2})


@pytest.mark.parametrize("scan_up_to", [0, 24])
def test_demand_takes_what_comes_again_once(scan_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost link interest may come again, and something unknown may go."""
    monkeypatch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
    demand = Demand()
    demand.update([entry("x = 2", "a/1")], [])
    assert demand.wants({"x": 2})
    demand.update([entry("x = 2", "a/1")], [])
    demand.update([], [entry("x = 2", "a/1")])
    assert not demand.wants({"x": 2})
    demand.update([entry("x = 1", "a/1"), entry("x = 1", "a/1")], [])
    demand.update([], [entry("x = 1", "a/1"), entry("x = 9", "a/9")])
    assert len(demand) == 0
    demand.update([entry("x = 1")], [entry("x = 1")])
    assert len(demand) == 0, "nobody in particular"


def test_demand_lets_an_id_change_its_filter() -> None:
    demand = Demand()
    demand.update([entry("x = 1", "a/1")], [])
    demand.update([entry("x = 2", "a/1")], [entry("x = 1", "a/1")])
    assert demand.wants({"x": 2}) and not demand.wants({"x": 1})


def test_demand_wants_what_somebody_wants() -> None:
    some = Some(random.Random(7))
    demand = Demand()
    held: list[Entry] = []
    for _ in range(60):
        added = [some.entry()]
        removed = [held.pop(some.random.randrange(len(held)))] if held and some.random.random() < 0.4 else []
        held += added
        demand.update(added, removed)
    for record in some.records(each.where for each in held[:10]):
        assert demand.wants(record) == any_matches([each.where for each in held], record)


SERVICES = {"low": parse("x < 10"), "high": parse("x > 5"), "text": parse("s IS NOT NULL AND x IS NULL")}


def test_a_factory_starts_at_the_first_wish_and_stops_after_the_last() -> None:
    factory = Factory(SERVICES)
    assert factory.running == []
    assert factory.update([entry("x = 1", "a/1")], []) == [Start("low")]
    assert factory.update([entry("x = 7", "a/2")], []) == [Start("high")]
    assert factory.running == ["low", "high"]
    assert factory.update([], [entry("x = 1", "a/1")]) == []
    assert factory.update([], [entry("x = 7", "a/2")]) == [Stop("low"), Stop("high")]
    assert factory.running == []


def test_a_factory_leaves_alone_what_goes_on() -> None:
    factory = Factory(SERVICES)
    factory.update([entry("x = 1", "a/1")], [])
    assert factory.update([entry("x = 2", "b/1")], [entry("x = 1", "a/1")]) == []
    assert factory.update([entry("x = 20", "b/2")], [entry("x = 2", "b/1")]) == [Start("high"), Stop("low")]


def test_a_factory_takes_what_comes_again_once() -> None:
    factory = Factory(SERVICES)
    factory.update([entry("x = 1", "a/1")], [])
    assert factory.update([entry("x = 1", "a/1")], []) == []
    assert factory.update([], [entry("x = 5", "nobody/1"), entry("x = 5")]) == []
    assert factory.update([], [entry("x = 1", "a/1")]) == [Stop("low")]


def history_of(count: int, **options: Any) -> History:
    history = History(**options)
    for number in range(count):
        history.record(note(number, x=number), float(number))
    return history


def answer(history: History, wish: Entry, now: float = 10.0) -> list[int]:
    return [each.id.number for each in history.answer(wish, now)]


def test_a_history_gives_what_was_wished_for_oldest_first() -> None:
    assert answer(history_of(6), entry("x > 2", "a/1", Replay())) == [3, 4, 5]
    assert answer(history_of(6), entry("x > 2", "a/1", Replay(last=2))) == [4, 5]
    assert answer(history_of(6), entry("x > 2", "a/1", Replay(last=0))) == []
    assert answer(history_of(6), entry("x >= 0", "a/1", Replay(seconds=6.0))) == [4, 5]
    assert answer(history_of(6), entry("x >= 0", "a/1", Replay(last=9, seconds=7.5))) == [3, 4, 5]


def test_a_history_answers_nobody_who_did_not_ask() -> None:
    history = history_of(3)
    assert answer(history, entry("true", "a/1")) == [] == answer(history, entry("true", None, Replay()))


def test_a_history_answers_once() -> None:
    history = history_of(3)
    assert answer(history, entry("true", "a/1", Replay())) == [0, 1, 2]
    assert answer(history, entry("true", "a/1", Replay())) == []
    assert answer(history, entry("true", "a/2", Replay())) == [0, 1, 2]


def test_a_history_is_bounded() -> None:
    assert answer(history_of(6, limit=2), entry("true", "a/1", Replay())) == [4, 5]
    history = history_of(6, seconds=3.0)
    assert len(history) == 3
    assert answer(history, entry("true", "a/1", Replay()), now=6.5) == [4, 5]
    assert answer(history, entry("true", "a/2", Replay()), now=99.0) == [] and len(history) == 0


def test_a_history_forgets_whom_it_answered_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "MAX_ANSWERED", 2)
    history = history_of(1)
    for name in ("a/1", "a/2", "a/3"):
        assert answer(history, entry("true", name, Replay())) == [0]
    assert answer(history, entry("true", "a/3", Replay())) == []
    assert answer(history, entry("true", "a/1", Replay())) == [0]


@pytest.mark.parametrize("options", [{"limit": 0}, {"seconds": 0.0}, {"seconds": -1.0}, {"seconds": float("nan")}])
def test_a_history_of_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="keeps nothing"):
        History(**options)
