"""Completeness: a client that was told so misses nothing from then on; with caches it misses nothing from its request on.

Subscriptions and publications meet within a few link delays, which is where an acknowledgement that comes too early shows
(axioms (2) to (6) of message-complete publish/subscribe).
"""

from __future__ import annotations

from sluice.protocol.complete import CacheConfig
from sluice.sim.plan import Plan
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Scenario

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12)


class Completeness(Scenario):
    """Subscriptions that publications overtake."""

    name = "completeness"
    says = "a subscriber that was told so misses nothing, also while brokers come and go"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Many publications around every subscription."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(2, 8), actions=(20, 120))
        draft.options["publishing"] = random.choice((0.7, 0.85))
        draft.options["pace"] = random.choice((0.05, 0.2, 0.5))
        draft.options["cache"] = random.random() < 0.5
        brokers, links, clients = draft.people()
        churn = draft.churn(clients)
        planned = draft.timed(churn)
        planned += draft.crashes(planned[-1][0], brokers, links, clients, churn)
        cache = CacheConfig(notifications=10_000, seconds=1000.0) if draft.options["cache"] else None
        return draft.finish(draft.config(cache=cache), brokers, links, clients, planned, draft.probes(churn, clients))
