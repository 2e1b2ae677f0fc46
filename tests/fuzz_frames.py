"""Frames that are wrong in every way a seed can think of: `python -m tests.fuzz_frames --minutes 10`.

Two things are checked. Any bytes are messages or raise `ProtocolError`, nothing else. And a broker on a real socket that gets
them closes that connection at most: a publisher and a subscriber beside it lose nothing meanwhile. What goes wrong first ends
the run, with the seed that repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluice import parse
from sluice.broker.server import Server
from sluice.errors import ProtocolError
from sluice.protocol.batch import MARKED, Batch, Logged, Place, Records, Rows, Stamp, portable
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Await,
    Change,
    Deliver,
    Digest,
    Entry,
    Floor,
    Gone,
    Halted,
    Head,
    Heard,
    Kind,
    Lost,
    Missing,
    Notify,
    Passage,
    Passed,
    Quiet,
    Reached,
    Ready,
    Refused,
    Replay,
    Reply,
    Request,
    Role,
    Runs,
    Skipped,
    Snapshot,
    Started,
    Version,
)
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Question,
    Recall,
    ReplayEvent,
    Replaying,
    Resume,
    Resumed,
)
from sluice.protocol.reliable.runs import runs_of, union
from sluice.protocol.reshape.messages import (
    Abort,
    Adopt,
    Back,
    Fate,
    Flip,
    Joined,
    Last,
    Neighbours,
    Parted,
    Plan,
    Prepare,
    Reshaping,
)
from sluice.protocol.rewiring import Connect, Ordered, Part, Replace
from sluice.protocol.wire.codec import decode, encode
from sluice.protocol.wire.frames import MORE, FrameReader
from sluice.protocol.wire.link import (
    PROTOCOL,
    Anything,
    Bye,
    Channel,
    Credit,
    Dropped,
    Elsewhere,
    Hello,
    Ping,
    Policy,
    Welcome,
)
from sluice.protocol.wire.vectors import ClocksHeard, ClocksSaid
from tests.broker.raw import Raw, bystanders, running, until
from tests.generate import Generator, batch_of

#: Whoever is besieged is cut off soon, so that a run of seconds sees slow messages too.
HEARTBEAT_SECONDS = 0.5
#: More than a message of the fuzzer needs, less than would slow it down.
MAX_MESSAGE_BYTES = 1 << 20


class Fuzzer:
    """Messages, and bytes that once were messages; equal seeds make equal ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = Generator(self.random)

    # --- messages -----------------------------------------------------------------------------------------------------

    def message(self) -> Anything:
        """Any message, its fields as wild as they may be."""
        makers: tuple[Callable[[], Anything], ...] = (
            lambda: Hello(PROTOCOL, self.role(), self.name(), self.number(), self.number(), token=self.name()),
            lambda: Hello(PROTOCOL, self.role(), self.name(), self.number(), self.number()),
            lambda: Hello(PROTOCOL, Role.BROKER, self.name(), self.number(), node=self.name(), address=self.name()),
            lambda: Welcome(PROTOCOL, self.name(), self.number(), self.random.choice((None, 5)), 2.5),
            lambda: Welcome(PROTOCOL, self.name(), self.number(), 5, 2.5, self.name(), self.name(), self.name()),
            lambda: Bye(self.name(), self.generator.chance(0.5)),
            lambda: Bye(self.name(), elsewhere=(self.name(), self.name())),
            lambda: Elsewhere((self.name(),)),
            Ping,
            lambda: Credit(self.number()),
            lambda: Dropped(self.number()),
            lambda: Channel(self.random.choice(("", "b/1"))),
            self.reshaping,
            self.reshaping,
            self.reshaping,
            self.change,
            lambda: Digest(self.kind(), self.version(), self.number()),
            lambda: Lost(self.kind()),
            lambda: Snapshot(self.kind(), self.version(), self.entries(), self.clocks(), self.generator.chance(0.5)),
            lambda: Ack(self.kind(), self.version()),
            lambda: Notify(self.batch()),
            self.passing,
            lambda: Notify(self.batch().stamped(self.stamp()), None, self.random.choice((None, self.offset()))),
            lambda: Floor(self.offset()),
            lambda: Await(self.offset()),
            lambda: Quiet(Passage(self.name(), self.runs(), self.clocks(), self.random.choice((None, self.name())))),
            lambda: Head(self.name(), self.offset(), self.clocks(), self.offset()),
            lambda: Missing(self.name(), self.name(), self.runs(), self.offset()),
            lambda: Missing(self.name(), self.name(), (), self.offset(), self.offset()),
            lambda: Gone(self.name(), self.runs(), self.name()),
            lambda: Reached(self.name(), self.clocks()),
            lambda: Started(self.name(), self.offset(), (self.id(), "c/1")),
            lambda: Ready((self.id(),)),
            lambda: Skipped(self.name(), self.runs(), ("c/1",)),
            lambda: Passed(self.clocks(), ("c/1",), self.offset()),
            self.deliver,
            lambda: Accepted(self.number()),
            lambda: Refused((1, self.number()), self.name()),
            lambda: Halted(self.number(), self.name()),
            Heard,
            lambda: Request(self.id(), self.name(), self.question()),
            lambda: Reply(self.id(), self.answer()),
        )
        return self.random.choice(makers)()

    def reshaping(self) -> Reshaping:
        job = self.random.choice(("b/1", "broker/77"))
        plan = Plan(job, self.name(), "b", "c", self.name(), self.random.choice((None, "host:1")))
        path, generations = (self.name(), "b"), (self.number(), 1)
        entry = Entry(parse("n > 3"), self.random.choice((None, "c/1")))
        snapshot = Snapshot(self.kind(), self.version(), (entry,), self.clocks())
        tables = (Change(self.kind(), self.version(), self.version(), (), (entry,), self.clocks()), snapshot)
        choices: tuple[Reshaping, ...] = (
            Prepare(plan, path, self.generator.chance(0.5), self.generator.chance(0.5), generations, tables),
            Back(job, path, self.generator.chance(0.5), generations, tables),
            Flip(job, tables),
            Last(job),
            Parted(self.number()),
            Joined(self.number()),
            Abort(job, "no"),
            Fate(job, self.name(), self.name(), self.random.choice((None, True, False))),
            Neighbours({self.name(): self.random.choice((None, "host:1"))}),
            Adopt(self.name(), job, self.number()),
        )
        return self.random.choice(choices)

    def name(self) -> str:
        return self.random.choice(("b", "c", "eve", "é\U0001f600", "a/b", "x" * 200, " "))

    def id(self) -> str:
        return f"{self.name()}/{self.random.randrange(5)}"

    def role(self) -> Role:
        """A client or a broker."""
        return Role(self.random.randrange(2))

    def number(self) -> int:
        return self.random.choice((0, 1, 2, 3, 127, 128, 2**31, 2**32, 2**62 - 1, 2**63 - 1, 2**64 - 1))

    def kind(self) -> Kind:
        return Kind(self.random.randrange(len(Kind)))

    def version(self) -> Version:
        return Version(1, self.random.choice((0, 0, 1, 2, self.number())))

    def entries(self) -> tuple[Entry, ...]:
        replays = (None, None, None, Replay(3), Replay(None, 2.5), Replay(0, 0.0))
        texts = ("TRUE", "n > 3", "s LIKE 'a%'", self.generator.term())
        made = (
            Entry(
                parse(self.random.choice(texts)),
                self.random.choice((None, self.id(), "c/1")),
                self.random.choice(replays),
                self.generator.chance(0.2),
                self.generator.chance(0.2),
            )
            for _ in range(self.random.randrange(4))
        )
        return tuple(dict.fromkeys(made))

    def change(self) -> Change:
        entries = self.entries()
        cut = self.random.randint(0, len(entries))
        return Change(self.kind(), self.version(), self.version(), entries[:cut], entries[cut:], self.clocks(), cut > 0)

    def offset(self) -> int:
        return self.random.choice((0, 1, 7, 200, 2**31, 2**63 - 1))

    def clocks(self) -> dict[str, int]:
        return {self.name(): self.offset() for _ in range(self.random.choice((0, 1, 1, 3)))}

    def runs(self) -> Runs:
        offsets = (self.random.randrange(1, 60) for _ in range(self.random.randint(1, 5)))
        return union((offset, offset + self.random.choice((0, 0, 3, 2**40))) for offset in offsets)

    def passing(self) -> Notify:
        """Notifications of a log, and what else they account for."""
        batch = self.batch()
        logged = batch.logged or Logged(self.name(), range(7, 7 + len(batch)), 1)
        runs = union((*runs_of(logged.offsets), *(self.runs() if self.generator.chance(0.5) else ())))
        to = self.random.choice((None, None, self.name()))
        return Notify(batch.placed(logged), Passage(logged.stream, runs, self.clocks(), to))

    def record(self) -> dict[str, Any]:
        return portable(self.generator.record(typed=self.generator.chance(0.5)))

    def batch(self) -> Batch:
        count = self.random.randint(1, 4)
        first = self.random.choice((0, 1, 2, 2**40))
        numbers = self.random.choice((range(first, first + count), [first + 2 * row for row in range(count)]))
        logged = None
        if self.generator.chance(0.3):
            micros = self.random.choice((0, 1_700_000_000_000_000))
            logged = Logged(self.name(), range(7, 7 + count), micros, self.offset())
        publisher = self.random.choice(("c", "c", self.name()))
        if self.generator.chance(0.5):
            return Records(publisher, numbers, records=[self.record() for _ in range(count)], logged=logged)
        table = batch_of([self.generator.record() for _ in range(count)])
        return Rows(publisher, numbers, table=table, logged=logged)

    def stamp(self) -> Stamp:
        return self.random.choice((MARKED, Stamp(self.offset(), self.name()), Stamp(7, "b", is_marked=True)))

    def deliver(self) -> Deliver:
        batch = self.batch()
        if self.generator.chance(0.3):
            return Deliver(batch.stamped(self.stamp()), (("c/1", "c/2"),), ordered=True)
        if self.generator.chance(0.5):
            return Deliver(batch, (("c/1", "c/2"),))
        which = array("I", (self.random.randrange(2) for _ in range(len(batch))))
        return Deliver(batch, (("c/1",), ("c/2",)), which, self.generator.chance(0.5))

    def place(self) -> Place | None:
        return self.random.choice((None, Place(self.number(), self.name(), self.number())))

    def question(self) -> Question:
        text = self.random.choice(("TRUE", "n > 3", "n >"))
        return self.random.choice(
            (
                Fetch(self.number(), self.random.choice((None, 5, self.number())), text, self.number(), 0.01),
                Resume(self.name(), text, {self.name(): self.number()}, self.generator.chance(0.5)),
                Resume(self.name(), text, {}, reached={self.name(): self.number()}),
                Recall(self.name()),
                Commit(self.name(), {self.name(): self.number()}),
                Forget(self.name()),
                Connect("127.0.0.1:1"),
                Connect(self.name()),
                Part(self.name()),
                Replace(self.name(), self.name(), self.name(), self.name()),
                Describe(),
                ReplayEvent(
                    (self.batch(),), self.place(), {self.name(): self.number()}, ((self.name(), 1, self.number()),)
                ),
                ReplayEvent(),
            )
        )

    def answer(self) -> Answer:
        return self.random.choice(
            (
                Fetched((self.batch(),), 5, 1, self.number(), ((1, 2),)),
                Resumed("TRUE", {"b": self.number()}),
                Done(),
                Ordered(self.name()),
                Described({"name": "b", "links": [{"bytes": 1.5}]}),
                Failed("no"),
                Replaying(self.place(), self.generator.chance(0.5)),
            )
        )

    # --- what becomes of them -----------------------------------------------------------------------------------------

    def damaged(self) -> bytes:
        """The bytes of some messages, changed in one way or several, or in none."""
        said = ClocksSaid()
        data = bytearray(b"".join(b"".join(encode(self.message(), said)) for _ in range(self.random.randint(1, 3))))
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 5))):
            self.random.choice(
                (self._flip, self._cut, self._insert, self._repeat, self._retype, self._resize, self._overwrite)
            )(data)
            if not data:
                break
        return bytes(data)

    def _place(self, data: bytearray) -> int:
        """Any place, or one near the beginning, where frames and headers are."""
        return self.random.randrange(min(len(data), self.random.choice((5, 12, 40, len(data)))))

    def _flip(self, data: bytearray) -> None:
        data[self._place(data)] ^= 1 << self.random.randrange(8)

    def _overwrite(self, data: bytearray) -> None:
        place = self._place(data)
        data[place : place + 4] = self.random.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xdd\xff\xff\xff"))

    def _cut(self, data: bytearray) -> None:
        place = self._place(data)
        del data[place : place + self.random.choice((1, 4, len(data)))]

    def _insert(self, data: bytearray) -> None:
        place = self._place(data)
        data[place:place] = self.random.randbytes(self.random.choice((1, 3, 20)))

    def _repeat(self, data: bytearray) -> None:
        place = self._place(data)
        data[place:place] = data[place : place + self.random.randrange(1, 60)]

    def _retype(self, data: bytearray) -> None:
        if len(data) > 4:
            data[4] = self.random.choice((0, 1, 2, 16, 19, 32, 33, 39, 41, 48, 49, 64, 65, 66, 77, 255, data[4] | MORE))

    def _resize(self, data: bytearray) -> None:
        size = self.random.choice((0, 1, 5, len(data), 1 << 22, (1 << 22) + 1, 2**32 - 1))
        data[:4] = size.to_bytes(4, "big")


def check_decoding(seed: int) -> str:
    """Feeds the reader bytes in pieces of any size; says what came of it."""
    fuzzer = Fuzzer(seed)
    data = fuzzer.damaged()
    reader, heard = FrameReader(MAX_MESSAGE_BYTES), ClocksHeard()
    outcome = "incomplete"
    try:
        for piece in pieces(data, fuzzer.random):
            for type, payload in reader.feed(piece):
                message = decode(type, payload, heard)
                sent = b"".join(encode(message))
                assert b"".join(encode(decode(type, sent[5:]))) == sent, f"{message} changes when it is sent on"
                outcome = "decoded"
    except ProtocolError as error:
        assert str(error)
        outcome = "refused"
    assert reader.held <= len(data)
    return outcome


def pieces(data: bytes, source: random.Random) -> list[bytes]:
    """Bytes cut at random places."""
    ends = sorted({len(data), *(source.randrange(len(data) + 1) for _ in range(source.choice((0, 1, 3))))})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


async def attack(server: Server, seed: int) -> str:
    """Says wrong things to a broker on a connection of its own; says what came of it."""
    fuzzer = Fuzzer(seed)
    source = fuzzer.random
    raw = await Raw.to(server)
    if fuzzer.generator.chance(0.8):
        raw.say(Hello(PROTOCOL, Role.CLIENT, "c", 1, source.choice((0, 1, 2**40)), Policy(source.randrange(3))))
    for piece in pieces(fuzzer.damaged(), source):
        raw.say(piece)
        await asyncio.sleep(0)
    if fuzzer.generator.chance(0.3):
        await raw.close()
        return "gone"
    raw.stop_saying()
    return "refused" if await raw.end() is not None else "served"


async def besiege(seconds: float, seed: int, cases: int) -> Counter[str]:
    """Attacks a broker beside two bystanders until time or cases are over; counts what came of it."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        settings = {"heartbeat_seconds": HEARTBEAT_SECONDS, "data": Path(folder), "fsync": False}
        return await _besiege(settings, end, seed, cases)


async def _besiege(settings: dict[str, Any], end: float, seed: int, cases: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    async with running("b", **settings) as server:
        async with bystanders(server) as pair:
            for number in range(cases):
                if time.monotonic() > end:
                    break
                try:
                    counts[await attack(server, seed + number)] += 1
                except BaseException:
                    print(
                        f"attack {seed + number} went wrong: python -m tests.fuzz_frames --seed {seed + number} --cases 1"
                    )
                    raise
            await until(lambda: len(server.peers) == 2)
        counts["bystanders' notifications"] = len(pair.subscriber.got)
        await until(lambda: not server.peers)
        assert server.report()["memory_bytes"] == 0, "something is still held for those who are gone"
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="how long, about; half of it for each of the two checks"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the next ones follow")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="at most so many of each")
    options = parser.parse_args()
    logging.getLogger("sluice").setLevel(logging.ERROR)
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.minutes * 30
    seed = options.seed
    while time.monotonic() < end and seed - options.seed < options.cases:
        try:
            counts[check_decoding(seed)] += 1
        except BaseException:
            print(f"bytes {seed} went wrong: python -m tests.fuzz_frames --seed {seed} --cases 1")
            raise
        seed += 1
    print("bytes into messages:", ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items())))
    counts = asyncio.run(besiege(options.minutes * 30, options.seed, options.cases))
    print("attacks on a broker:", ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
