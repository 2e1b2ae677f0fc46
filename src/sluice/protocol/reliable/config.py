"""How patient reliable delivery is, and how much it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.limits import MOMENTS_RESERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableConfig:
    """Times are those between two looks at what is due."""

    #: How long a stretch in which nothing was wanted may wait for something to travel with.
    silence_seconds: float = 0.05
    #: How long a gap is watched before it is asked for: longer than two paths may differ.
    gap_seconds: float = 0.25
    #: No gap is asked for less often than this, however often that was in vain.
    patience_seconds: float = 5.0
    #: How often a broker says how far it is, and a publisher's broker where its stream ends, if somebody seems to be behind.
    report_seconds: float = 1.0
    #: How long the log waits for a broker of which nothing is heard any more, and after a start for all of them.
    absence_seconds: float = 60.0
    #: How often clients are told how far their subscriptions are, which nothing else tells while nothing matches.
    progress_seconds: float = 30.0
    #: How much of what has passed lately a broker keeps for those who have missed it.
    cache_bytes: int = 16 << 20
    #: How many moments a broker writes down at a time as given, before it promises any of them.
    reserved_moments: int = MOMENTS_RESERVED
