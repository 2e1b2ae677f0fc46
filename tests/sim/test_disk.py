"""A simulated disk, and what is around a durable broker: what survives a crash, what does not, and who hears of it when."""

from __future__ import annotations

from typing import Any

from sluice import parse
from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.protocol.batch import Records
from sluice.protocol.questions import Failed, Resume, Resumed
from sluice.sim.spec import STREAMS, check
from sluice.sim.trace import streamed
from sluice.sim.trace.trace import Refused
from sluice.sim.world.disk import Disk
from sluice.sim.world.world import World


def batch(first: int, count: int = 1) -> Records:
    return Records.of("bob", first, [{"n": number} for number in range(first, first + count)])


def test_a_disk_logs_what_follows_what_it_has() -> None:
    disk = Disk()
    assert disk.append(batch(1, 3), 0, 1.5, 0) == 1 and disk.append(batch(4), 3, 2.0, 0) == 4
    assert isinstance(disk.append(batch(9), 8, 2.0, 0), str), "something before it is missing"
    disk.is_full = True
    assert disk.append(batch(5), 4, 2.0, 0) == "the disk is full"
    assert (disk.first, disk.head, disk.accepted(), disk.last_number("eve")) == (1, 4, {"bob": 4}, 0)
    assert [each.first for each in disk.read(0, 4, 10**6)] == [1, 4]
    assert [each.first for each in disk.read(0, 4, 1)] == [1] == [each.first for each in disk.read(2, 3, 10**6)]
    assert [each.first for each in disk.read(3, 4, 10**6)] == [4] and not disk.read(4, 4, 10**6)
    disk.trim("b", 1, None)
    assert (disk.first, disk.head) == (4, 4)
    disk.trim("b", 5, None)
    assert (disk.first, disk.head) == (5, 4), "the offsets go on"


def test_a_disk_keeps_positions() -> None:
    disk = Disk()
    disk.is_full = True
    assert isinstance(disk.resume(Resume("r", "true", {})), Failed)
    disk.is_full = False
    assert disk.resume(Resume("r", "true", {"b": 3})) == Resumed("true", {"b": 3})
    assert disk.note("r", {"c": 4}) and disk.note("nobody", {"c": 4})
    assert disk.resume(Resume("r", "true", {"b": 9})) == Resumed("true", {"b": 3, "c": 4})
    disk.is_full = True
    assert not disk.note("r", {"c": 5})
    assert disk.resume(Resume("r", "true", {})) == Resumed("true", {"b": 3, "c": 4})


def test_a_disk_keeps_what_is_held() -> None:
    disk = Disk()
    for number in range(1, 6):
        disk.append(batch(number), number - 1, 1.0, 0)
    disk.resume(Resume("r", "true", {"b": 2}, holds=True))
    disk.resume(Resume("s", "true", {"b": 0}))
    disk.trim("b", 10, None)
    assert disk.first == 3
    disk.note("r", {"b": 4})
    disk.trim("b", 1, None)
    assert disk.first == 4
    disk.trim("b", 10, None)
    assert disk.first == 5


def durable(seed: int = 0, reads: str | None = None) -> World:
    """A durable broker, a publisher, and a client that may read its stream."""
    world = World(seed, BrokerConfig(durable=True), min_delay_seconds=0.1, max_delay_seconds=1.0)
    world.add_broker("b")
    world.add_client("bob", "b")
    world.add_client("alice", "b", reads=reads)
    world.settle()
    return world


def told(world: World, kind: type) -> list[Any]:
    return [event for event in world.trace if isinstance(event, kind)]


def test_what_is_handed_over_while_the_disk_is_busy_is_stored_together() -> None:
    world = durable()
    for number in range(6):
        world.publish("bob", {"n": number})
    world.settle()
    times = [event.at for event in told(world, streamed.Logged)]
    assert len(times) == 6 and len(set(times)) < 6
    assert told(world, streamed.Accepted)[-1].number == 6 and check(world.trace, STREAMS) == []


def test_a_crash_takes_what_is_not_on_the_disk_and_its_publisher_sends_it_again() -> None:
    lost = stored = 0
    for seed in range(30):
        world = durable(seed)
        world.publish("bob", {"n": 1})
        world.publish("bob", {"n": 2})
        world.run(world.now + 1.0 + seed / 20)
        before = len(told(world, streamed.Logged))
        accepted = max((event.number for event in told(world, streamed.Accepted)), default=0)
        world.stop_broker("b")
        world.settle()
        assert len(told(world, streamed.Logged)) == before, "nothing is written after the crash"
        world.start_broker("b")
        world.settle()
        assert [event.number for event in told(world, streamed.Logged)] == [1, 2]
        bob = [event.number for event in told(world, streamed.Accepted) if event.client == "bob"]
        assert bob[-1] == 2 and check(world.trace, STREAMS) == []
        lost += before < 2
        stored += accepted < before
    assert lost and stored, "also what was on disk when nobody knew"


def test_a_full_disk_refuses_and_serves_the_rest() -> None:
    world = durable()
    world.command("alice", client.Subscribe("alice/1", parse("true")))
    world.publish("bob", {"n": 1})
    world.settle()
    world.fill_disk("b")
    world.publish("bob", {"n": 2})
    world.publish("bob", {"n": 3})
    world.settle()
    world.free_disk("b")
    world.publish("bob", {"n": 4})
    world.settle()
    assert [event.number for event in told(world, Refused)] == [2, 3]
    assert [event.number for event in told(world, streamed.Logged)] == [1, 4]
    assert len(world.clients["alice"].deliveries) == 2 and check(world.trace, STREAMS) == []


def test_a_reader_goes_on_where_it_was_after_any_crash() -> None:
    world = durable(reads="n > 1")
    for number in range(5):
        world.publish("bob", {"n": number}, {"n": number + 10})
    world.settle()
    world.run(world.now + 30.0)
    read = told(world, streamed.Read)
    assert [event.offset for event in read] == [2, 4, 5, 6, 7, 8, 9, 10]
    for name in ("b", "alice"):
        if name == "b":
            world.stop_broker(name)
            world.settle()
            world.start_broker(name)
        else:
            world.stop_client(name)
            world.settle()
            world.start_client(name)
        world.settle()
        world.run(world.now + 30.0)
        world.publish("bob", {"n": 99})
        world.settle()
        world.run(world.now + 30.0)
    assert [event.offset for event in told(world, streamed.Read)][len(read) :] == [11, 12]
    assert told(world, streamed.Opened)[-1].positions == {"b": 11} and check(world.trace, STREAMS) == []


def test_what_a_reader_read_and_did_not_note_comes_again() -> None:
    world = durable(reads="true")
    for number in range(3):
        world.publish("bob", {"n": number})
    while not told(world, streamed.Read):
        world._happen()
    world.stop_client("alice")
    world.start_client("alice")
    world.settle()
    world.run(world.now + 30.0)
    offsets = [event.offset for event in told(world, streamed.Read)]
    assert offsets[0] == 1 and sorted(set(offsets)) == [1, 2, 3] and len(offsets) > 3
    assert check(world.trace, STREAMS) == []


def test_a_reader_is_told_what_is_gone() -> None:
    world = durable()
    for number in range(4):
        world.publish("bob", {"n": number})
        world.settle()
    world.trim("b", 2, is_forced=True)
    world.clients["alice"].reads = "true"
    world.stop_client("alice")
    world.start_client("alice")
    world.settle()
    assert [(event.first, event.last) for event in told(world, streamed.Missed)] == [(1, 2)]
    assert [event.offset for event in told(world, streamed.Read)] == [3, 4] and check(world.trace, STREAMS) == []
