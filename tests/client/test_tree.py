"""The tree of a network and what changes of its links would do to it."""

from __future__ import annotations

import pytest

from sluice.client.tree import Replacement, Tree
from sluice.errors import ConfigurationError

#: b1 is linked to b2 and b3, b2 to b4 and b5.
TREE = Tree(
    {f"b{number}": f"sluice://h:{number}" for number in range(1, 6)},
    [("b1", "b2"), ("b1", "b3"), ("b2", "b4"), ("b2", "b5")],
)


def test_which_end_is_on_which_side_is_found_out() -> None:
    assert TREE.replacement("b2", "b4", "b3", "b4") == Replacement("b2", "b4", "b3", "b4")
    assert TREE.replacement("b4", "b2", "b3", "b4") == Replacement("b4", "b2", "b4", "b3")
    assert TREE.replacement("b1", "b2", "b5", "b3") == Replacement("b1", "b2", "b3", "b5")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (("b2", "b4", "b1", "b3"), "both on the side of b2: .* leave b4 cut off"),
        (("b1", "b2", "b4", "b5"), "both on the side of b2: .* leave b1, b3 cut off"),
        (("b1", "b2", "b2", "b1"), "b1 - b2 is there already"),
        (("b1", "b4", "b1", "b5"), "b1 and b4 are not linked: b1 is linked to b2, b3"),
        (("b1", "b2", "b1", "b9"), "no broker is called b9: there are b1, b2"),
    ],
)
def test_what_would_be_no_tree_is_refused(said: tuple[str, str, str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        TREE.replacement(*said)


def test_the_chain_is_touched_and_nobody_else() -> None:
    assert TREE.touched(TREE.replacement("b2", "b4", "b3", "b4")) == ["b2", "b1", "b3", "b4"]
    assert TREE.touched(TREE.replacement("b1", "b2", "b1", "b5")) == ["b1", "b5", "b2"]


def test_a_broker_that_leaves_is_made_a_leaf() -> None:
    tree = TREE
    changes = TREE.leaving("b2")
    assert changes == [Replacement("b4", "b2", "b4", "b1"), Replacement("b5", "b2", "b5", "b1")]
    for change in changes:
        assert tree.touched(change) == [change.a, "b1", "b2"]
        tree = tree.replaced(change)
    assert tree.neighbours("b2") == ["b1"] and tree.neighbours("b1") == ["b2", "b3", "b4", "b5"]
    assert TREE.leaving("b4") == []


def test_a_tree_is_read_off_accounts() -> None:
    def report(name: str, *peers: str, node: str | None = None) -> dict[str, object]:
        links = [{"peer": peer, "role": "broker"} for peer in peers] + [{"peer": "slow", "role": "client"}]
        return {"name": name, "node": node or name, "address": f"h:{name}", "links": links}

    tree = Tree.of([report("a", "b"), report("b", "a", "c"), {"name": "c", "error": "no answer"}])
    assert tree.neighbours("b") == ["a", "c"] and tree.addresses == {"a": "h:a", "b": "h:b"}
    assert tree.side("b", "a") == ["b"], "who does not answer is nowhere"
    with pytest.raises(ConfigurationError, match="x-1 is one of several brokers of the node x"):
        Tree.of([report("a", "x-1"), report("x-1", "a", node="x")])
