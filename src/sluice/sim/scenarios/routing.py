"""Routing: every notification reaches exactly those who asked for it, whatever the algorithm, the tree and the churn.

After everything has come to rest each table is valid (Def. 3.1 of the routing thesis), and perfect where the algorithm is.
"""

from __future__ import annotations

from sluice.sim.plan import Plan
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Scenario

#: Mostly small trees, where a story stays short; now and then a large one.
SIZES = (2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 12, 16, 24, 40, 60)


class Routing(Scenario):
    """Subscriptions, advertisements and publications under churn."""

    name = "routing"
    says = "notifications reach exactly those who asked for them"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Clients that change their minds, and brokers, links and clients that fail."""
        draft = Draft(self, seed, choices)
        draft.choose(brokers=SIZES, clients=(2, 10), actions=(10, 120))
        brokers, links, clients = draft.people()
        churn = draft.churn(clients)
        planned = draft.timed(churn)
        planned += draft.crashes(planned[-1][0], brokers, links, clients, churn)
        return draft.finish(draft.config(), brokers, links, clients, planned, draft.probes(churn, clients))
