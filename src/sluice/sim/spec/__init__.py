"""The specification of the network as named checks over traces, and over tables (`sluice.sim.spec.tables`).

Safety: `no-duplicate`, `published`, `wanted` (Def. 2.1, axioms (2) to (4)), `refused` and `refusing` (Def. 2.4),
`eventually-safe` (Def. 2.3). Liveness: `live` (Def. 2.1 and 2.4), `acknowledged` and `complete` (axioms (5) and (6)), `cached`.
Interest: `told`, `interest`, `replay`. Durable streams: see `sluice.sim.spec.streams`; the past and then what is live:
`sluice.sim.spec.seams`; reliable subscriptions: `sluice.sim.spec.reliable`; order: `sluice.sim.spec.order`.
Which of them must hold depends on what may fail: see the groups below.

>>> from sluice.sim.trace.trace import Notified, Published, Subscribed, Trace
>>> trace = Trace([Subscribed(0.0, "alice", "alice/1", "price > 3"), Published(1.0, "bob", 1, {"price": 2})])
>>> trace.append(Notified(2.0, "alice", "bob", 1, ("alice/1",)))
>>> for violation in check(trace, SAFETY):
...     print(violation)
wanted at 2.000: the subscription alice/1 of alice does not match: price > 3
      1.000  bob publishes bob#1 {'price': 2}
      2.000  alice is notified of bob#1 for alice/1
"""

from __future__ import annotations

from sluice.sim.spec.delivery import ACKNOWLEDGED, CACHED, COMPLETE, LIVE
from sluice.sim.spec.history import History
from sluice.sim.spec.interest import INTEREST, REPLAY, TOLD
from sluice.sim.spec.order import PAIRWISE, PER_PUBLISHER, WITHHELD
from sluice.sim.spec.reliable import ARRIVED, GAPLESS
from sluice.sim.spec.safety import EVENTUALLY_SAFE, NO_DUPLICATE, PUBLISHED, REFUSED, REFUSING, WANTED
from sluice.sim.spec.seams import SEAM
from sluice.sim.spec.streams import ACCEPTED, CAUGHT_UP, LOGGED, READ, ROOM, SETTLED, STORED_FIRST
from sluice.sim.spec.violation import Check, Violation, check

#: What must never happen as long as no message is lost, altered or made up and no memory is corrupted.
SAFETY: tuple[Check, ...] = (NO_DUPLICATE, PUBLISHED, WANTED, REFUSED, REFUSING)
#: What must arrive under the same conditions, whatever crashes and heals.
LIVENESS: tuple[Check, ...] = (LIVE, ACKNOWLEDGED, COMPLETE, CACHED)
#: What watchers and histories rely on, under the same conditions.
INTERESTS: tuple[Check, ...] = (TOLD, INTEREST, REPLAY)
#: What durable brokers and readers promise, whatever crashes, as long as disks keep what they have synced.
STREAMS: tuple[Check, ...] = (LOGGED, ACCEPTED, STORED_FIRST, ROOM, READ, SETTLED, CAUGHT_UP)
#: What reliable subscriptions rely on, under the same conditions.
RELIABLE: tuple[Check, ...] = (GAPLESS, ARRIVED)
#: What order relies on; without caches, which give new subscriptions what is older than what they got.
ORDER: tuple[Check, ...] = (PAIRWISE, PER_PUBLISHER, WITHHELD)
#: What holds with leases even if everything was corrupted (Def. 2.3).
STABILIZING: tuple[Check, ...] = (EVENTUALLY_SAFE, LIVE)
#: All that holds if nothing but crashes and lost links happens.
ALL: tuple[Check, ...] = (*SAFETY, *LIVENESS, *INTERESTS)

CHECKS: dict[str, Check] = {each.name: each for each in (*ALL, EVENTUALLY_SAFE, *STREAMS, SEAM, *RELIABLE, *ORDER)}

#: The axioms of Tanner and Mühl by their numbers.
AXIOMS: dict[int, Check] = {2: NO_DUPLICATE, 3: PUBLISHED, 4: WANTED, 5: ACKNOWLEDGED, 6: COMPLETE}

__all__ = [
    "ACCEPTED",
    "ACKNOWLEDGED",
    "ALL",
    "ARRIVED",
    "AXIOMS",
    "CACHED",
    "CAUGHT_UP",
    "CHECKS",
    "COMPLETE",
    "EVENTUALLY_SAFE",
    "GAPLESS",
    "INTEREST",
    "INTERESTS",
    "LIVE",
    "LIVENESS",
    "LOGGED",
    "NO_DUPLICATE",
    "ORDER",
    "PAIRWISE",
    "PER_PUBLISHER",
    "PUBLISHED",
    "READ",
    "REFUSED",
    "REFUSING",
    "RELIABLE",
    "REPLAY",
    "ROOM",
    "SAFETY",
    "SEAM",
    "SETTLED",
    "STABILIZING",
    "STORED_FIRST",
    "STREAMS",
    "TOLD",
    "WANTED",
    "WITHHELD",
    "Check",
    "History",
    "Violation",
    "check",
]
