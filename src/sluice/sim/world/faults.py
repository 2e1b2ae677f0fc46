"""Faults beyond crashes and broken links: messages that change on their way, garbage, and tables that become something else.

Leases promise that the network is right again some time after the last of these, whatever they did (section 3.7). What the
surroundings of a core tell it, namely which links are up and what the clock shows, is not damaged: a core has no other way
to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from sluice.broker.core.broker import Broker
from sluice.match.filterset import FilterSet
from sluice.protocol.batch import Records
from sluice.protocol.export import Replica
from sluice.protocol.messages import (
    Ack,
    Change,
    Deliver,
    Digest,
    Entry,
    Kind,
    Lost,
    Message,
    Notify,
    Role,
    Snapshot,
    Version,
)
from sluice.sim.domain import POINTS, TEXTS, parsed
from sluice.sim.trace import trace as said
from sluice.sim.world.links import Direction

if TYPE_CHECKING:
    from sluice.sim.world.world import World

#: A client that never was: what damage makes up comes from it.
GHOST = "ghost"


def disturb(world: World, *, loss: float, twice: float, changed: float, late: float | None = None) -> None:
    """From now on messages are lost, doubled or changed, with these chances; all 0 ends it.

    With `late`, so many of them are overtaken, and only what brokers say to each other is disturbed.
    """
    if not (loss or twice or changed or late):
        world.noise = None
        return
    random = Random(f"{world.seed}/noise/{world.now!r}")

    def noise(way: Direction, message: Message) -> Sequence[Message]:
        if late is not None:
            if way.link.b.role != Role.BROKER:
                return (message,)
            if random.random() < late:
                world.carry_late(way, message, world.max_delay * random.choice((1.0, 3.0)) * random.random())
                return ()
        roll = random.random()
        if roll >= loss + twice + changed:
            return (message,)
        what, after = (
            ("lost", ())
            if roll < loss
            else ("doubled", (message, message))
            if roll < loss + twice
            else ("altered", (_changed(random, message),))
        )
        world.trace.append(said.Tampered(world.now, way.sender.name, way.receiver.name, what))
        return after

    world.noise = noise


def garbage(world: World, sender: str, receiver: str, seed: int) -> None:
    """Puts some messages on a link that nobody has sent."""
    random = Random(f"{world.seed}/garbage/{seed}")
    node = world.brokers.get(sender) or world.clients[sender]
    way = node.out.get(receiver)
    if way is not None and way.is_open and way.told:
        for _ in range(random.choice((1, 1, 2, 4))):
            world.carry(way, _garbage(random))
            world.trace.append(said.Tampered(world.now, sender, receiver, "made up"))


def damage(world: World, name: str, seed: int) -> None:
    """Makes the tables of a broker something else."""
    node = world.brokers[name]
    broker = node.core
    if broker is None:
        return
    random = Random(f"{world.seed}/damage/{seed}")
    done = []
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        kind = random.choice(list(broker.tables))
        wrong = random.choice(_DAMAGES)
        done.append(f"{kind.name.lower()}: {(wrong.__doc__ or wrong.__name__).rstrip('.')}")
        wrong(random, broker, kind, node.local(world.now))
    world.trace.append(said.Corrupted(world.now, name, "; ".join(done)))


# Things that are made up


def _entry(random: Random) -> Entry:
    id = None if random.random() < 0.5 else f"{GHOST}/{random.randrange(3)}"
    return Entry(parsed(random.choice(TEXTS)), id)


def _entries(random: Random) -> tuple[Entry, ...]:
    return tuple(dict.fromkeys(_entry(random) for _ in range(random.randrange(3))))


def _version(random: Random) -> Version:
    return Version(random.choice((0, 1, 1, 1, 2, 9)), random.choice((0, 1, 2, 3, 5, 1000)))


def _batch(random: Random) -> Records:
    return Records.of(GHOST, random.randrange(100), [random.choice(POINTS)])


def _garbage(random: Random) -> Message:
    kind = random.choice(list(Kind))
    return random.choice(
        (
            lambda: Change(kind, _version(random), _version(random), _entries(random), _entries(random)),
            lambda: Digest(kind, _version(random), random.randrange(1 << 64)),
            lambda: Lost(kind),
            lambda: Snapshot(kind, _version(random), _entries(random)),
            lambda: Snapshot(kind, _version(random), _entries(random)),
            lambda: Ack(kind, _version(random)),
            lambda: Notify(_batch(random)),
            lambda: Deliver(_batch(random), ((f"{GHOST}/1",),)),
        )
    )()


def _changed(random: Random, message: Message) -> Message:
    """A message with one thing in it changed, or another message in its place."""
    if random.random() < 0.2:
        return _garbage(random)
    match message:
        case Change():
            return random.choice(
                (
                    replace(message, base=_version(random)),
                    replace(message, version=_version(random)),
                    replace(message, added=_entries(random)),
                    replace(message, removed=_entries(random)),
                )
            )
        case Digest():
            return random.choice(
                (replace(message, version=_version(random)), replace(message, checksum=random.randrange(9)))
            )
        case Snapshot():
            return random.choice(
                (replace(message, version=_version(random)), replace(message, entries=_entries(random)))
            )
        case Ack():
            return replace(message, version=_version(random))
        case Notify():
            return Notify(_batch(random))
        case _:
            return message


# Ways in which a table goes wrong. Memory has no private parts for damage, so some of these reach below the surface.


def _pick_replica(random: Random, broker: Broker, kind: Kind) -> Replica | None:
    replicas = list(broker.tables[kind].replicas.values())
    return random.choice(replicas) if replicas else None


def _forget_entries(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """Entries of a peer are gone."""
    replica = _pick_replica(random, broker, kind)
    if replica is not None:
        for entry in list(replica.entries):
            if random.random() < 0.6:
                del replica.entries[entry]


def _invent_entries(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """A peer has entries that it never told of."""
    replica = _pick_replica(random, broker, kind)
    if replica is not None:
        replica.entries.update(dict.fromkeys(_entries(random)))


def _wrong_version(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """What is held of a peer has another version."""
    replica = _pick_replica(random, broker, kind)
    if replica is not None:
        replica.version = random.choice((None, _version(random)))


def _deaf(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """A snapshot seems to be on its way that nobody asked for."""
    replica = _pick_replica(random, broker, kind)
    if replica is not None:
        replica.asked = not replica.asked


def _wrong_lease(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """A lease runs for another time."""
    replica = _pick_replica(random, broker, kind)
    if replica is not None:
        replica.renewed = random.choice((now - 1, now + 1e9, math.inf, math.nan, -math.inf, now + random.random()))


def _ghost_peer(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """A peer has entries that never was, or that tells nothing of this kind."""
    replica = Replica(now)
    replica.entries.update(dict.fromkeys((_entry(random), *_entries(random))))
    replica.version = _version(random)
    replica.renewed = random.choice((now, now, math.inf, now + 1e9))
    silent = [peer for peer in broker.roles if peer not in broker.tables[kind].replicas]
    broker.tables[kind].replicas[random.choice((GHOST, *silent))] = replica


def _lost_peer(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """What a peer told is gone as a whole."""
    replicas = broker.tables[kind].replicas
    if replicas:
        del replicas[random.choice(list(replicas))]


def _wrong_export(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """A neighbour seems to have been told something else."""
    exports = list(broker.tables[kind].exports.values())
    if exports:
        export = random.choice(exports)
        for entry in list(export.sent):
            if random.random() < 0.5:
                del export.sent[entry]
        export.sent.update(dict.fromkeys(_entries(random)))


def _wrong_export_version(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """What a neighbour was told has another version, and other acknowledgements."""
    exports = list(broker.tables[kind].exports.values())
    if exports:
        export = random.choice(exports)
        if random.random() < 0.6:
            export.version = _version(random)
        if random.random() < 0.6:
            export.acked = random.choice((-1, 0, 10_000))


def _empty_index(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """The index of the subscriptions has lost everything."""
    broker.forwarding._index = FilterSet()


def _forgetful_outlet(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """What was worked out for a neighbour is gone."""
    outlets = list(broker.tables[kind]._outlets.values())
    if outlets:
        outlet = random.choice(outlets)
        outlet._reducer = outlet._make()


def _wrong_ways(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """The ways to those who asked, and to the brokers, are other ones."""
    peers = list(broker.roles)
    for ways in broker.ways.values():
        for id in list(ways):
            ways.clear(id)
            ways.add(id, random.choice((GHOST, *peers)))


def _wrong_waits(random: Random, broker: Broker, kind: Kind, now: float) -> None:
    """Acknowledgements wait for what will never come."""
    for completion in broker.completion.values():
        for owed in completion._owed.values():
            for _, waits in owed:
                waits[random.choice((GHOST, *broker.roles))] = 1_000_000


Damaging = Callable[[Random, Broker, Kind, float], None]
_DAMAGES: tuple[Damaging, ...] = (
    _forget_entries,
    _invent_entries,
    _wrong_version,
    _deaf,
    _wrong_lease,
    _ghost_peer,
    _lost_peer,
    _wrong_export,
    _wrong_export_version,
    _empty_index,
    _forgetful_outlet,
    _wrong_ways,
    _wrong_waits,
)
