"""Replay: the past of a subscription, then what is live, without a gap or a duplicate where the two meet.

Histories keep what the streams hold and replay it while more is published. Links break and brokers, histories and subscribers
crash before, at and after the seam, and logs lose their oldest part.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.sim.plan import ClientPlan, Plan, Planned, Publish, StartClient, StopClient, Subscribe, Trim, Watch
from sluice.sim.scenario import (
    BROKER_CRASH,
    CLIENT_CRASH,
    LINK_LOSS,
    OFFLINE,
    RETENTION,
    Choices,
    Draft,
    Outcome,
)
from sluice.sim.scenarios.streams import Streams
from sluice.sim.spec import ACCEPTED, LIVE, LOGGED, PUBLISHED, SEAM, STORED_FIRST, WANTED, Violation
from sluice.sim.trace import streamed
from sluice.sim.trace.trace import Subscribed
from sluice.sim.world.nodes import PATIENCE
from sluice.sim.world.world import World

SIZES = (1, 2, 2, 3, 3, 4, 5)


class Replay(Streams):
    """Durable brokers, histories, and subscriptions that wish for the past."""

    name = "replay"
    says = "the past of a subscription comes first and in order, then what is live, with no gap and nothing twice"
    faults = (BROKER_CRASH, LINK_LOSS, CLIENT_CRASH, OFFLINE, RETENTION)
    # A client with two subscriptions gets a notification for each when it is its turn, so that `NO_DUPLICATE` is `SEAM` here.
    checks = (PUBLISHED, WANTED, LIVE, LOGGED, ACCEPTED, STORED_FIRST, SEAM)
    calm = 0.25
    # Who waits for a history in vain has given up by then.
    rest = 2 * PATIENCE

    def plan(self, seed: int, choices: Choices) -> Plan:
        """Publishers, subscribers that come and go, and one history or two."""
        draft = Draft(self, seed, choices)
        random = draft.choose(brokers=SIZES, clients=(2, 5), actions=(40, 160))
        # What is published before an advertisement is known everywhere may pass those by who would want it.
        draft.options["advertisements"] = None
        # Much is published while the past is on its way, which takes a few messages to and fro.
        draft.options["publishing"] = random.choice((0.8, 0.9))
        draft.options["pace"] = random.choice((0.2, 0.5, 1.0))
        draft.options["histories"] = random.choice((1, 1, 2))
        brokers, links, clients = draft.people()
        churn = draft.churn(clients, past=0.8)
        planned: list[Planned] = []
        for at, action in draft.timed(churn):
            if isinstance(action, Publish):
                more = tuple(churn.publish(action.client).record for _ in range(random.choice((0, 0, 1, 4))))
                action = replace(action, more=more)
            elif isinstance(action, Subscribe) and random.random() < 0.5:
                action = replace(action, where="true")
            planned.append((at, action))
        end = planned[-1][0]
        planned += draft.crashes(end, brokers, links, clients, churn)
        histories = tuple(
            ClientPlan(f"h{i}", random.choice(brokers), archives=True) for i in range(draft.options["histories"])
        )
        planned += self._histories(draft, end, histories)
        if RETENTION in draft.options["faults"]:
            for _ in range(random.choice((1, 2, 4))):
                planned.append((random.uniform(0, end), Trim(random.choice(brokers), random.choice((1, 3, 10)))))
        probes = draft.probes(churn, clients)
        return draft.finish(draft.config(durable=True), brokers, links, (*clients, *histories), planned, probes)

    def _histories(self, draft: Draft, end: float, histories: tuple[ClientPlan, ...]) -> list[Planned]:
        """Histories watch who wishes for the past, and crash; what they have kept survives that."""
        random = draft.random("histories")
        planned: list[Planned] = []
        for number, one in enumerate(histories):
            watch = Watch(one.name, -1 - number, "true")
            planned.append((0.0, watch))
            if CLIENT_CRASH in draft.options["faults"]:
                for _ in range(random.choice((0, 1, 3))):
                    at = random.uniform(0, end)
                    back = at + random.choice((0.5, 3.0, 20.0)) * random.random()
                    planned += [(at, StopClient(one.name)), (back, StartClient(one.name)), (back, watch)]
        return planned

    def perform(self, world: World, plan: Plan, outcome: Outcome) -> None:
        """As with streams; a history that nothing happens to must answer."""
        super().perform(world, plan, outcome)
        if not outcome.faults:
            # Nobody hears of a subscription that nothing can match.
            vain = {event.id for event in world.trace if isinstance(event, Subscribed) and event.where == "false"}
            for event in world.trace:
                if isinstance(event, streamed.Skipped) and event.subscription not in vain:
                    says = "nothing has failed, and a part of the past does not come"
                    outcome.violations.append(Violation("seam", event.at, says, (event,)))
