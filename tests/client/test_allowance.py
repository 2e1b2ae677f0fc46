"""The credit of a client: what the program takes is granted again, whenever it takes it."""

from __future__ import annotations

from sluice.client.allowance import Allowance


def test_what_is_taken_is_granted_in_steps() -> None:
    told: list[int] = []
    allowance = Allowance(8, told.append)
    assert allowance.begin() == 8
    allowance.opened()
    allowance.came(8)
    allowance.holds(8)
    for _ in range(8):
        allowance.taken(1)
    assert told == [10, 12, 14, 16]


def test_what_is_taken_during_a_handshake_is_granted_after_it() -> None:
    told: list[int] = []
    allowance = Allowance(8, told.append)
    allowance.begin()
    allowance.opened()
    allowance.came(8)
    allowance.holds(8)
    # The link broke: the broker is told that there is no room, and the program makes some before the broker answers.
    assert allowance.begin() == 0
    allowance.taken(8)
    assert told == []
    allowance.opened()
    assert told == [8]
