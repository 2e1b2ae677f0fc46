"""Networks from a file: shapes, settings for all and for one, and what is said about those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.broker.topology import EXAMPLE, SHAPES, Topology, read_topology, topology
from sluice.errors import ConfigurationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "topology.toml"


def above(upper: str, lower: str) -> dict[str, tuple[str, ...]]:
    """Who dials whom, where each dials one."""
    return {name: (one,) for one, name in zip(upper.split(), lower.split(), strict=True)}


def test_the_example(file: Path) -> None:
    file.write_text(EXAMPLE)
    net = read_topology(file)
    assert list(net.brokers) == ["b1", "b2", "b3", "b4", "b5", "b6", "b7"]
    assert net.above == above("b1 b1 b2 b2 b3 b3", "b2 b3 b4 b5 b6 b7")
    assert [config.listen for config in net.brokers.values()][::3] == [
        "127.0.0.1:7470",
        "127.0.0.1:7473",
        "127.0.0.1:7476",
    ]
    assert net.brokers["b1"].log_level == "warning" and net.brokers["b2"].log_level == "info"


@pytest.mark.parametrize(
    ("shape", "upper"),
    [("line", "b1 b2 b3"), ("star", "b1 b1 b1"), ("tree", "b1 b1 b2")],
)
def test_shapes(shape: str, upper: str) -> None:
    assert topology(shape, 4).above == above(upper, "b2 b3 b4")


def test_links_hang_from_the_first_broker() -> None:
    links = [["c", "d"], ["b", "c"], ["a", "c"]]
    net = topology("links", ["a", "b", "c", "d"], links=links)
    assert net.above == above("a c c", "c d b")
    assert list(net.brokers) == ["a", "c", "d", "b"]


def test_links_name_the_brokers(file: Path) -> None:
    file.write_text('[network]\nlinks = [["x", "y"], ["z", "y"]]\nport = 9000\n')
    net = read_topology(file)
    assert net.above == above("x y", "y z")
    assert net.brokers["z"].listen == "127.0.0.1:9002"


def test_settings_of_all_and_of_one(file: Path) -> None:
    file.write_text(
        '[network]\nbrokers = ["a", "b"]\nport = 0\ndata = "logs"\n'
        '[broker]\nrouting = "merging"\nretain_seconds = "2d"\n'
        '[brokers.b]\nrouting = "simple"\nlisten = "0.0.0.0:9999"\ndata = "elsewhere"\n'
    )
    a, b = read_topology(file).brokers.values()
    assert (a.routing, a.listen, a.data, a.retain_seconds) == ("merging", "127.0.0.1:0", Path("logs/a"), 172_800)
    assert (b.routing, b.listen, b.data, b.retain_seconds) == ("simple", "0.0.0.0:9999", Path("elsewhere"), 172_800)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[network]", "has no brokers: say how many"),
        ("[network]\nbrokers = 0", "at least one broker"),
        ("[network]\nbrokers = 2.5", "brokers is 2.5: write a number, or a list of names"),
        ("[network]\nbrokers = true", "brokers is True: write a number"),
        ('[network]\nbrokers = ["a", "a"]', "two brokers have the same name"),
        ('[network]\nbrokers = ["a/b"]', "no name of a broker"),
        ("[network]\nbrokers = 3\nport = 65534", "3 brokers need as many ports from there up to 65535"),
        ("[network]\nbrokers = 3\nport = -1", "port is -1"),
        ("[network]\nbrokers = 3\nchildren = 0", "at least 1"),
        ("[network]\nbrokers = 3\nshape = 'ring'", "no shape is called 'ring': take one of line, star, tree, links"),
        ("[network]\nbrokers = 3\nshapes = 'line'", r"\[network\]: nothing is called shapes: did you mean shape\?"),
        ("[network]\nbrokers = 3\ndata = ''", "write the path of a directory"),
        ("[networks]\nbrokers = 3", r"nothing is called networks: did you mean network\?"),
        ("[network]\nlinks = [['a', 'b'], ['b', 'c'], ['c', 'a']]", "the link c - a closes a cycle"),
        ("[network]\nlinks = [['a', 'a']]", "the link a - a closes a cycle"),
        ("[network]\nlinks = [['a', 'b'], ['b', 'a']]", "the link b - a closes a cycle"),
        ("[network]\nlinks = [['a', 'b'], ['c', 'd']]", "no links lead from a to c"),
        ("[network]\nlinks = [['a']]", "write pairs of names"),
        ("[network]\nlinks = 3", "links is 3: write pairs of names"),
        ("[network]\nbrokers = ['a', 'bob']\nlinks = [['a', 'bo']]", r"nothing is called bo: did you mean bob\?"),
        ("[network]\nbrokers = 2\nshape = 'line'\nlinks = [['b1', 'b2']]", "links are given, but the shape is 'line'"),
        ("[network]\nbrokers = 2\n[broker]\nlinks = ['x:1']", "links has no place here: links stand in"),
        ("[network]\nbrokers = 2\n[broker]\nname = 'x'", "name has no place here"),
        ("[network]\nbrokers = 2\n[broker]\ndata = 'x'", "data has no place here"),
        ("[network]\nbrokers = 2\n[broker]\nlisten = 'x'", "listen has no place here"),
        ("[network]\nbrokers = 2\n[brokers.b1]\nlinks = ['x:1']", "links has no place here"),
        (
            "[network]\nbrokers = 2\n[broker]\nfsynk = true",
            r"\[broker\]: nothing is called fsynk: did you mean fsync\?",
        ),
        (
            "[network]\nbrokers = 12\n[broker]\norder_algorithm = 'rooted'\norder_root = 'bb3'",
            "order_root of b1: nothing is called bb3: did you mean b3?",
        ),
        ("[network]\nbrokers = 2\n[brokers.b9]\nfsync = true", r"\[brokers\]: nothing is called b9: there are b1, b2"),
        ("[network]\nbrokers = 2\n[brokers]\nb1 = 3", r"\[brokers\.b1\] should be a table"),
        ("broker = 3\n[network]\nbrokers = 2", r"\[broker\] should be a table"),
        (
            "[network]\nbrokers = 2\n[broker]\ncache_seconds = 'long'",
            r"cache_seconds \(from .*\[broker\]\): 'long' is no",
        ),
        ("[network]\nbrokers = 2\n[broker]\nretain_bytes = 5", "give data a directory"),
        ("[network]\nbrokers = 3\nbrokers_per_node = 0", "brokers_per_node is 0: a node has at least 1"),
        ("[network]\nbrokers = 3\nbrokers_per_node = 'x'", "brokers_per_node is 'x': write a number"),
        ("[network]\nbrokers = 3\n[nodes]\nb4 = ['x', 'y']", r"\[nodes\]: nothing is called b4"),
        ("[network]\nbrokers = 3\n[nodes]\nb2 = 'x'", "b2 is 'x': write the names of its brokers"),
        ("[network]\nbrokers = 3\n[nodes]\nb2 = []", r"b2 is \[\]: write the names of its brokers"),
        ("[network]\nbrokers = 3\n[nodes]\nb2 = ['x', 'x']", "two brokers are called x, of b2 and b2"),
        ("[network]\nbrokers = 3\n[nodes]\nb2 = ['x', 'b3']", "two brokers are called b3, of b2 and b3"),
        (
            "[network]\nbrokers = 3\n[nodes]\nb2 = ['x', 'y']\nb3 = ['b2', 'z']",
            "b2 is the name of a node, and of a broker of the node b3",
        ),
        ("[network]\nbrokers = 2\n[brokers.b1]\nnode = 'x'", r"node has no place here: nodes stand in \[nodes\]"),
        (
            "[network]\nbrokers = 3\n[nodes]\nb2 = ['x', 'y']\n[brokers.b2]\nfsync = true",
            r"\[brokers\]: nothing is called b2: there are b1, b3, x, y",
        ),
    ],
)
def test_what_cannot_be(file: Path, toml: str, said: str) -> None:
    file.write_text(toml)
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_topology(file)
    assert "topology.toml" in str(caught.value)


def test_nodes_of_several_brokers(file: Path) -> None:
    file.write_text(
        '[network]\nlinks = [["a", "hub"], ["hub", "spoke"]]\nport = 9000\ndata = "logs"\n'
        '[nodes]\nhub = ["hub", "hub2"]\nspoke = ["s1", "s2"]\n[brokers.s2]\nfsync = false\n'
    )
    net = read_topology(file)
    assert {name: config.node for name, config in net.brokers.items()} == {
        "a": None,
        "hub": "hub",
        "hub2": "hub",
        "s1": "spoke",
        "s2": "spoke",
    }
    assert net.above == {"hub": ("a",), "hub2": ("a", "hub"), "s1": ("hub", "hub2"), "s2": ("hub", "hub2", "s1")}
    assert net.brokers["s2"].listen == "127.0.0.1:9004" and net.brokers["s2"].data == Path("logs/s2")
    assert not net.brokers["s2"].fsync


def test_inner_nodes_of_a_shape_have_as_many_brokers_as_is_said() -> None:
    net = topology("line", 4, brokers_per_node=2, nodes={"b3": ["x"]})
    assert [*net.brokers] == ["b1", "b2-1", "b2-2", "x", "b4"]
    assert net.above == {"b2-1": ("b1",), "b2-2": ("b1", "b2-1"), "x": ("b2-1", "b2-2"), "b4": ("x",)}
    assert [config.node for config in net.brokers.values()] == [None, "b2", "b2", "b3", None]


@given(
    shape=st.sampled_from([shape for shape in SHAPES if shape != "links"]),
    count=st.integers(1, 30),
    children=st.integers(1, 5),
)
def test_every_broker_comes_after_the_one_it_dials(shape: str, count: int, children: int) -> None:
    net = topology(shape, count, children=children)
    _check_order(net, count)


@given(st.data())
def test_any_tree_of_links_is_taken(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 12))
    pairs = [(f"n{data.draw(st.integers(0, number - 1))}", f"n{number}") for number in range(1, count)]
    links = data.draw(st.permutations([data.draw(st.permutations(pair)) for pair in pairs]))
    net = topology("links", data.draw(st.permutations([f"n{number}" for number in range(count)])), links=links)
    _check_order(net, count)
    dialled = {frozenset((name, one)) for name, several in net.above.items() for one in several}
    assert {frozenset(link) for link in links} == dialled


def _check_order(net: Topology, count: int) -> None:
    names = list(net.brokers)
    assert len(names) == count and set(net.above) == set(names[1:])
    assert all(names.index(upper) < names.index(lower) for lower, several in net.above.items() for upper in several)
