"""Small runs in which the published protocol fails, one for each repair; a link takes one unit of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluice.sim.broken import Broken
from sluice.sim.cugola.checks import disturbed, wrong_tables
from sluice.sim.cugola.network import History, run
from sluice.sim.cugola.pattern import Pattern
from sluice.sim.cugola.plan import Client, Plan
from sluice.sim.cugola.published import REPAIRED, Repair, published
from sluice.sim.cugola.substitution import Substitution
from sluice.sim.padres.tree import Tree


@dataclass(frozen=True, slots=True)
class CounterExample:
    """A plan that goes wrong without one repair, and the check that notices it."""

    lacking: Repair
    plan: Plan
    check: Callable[[History], Iterator[Broken]] = wrong_tables

    def broken(self, repairs: frozenset[Repair]) -> list[Broken]:
        """What is wrong after the run with some repairs."""
        return list(self.check(run(self.plan, published(repairs))))

    def without_the_repair(self) -> list[Broken]:
        """What is wrong with all other repairs."""
        return self.broken(REPAIRED - {self.lacking})


def _plan(row: str, old: str, new: str, *clients: Client, is_graceful: bool = False) -> Plan:
    """Dispatchers in a row with names of one letter, and links of two letters."""
    tree = Tree.line(*row)
    return Plan(tree, Substitution.of(tree, (old[0], old[1]), (new[0], new[1])), clients, is_graceful=is_graceful)


def _client(name: str, dispatcher: str, since: float = 0.0) -> Client:
    return Client(name, dispatcher, Pattern(0, 0), since)


#: B cleans up after A. Its client and D want the same; D alone is a neighbour, and is told that B does not want it any more.
FORGOTTEN_CLIENT = CounterExample(
    Repair.COUNT_CLIENTS, _plan("ABD", "AB", "AD", _client("at A", "A"), _client("at B", "B"))
)

#: A needs the pattern only for B. E has a client for it, asks its neighbours only, and tells C that E does not want it.
CLIENT_CUT_OFF = CounterExample(
    Repair.KEEP_CLIENTS, _plan("CEAB", "AB", "CB", _client("at E", "E"), _client("at B", "B"))
)

#: D learns from A that A wants the pattern, and says it back.
ECHO = CounterExample(Repair.NO_ECHO, _plan("ABD", "AB", "AD", _client("at A", "A")))

#: B is the end of the tail, and hands on what nobody is there to get. It holds what A wanted for good, and so does D.
NEVER_CLEAN = CounterExample(Repair.CLEAN_UP, ECHO.plan)

#: B is the end of the new link, and takes that branch.
NEVER_CLEAN_AT_THE_NEW_LINK = CounterExample(Repair.CLEAN_UP, _plan("CAB", "AB", "CB", _client("at A", "A")))

#: B has told A of its new client just before. A hears it when the link is gone, and holds it for good.
LATE_WORD = CounterExample(
    Repair.KNOW_NEIGHBOURS, _plan("CAB", "AB", "CB", _client("at B", "B", since=9.5), is_graceful=True)
)

#: D holds what X wants, because of the lost link, and asks A for it; A passes that on to X, who is not on the path.
NOT_LOCAL = CounterExample(Repair.CLEAN_UP_FIRST, _plan("XABD", "AB", "AD", _client("at X", "X")), disturbed)

COUNTER_EXAMPLES = (
    FORGOTTEN_CLIENT,
    CLIENT_CUT_OFF,
    ECHO,
    NEVER_CLEAN,
    NEVER_CLEAN_AT_THE_NEW_LINK,
    LATE_WORD,
    NOT_LOCAL,
)
