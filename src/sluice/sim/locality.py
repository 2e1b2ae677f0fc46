"""Who hears of tables while the tree is reshaped: listens to brokers, and names what nobody need have heard.

A broker off the way may be told of a table only if it is told something else in the end than before: nothing is said that comes
to nothing. Where an algorithm reduces what is reduced already to the same, that leaves nobody off the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from sluice.protocol.messages import Change, Kind, Message, Snapshot
from sluice.sim.seen import by_link
from sluice.sim.world.world import World

#: Who tells whom of which table.
Saying = tuple[str, str, Kind]


class Locality:
    """What is said of tables from now on, beside what was so before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = _told(world)
        #: How often something was said, other than between those who take part in a job.
        self.spoken: Counter[Saying] = Counter()
        world.on_send = self._listen

    def _listen(self, sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Change | Snapshot) and not self._is_chain(sender, receiver):
            self.spoken[sender, receiver, message.kind] += 1

    def _is_chain(self, sender: str, receiver: str) -> bool:
        """Whether both take part in a job, perhaps one that comes to nothing: what they say then they say about that."""
        core = self._world.brokers[sender].core if sender in self._world.brokers else None
        return core is not None and core.reshape.job is not None and receiver in core.reshape.job.neighbours

    def beside(self, way: Collection[str]) -> list[Saying]:
        """What was said that is not between brokers of the way."""
        return [each for each in self.spoken if each[0] not in way or each[1] not in way]

    def vain(self, way: Collection[str]) -> Iterator[Saying]:
        """What was said beside the way, though it is in the end as it was before."""
        after = _told(self._world)
        return (each for each in self.beside(way) if self._before.get(each) == after.get(each))


def _told(world: World) -> dict[Saying, Any]:
    """What brokers have told each other of their tables: the entries, and what is said with them."""
    return {
        (name, link, kind): (frozenset(export.sent), export.clocks, export.ordered)
        for name, node in world.brokers.items()
        if node.core is not None
        for kind, table in node.core.tables.items()
        for link, export in by_link(node.core, table.exports).items()
    }
