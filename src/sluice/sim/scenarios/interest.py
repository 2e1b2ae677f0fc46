"""Interest: who watches is told who asks, exactly and in time, and the past goes to the one subscriber who asked for it.

Some clients keep what they publish; when a subscription that asks for the past comes up, they replay what matches
(sections 5.2.3 and 5.2.4 of the routing thesis).
"""

from __future__ import annotations

from dataclasses import replace

from sluice.sim.plan import Plan, Watch
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Scenario

SIZES = (2, 2, 3, 4, 5, 6, 8, 10, 14)


class Interest(Scenario):
    """Watchers and historians among clients that change their minds."""

    name = "interest"
    says = "watchers know exactly who asks for what they watch; replays reach one subscriber only"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Watches, subscriptions that ask for the past, and clients that keep it."""
        draft = Draft(self, seed, choices)
        draft.choose(brokers=SIZES, clients=(2, 8), actions=(10, 100))
        brokers, links, clients = draft.people()
        random = draft.random("historians")
        clients = tuple(replace(one, keeps_past=random.random() < 0.5) for one in clients)
        churn = draft.churn(clients, watches=True, past=0.5)
        planned = draft.timed(churn)
        planned += draft.crashes(planned[-1][0], brokers, links, clients, churn)
        # Who keeps the past must learn of everybody who asks for it.
        keepers = [one.name for one in clients if one.keeps_past]
        planned += [(0.0, Watch(name, -1 - i, "true")) for i, name in enumerate(keepers) if random.random() < 0.7]
        return draft.finish(draft.config(), brokers, links, clients, planned, draft.probes(churn, clients))
