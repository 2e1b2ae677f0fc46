"""What the core of a broker has to be told: which algorithms it uses, and for what. Settings say it to a broker that runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.protocol.batch import Peer
from sluice.protocol.complete import CacheConfig
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.route.reduce import RoutingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """How a broker does its work. All brokers of a network use the same algorithms."""

    #: How subscriptions are told to neighbours, see `sluice.protocol.route.reduce`.
    routing: str = "covering"
    #: The same for advertisements; None: there are none, and everybody may publish everything.
    advertisements: str | None = None
    options: RoutingOptions = field(default_factory=RoutingOptions)
    #: Without a cache a subscriber misses what is published before its subscription is complete.
    cache: CacheConfig | None = None
    #: Without leases a table is believed until its sender changes it or the link goes down.
    lease: LeaseConfig | None = None
    #: Whether publications are stored before they are accepted and forwarded.
    durable: bool = False
    #: How streams are delivered to reliable subscriptions; only what is stored can be.
    reliable: ReliableConfig = field(default_factory=ReliableConfig)
    #: Whether every publication counts as one whose publisher asks for the order of all.
    orders_all: bool = False
    #: How publications are put in order, "floors" or "rooted", and the root that is preferred to the first by name.
    order_algorithm: str = "floors"
    order_root: Peer | None = None
    #: How the tree is reshaped, and whether broken links are replaced.
    reshape: ReshapeConfig = field(default_factory=ReshapeConfig)
