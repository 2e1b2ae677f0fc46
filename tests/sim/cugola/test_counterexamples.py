"""Each repair is needed: a small run goes wrong without it, and well with it."""

from __future__ import annotations

import pytest

from sluice.sim.cugola import COUNTER_EXAMPLES, LITERAL, REPAIRED, CounterExample, Pattern, Repair
from sluice.sim.cugola.dispatcher import Send, Update
from sluice.sim.cugola.published import Published

each = pytest.mark.parametrize("example", COUNTER_EXAMPLES, ids=lambda one: one.lacking.name)

SAYS = [
    ["tables: D does not know that B wants 0", "tables: A does not know that D wants 0"],
    ["tables: C does not know that E wants 0", "tables: B does not know that C wants 0"],
    ["tables: A thinks that D wants 0"],
    ["tables: B thinks that A wants 0", "tables: D thinks that B wants 0", "tables: A thinks that D wants 0"],
    ["tables: C thinks that B wants 0", "tables: A thinks that C wants 0", "tables: B thinks that A wants 0"],
    ["tables: C thinks that A wants 0", "tables: A thinks that B wants 0", "tables: B thinks that C wants 0"],
    ["locality: X is not on the path and is told something"],
]


@each
def test_literal_fails_and_repaired_does_not(example: CounterExample) -> None:
    assert example.broken(LITERAL)
    assert not example.broken(REPAIRED)


@pytest.mark.parametrize(("example", "says"), [*zip(COUNTER_EXAMPLES, SAYS, strict=True)])
def test_what_goes_wrong_without_the_repair(example: CounterExample, says: list[str]) -> None:
    assert [str(one) for one in example.without_the_repair()] == says


def test_every_repair_has_one() -> None:
    assert {example.lacking for example in COUNTER_EXAMPLES} == set(Repair)


@pytest.mark.parametrize("repairs", [LITERAL, REPAIRED])
def test_a_client_is_forgotten_without_any_substitution(repairs: frozenset[Repair]) -> None:
    """Figure 8 by itself: of two clients one goes, and a neighbour who wants the same is told that nobody is left."""
    wanted = frozenset({Pattern(0, 0)})
    dispatcher = Published("A", ("B",), {"B": wanted, "stays": wanted, "goes": wanted}, repairs)
    dispatcher.unsubscribe("goes")
    assert dispatcher.effects() == ([Send("B", Update(removed=wanted))] if repairs == LITERAL else [])
