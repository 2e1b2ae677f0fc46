"""The two measurements of chapter 6: how large routing tables get (6.3) and how many control messages a change costs (6.4).

`table-size` has all clients active. `admin-messages` has half of them active and lets clients come and go: as many at every
local broker, subscription by subscription, so that a mean over paths is a mean over all brokers alike. Either one counts both
figures, in its own state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal

from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Advertise, Subscribe, Unsubscribe
from sluice.client.session.session import Session
from sluice.errors import LimitError
from sluice.lab.network import Network
from sluice.lab.topology import Topology, hierarchy
from sluice.lab.workload import Consumer, Filters, clients_for, consumers
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.messages import EntryId
from sluice.protocol.route.reduce import algorithm

Experiment = Literal["table-size", "admin-messages"]
EXPERIMENTS: tuple[Experiment, ...] = ("table-size", "admin-messages")

#: How often every local broker sees one of its clients come or go.
ROUNDS = 2
#: There is only one advertisement, so that every algorithm does the same with it.
ADVERTISEMENT_ROUTING = "simple"

#: Subscriptions of all clients together: a gigabyte for each million.
MOST_SUBSCRIPTIONS = 10_000_000
#: Entries of all tables together: beyond, the memory of an ordinary machine does not suffice.
MOST_ENTRIES = 20_000_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What to measure. `subscriptions` is the number that all clients together have, active or not."""

    experiment: Experiment
    routing: str
    subscriptions: int
    advertisements: bool = False
    filters: Filters = "quote"
    seed: int = 1
    rounds: int = ROUNDS

    def is_active(self, client: int) -> bool:
        """Whether a client has subscribed at the beginning: all of them for tables, every other one for messages."""
        return self.experiment == "table-size" or client % 2 == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was counted. `remote_entries` is a sum over all brokers, `admin_messages` a mean over `changes` (None of none)."""

    experiment: Experiment
    routing: str
    advertisements: bool
    filters: Filters
    subscriptions: int
    active_subscriptions: int
    remote_entries: int
    admin_messages: float | None
    changes: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)


def check(setup: Setup) -> None:
    """Raises if a setup cannot be measured."""
    algorithm(setup.routing)
    if setup.subscriptions > MOST_SUBSCRIPTIONS:
        raise LimitError(f"{setup.subscriptions:,} subscriptions are more than the limit of {MOST_SUBSCRIPTIONS:,}")
    entries = setup.subscriptions * len(hierarchy().links)
    if setup.routing == "simple" and not setup.advertisements and entries > MOST_ENTRIES:
        raise LimitError(
            f"{setup.subscriptions:,} subscriptions with simple routing are {entries:,} entries, more than the limit of "
            f"{MOST_ENTRIES:,}: ask for fewer, or use --advertisements"
        )


def run(setup: Setup, topology: Topology | None = None, progress: Progress = lambda done, of: None) -> Result:
    """Build the network, let its clients subscribe, count; two runs of one setup count the same.

    >>> result = run(Setup(experiment="table-size", routing="simple", subscriptions=30), hierarchy(2))
    >>> result.remote_entries == 30 * 10, result.admin_messages
    (True, 10.0)
    """
    return _Run(setup, topology or hierarchy(), progress).result()


class _Client:
    """A consumer at work: the session it speaks through, and the ids of the subscriptions that it holds."""

    def __init__(self, consumer: Consumer, network: Network, session: Session) -> None:
        self.consumer = consumer
        self.network = network
        self.session = session
        self.held: dict[Subscription, EntryId] = {}

    def subscribe(self, where: Subscription) -> None:
        """Asks for one thing."""
        id = self.held[where] = self.session.new_id()
        self.network.command(self.session, Subscribe(id, where))

    def unsubscribe(self, where: Subscription) -> None:
        """Gives one thing up."""
        self.network.command(self.session, Unsubscribe(self.held.pop(where)))

    def toggle(self) -> int:
        """Leaves if it was active and comes if it was not, subscription by subscription; how many changes that were."""
        act = self.unsubscribe if self.held else self.subscribe
        for where in self.consumer.wanted:
            act(where)
        return len(self.consumer.wanted)

    def renew(self) -> int:
        """Gives up one subscription and asks for it again, so that it stays active; how many changes that were."""
        where = self.consumer.wanted[0]
        self.unsubscribe(where)
        self.subscribe(where)
        return 2


class _Run:
    """One experiment on its way."""

    def __init__(self, setup: Setup, topology: Topology, progress: Progress) -> None:
        self.setup = setup
        self.topology = topology
        advertisements = ADVERTISEMENT_ROUTING if setup.advertisements else None
        self.network = Network(topology, BrokerConfig(routing=setup.routing, advertisements=advertisements))
        self.clients: list[_Client] = []
        self._steps = _Steps(setup, topology, progress)

    def result(self) -> Result:
        """Everything, from the first client to the last change."""
        setup = self.setup
        self._load()
        entries = self.network.remote_entries()
        active = sum(len(client.held) for client in self.clients)
        before = self.network.admin_messages
        changes = self._let_come_and_go()
        return Result(
            experiment=setup.experiment,
            routing=setup.routing,
            advertisements=setup.advertisements,
            filters=setup.filters,
            subscriptions=setup.subscriptions,
            active_subscriptions=active,
            remote_entries=entries,
            admin_messages=(self.network.admin_messages - before) / changes if changes else None,
            changes=changes,
            seed=setup.seed,
        )

    def _load(self) -> None:
        """Clients subscribe before the brokers are joined: tables depend on what is asked for, not on when, and it is quick."""
        setup, network = self.setup, self.network
        if setup.advertisements:
            producer = network.join("producer")
            network.command(producer, Advertise(producer.new_id(), Subscription([EVERYTHING])))
            network.connect(producer, self.topology.root)
        # What a broker tells others does not depend on which of its clients asks, so all clients of one share a session.
        sessions = [network.join(f"clients-of-{home}") for home in self.topology.locals]
        for consumer in consumers(setup.subscriptions, len(sessions), setup.filters, setup.seed):
            client = _Client(consumer, network, sessions[consumer.home])
            self.clients.append(client)
            if setup.is_active(consumer.number):
                client.toggle()
            self._steps.client()
        for session, home in zip(sessions, self.topology.locals, strict=True):
            network.connect(session, home)
        network.link_all(self._steps.link)

    def _let_come_and_go(self) -> int:
        """In each round one client of every local broker that has any, in turn; how many changes that were in all."""
        chance = Random(f"changes/{self.setup.seed}")
        by_home: dict[int, list[_Client]] = {}
        for client in self.clients:
            by_home.setdefault(client.consumer.home, []).append(client)
        changes = 0
        for _ in range(self.setup.rounds):
            for home in sorted(by_home):
                client = chance.choice(by_home[home])
                changes += client.renew() if self.setup.experiment == "table-size" else client.toggle()
                self._steps.change()
        return changes


class _Steps:
    """How far an experiment is, for people who wait. A link carries what many clients ask for, so it counts for more."""

    def __init__(self, setup: Setup, topology: Topology, progress: Progress) -> None:
        clients = clients_for(setup.subscriptions)
        self._link = 1 + clients // len(topology.links)
        self._total = clients + self._link * len(topology.links) + setup.rounds * min(clients, len(topology.locals))
        self._done = 0
        self._progress = progress

    def client(self) -> None:
        """A client is connected."""
        self._advance(1)

    def link(self) -> None:
        """Two brokers are joined."""
        self._advance(self._link)

    def change(self) -> None:
        """A client came or went."""
        self._advance(1)

    def _advance(self, steps: int) -> None:
        self._done += steps
        self._progress(self._done, self._total)
