"""What neighbours are told is what each algorithm makes of it, and it has arrived; both are caught if not."""

from __future__ import annotations

import pytest

from sluice.protocol.messages import Kind, Role
from sluice.sim.spec.exports import agreement, reduction
from tests.sim.spec.fake import Network, Side, entry

#: What alice asks for; b tells c about it.
ASKED = {
    "alice/1": "price > 3",
    "alice/2": "price > 3",
    "alice/3": "price > 5",
    "alice/4": "price = 0 OR symbol = 'A'",
    "alice/5": "price BETWEEN 1 AND 3",
}
SIMPLE = [f"{id}: {text}" for id, text in ASKED.items()]
IDENTITY = ["price > 3", "price > 5", "price = 0 OR symbol = 'A'", "price BETWEEN 1 AND 3"]
COVERING = ["price > 3", "price = 0", "symbol = 'A'", "price BETWEEN 1 AND 3"]
MERGING = ["price >= 1 OR price = 0", "symbol = 'A'"]


def told(routing: str, *texts: str) -> list[str]:
    network = Network(("b", "c"))
    network.client("alice", "b", ASKED)
    network.tell("b", "c", *texts)
    network.tell("c", "b", *(["true"] if routing == "flooding" else []))
    found = reduction(network.configuration(), routing)
    assert all(violation.check == "reduction" and violation.at == 7.0 for violation in found)
    start = f"b tells c of its subscriptions by {routing} routing: "
    assert all(violation.says.startswith(start) for violation in found)
    return [violation.says.removeprefix(start) for violation in found]


@pytest.mark.parametrize(
    ("routing", "texts"),
    [
        ("flooding", ["true"]),
        ("simple", SIMPLE),
        ("identity", IDENTITY),
        ("covering", COVERING),
        ("merging", MERGING),
        ("merging", COVERING),
        ("imperfect", ["price >= 0", "symbol = 'A'"]),
        ("imperfect", ["price >= -5 OR symbol = 'A'"]),
        ("of somebody's own", ["true", "true"]),
    ],
)
def test_what_an_algorithm_should_tell(routing: str, texts: list[str]) -> None:
    assert told(routing, *texts) == []


@pytest.mark.parametrize(
    ("routing", "texts", "problem"),
    [
        ("flooding", [], "it should say TRUE and nothing else, not nothing"),
        ("flooding", ["true", "price > 3"], "it should say TRUE and nothing else, not true, price > 3"),
        ("simple", SIMPLE[1:], "missing alice/1: price > 3"),
        ("simple", [*SIMPLE, "bob/1: true"], "too much bob/1: true"),
        ("identity", IDENTITY[1:], "missing price > 3"),
        ("identity", [*IDENTITY, "true"], "too much true"),
        ("identity", [*IDENTITY, "alice/1: price > 3"], "the same filter twice"),
        ("covering", COVERING[1:], "nothing covers price > 3"),
        ("covering", COVERING[:2] + COVERING[3:], "nothing covers symbol = 'A'"),
        ("covering", [*COVERING, "price > 5"], "price > 5 is superfluous beside price > 3"),
        ("covering", [*COVERING, "alice/1: price > 3"], "the same filter twice"),
        ("covering", [*COVERING, "price < 0"], "nobody has asked for price < 0"),
        ("merging", MERGING[:1], "is left out, for example {'symbol': 'A'}"),
        ("merging", [*MERGING, "price = 2"], "price = 2 is superfluous beside"),
        ("imperfect", ["price >= 1", "symbol = 'A'"], "is left out, for example {'symbol': 'B', 'price': 0}"),
        ("imperfect", ["true", "price > 3"], "price > 3 is superfluous beside true"),
        ("of somebody's own", ["price > 4"], "is left out, for example"),
    ],
)
def test_what_an_algorithm_should_not_tell(routing: str, texts: list[str], problem: str) -> None:
    assert any(problem in says for says in told(routing, *texts))


def test_a_perfect_merger_wastes_nothing() -> None:
    network = Network(("b", "c"))
    network.client("alice", "b", {"alice/1": "price BETWEEN 1 AND 2", "alice/2": "price BETWEEN 4 AND 5"})
    network.tell("c", "b")
    network.tell("b", "c", "price BETWEEN 1 AND 5")
    assert reduction(network.configuration(), "imperfect") == []
    [violation] = reduction(network.configuration(), "merging")
    assert violation.says.endswith("nobody has asked for {'symbol': 'A', 'price': 3}")


def test_a_peer_is_not_told_its_own() -> None:
    network = Network(("a", "b"), ("b", "c"))
    for broker in ("a", "c"):
        network.tell("b", broker)
    network.tell("a", "b", "x/1: price > 3")
    network.tell("c", "b", "y/1: price > 4")
    network.hold("a", "x", "x/1: price > 3")
    network.hold("c", "y", "y/1: price > 4")
    found = [violation.says for violation in reduction(network.configuration(), "simple")]
    assert found == [
        "b tells a of its subscriptions by simple routing: missing y/1: price > 4",
        "b tells c of its subscriptions by simple routing: missing x/1: price > 3",
    ]
    network.tell("b", "a", "y/1: price > 4")
    network.tell("b", "c", "x/1: price > 3")
    assert reduction(network.configuration(), "simple") == []


def test_advertisements_steer_subscriptions_and_have_their_own_algorithm() -> None:
    network = Network(("b", "c"))
    network.client("alice", "b", ASKED)
    network.client(
        "bob", "c", advertisements={"bob/1": "price > 4 AND symbol = 'B'", "bob/2": "price > 5 AND symbol = 'B'"}
    )
    network.tell("c", "b")
    network.tell("b", "c", kind=Kind.ADVERTISEMENTS)
    network.tell("b", "c", "price > 3")
    network.tell("c", "b", "price > 4 AND symbol = 'B'", kind=Kind.ADVERTISEMENTS)
    configuration = network.configuration(advertisements=True)
    assert reduction(configuration, "covering", "covering") == []
    assert len(reduction(configuration, "covering", "simple")) == 2
    assert len(reduction(configuration, "covering")) == 3
    network.tell("c", "b", kind=Kind.ADVERTISEMENTS)
    assert len(reduction(configuration, "covering", "covering")) == 3


def test_watches_steer_interest_which_goes_to_clients_too() -> None:
    network = Network(("b", "c"))
    network.client("alice", "b", {"alice/1": "price > 3", "alice/2": "price < 1"})
    network.client("bob", "c", {"bob/3": "price > 7"}, watches={"bob/1": "price > 5", "bob/2": "price > 6"})
    network.client("dora", "b", watches={"dora/1": "price > 5"})
    network.tell("b", "c", "price > 3", "price < 1")
    network.tell("c", "b", "price > 7")
    network.tell("c", "b", "price > 5", kind=Kind.WATCHES)
    network.tell("b", "c", "price > 5", kind=Kind.WATCHES)
    network.tell("b", "c", "alice/1: price > 3", kind=Kind.INTEREST)
    network.tell("c", "b", "bob/3: price > 7", kind=Kind.INTEREST)
    network.tell("c", "bob", "alice/1: price > 3", kind=Kind.INTEREST)
    network.tell("b", "dora", "alice/1: price > 3", "bob/3: price > 7", kind=Kind.INTEREST)
    assert reduction(network.configuration(), "covering") == []
    network.tell("b", "dora", "alice/1: price > 3", kind=Kind.INTEREST)
    [violation] = reduction(network.configuration(), "covering")
    assert violation.says == "b tells dora of its interest by simple routing: missing bob/3: price > 7"
    # What a neighbour subscribes to is no news of its clients: that comes as interest.
    network.tell("b", "dora", "alice/1: price > 3", "bob/3: price > 7", kind=Kind.INTEREST)
    network.brokers["b"].roles["c"] = Role.CLIENT
    assert len(reduction(network.configuration(), "covering")) == 1


def test_what_was_told_has_arrived() -> None:
    network = Network(("b", "c"))
    network.tell("b", "c", "price > 3", "price = 0")
    network.tell("c", "b", "watch", kind=Kind.WATCHES)
    assert agreement(network.configuration()) == []
    network.hold("c", "b", "price > 3", "price = 1")
    [violation] = agreement(network.configuration())
    assert violation.check == "agreement"
    assert violation.says == (
        "c holds other subscriptions of b than it was told: missing price = 0; too much price = 1"
    )
    network.brokers["b"].tables[Kind.SUBSCRIPTIONS].exports.clear()
    assert len(agreement(network.configuration())) == 1
    network.brokers["c"].tables[Kind.SUBSCRIPTIONS].replicas.clear()
    assert agreement(network.configuration()) == []
    network.brokers["b"].tables[Kind.WATCHES].replicas["c"] = Side([entry("x/1: watch")])
    assert len(agreement(network.configuration())) == 1
