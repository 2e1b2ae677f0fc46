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


def test_which_end_is_on_which_side_is_found_out_and_the_first_dials() -> None:
    assert TREE.replacement("b2", "b4", "b3", "b4") == Replacement("b2", "b4", "b3", "b4")
    assert TREE.replacement("b4", "b2", "b3", "b4") == Replacement("b2", "b4", "b3", "b4")
    assert TREE.replacement("b1", "b2", "b5", "b3") == Replacement("b2", "b1", "b5", "b3")


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


def link(peer: str, address: str | None = None, *, is_dialled: bool = False) -> dict[str, object]:
    return {"peer": peer, "role": "broker", "address": address, "is_dialled": is_dialled}


@pytest.mark.parametrize(
    ("listens", "known", "address"),
    [
        ("b:1", [link("b", "b:1")], "b:1"),
        ("10.0.0.5:1", [link("b", "b.example:1", is_dialled=True)], "b.example:1"),
        ("0.0.0.0:1", [link("b", "10.0.0.5:1")], "10.0.0.5:1"),
        ("0.0.0.0:1", [link("b", "127.0.0.1:1", is_dialled=True), link("b", "10.0.0.5:1")], "10.0.0.5:1"),
        ("127.0.0.1:1", [link("b", "localhost:1", is_dialled=True)], "localhost:1"),
        ("0.0.0.0:1", [link("b")], "0.0.0.0:1"),
    ],
)
def test_where_others_can_dial_a_broker(listens: str, known: list[dict[str, object]], address: str) -> None:
    """Somebody dials it there, or it listens there, or it came from there; never where that is another machine elsewhere."""
    others = [
        {"name": f"a{number}", "node": f"a{number}", "address": "a:1", "links": [each], "missing_links": []}
        for number, each in enumerate(known)
    ]
    tree = Tree.of([{"name": "b", "node": "b", "address": listens, "links": [], "missing_links": []}, *others])
    assert tree.addresses["b"] == f"sluice://{address}"


def test_a_tree_is_read_off_accounts() -> None:
    def report(name: str, *peers: str, node: str | None = None) -> dict[str, object]:
        links = [link(peer) for peer in peers] + [{**link("slow"), "role": "client"}]
        return {"name": name, "node": node or name, "address": f"{name}:1", "links": links, "missing_links": []}

    tree = Tree.of([report("a", "b"), report("b", "a", "c"), {"name": "c", "error": "no answer"}])
    assert tree.neighbours("b") == ["a", "c"] and tree.addresses == {"a": "sluice://a:1", "b": "sluice://b:1"}
    assert tree.side("b", "a") == ["b"], "who does not answer is nowhere"
    with pytest.raises(ConfigurationError, match="x-1 is one of several brokers of the node x"):
        Tree.of([report("a", "x-1"), report("x-1", "a", node="x")])
