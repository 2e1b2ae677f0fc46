"""Publications on their way through a broker, and where they came from."""

from __future__ import annotations

from typing import NamedTuple

from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import Passage


class Arrival(NamedTuple):
    """Publications that may go on, with the peer they came from."""

    source: Peer
    batch: Batch
    passage: Passage | None = None
    #: What the peer has promised behind them, if it is a broker that goes on to do so.
    floor: int | None = None
    #: The rows that were not here before, where some were; None: all.
    fresh: frozenset[int] | None = None
    #: The broker that it goes to, and to nobody else, to get its place in the order of all; None: it goes where it is wanted.
    upward: Peer | None = None

    @property
    def comes_again(self) -> bool:
        """Whether a broker further on has missed it, so that it is for nobody else."""
        return self.passage is not None and self.passage.to is not None
