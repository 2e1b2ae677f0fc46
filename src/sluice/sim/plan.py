"""What will happen in a run, decided before it runs: options, a tree, clients, and a list of timed actions.

A scenario expands a seed into a plan; the world carries it out. Because the plan is plain data, a failing one can be shrunk by
leaving things out (`sluice.sim.shrink`) and told as a story. An action that makes no sense any more, such as an
unsubscription whose subscription was left out, does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.protocol.interest import Factory, History
from sluice.protocol.messages import EntryId, Replay
from sluice.sim.domain import SERVICES, parsed
from sluice.sim.world import faults
from sluice.sim.world.world import World


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client asks for something; `ref` is the plan's own name for it. `last` asks for that much of the past."""

    client: str
    ref: int
    where: str
    last: int | None = None
    reliable: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Advertise:
    """A client says what it will publish."""

    client: str
    ref: int
    where: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A client wants to know who asks for something."""

    client: str
    ref: int
    where: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """A client takes back a subscription, an advertisement or a watch."""

    client: str
    ref: int


@dataclass(frozen=True, slots=True)
class Publish:
    """A client publishes a record, or several in one batch."""

    client: str
    record: Mapping[str, Any]
    more: tuple[Mapping[str, Any], ...] = ()
    #: Whether everybody is to get them in the order of all.
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class StopBroker:
    """A broker crashes."""

    broker: str


@dataclass(frozen=True, slots=True)
class StartBroker:
    """A broker comes back, empty."""

    broker: str


@dataclass(frozen=True, slots=True)
class StopClient:
    """A client vanishes; if `unnoticed`, not even its broker knows."""

    client: str
    unnoticed: bool = False


@dataclass(frozen=True, slots=True)
class StartClient:
    """A client comes back; it asks for nothing yet."""

    client: str


@dataclass(frozen=True, slots=True)
class LoseLink:
    """A link breaks."""

    a: str
    b: str


@dataclass(frozen=True, slots=True)
class HealLink:
    """A link works again."""

    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Disturb:
    """From now on messages are lost, doubled or changed, with these chances each."""

    loss: float = 0.0
    twice: float = 0.0
    changed: float = 0.0
    #: How many are overtaken by those behind them; where this is set, only what brokers say to each other is disturbed.
    late: float | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """The tables of a broker become something else; `seed` says what."""

    broker: str
    seed: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Messages that nobody sent are on the way from one node to another."""

    sender: str
    receiver: str
    seed: int


@dataclass(frozen=True, slots=True)
class FillDisk:
    """The disk of a broker is full."""

    broker: str


@dataclass(frozen=True, slots=True)
class FreeDisk:
    """It has room again."""

    broker: str


@dataclass(frozen=True, slots=True)
class Trim:
    """So many batches are past their retention in the log of a broker, or, if it is forced, past twice that."""

    broker: str
    batches: int
    is_forced: bool = True


@dataclass(frozen=True, slots=True)
class Replace:
    """A link of the tree is to be replaced by another; `seed` says which, by which. If it `breaks` first, after so long."""

    seed: int
    breaks: float | None = None


Action: TypeAlias = (
    Subscribe
    | Advertise
    | Watch
    | Cancel
    | Publish
    | StopBroker
    | StartBroker
    | StopClient
    | StartClient
    | LoseLink
    | HealLink
    | Disturb
    | Damage
    | Garbage
    | FillDisk
    | FreeDisk
    | Trim
    | Replace
)
Planned: TypeAlias = tuple[float, Action]

#: Actions that are faults, for the summary.
FAULTS = (StopBroker, StopClient, LoseLink, Disturb, Damage, Garbage, FillDisk, Trim)


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """A client, where it is, what it keeps for those who ask for the past, and what it reads from the streams."""

    name: str
    at: str
    keeps_past: bool = False
    reads: str | None = None
    #: Whether its broker keeps what it has not read.
    holds: bool = False
    #: Whether it is a history of all streams.
    archives: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run before it runs."""

    scenario: str
    seed: int
    options: Mapping[str, Any]
    config: BrokerConfig
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    clients: tuple[ClientPlan, ...]
    #: The safety phase, in order of time.
    actions: tuple[Planned, ...]
    #: After everything has healed and come to rest: what must arrive, without exception.
    probes: tuple[Publish, ...]
    min_delay_seconds: float
    max_delay_seconds: float
    #: The clock of each node, where it is wrong: offset and rate.
    clocks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: The node of each broker that is not one by itself.
    nodes: Mapping[str, str] = field(default_factory=dict)

    def build(self) -> World:
        """The network as it is before the first action."""
        world = World(
            self.seed,
            self.config,
            min_delay_seconds=self.min_delay_seconds,
            max_delay_seconds=self.max_delay_seconds,
        )
        for name in self.brokers:
            offset, rate = self.clocks.get(name, (0.0, 1.0))
            world.add_broker(name, node=self.nodes.get(name), offset=offset, rate=rate)
        for a, b in self.links:
            world.add_link(a, b)
        for one in self.clients:
            offset, rate = self.clocks.get(one.name, (0.0, 1.0))
            node = world.add_client(
                one.name, one.at, reads=one.reads, holds=one.holds, archives=one.archives, offset=offset, rate=rate
            )
            if one.keeps_past:
                node.past, node.factory = History(), Factory(SERVICES)
        # The clocks of clients count too, so what is promised is known only now; it comes first all the same.
        world.trace.events[:0] = world.stage()
        return world


class Performer:
    """Carries out planned actions in a world: it knows which filter of the plan has which id there."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: For each ref: the client, its incarnation then, the id and the command that takes it back.
        self._held: dict[int, tuple[str, int, client.Command]] = {}

    def schedule(self, actions: tuple[Planned, ...]) -> None:
        """Has all actions happen at their times, counted from now."""
        for at, action in actions:
            self.world.call(self.world.now + at, lambda action=action: self.perform(action))  # type: ignore[misc]

    def perform(self, action: Action) -> None:
        """Does one thing now, if it makes sense now."""
        world = self.world
        match action:
            case Subscribe(name, ref, where, last, reliable, ordered):
                replay = None if last is None else Replay(last=last)
                self._hold(
                    name,
                    ref,
                    lambda id: client.Subscribe(id, parsed(where), replay, reliable, ordered),
                    client.Unsubscribe,
                )
            case Advertise(name, ref, where):
                self._hold(name, ref, lambda id: client.Advertise(id, parsed(where)), client.Unadvertise)
            case Watch(name, ref, where):
                self._hold(name, ref, lambda id: client.Watch(id, parsed(where)), client.Unwatch)
            case Cancel(name, ref):
                owner, incarnation, undo = self._held.pop(ref, (name, -1, None))
                if undo is not None and world.clients[owner].incarnation == incarnation:
                    world.command(owner, undo)
            case Publish(name, record, more, ordered):
                world.publish(name, record, *more, ordered=ordered)
            case StopBroker(name):
                world.stop_broker(name)
            case StartBroker(name):
                world.start_broker(name)
            case StopClient(name, unnoticed):
                world.stop_client(name, unnoticed=unnoticed)
            case StartClient(name):
                world.start_client(name)
            case LoseLink(a, b):
                world.lose_link(a, b)
            case HealLink(a, b):
                world.heal_link(a, b)
            case Disturb():
                faults.disturb(world, loss=action.loss, twice=action.twice, changed=action.changed, late=action.late)
            case Damage(name, seed):
                faults.damage(world, name, seed)
            case Garbage(sender, receiver, seed):
                faults.garbage(world, sender, receiver, seed)
            case FillDisk(name):
                world.fill_disk(name)
            case FreeDisk(name):
                world.free_disk(name)
            case Trim(name, batches, is_forced):
                world.trim(name, batches, is_forced)
            case Replace(seed, breaks):
                self._replace(seed, breaks)
            case _:
                assert_never(action)

    def _replace(self, seed: int, breaks: float | None) -> None:
        plan = self.world.shape.draw(seed)
        if plan is None:
            return
        if breaks is None:
            self.world.shape.submit(plan)
        else:
            link = (plan.a, plan.b) if (plan.a, plan.b) in self.world.links else (plan.b, plan.a)
            self.world.lose_link(*link)
            self.world.call(self.world.now + breaks, lambda: self.world.shape.submit(plan))

    def _hold(self, name: str, ref: int, make: Any, undo: Any) -> None:
        id: EntryId | None = self.world.new_id(name)
        if id is not None:
            self._held[ref] = (name, self.world.clients[name].incarnation, undo(id))
            self.world.command(name, make(id))


def tell(planned: Planned) -> str:
    """A planned action as a line of a story."""
    at, action = planned
    return f"{at:10.4f}  {_words(action)}"


def _words(action: Action) -> str:
    match action:
        case Subscribe(name, ref, where, last, reliable, ordered):
            if ordered or reliable:
                how = " reliably" * reliable, " in order" * ordered
                return f"{name} subscribes{how[0]} to {where}{how[1]} (#{ref})"
            past = "" if last is None else f", and the last {last} of the past"
            return f"{name} subscribes to {where}{past} (#{ref})"
        case Advertise(name, ref, where):
            return f"{name} advertises {where} (#{ref})"
        case Watch(name, ref, where):
            return f"{name} watches {where} (#{ref})"
        case Cancel(name, ref):
            return f"{name} takes back #{ref}"
        case Publish(name, record, more, ordered):
            said = ", ".join(str(dict(each)) for each in (record, *more))
            return f"{name} publishes {said}{' in order' if ordered else ''}"
        case StopBroker(name):
            return f"broker {name} crashes"
        case StartBroker(name):
            return f"broker {name} comes back"
        case StopClient(name, unnoticed):
            return f"client {name} vanishes{', and nobody notices' if unnoticed else ''}"
        case StartClient(name):
            return f"client {name} comes back"
        case LoseLink(a, b):
            return f"the link {a} - {b} breaks"
        case HealLink(a, b):
            return f"the link {a} - {b} works again"
        case Disturb(loss, twice, changed, late):
            if not (loss or twice or changed or late):
                return "messages arrive as they were sent again"
            overtaken = "" if late is None else f", between brokers, and overtaken ({late:.0%})"
            return f"messages are lost ({loss:.0%}), doubled ({twice:.0%}) and changed ({changed:.0%}) from now on{overtaken}"
        case Damage(name, seed):
            return f"the tables of broker {name} are damaged (seed {seed})"
        case Garbage(sender, receiver, seed):
            return f"garbage is on the way from {sender} to {receiver} (seed {seed})"
        case FillDisk(name):
            return f"the disk of broker {name} is full"
        case FreeDisk(name):
            return f"the disk of broker {name} has room again"
        case Trim(name, batches, is_forced):
            return f"the {batches} oldest batches of broker {name} are past {'twice ' * is_forced}their retention"
        case Replace(seed, breaks):
            return (
                f"a link is to be replaced (seed {seed}){'' if breaks is None else f', {breaks:.2f} s after it breaks'}"
            )
        case _:
            assert_never(action)


def mentions(action: Action) -> tuple[str, ...]:
    """The nodes without which an action makes no sense."""
    match action:
        case LoseLink(a, b) | HealLink(a, b):
            return (a, b)
        case Garbage(sender, receiver):
            return (sender, receiver)
        case StopBroker(name) | StartBroker(name) | Damage(name) | FillDisk(name) | FreeDisk(name) | Trim(name):
            return (name,)
        case Disturb() | Replace():
            return ()
        case _:
            return (action.client,)
