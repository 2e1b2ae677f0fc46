"""The publisher's broker: its log waits for those who rely on it."""

from __future__ import annotations

import math

from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.source import Source

CONFIG = ReliableConfig(absence_seconds=60.0)


def test_what_nobody_relies_on_is_not_needed() -> None:
    source = Source("b", 0, 0, CONFIG)
    source.head = 10
    source.see(["b"], 0.0)
    assert source.needs_from(0.0) is None


def test_what_the_last_has_not_reached_is_needed() -> None:
    source = Source("b", 0, 0, CONFIG)
    source.see(["c", "d"], 0.0)
    source.note({"c": 7})
    assert source.needs_from(0.0) == 1, "nothing is known of d"
    source.note({"d": 4})
    assert source.needs_from(1.0) == 5
    source.note({"d": 3})
    assert source.needs_from(1.0) == 5, "nobody goes back"
    source.note({"d": 9})
    assert source.needs_from(1.0) == 8


def test_who_is_out_of_touch_is_waited_for_a_while() -> None:
    source = Source("b", 0, 0, CONFIG)
    source.see(["c", "d"], 0.0)
    source.note({"c": 7, "d": 4})
    source.see(["c"], 60.0)
    assert source.needs_from(60.0) == 5
    source.see(["c"], 61.0)
    assert source.needs_from(61.0) == 8
    source.see(["c", "d"], 62.0)
    assert source.needs_from(62.0) == 1, "it may have begun anew"


def test_the_end_of_the_stream_does_not_go_back_when_something_of_it_comes_by_again() -> None:
    source = Source("b", 0, 0, CONFIG)
    source.stored(1, 7)
    source.stored(2, 9)
    source.stored(1, 7)
    assert source.head == 2 and source.moment == 9


def test_after_a_start_all_are_waited_for() -> None:
    source = Source("b", 12, 0, CONFIG)
    assert source.needs_from(0.0) == 1
    source.see([], 5.0)
    source.see(["c"], 6.0)
    source.note({"c": 11})
    assert source.needs_from(64.0) == 1
    assert source.needs_from(65.0) == 12


def test_nothing_is_promised_that_could_be_given_again_after_a_crash() -> None:
    source = Source("b", 0, 5, ReliableConfig(reserved_moments=10, report_seconds=1.0))
    assert source.promised(9) == 5 and source.reserve(5) is None
    assert source.reserve(9) == 19 and source.reserve(9) is None, "once at a time"
    source.was_reserved(0, 3.0)
    assert source.promised(9) == 5 and source.reserve(9) is None and source.reserve_at == 4.0, "the disk is full"
    source.reserve_at = math.inf
    assert source.reserve(9) == 19
    source.was_reserved(19, 4.0)
    assert source.promised(9) == 9 and source.promised(25) == 19
    source.stored(1, 22)
    assert source.promised(25) == 22, "what is in the log was given"
