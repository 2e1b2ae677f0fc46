"""The four counter-examples: the published algorithm gives two subscribers different orders, what holds does not."""

from __future__ import annotations

import pytest

from sluice.sim.padres import ALGORITHMS, COUNTER_EXAMPLES, CounterExample, broken, run
from sluice.sim.padres.counterexamples import NEIGHBOURS, OVERTAKEN, SORTED_LATE, STAMPED

each = pytest.mark.parametrize("example", COUNTER_EXAMPLES, ids=lambda example: example.name)


@each
def test_the_published_algorithm_fails(example: CounterExample) -> None:
    found = broken(run(example.plan, example.fails))
    assert {one.check for one in found} == {"pairwise order"}


@each
@pytest.mark.parametrize("name", ["floors", "rooted", "sequencer", "skeen", "fifo"])
def test_what_holds_passes(example: CounterExample, name: str) -> None:
    """FIFO links too, here: it is the sorting that reverses what they had kept."""
    history = run(example.plan, ALGORITHMS[name])
    assert broken(history) == []
    assert all(history.delivered.values())


@pytest.mark.parametrize(
    ("example", "streams"),
    [
        (SORTED_LATE, {"s0": "xy", "s1": "yx"}),
        (OVERTAKEN, {"s0": "ac", "s1": "ca"}),
        (NEIGHBOURS, {"s0": "wu", "s1": "uw", "s2": "w"}),
        (STAMPED, {"s0": "ab", "s1": "ba"}),
    ],
    ids=lambda value: value.name if isinstance(value, CounterExample) else "",
)
def test_who_sees_what(example: CounterExample, streams: dict[str, str]) -> None:
    """As the decision tells it, publication by publication."""
    history = run(example.plan, example.fails)
    assert {name: "".join(one.publisher for one in got) for name, got in history.streams().items()} == streams


@each
@pytest.mark.parametrize("detection", ["exact", "fast"])
def test_detection_makes_no_difference(example: CounterExample, detection: str) -> None:
    """Fast detection is no remedy, and no cause either."""
    names = [name for name in ALGORITHMS if name.startswith(f"published, {detection}")]
    failing = [name for name in names if broken(run(example.plan, ALGORITHMS[name]))]
    assert f"published, {detection}, whole queue" in failing
    assert (f"published, {detection}, progressive" in failing) == (example in (OVERTAKEN, NEIGHBOURS))
