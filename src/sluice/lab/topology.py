"""The tree of brokers that the experiments run on (section 6.2.1): routers in levels, local brokers below them.

Routers only pass on; clients live at local brokers, each of which hangs from exactly one router. With the four router levels
and three children of the dissertation there are 40 routers and 67 local brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.protocol.batch import Peer

ROUTER_LEVELS = 4
CHILDREN = 3


@dataclass(frozen=True, slots=True)
class Topology:
    """A tree of brokers. Links are pairs of (upper, lower), the ones near the root first."""

    root: Peer
    routers: tuple[Peer, ...]
    locals: tuple[Peer, ...]
    links: tuple[tuple[Peer, Peer], ...]

    @property
    def brokers(self) -> tuple[Peer, ...]:
        """All brokers, routers first."""
        return self.routers + self.locals

    def hops_to_root(self, broker: Peer) -> int:
        """How many links lie between a broker and the root router.

        >>> tree = hierarchy()
        >>> sum(tree.hops_to_root(broker) for broker in tree.locals)
        250
        """
        above = {lower: upper for upper, lower in self.links}
        hops = 0
        while broker != self.root:
            broker = above[broker]
            hops += 1
        return hops


def hierarchy(router_levels: int = ROUTER_LEVELS, children: int = CHILDREN) -> Topology:
    """The symmetric tree: every router but a leaf has `children` routers and one local broker below it, a leaf has two.

    >>> tree = hierarchy()
    >>> len(tree.routers), len(tree.locals), len(tree.links)
    (40, 67, 106)
    """
    routers: list[Peer] = []
    local_brokers: list[Peer] = []
    links: list[tuple[Peer, Peer]] = []
    above: list[Peer | None] = [None]
    for level in range(1, router_levels + 1):
        new: list[Peer] = []
        for upper in above:
            router = f"router-{len(routers) + 1}"
            routers.append(router)
            if upper is not None:
                links.append((upper, router))
            new.append(router)
        for router in new:
            for _ in range(2 if level == router_levels else 1):
                local_brokers.append(f"local-{len(local_brokers) + 1}")
                links.append((router, local_brokers[-1]))
        above = [router for router in new for _ in range(children)]
    return Topology(routers[0], tuple(routers), tuple(local_brokers), tuple(links))
