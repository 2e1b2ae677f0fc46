"""What clients are told, as a trace has it, and what they do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sluice.client.session import commands as client
from sluice.client.session.seam import Begun, CaughtUp, Ended, Full, Missed, Replayed
from sluice.client.session.session import Session
from sluice.protocol.batch import NotificationId
from sluice.protocol.events import Send
from sluice.protocol.messages import Deliver, Kind
from sluice.sim.trace import ordered, streamed
from sluice.sim.trace import trace as said
from sluice.sim.world.nodes import ClientNode

if TYPE_CHECKING:
    from sluice.sim.world.world import World


def write_down(world: World, node: ClientNode, upcall: client.Upcall) -> None:
    """Writes down what a client is told, as the trace has it."""
    now, name, write = world.now, node.name, world.trace.append
    match upcall:
        case client.Delivered():
            for notification, subscriptions in upcall.deliveries:
                node.deliveries.append((notification, subscriptions))
                write(said.Notified(now, name, *notification.id, subscriptions))
        case client.Published(batch):
            for notification in batch:
                node.published[notification.id.number] = None
                if node.past is not None:
                    node.past.record(notification, now)
                write(said.Published(now, name, notification.id.number, notification.record))
                if batch.stamp is not None or world.config.orders_all:
                    write(ordered.Marked(now, name, notification.id.number))
        case client.Withheld(batch, subscriptions):
            for notification in batch:
                node.withheld.append(notification)
                write(ordered.Withheld(now, name, *notification.id, subscriptions))
        case client.PublishAccepted(number):
            if world.config.durable:
                write(streamed.Accepted(now, name, number))
        case client.Told(id, answer):
            for program in node.programs:
                program.told(id, answer)
        case Begun(id, stream, offset):
            write(streamed.Begun(now, name, id, stream, offset))
        case client.Completed(kind, id):
            node.completed[id] = None
            write(said.Completed(now, name, kind.name.lower(), id))
        case client.PublishRefused(id, reason):
            node.refusals.append(reason)
            # What a client could not even send was never published.
            if id.number in node.published:
                write(said.Refused(now, name, id.number))
        case Replayed(subscription, batch):
            for notification in batch:
                node.replays.append((notification, subscription))
                write(said.Replayed(now, name, subscription, *notification.id))
        case CaughtUp(subscription, batch):
            for notification in batch:
                node.deliveries.append((notification, (subscription,)))
                write(said.Notified(now, name, *notification.id, (subscription,)))
        case Ended(subscription, positions):
            write(streamed.Past(now, name, subscription, dict(positions)))
        case Full(subscription):
            after = world.max_delay * world.programs.random()
            world.call(now + after, partial(world.proceed, node, node.incarnation, subscription))
        case Missed(subscription, _, stream, first, last):
            write(streamed.Skipped(now, name, subscription, stream or "", first, last))
        case client.InterestChanged(added, removed):
            world.interest(node, added, removed)


def kept_quiet(
    node: ClientNode, core: Session, message: Deliver, answers: Sequence[Send | client.Upcall]
) -> Iterator[NotificationId]:
    """What came in the order of all, and of which the program was told neither that it came nor that it came too late."""
    told = {one.id for answer in answers if isinstance(answer, client.Withheld) for one in answer.batch}
    told |= {one.id for answer in answers if isinstance(answer, client.Delivered) for one, _ in answer.deliveries}
    for notification, ids in message.deliveries:
        if notification.id in told or not any(id in core.entries[Kind.SUBSCRIPTIONS] for id in ids):
            continue
        # What a publisher sends once more, after its broker was gone, the program has had already.
        if all(notification.id != one.id for one, _ in node.deliveries):
            yield notification.id
