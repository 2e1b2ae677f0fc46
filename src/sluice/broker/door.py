"""Who may have a link to a broker: refusals, in words that say what to do about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sluice.broker.core.broker import Broker
from sluice.broker.peering import Peering
from sluice.broker.security import Security
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Kind, Role
from sluice.protocol.reshape.channel import link_of
from sluice.protocol.wire.link import PROTOCOL, Hello, Welcome


class Door:
    """What is asked of whoever connects to one broker, and of whom it dials."""

    def __init__(
        self, broker: Broker, security: Security, peers: Mapping[Peer, Peering], is_dialled: Callable[[Peer], bool]
    ) -> None:
        self._name = broker.name
        self._broker = broker
        self._security = security
        self._peers = peers
        #: Whether a broker is dialled just now, for a job.
        self._is_dialled = is_dialled
        #: The nodes of the brokers that there are links to.
        self.nodes: dict[Peer, str] = {}

    def refusal(self, hello: Hello) -> str | None:
        """Why whoever says hello is not let in; None: it is."""
        name = self._name
        if hello.protocol != PROTOCOL:
            return f"{name} speaks version {PROTOCOL} of the protocol, not {hello.protocol}: use the same release"
        stranger = self._security.refusal(hello.token)
        if stranger is not None:
            return stranger
        if hello.name == name:
            return f"{name} is the name of this broker: choose another one"
        known = self._peers.get(hello.name)
        if known is not None and known.role != hello.role:
            return f"{hello.name} is the name of a {known.role.name.lower()} here: choose another one"
        if known is not None and hello.job is not None:
            return f"there is a link to {hello.name} already: look for another broker"
        is_dialled = (known is not None and known.dials) or self._is_dialled(hello.name)
        if is_dialled and name < hello.name:
            return f"{name} has dialled {hello.name} already"
        if hello.role == Role.CLIENT:
            if "/" in hello.name:
                return f"the name {hello.name!r} has a slash in it: choose another one"
            return self._clash(hello.name, None)
        return self._clash(hello.name, hello.node or hello.name) or self._cycle(hello.name, hello.node, hello.job)

    def refusal_of_dialled(self, welcome: Welcome, job: str | None) -> str | None:
        """Why a broker that was dialled, and says welcome, cannot be linked; None: it can."""
        known = self._peers.get(welcome.name)
        if welcome.protocol != PROTOCOL or welcome.name == self._name:
            return f"{self._name} cannot be linked to {welcome.name}: is that this very broker?"
        if known is not None and not known.dials and welcome.name < self._name:
            return f"{welcome.name} has dialled {self._name} already"
        clash = self._clash(welcome.name, welcome.node or welcome.name)
        return clash or self._cycle(welcome.name, welcome.node, job)

    def _clash(self, name: Peer, node: str | None) -> str | None:
        """Why a client (of no node) or a broker cannot have its names here: each name stands for one client or one node."""
        own = self._broker.directions.node
        brokers = {self._name: own, **self.nodes}
        brokers.pop(name, None)
        meanings = {**brokers, **{each: each for each in brokers.values()}}
        for taken in (name,) if node is None else (name, node):
            if meanings.get(taken, node) != node:
                return f"{taken} stands for the node {meanings[taken]} at {self._name} already: choose another name"
        if node is not None and node in self._peers and self._peers[node].role == Role.CLIENT:
            return f"{node} stands for a client at {self._name} already: choose another name"
        return None

    def _cycle(self, name: Peer, node: str | None, job: str | None) -> str | None:
        """Why a broker cannot be a neighbour: there is a way to it. Brokers of one node, and jobs, have several."""
        if job is not None or node is not None or self._broker.directions.node != self._name or name in self._peers:
            return None
        way = self._broker.ways[Kind.BROKERS].get(name, lambda peer: peer not in self._broker.held)
        if way is None or link_of(way) == name:
            return None
        return f"{name} is reached another way: this link would close a cycle, and nodes form a tree"
