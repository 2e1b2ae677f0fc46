"""The tree of the experiments is the one of section 6.2.1."""

from __future__ import annotations

from collections import Counter

import pytest

from sluice.lab.topology import hierarchy


def test_forty_routers_and_sixty_seven_local_brokers() -> None:
    tree = hierarchy()
    assert (len(tree.routers), len(tree.locals), len(tree.brokers)) == (40, 67, 107)
    assert len(set(tree.brokers)) == 107


def test_levels() -> None:
    tree = hierarchy()
    assert Counter(tree.hops_to_root(broker) for broker in tree.routers) == {0: 1, 1: 3, 2: 9, 3: 27}
    assert Counter(tree.hops_to_root(broker) for broker in tree.locals) == {1: 1, 2: 3, 3: 9, 4: 54}


def test_a_local_broker_hangs_from_one_router_and_nothing_hangs_from_it() -> None:
    tree = hierarchy()
    upper, lower = Counter(one for one, _ in tree.links), Counter(one for _, one in tree.links)
    assert all(lower[broker] == 1 and upper[broker] == 0 for broker in tree.locals)
    assert tree.root not in lower
    assert set(lower) | {tree.root} == set(tree.brokers)


@pytest.mark.parametrize(("levels", "children", "routers", "local"), [(1, 3, 1, 2), (2, 3, 4, 7), (3, 2, 7, 11)])
def test_other_sizes(levels: int, children: int, routers: int, local: int) -> None:
    tree = hierarchy(levels, children)
    assert (len(tree.routers), len(tree.locals), len(tree.links)) == (routers, local, routers + local - 1)
