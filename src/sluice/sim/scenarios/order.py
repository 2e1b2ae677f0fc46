"""Order: whoever gets the same publications gets them in the same order, whoever published them and wherever they are.

Publishers and subscribers on trees of every shape, at rates far above one publication per round trip, while subscriptions and
advertisements come and go. Some subscriptions ask for order, some publications are to be in order for all, the rest flows past
them. Without faults nothing comes too late; with them something may, which is then lost and told, and nothing is reordered.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.protocol.complete import CacheConfig
from sluice.sim.plan import ClientPlan, HealLink, LoseLink, Plan, Planned, Publish
from sluice.sim.scenario import BROKER_CRASH, CLIENT_CRASH, LINK_LOSS, OFFLINE, Choices, Draft, Scenario
from sluice.sim.spec import ACKNOWLEDGED, COMPLETE, LIVE, ORDER, SAFETY
from sluice.sim.workload import Churn

#: Mostly small trees, where a story stays short.
SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12)


class Order(Scenario):
    """Publications that meet in the network, and subscribers that compare notes."""

    name = "order"
    says = "subscribers that get the same publications get them in the same order"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE)
    checks = (*SAFETY, LIVE, ACKNOWLEDGED, COMPLETE, *ORDER)
    calm = 0.4

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Many publications, wide subscriptions, and links that come and go."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(2, 8), actions=(20, 140))
        options = draft.options
        # Links that come up one after the other are a partition that heals: that is left to faults.
        options["cold"] = False
        options["publishing"] = random.choice((0.6, 0.8, 0.9))
        options["pace"] = random.choice((0.02, 0.1, 0.5, 2.0))
        options["texts"] = random.choice((2, 4, 8))
        options["ordered"], options["marked"] = random.choice(
            ((1.0, 0.0), (0.5, 0.0), (0.0, 1.0), (0.0, 0.5), (0.4, 0.3))
        )
        options["orders_all"] = random.random() < 0.1
        # What a durable broker refuses may come again when it is advertised, which is another story.
        options["durable"] = random.random() < 0.2 and options["advertisements"] is None
        options["cache"] = random.random() < 0.2
        brokers, links, clients = draft.people()
        algorithm = draft.random("algorithm")
        options["algorithm"] = algorithm.choice(("floors", "rooted"))
        options["root"] = algorithm.choice((None, *brokers)) if options["algorithm"] == "rooted" else None
        churn = draft.churn(clients, ordered=options["ordered"], marked=options["marked"])
        burst = draft.random("bursts")
        planned: list[Planned] = []
        for at, action in draft.timed(churn):
            if isinstance(action, Publish) and burst.random() < 0.2:
                more = tuple(churn.publish(action.client).record for _ in range(burst.choice((1, 4))))
                action = replace(action, more=more)
            planned.append((at, action))
        end = planned[-1][0]
        planned += draft.crashes(end, brokers, links, clients, churn)
        planned += draft.flapping(end, brokers, links, times=(2, 6, 20), outages=(0.0, 0.5, 4.0))
        planned += self._splits(draft, end, links, clients, churn)
        cache = CacheConfig(notifications=10_000, seconds=1000.0) if options["cache"] else None
        config = replace(
            draft.config(cache=cache, durable=options["durable"]),
            orders_all=options["orders_all"],
            order_algorithm=options["algorithm"],
            order_root=options["root"],
        )
        return draft.finish(config, brokers, links, clients, planned, draft.probes(churn, clients))

    def _splits(
        self,
        draft: Draft,
        end: float,
        links: tuple[tuple[str, str], ...],
        clients: tuple[ClientPlan, ...],
        churn: Churn,
    ) -> list[Planned]:
        """Links that are down while somebody publishes much, and come back while others do: their clocks are far apart then."""
        random = draft.random("splits")
        planned: list[Planned] = []
        if LINK_LOSS not in draft.options["faults"] or not links:
            return planned
        for _ in range(random.choice((1, 2, 4))):
            link, at = random.choice(links), random.uniform(0, end)
            back = at + random.uniform(3, 8)
            planned += [(at, LoseLink(*link)), (back, HealLink(*link))]
            busy, late = random.choice(clients).name, random.choice(clients).name
            planned += [(random.uniform(at, back), churn.publish(busy)) for _ in range(20)]
            planned += [(random.uniform(back - 1, back + 3), churn.publish(late)) for _ in range(20)]
        return planned
