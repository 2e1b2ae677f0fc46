"""Broken links: for how long each is held, who begins to look for another one, and what is counted."""

from __future__ import annotations

import pytest

from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.repair import Repair

HOLD_SECONDS = 10.0


def repair(name: str) -> Repair:
    return Repair(name, ReshapeConfig(repairs=True, hold_seconds=HOLD_SECONDS))


def test_a_link_that_breaks_again_and_again_is_held_longer_each_time_up_to_sixteen_times() -> None:
    one, now, holds = repair("a"), 100.0, []
    for _ in range(7):
        assert one.lost("b", now)
        broken = one.end("b", "returned")
        assert broken is not None
        holds.append((broken.until - now) / HOLD_SECONDS)
        now += 1.0
    assert holds == [1, 2, 4, 8, 16, 16, 16]
    assert one.lost("c", now) and one.broken["c"].until == now + HOLD_SECONDS, "each link is counted by itself"


def test_a_link_that_was_whole_for_long_begins_anew() -> None:
    one = repair("a")
    for now, hold in ((0.0, 1), (39.0, 2), (39.0 + 79.0, 4), (39.0 + 79.0 + 161.0, 1)):
        one.lost("b", now)
        assert one.broken["b"].until == now + hold * HOLD_SECONDS


@pytest.mark.parametrize("times", [1, 5])
def test_the_end_with_the_first_name_begins_and_both_within_the_hold(times: int) -> None:
    first, second = repair("a"), repair("b")
    for _ in range(times):
        first.lost("b", 0.0)
        second.lost("a", 0.0)
    (begins, follows) = (first.broken["b"], second.broken["a"])
    assert 0 < begins.next_at < follows.next_at < begins.until == follows.until
    assert first.due(begins.next_at) == [begins] and not second.due(begins.next_at)


def test_nothing_is_held_where_nothing_is_repaired() -> None:
    assert not Repair("a", ReshapeConfig()).lost("b", 0.0)


def test_what_became_of_broken_links_is_counted() -> None:
    one = repair("a")
    for peer, how in (("b", "returned"), ("c", "repaired"), ("d", "given_up")):
        one.lost(peer, 0.0)
        one.end(peer, how)
        assert one.end(peer, how) is None, "it was not broken any more"
    one.lost("e", 0.0)
    assert one.account(4.0) == {"held": 4, "returned": 1, "repaired": 1, "given_up": 1, "broken": {"e": 6.0}}
