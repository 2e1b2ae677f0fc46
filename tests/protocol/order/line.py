"""Three brokers in a line, a client at each, and what comes of what they do, for all tests of order."""

from __future__ import annotations

from typing import Any

from sluice import parse
from sluice.broker import BrokerConfig
from sluice.client.session.commands import Delivered, Publish, Subscribe
from sluice.protocol.batch import Peer, Stamp
from sluice.protocol.messages import Notify
from tests.protocol.drive import Network


def line(config: BrokerConfig | None = None) -> Network:
    """Brokers x - y - z, each with a client of the same name in capitals."""
    net = Network(config)
    net.broker("x")
    net.broker("y", "x")
    net.broker("z", "y")
    for name in "XYZ":
        net.client(name, at=name.lower())
    net.run()
    return net


def subscribe(net: Network, client: Peer, where: str = "n > 0", *, ordered: bool = True) -> None:
    net.do(client, Subscribe(net.clients[client].new_id(), parse(where), ordered=ordered))


def publish(net: Network, client: Peer, *records: dict[str, Any], ordered: bool = False) -> None:
    net.do(client, Publish(net.clients[client].batch(records, ordered=ordered)))


def got(net: Network, client: Peer) -> list[int]:
    """The numbers that a client got, in order."""
    return [
        delivery.notification.record["n"]
        for name, each in net.news
        if name == client and isinstance(each, Delivered)
        for delivery in each.deliveries
    ]


def stamps(net: Network) -> list[Stamp | None]:
    """Those of all that went from broker to broker."""
    return [
        message.batch.stamp
        for sender, receiver, message in net.log
        if isinstance(message, Notify) and sender in net.brokers and receiver in net.brokers
    ]
