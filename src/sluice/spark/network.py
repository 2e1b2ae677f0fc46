"""The brokers as a Spark program sees them: which streams there are, and what a range of one holds.

A `Network` is a few strings, so that it travels to the workers; every process opens connections of its own. A broker that does
not answer is asked again for as long as its patience lasts, so that a restart in the middle of a job goes unnoticed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import sluice.client.connect as client
from sluice.client.blocking import BlockingBus
from sluice.errors import ConfigurationError, LinkError, RequestError, SentAwayError, SluiceError, TrustError
from sluice.protocol.batch import Peer
from sluice.protocol.questions import Fetched

logger = logging.getLogger("sluice.spark")

#: How long brokers are asked again before a task fails.
PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Network:
    """How to reach the brokers: addresses of some of them, each of which can tell of all."""

    brokers: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    tls_authority: str | None = None
    patience_seconds: float = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        if not self.brokers:
            raise ConfigurationError(
                "no broker is named: give the address of one at least, as in sluice://127.0.0.1:7470"
            )

    @contextmanager
    def connect(self, address: str | None = None, name: str | None = None) -> Iterator[BlockingBus]:
        """A connection to one broker: the one at an address, or the first that answers."""
        addresses = self.brokers if address is None else (address,)
        deadline = time.monotonic() + self.patience_seconds
        while True:
            problems: list[str] = []
            for each in addresses:
                connector = client.connect(
                    each,
                    name,
                    token=self.token,
                    tls_authority=self.tls_authority,
                    give_up_seconds=self.patience_seconds,
                    move_seconds=None,  # what a task has published is at this broker, and tried again there
                )
                try:
                    bus = connector.__enter__()
                except (TrustError, SentAwayError):
                    raise  # nothing would come of asking again
                except (LinkError, OSError) as error:
                    problems.append(str(error))
                    continue
                try:
                    yield bus
                except BaseException as error:
                    connector.__exit__(type(error), error, error.__traceback__)
                    raise
                connector.__exit__(None, None, None)
                return
            if time.monotonic() > deadline:
                raise LinkError(f"no broker answers: {'; '.join(problems)}")
            time.sleep(_PAUSE_SECONDS)

    def streams(self, bus: BlockingBus | None = None) -> dict[Peer, range]:
        """The offsets that every stream holds now, by the name of its broker."""
        if bus is None:
            with self.connect() as opened:
                return self.streams(opened)
        return bus.streams(self.patience_seconds)

    def homes(self) -> dict[Peer, str]:
        """The addresses of the brokers that are listed, by their names: a stream is best read at its own broker."""
        homes: dict[Peer, str] = {}
        for address in self.brokers:
            try:
                with self.connect(address) as bus:
                    homes[bus.broker(self.patience_seconds)] = address
            except SluiceError as error:
                logger.warning("%s is left out for now: %s", address, error)
        return homes

    def read(
        self, stream: Peer, start: int, end: int, where: str = "true", address: str | None = None
    ) -> Generator[Fetched, None, None]:
        """What a stream holds from one offset to before another, page by page; the next page is on its way meanwhile.

        Offsets that are not held any more are missing in some page; so are those behind the end of a log that was replaced.
        """
        if start < end:
            with self.connect(address) as bus, _patiently(stream, self.patience_seconds):
                for page in bus.pages(stream, start, end, where, self.patience_seconds):
                    if page.head < end - 1 and page.through >= page.head:
                        beyond = (max(page.head + 1, start), end - 1)
                        yield replace(page, through=end - 1, missing=(*page.missing, beyond))
                        return
                    yield page

    def first_since(self, stream: Peer, held: range, time_micros: int) -> int:
        """The first offset of a stream that was logged at a time or later; the end of what is held if there is none."""
        low, high = held.start, held.stop
        with self.connect() as bus:
            while low < high:
                middle = (low + high) // 2
                offset, micros = _first_at(bus, stream, range(middle, high), self.patience_seconds)
                if micros >= time_micros:
                    high = middle
                else:
                    low = offset + 1
        return low


@contextmanager
def _patiently(stream: Peer, patience_seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise LinkError(
            f"the log of {stream} could not be read for {patience_seconds:g} s: is that broker running, and linked?"
        ) from None


def _first_at(bus: BlockingBus, stream: Peer, offsets: range, patience_seconds: float) -> tuple[int, float]:
    """The offset and the time of the first publication that is held in a range; behind it, and for ever, if none is."""
    with closing(bus.pages(stream, offsets.start, offsets.stop, "true", patience_seconds)) as pages:
        for page in pages:
            for batch in page.batches:
                assert batch.logged is not None
                return batch.logged.offsets[0], batch.logged.time_micros
    return offsets.stop, math.inf


def lost(stream: Peer, pages: Fetched) -> RequestError:
    """What to raise for offsets that were to be read and are gone."""
    ranges = ", ".join(f"{first}–{last}" for first, last in pages.missing)
    return RequestError(
        f"offsets {ranges} of {stream} are gone: they are past their retention, or damaged; start behind them, "
        "or say fail_on_loss=false to go on without them"
    )
