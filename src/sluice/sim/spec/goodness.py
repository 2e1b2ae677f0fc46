"""The invariant that reliable delivery rests on (Invariant 1 of Gryphon), for the tables of a running network.

Whatever clocks a broker holds of a direction, its entries from there cover every reliable subscription that these clocks know
of. Then whoever leaves something out because no entry matches it leaves out nothing that such a subscription wants, and may
say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sluice.broker.core.broker import Broker
from sluice.protocol.messages import Kind
from sluice.protocol.reliable.subscribers import Wish
from sluice.sim.spec.filters import Filters
from sluice.sim.spec.violation import Violation


def good(broker: Broker, wishes: Mapping[str, Iterable[Wish]], filters: Filters, at: float) -> Iterator[Violation]:
    """What is not covered at a broker though its clocks know of it; `wishes` are those of each broker that is up."""
    table = broker.tables[Kind.SUBSCRIPTIONS]
    for direction in broker.directions.brokers():
        clocks = table.clocks_of(direction)
        if not clocks:
            continue
        replicas = (each for peer, each in table.replicas.items() if broker.directions.of(peer) == direction)
        covered = filters.matching(filters.set_of(entry.where for replica in replicas for entry in replica.entries))
        for name, time in clocks.items():
            for wish in wishes.get(name, ()):
                wanted = filters.matching(filters.set_of([wish.entry.where]))
                if wish.clock <= time and wanted & ~covered:
                    says = (
                        f"{broker.name} knows {name} up to {time & 0xFFFF_FFFF} in the direction of {direction}, and nothing "
                        f"from there covers {wish.id} of {wish.clock & 0xFFFF_FFFF}: {wish.entry.where}"
                    )
                    yield Violation("good", at, says)
