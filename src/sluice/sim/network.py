"""A network in a test: brokers, clients and faults of your own choice, in virtual time, with the specification at hand.

The same seed gives the same run. `Network` is a thin face over `World`; the brokers and clients in it are the ones that run in
production.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.errors import SluiceError
from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.protocol.complete import CacheConfig
from sluice.protocol.interest import History
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import EntryId, Replay
from sluice.sim.spec import ALL, CHECKS, PAIRWISE, STABILIZING, Violation, check
from sluice.sim.trace import trace as said
from sluice.sim.trace.trace import Trace
from sluice.sim.world.nodes import BrokerNode, ClientNode
from sluice.sim.world.world import World


class SpecificationError(SluiceError):
    """A network did not do what it promises; the message tells what, and how it came about."""

    def __init__(self, violations: Sequence[Violation], trace: Trace) -> None:
        self.violations = tuple(violations)
        self.trace = trace
        told = "\n".join(f"  {line}" for line in trace.story())
        super().__init__(f"{violations[0]}\nwhat happened:\n{told}")


class Network:
    """Brokers and clients in one process and in virtual time.

    >>> net = Network(seed=7, routing="merging")
    >>> a, b = net.broker("a"), net.broker("b")
    >>> net.link("a", "b")
    >>> alice, bob = net.client("alice", at="a"), net.client("bob", at="b")
    >>> wanted = alice.subscribe("symbol = 'IBM' AND price > 120")
    >>> net.run()
    >>> alice.is_complete(wanted)
    True
    >>> bob.publish({"symbol": "IBM", "price": 121.5})
    >>> net.run()
    >>> alice.received
    [{'symbol': 'IBM', 'price': 121.5}]
    >>> net.check()
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        routing: str = "covering",
        advertisements: str | None = None,
        order_algorithm: str = "floors",
        cache: CacheConfig | None = None,
        lease: LeaseConfig | None = None,
        min_delay_seconds: float = 0.001,
        max_delay_seconds: float = 0.01,
    ) -> None:
        config = BrokerConfig(
            routing=routing,
            advertisements=advertisements,
            order_algorithm=order_algorithm,
            cache=cache,
            lease=lease,
        )
        self.world = World(seed, config, min_delay_seconds=min_delay_seconds, max_delay_seconds=max_delay_seconds)
        self._group: dict[str, str] = {}
        self._stage = 0
        self._quiet_at = 0

    @property
    def now(self) -> float:
        """The virtual time, in seconds."""
        return self.world.now

    @property
    def trace(self) -> Trace:
        """What happened so far."""
        # Brokers may come later than the first client, but the stage of a trace stands at its beginning.
        self.world.trace.events[: self._stage] = stage = self.world.stage()
        self._stage = len(stage)
        return self.world.trace

    def broker(self, name: str) -> BrokerInTest:
        """A new broker."""
        self._group[name] = name
        return BrokerInTest(self.world, self.world.add_broker(name))

    def link(self, a: str, b: str) -> None:
        """A link between two brokers. Brokers and links are a tree."""
        for name in (a, b):
            self._known(name)
        if self._root(a) == self._root(b):
            raise SluiceError(f"a link {a} - {b} closes a circle: brokers and links are a tree")
        self._group[self._root(a)] = self._root(b)
        self.world.add_link(a, b)

    def client(self, name: str, *, at: str) -> ClientInTest:
        """A new client of a broker."""
        self._known(at)
        return ClientInTest(self.world, self.world.add_client(name, at))

    def cut(self, a: str, b: str) -> None:
        """Breaks a link between two brokers, or a client and its broker."""
        self.world.lose_link(*self._link(a, b))

    def heal(self, a: str, b: str) -> None:
        """Makes a broken link work again."""
        self.world.heal_link(*self._link(a, b))

    def run(self, seconds: float | None = None) -> None:
        """Lets time pass: so many seconds, or until nothing moves any more.

        With leases something always moves; without `seconds` the time passes that recovery from any fault may take.
        """
        world, lease = self.world, self.world.config.lease
        if seconds is not None:
            world.run(world.now + seconds)
        elif lease is not None:
            world.run(world.now + lease.bound_seconds)
        else:
            world.settle()
        at_rest = seconds is None and self._all_up()
        if at_rest and len(world.trace) > self._quiet_at:
            world.trace.append(said.Quiet(world.now))
            self._quiet_at = len(world.trace)

    def check(self, *names: str) -> None:
        """Raises `SpecificationError`, with the story, if the network broke a promise so far; `names` of checks, or all.

        Call it when nothing moves, after `run()`: what is still on its way would seem to be missing.
        """
        checks = (*ALL, PAIRWISE) if self.world.config.lease is None else STABILIZING
        for name in names:
            if name not in CHECKS:
                raise SluiceError(f"there is no check {name!r}: take one of {', '.join(CHECKS)}")
        found = check(self.trace, [CHECKS[name] for name in names] or checks)
        if found:
            raise SpecificationError(found, self.trace)

    def _known(self, name: str) -> None:
        if name not in self.world.brokers:
            raise SluiceError(f"there is no broker {name!r}: make it with broker({name!r}) first")

    def _root(self, name: str) -> str:
        while self._group[name] != name:
            name = self._group[name]
        return name

    def _link(self, a: str, b: str) -> tuple[str, str]:
        for pair in ((a, b), (b, a)):
            if pair in self.world.links:
                return pair
        raise SluiceError(f"there is no link {a} - {b}")

    def _all_up(self) -> bool:
        return all(node.is_up for node in self.world.brokers.values()) and not any(
            link.is_lost for link in self.world.links.values()
        )


class BrokerInTest:
    """A broker of a simulated network."""

    def __init__(self, world: World, node: BrokerNode) -> None:
        self._world = world
        self._node = node
        self.name = node.name

    def __repr__(self) -> str:
        return f"<broker {self.name}, {'up' if self._node.is_up else 'down'}>"

    @property
    def core(self) -> Broker:
        """The broker itself, with its tables."""
        if self._node.core is None:
            raise SluiceError(f"the broker {self.name} is down")
        return self._node.core

    def crash(self) -> None:
        """The broker stops and forgets everything."""
        self._world.stop_broker(self.name)

    def restart(self) -> None:
        """The broker comes back, empty."""
        self._world.start_broker(self.name)


class ClientInTest:
    """A client of a simulated network, and what reached it."""

    def __init__(self, world: World, node: ClientNode) -> None:
        self._world = world
        self._node = node
        self.name = node.name

    def __repr__(self) -> str:
        return f"<client {self.name} at {self._node.broker}, {'up' if self._node.is_up else 'down'}>"

    def subscribe(self, where: str | Subscription, *, last: int | None = None, ordered: bool = False) -> EntryId:
        """Asks for what matches, for the `last` so many of the past if somebody keeps it, and `ordered` as all get it."""
        replay = None if last is None else Replay(last=last)
        return self._ask(lambda id: client.Subscribe(id, _parsed(where), replay, ordered=ordered))

    def unsubscribe(self, id: EntryId) -> None:
        """Takes a subscription back."""
        self._command(client.Unsubscribe(id))

    def advertise(self, where: str | Subscription) -> EntryId:
        """Says what it will publish."""
        return self._ask(lambda id: client.Advertise(id, _parsed(where)))

    def unadvertise(self, id: EntryId) -> None:
        """Takes an advertisement back."""
        self._command(client.Unadvertise(id))

    def watch(self, where: str | Subscription) -> EntryId:
        """Wants to know who asks for anything that overlaps a filter."""
        return self._ask(lambda id: client.Watch(id, _parsed(where)))

    def unwatch(self, id: EntryId) -> None:
        """Takes a watch back."""
        self._command(client.Unwatch(id))

    def publish(self, record: Mapping[str, Any], *, ordered: bool = False) -> None:
        """Publishes a record, `ordered` for all if that is wished; `refused` tells if that was not possible."""
        if not self._world.publish(self.name, record, ordered=ordered):
            raise self._is_down()

    def keep_past(self) -> None:
        """From now on keeps what it publishes, for subscriptions that ask for the past and overlap what it watches."""
        if self._node.past is None:
            self._node.past = History()

    def crash(self) -> None:
        """The client vanishes without a word, with all that it asked for."""
        self._world.stop_client(self.name)

    def restart(self) -> None:
        """The client comes back and asks for nothing yet."""
        self._world.start_client(self.name)

    @property
    def received(self) -> list[Mapping[str, Any]]:
        """The records that were delivered, in order."""
        return [notification.record for notification, _ in self._node.deliveries]

    @property
    def withheld(self) -> list[Mapping[str, Any]]:
        """The records that came too late to be delivered in order."""
        return [notification.record for notification in self._node.withheld]

    @property
    def replayed(self) -> list[Mapping[str, Any]]:
        """The records of the past that were replayed to it, in order."""
        return [notification.record for notification, _ in self._node.replays]

    @property
    def refused(self) -> list[str]:
        """Why publications were refused, in order."""
        return list(self._node.refusals)

    @property
    def interests(self) -> dict[EntryId, str]:
        """The subscriptions of others that overlap what it watches."""
        return dict(self._node.interests)

    def is_complete(self, id: EntryId) -> bool:
        """Whether it was told that it misses nothing that matches this subscription."""
        return id in self._node.completed

    def _ask(self, make: Any) -> EntryId:
        id = self._world.new_id(self.name)
        if id is None:
            raise self._is_down()
        self._command(make(id))
        return id

    def _command(self, command: client.Command) -> None:
        if not self._world.command(self.name, command):
            raise self._is_down()

    def _is_down(self) -> SluiceError:
        return SluiceError(f"the client {self.name} is down: restart() it first")


def _parsed(where: str | Subscription) -> Subscription:
    return parse(where) if isinstance(where, str) else where
