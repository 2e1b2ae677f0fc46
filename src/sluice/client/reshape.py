"""Orders to a network: links replaced, added and taken away, brokers that leave. One connection anywhere in it suffices.

An order goes to one broker by its name, which takes it under the name of a job. How far the job is, that broker tells in its
account of itself; it is asked again and again, since links may come and go while the job is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from sluice.client.bus import Bus
from sluice.client.survey import survey
from sluice.client.tree import Replacement, Tree
from sluice.errors import RequestError
from sluice.protocol.batch import Peer
from sluice.protocol.questions import Answer, Failed
from sluice.protocol.rewiring import Connect, Leave, Order, Ordered, Part, Replace

#: How long one order may take before nobody waits for it any more; brokers give a job up sooner.
ORDER_SECONDS = 90.0
#: Between two questions how far it is.
LOOK_SECONDS = 0.1
#: The stages in which a job is over.
_OVER = ("done", "refused", "failed")

#: Called with what is new, in words.
Tell = Callable[[str], None]


async def tree_of(bus: Bus) -> Tree:
    """The tree of all brokers."""
    return Tree.of(await survey(bus))


async def add(bus: Bus, broker: Peer, address: str) -> None:
    """Has a broker dial another one, and be its neighbour from now on."""
    await _order(bus, broker, Connect(address))


async def remove(bus: Bus, a: Peer, b: Peer) -> None:
    """Has the link between two brokers taken away."""
    await _order(bus, a, Part(b))


async def replace(bus: Bus, tree: Tree, change: Replacement, tell: Tell, address: str | None = None) -> None:
    """Has a link replaced by another; returns when that is done, raises `RequestError` if it is not.

    The end of the new link that is dialled is looked for at an address, or where it is known to be.
    """
    order = Replace(change.b, change.c, change.d, address or tree.addresses[change.d])
    ordered = await _order(bus, change.a, order)
    assert isinstance(ordered, Ordered)
    stage = ""
    try:
        async with asyncio.timeout(ORDER_SECONDS):
            while stage not in _OVER:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    report = await bus.describe(change.a)
                except RequestError:
                    continue  # the way there is being replaced
                job = report["orders"].get(ordered.job)
                if job is None:
                    raise RequestError(
                        f"{change.a} was started again and knows nothing of the order: look at the links"
                    )
                if job["stage"] != stage:
                    stage = job["stage"]
                    tell(f"{change}: {stage}" + (f" ({', '.join(job['path'])})" if job["path"] else ""))
    except TimeoutError:
        raise RequestError(
            f"nobody knows after {ORDER_SECONDS:g} s whether {change} was done: look at the links"
        ) from None
    if stage != "done":
        raise RequestError(f"{change} was not done: {job['reason'] or stage}")


async def leave(bus: Bus, tree: Tree, name: Peer, tell: Tell) -> None:
    """Has a broker leave: its other neighbours are linked to the first one, then it is a leaf and goes."""
    for change in tree.leaving(name):
        await replace(bus, tree, change, tell)
        tree = tree.replaced(change)
    await _order(bus, name, Leave())
    tell(f"{name}: leaves")
    await _until_gone(bus, name)


async def _until_gone(bus: Bus, name: Peer) -> None:
    """Returns when the others know that a broker has left."""
    try:
        async with asyncio.timeout(ORDER_SECONDS):
            while True:
                try:
                    report = await bus.describe()
                    if report["name"] != name and name not in report["brokers"]:
                        return
                except RequestError:
                    pass  # this client was at the broker that leaves, and moves
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise RequestError(
            f"{name} was told to leave {ORDER_SECONDS:g} s ago and is still there: see its log"
        ) from None


async def _order(bus: Bus, broker: Peer, order: Order) -> Answer:
    answer = await bus.ask(broker, order)
    if isinstance(answer, Failed):
        raise RequestError(answer.reason)
    return answer


def words(names: Sequence[Peer]) -> str:
    """Names, as people write them.

    >>> words(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
