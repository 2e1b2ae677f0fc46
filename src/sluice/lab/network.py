"""Real brokers and real client sessions, joined by queues without delay: what the simulator does, less chance and time.

Messages are handed over in the order in which they were sent, until none is left. The network counts what chapter 6 counts:
the remote entries of the subscription tables, and the messages between brokers that change them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Command
from sluice.client.session.session import Session
from sluice.lab.topology import Topology
from sluice.protocol.batch import Peer
from sluice.protocol.events import Event, LinkUp, Received, Send
from sluice.protocol.messages import Change, Kind, Role

#: Time stands still: nothing is leased and nothing is delayed.
NOW = 0.0


class Network:
    """Brokers in a tree, at first without links, and the clients attached to them.

    >>> from sluice import parse
    >>> from sluice.client.session.commands import Subscribe
    >>> from sluice.lab.topology import hierarchy
    >>> network = Network(hierarchy(router_levels=1), BrokerConfig(routing="simple"))
    >>> network.link_all()
    >>> client = network.join("alice")
    >>> network.connect(client, "local-1")
    >>> network.command(client, Subscribe(client.new_id(), parse("price > 3")))
    >>> network.remote_entries(), network.admin_messages
    (2, 2)
    """

    def __init__(self, topology: Topology, config: BrokerConfig) -> None:
        self.topology = topology
        self.brokers = {name: Broker(name, config) for name in topology.brokers}
        self.sessions: dict[Peer, Session] = {}
        #: Messages between brokers so far that changed a table of subscriptions.
        self.admin_messages = 0
        self._queue: deque[tuple[Peer, Send]] = deque()

    def link_all(self, progress: Callable[[], None] = lambda: None) -> None:
        """Joins the brokers, link by link from the leaves up, and lets each settle."""
        for upper, lower in reversed(self.topology.links):
            self._tell_broker(upper, LinkUp(lower, Role.BROKER))
            self._tell_broker(lower, LinkUp(upper, Role.BROKER))
            self.settle()
            progress()

    def join(self, client: Peer) -> Session:
        """A new client without a link: what it asks for is kept until it is connected, and then goes out in one piece."""
        session = self.sessions[client] = Session(client)
        return session

    def connect(self, session: Session, broker: Peer) -> None:
        """Links a client to a broker and lets the network settle."""
        self._tell_broker(broker, LinkUp(session.name, Role.CLIENT))
        self._tell_session(session, LinkUp(broker, Role.BROKER))
        self.settle()

    def command(self, session: Session, command: Command) -> None:
        """Lets a client ask for something and the network settle."""
        self._tell_session(session, command)
        self.settle()

    def settle(self) -> None:
        """Delivers every message that is under way, and those that they cause."""
        while self._queue:
            sender, (peer, message) = self._queue.popleft()
            received = Received(sender, message)
            if peer in self.brokers:
                if isinstance(message, Change) and message.kind is Kind.SUBSCRIPTIONS and sender in self.brokers:
                    self.admin_messages += 1
                self._tell_broker(peer, received)
            else:
                self._tell_session(self.sessions[peer], received)

    def remote_entries(self) -> int:
        """The entries of all subscription tables whose destination is a broker."""
        return sum(
            len(replica.entries)
            for broker in self.brokers.values()
            for peer, replica in broker.tables[Kind.SUBSCRIPTIONS].replicas.items()
            if peer in self.brokers
        )

    def _tell_broker(self, name: Peer, event: Event) -> None:
        for effect in self.brokers[name].step(event, NOW):
            assert isinstance(effect, Send), "nothing is stored here and nobody asks anything"
            self._queue.append((name, effect))

    def _tell_session(self, session: Session, event: Event | Command) -> None:
        for effect in session.step(event, NOW):
            # A session also tells its user what happened; nobody asks here.
            if isinstance(effect, Send):
                self._queue.append((session.name, effect))
