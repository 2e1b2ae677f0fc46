"""Valid, weakly valid and perfect configurations, and each way not to be one."""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from operator import or_
from random import Random

import pytest

from sluice.model.parse import parse
from sluice.protocol.messages import Kind
from sluice.sim.spec.filters import Filters, members
from sluice.sim.spec.tables import (
    Configuration,
    differences,
    local_validity,
    perfect,
    perfection,
    portrait,
    remote_validity,
    valid,
    weakly_valid,
)
from sluice.sim.spec.violation import Violation
from tests.sim.spec.fake import POINTS, Network


def path() -> Network:
    """alice at a, bob at c, and b between them; everything as covering has it."""
    network = Network(("a", "b"), ("b", "c"))
    network.client("alice", "a", {"alice/1": "price > 3", "alice/2": "price > 5 AND symbol = 'A'"})
    network.client("bob", "c", {"bob/1": "symbol = 'B'"})
    network.hold("b", "a", "price > 3")
    network.hold("c", "b", "price > 3")
    network.hold("b", "c", "symbol = 'B'")
    network.hold("a", "b", "symbol = 'B'")
    return network


def told(violations: list[Violation]) -> list[str]:
    return [violation.says for violation in violations]


@pytest.mark.parametrize("points", [POINTS, ()], ids=["points", "algebra"])
def test_a_good_configuration_is_perfect(points: tuple[dict[str, object], ...]) -> None:
    configuration = path().configuration(points=points)
    assert perfect(configuration) == []
    assert weakly_valid(configuration) == []


def test_remote_validity_wants_everything_behind_a_neighbour() -> None:
    network = path()
    network.hold("c", "b", "price > 4")
    [violation] = valid(network.configuration())
    assert violation.check == "remote-validity"
    assert violation.at == 7.0
    assert violation.says == "c should send b what matches price > 3, but not {'symbol': 'A', 'price': 4}"
    network.hold("c", "b")
    assert len(valid(network.configuration())) == 2
    del network.brokers["c"].tables[Kind.SUBSCRIPTIONS].replicas["b"]
    assert len(valid(network.configuration())) == 2


def test_without_points_what_cannot_be_shown_is_wrong() -> None:
    network = path()
    network.hold("c", "b", "price > 4")
    assert "c should send b what matches price > 3, and that cannot be shown" in told(
        remote_validity(network.configuration(points=()))
    )


def test_a_union_of_entries_may_cover() -> None:
    network = path()
    network.client("alice", "a", {"alice/1": "price > 3 AND symbol = 'A' OR price < 2"})
    for broker, neighbour in (("b", "a"), ("c", "b")):
        network.hold(broker, neighbour, "price < 3", "symbol = 'A'")
    assert remote_validity(network.configuration(points=())) == []
    # The algebra cannot show this, the points can.
    network.client("alice", "a", {"alice/1": "price > 3"})
    for broker, neighbour in (("b", "a"), ("c", "b")):
        network.hold(broker, neighbour, "price BETWEEN 3.5 AND 6", "price > 5")
    assert remote_validity(network.configuration()) == []


def test_perfection_wants_nothing_else() -> None:
    network = path()
    network.hold("c", "b", "price > 2")
    assert valid(network.configuration()) == []
    [violation] = perfection(network.configuration())
    assert violation.check == "perfection"
    assert violation.says == "c would send b {'symbol': 'A', 'price': 3}, which nobody there wants"
    assert perfect(network.configuration()) == [violation]


def test_local_validity_wants_exactly_the_own_filters() -> None:
    def wrong(*texts: str) -> list[str]:
        network = path()
        network.hold("a", "alice", *texts)
        return told(local_validity(network.configuration()))

    assert wrong("alice/1: price > 3", "alice/2: price > 5 AND symbol = 'A'") == []
    assert wrong("alice/1: price > 3") == [
        "a does not hold alice/2 of the subscriptions of alice: price > 5 AND symbol = 'A'"
    ]
    assert wrong("alice/1: price > 3", "alice/2: price > 5 AND symbol = 'A'", "alice/3: true") == [
        "a holds alice/3 of the subscriptions of alice, which it does not ask for: true"
    ]
    # Not even if it means the same: somebody may take one of them back.
    assert len(wrong("alice/1: price > 3", "alice/1: price > 5 AND symbol = 'A'")) == 2


def test_local_validity_covers_advertisements_and_watches() -> None:
    network = path()
    network.client("dora", "b", advertisements={"dora/1": "true"}, watches={"dora/2": "true"})
    assert valid(network.configuration()) == []
    network.hold("b", "dora", kind=Kind.WATCHES)
    assert told(valid(network.configuration())) == ["b does not hold dora/2 of the watches of dora: true"]


def test_who_is_gone_has_no_entries() -> None:
    network = path()
    network.hold("b", "ghost", "price > 3")
    network.hold("b", "empty")
    assert told(valid(network.configuration())) == ["b holds subscriptions of ghost, which is not there"]


def test_weak_validity_asks_for_what_is_complete() -> None:
    network = path()
    network.client("alice", "a", {"alice/1": "price > 3", "alice/2": "price = 0"}, completed={"alice/1", "alice/9"})
    network.hold("a", "alice", "alice/1: price > 3")
    assert len(valid(network.configuration())) == 3
    assert weakly_valid(network.configuration()) == []
    network.hold("c", "b", "price > 4")
    assert [violation.check for violation in weakly_valid(network.configuration())] == ["weak-remote-validity"]
    network.hold("a", "alice")
    assert [violation.check for violation in weakly_valid(network.configuration())] == [
        "weak-remote-validity",
        "local-validity",
    ]


def test_weak_validity_asks_for_what_may_be_published_completely() -> None:
    network = path()
    network.hold("c", "b")
    network.client("alice", "a", {"alice/1": "price > 3"}, advertisements={"alice/3": "true"})
    for completed in (set(), {"bob/2"}):
        network.client("bob", "c", {"bob/1": "symbol = 'B'"}, advertisements={"bob/2": "true"}, completed=completed)
        assert len(valid(network.configuration(advertisements=True))) == 1
        assert len(weakly_valid(network.configuration(advertisements=True))) == len(completed)


def test_with_advertisements_only_what_may_be_published_is_owed() -> None:
    network = path()
    network.hold("c", "b")
    network.client("bob", "c", {"bob/1": "symbol = 'B'"}, advertisements={"bob/2": "price < 3"})
    network.client("alice", "a", {"alice/1": "price > 3"}, advertisements={"alice/3": "true"})
    assert perfect(network.configuration(advertisements=True)) == []
    network.client("bob", "c", {"bob/1": "symbol = 'B'"}, advertisements={"bob/2": "price < 5"})
    assert told(valid(network.configuration(advertisements=True))) == [
        "c should send b what matches price > 3, but not {'symbol': 'A', 'price': 4}"
    ]


def test_with_advertisements_only_what_may_be_published_is_wasted() -> None:
    network = path()
    network.client("bob", "c", {"bob/1": "symbol = 'B'"}, advertisements={"bob/2": "price > 3"})
    network.client("alice", "a", {"alice/1": "price > 3"}, advertisements={"alice/3": "true"})
    network.hold("c", "b", "price > 2")
    assert perfect(network.configuration(advertisements=True)) == []
    network.client("bob", "c", {"bob/1": "symbol = 'B'"}, advertisements={"bob/2": "price > 2"})
    assert len(perfection(network.configuration(advertisements=True))) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_lies_behind_a_link_is_the_union_of_one_side(seed: int) -> None:
    random = Random(seed)
    names = [f"b{i}" for i in range(12)]
    # Two trees: links may be down.
    links = [(names[i], names[random.randrange(i)]) for i in range(1, 12) if i != 6]
    configuration = Network(*links, brokers=names).configuration()
    own = {name: 1 << i for i, name in enumerate(names)}
    behind = configuration.behind(own)
    assert set(behind) == {*links, *((b, a) for a, b in links)}
    for a, b in behind:
        seen = {a}
        for name in (queue := [a]):
            for other in configuration.neighbours[name]:
                if other not in seen and (name, other) != (a, b):
                    seen.add(other)
                    queue.append(other)
        assert behind[a, b] == reduce(or_, (own[name] for name in seen))


def test_a_long_path_is_no_problem() -> None:
    names = [f"b{i}" for i in range(5000)]
    configuration = Network(*((names[i], names[i + 1]) for i in range(4999))).configuration()
    assert configuration.behind(dict.fromkeys(names, 1))["b0", "b1"] == 1


def test_filters_are_numbers() -> None:
    filters = Filters(POINTS)
    texts = ["price > 3", "price >= 2 AND symbol = 'A' OR price = 0", "symbol = 'B'", "true", "false"]
    numbers = [filters.number(parse(text)) for text in texts]
    assert numbers == [0, 1, 2, 3, 4]
    assert filters.number(parse("3 < price")) == 0
    for some in combinations(numbers, 2):
        points = filters.matching(filters.set_of(filters[number] for number in some))
        matched = [any(filters[number].matches(point) for number in some) for point in POINTS]
        assert [bool(points >> i & 1) for i in range(len(POINTS))] == matched
    assert [*members(0b10110)] == [1, 2, 4]
    assert filters.is_covered(4, 0)


def test_filters_do_not_pile_up() -> None:
    filters = Filters(POINTS)
    network = path()
    for number in range(5000):
        filters.number(parse(f"price = {number}"))
    for _ in range(2):
        configuration = Configuration(network.brokers, network.links, network.clients, POINTS, filters=filters)
        assert perfect(configuration) == []
        assert 0 < len(filters) < 10


def test_portraits_of_networks_can_be_compared() -> None:
    mine, theirs = path(), path()
    assert differences(portrait(mine.brokers), portrait(theirs.brokers)) == []
    mine.hold("b", "a", "price > 4")
    mine.hold("b", "ghost")
    theirs.client("bob", "c", {})
    assert told(differences(portrait(mine.brokers), portrait(theirs.brokers))) == [
        "b, subscriptions of a: has price > 4 too much; lacks price > 3",
        "c, subscriptions of bob: has bob/1: symbol = 'B' too much",
    ]


def test_a_configuration_leaves_out_brokers_that_are_down() -> None:
    network = path()
    configuration = Configuration(
        {name: broker for name, broker in network.brokers.items() if name != "c"},
        network.links,
        network.clients,
        POINTS,
    )
    network.hold("b", "c")
    network.hold("a", "b")
    assert perfect(configuration) == []
