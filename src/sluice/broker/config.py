"""What can be said about a broker that runs: every setting with its default, checked when it is made.

The fields are the one list of settings, each with the sentence that the help and the reference print: files, environment and
flags are read off it, and the ending of a name says its unit. See `sluice.broker.settings` for where values come from.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sluice.errors import ConfigurationError
from sluice.limits import MAX_NAME
from sluice.net.address import DEFAULT_PORT, Address

if TYPE_CHECKING:
    from sluice.broker.core.config import BrokerConfig
    from sluice.protocol.route.policy import Policy

ORDERS = ("none", "total")
ORDER_ALGORITHMS = ("floors", "rooted")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")

#: What all brokers of a network say the same of.
SHARED = (
    "routing",
    "advertisements",
    "order",
    "order_algorithm",
    "order_root",
    "lease_seconds",
    "renew_seconds",
    "repair",
    "hold_seconds",
)

#: Where a data directory has the links that were changed at run time.
LINKS_FILE = "links.json"

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How a broker runs.

    >>> ServerConfig(name="b1", listen="127.0.0.1:0").address
    Address(host='127.0.0.1', port=0, is_tls=False)
    >>> ServerConfig(name="b1", retain_seconds=60)
    Traceback (most recent call last):
    sluice.errors.ConfigurationError: retain_seconds is 60, but nothing is kept without a log: give data a directory
    """

    name: Annotated[str, "what the broker is called; no other broker of the network has the same name"]
    node: Annotated[
        str | None,
        "the node it belongs to, with other brokers that are linked to the same nodes; none: it is one by itself",
    ] = None
    listen: Annotated[str, "host and port for clients and other brokers; port 0: the kernel picks one"] = (
        f"127.0.0.1:{DEFAULT_PORT}"
    )
    links: Annotated[
        tuple[str, ...],
        "addresses of the brokers that this one dials, again and again; the other end of a link only listens",
    ] = ()
    links_file: Annotated[
        Path | None,
        "where links that are changed at run time are kept; none: in the data directory, or nowhere if there is none",
    ] = None
    tls_certificate: Annotated[
        Path | None, "PEM file with the broker's certificate; with it, connections to the broker are with TLS only"
    ] = None
    tls_key: Annotated[Path | None, "PEM file with its key, which nobody else may read; goes with tls_certificate"] = (
        None
    )
    tls_authority: Annotated[
        Path | None,
        "PEM file with the authority that has signed the certificates of the brokers in links; none: the system knows",
    ] = None
    tokens_file: Annotated[
        Path | None,
        "TOML file with a line for each token, after the name of its holder; with it nobody else is let in",
    ] = None
    operators: Annotated[
        tuple[str, ...],
        "goes with tokens_file: whose tokens let them reshape the network; without tokens everybody may",
    ] = ()
    token_file: Annotated[
        Path | None, "file with the token that this broker shows to the brokers in links; none: it shows none"
    ] = None
    routing: Annotated[
        str, "how subscriptions are told to neighbours: the routing algorithm, the same in the whole network"
    ] = "covering"
    advertisements: Annotated[
        str | None, "how advertisements are told to neighbours; none: they are not used, and all may publish anything"
    ] = None
    order: Annotated[
        str,
        "whether all publications are in one order for everybody: none, or total; with none, those are that somebody asks for",
    ] = "none"
    order_algorithm: Annotated[
        str,
        "how publications are put in order: floors, or rooted for one broker that they all pass; the same in the whole network",
    ] = "floors"
    order_root: Annotated[
        str | None,
        "for rooted: the broker that they pass while it is there; none, or when it is not: the first one by its name",
    ] = None
    merge_ratio: Annotated[
        float,
        "for imperfect merging: how much longer than both together the merger of two intervals may be; 1 is perfect",
    ] = 1.5
    statistics: Annotated[
        Path | None,
        "for imperfect merging: a file of `sluice statistics`, read at the start; with it, mergers are judged by traffic",
    ] = None
    merge_budget: Annotated[
        float,
        "goes with statistics: the share of all notifications that may travel in vain for each interval less in a table",
    ] = 0.00001
    cache_notifications: Annotated[
        int, "recent notifications kept for subscriptions that are not complete yet; 0: no cache"
    ] = 0
    cache_seconds: Annotated[float, "for how long the cache keeps a notification"] = 10.0
    lease_seconds: Annotated[
        float, "for how long a neighbour is believed that does not renew its tables; 0: until the link goes down"
    ] = 0.0
    renew_seconds: Annotated[float, "time between renewals; goes with lease_seconds"] = 0.0
    data: Annotated[
        Path | None,
        "directory of the log that makes the broker durable; none: it keeps nothing and acknowledges at once",
    ] = None
    fsync: Annotated[bool, "whether a publication is on the disk before it is acknowledged"] = True
    retain_seconds: Annotated[float | None, "age at which the log forgets; none: never"] = None
    retain_bytes: Annotated[int | None, "size at which the log forgets the oldest; none: it grows"] = None
    memory_bytes: Annotated[
        int, "bound on what waits in memory for all peers together, because they are slow or for order"
    ] = 256 * MIB
    outbox_bytes: Annotated[int, "the part of it that may wait for one client"] = 16 * MIB
    patience_seconds: Annotated[
        float, "how long a subscriber with the policy block may hold publishers up before it is disconnected"
    ] = 5.0
    max_connections: Annotated[int, "connections at a time, those of brokers included"] = 10_000
    max_subscriptions: Annotated[int, "subscriptions, advertisements and watches of all clients together"] = 2_000_000
    heartbeat_seconds: Annotated[float, "how long a link is quiet before it is asked whether it lives"] = 5.0
    silent_heartbeats: Annotated[int, "after so many heartbeats without a word whoever is at the other end is gone"] = 3
    watched_heartbeats: Annotated[
        int | None, "the silent ones may be any among so many; none: they follow each other"
    ] = None
    repair: Annotated[
        bool,
        "whether a link that broke is replaced by another one to a neighbour of the neighbour; as in the whole network",
    ] = False
    hold_seconds: Annotated[
        float, "goes with repair: how long a link that broke may take to come back before it is replaced or given up"
    ] = 10.0
    imports: Annotated[
        tuple[str, ...],
        "Python modules to import first: they register constraint types and routing algorithms of your own",
    ] = ()
    log_level: Annotated[str, "the least that is logged: debug, info, warning or error"] = "info"
    log_format: Annotated[str, "text, or json: one object a line; logs go to standard error"] = "text"

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ConfigurationError(problem)

    def _problems(self) -> Iterator[str]:
        """What cannot be as it is, the first thing first."""
        yield from _problems_of_name(self.name, "broker")
        if self.node is not None:
            yield from _problems_of_name(self.node, "node")
        if Address.of(self.listen).is_tls and self.tls_certificate is None:
            yield f"listen is {self.listen}, but there is no TLS without a certificate: give tls_certificate and tls_key"
        if (self.tls_certificate is None) != (self.tls_key is None):
            yield "tls_certificate and tls_key go together: give both, or neither for no TLS"
        if self.operators and self.tokens_file is None:
            yield "operators are known by their tokens, and there are none: give tokens_file, or leave operators out"
        if self.address[:2] in [link[:2] for link in self.dialled]:
            yield f"links has {self.listen}, where {self.name} itself listens: take it out"
        if any(not address.port for address in self.dialled):
            yield "links has an address with port 0, which nobody can dial: write the port where the broker listens"
        yield from self._problems_of_numbers()
        if (self.lease_seconds > 0) != (self.renew_seconds > 0):
            yield "lease_seconds and renew_seconds go together: set both, or neither for no leases"
        for name in ("retain_seconds", "retain_bytes"):
            if getattr(self, name) is not None and self.data is None:
                yield f"{name} is {getattr(self, name)}, but nothing is kept without a log: give data a directory"
        if self.outbox_bytes > self.memory_bytes:
            yield (
                f"outbox_bytes is {self.outbox_bytes:,} and memory_bytes {self.memory_bytes:,}, but one client cannot have "
                "more than all together: raise memory_bytes or lower outbox_bytes"
            )
        if self.repair and self.unshapeable is not None:
            yield f"repair is on, but {self.unshapeable}"
        if self.order == "total" and self.unordered is not None:
            yield f"order is total, but {self.unordered}"
        if self.order_root is not None and self.order_algorithm != "rooted":
            yield f"order_root is {self.order_root}, but only rooted order has a root: set order_algorithm to rooted"
        for name, choices in (
            ("order", ORDERS),
            ("order_algorithm", ORDER_ALGORITHMS),
            ("log_level", LOG_LEVELS),
            ("log_format", LOG_FORMATS),
        ):
            if getattr(self, name) not in choices:
                yield f"{name} is {getattr(self, name)!r}: take one of {', '.join(choices)}"

    def _problems_of_numbers(self) -> Iterator[str]:
        for name in ("merge_ratio", "memory_bytes", "outbox_bytes", "max_connections", "silent_heartbeats"):
            if not getattr(self, name) >= 1:
                yield f"{name} is {getattr(self, name)}: it is at least 1"
        if self.watched_heartbeats is not None and self.watched_heartbeats < self.silent_heartbeats:
            yield (
                f"watched_heartbeats is {self.watched_heartbeats}: {self.silent_heartbeats} silent ones cannot be among them; "
                "take more, or lower silent_heartbeats"
            )
        if not 0 <= self.merge_budget <= 1:
            yield f"merge_budget is {self.merge_budget}: it is a share of all notifications, from 0 to 1"
        for name in ("cache_notifications", "lease_seconds", "renew_seconds", "patience_seconds", "max_subscriptions"):
            if not getattr(self, name) >= 0:
                yield f"{name} is {getattr(self, name)}: it is not below 0"
        for name in ("cache_seconds", "retain_seconds", "retain_bytes", "heartbeat_seconds", "hold_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                yield f"{name} is {value}: it is more than 0"

    @property
    def address(self) -> Address:
        """Where the broker is to listen."""
        return Address.of(self.listen)._replace(is_tls=self.tls_certificate is not None)

    @property
    def links_at(self) -> Path | None:
        """The file with the links that were changed at run time; None: they are forgotten when the broker stops."""
        if self.links_file is None and self.data is not None:
            return self.data / LINKS_FILE
        return self.links_file

    @property
    def unreliable(self) -> str | None:
        """Why no subscription can be reliable at this broker; None: all can."""
        if self.data is None:
            return (
                f"{self.name} keeps no log, so nothing can be reliable there: start all brokers with a data directory"
            )
        if self.advertisements is not None:
            return (
                f"{self.name} steers subscriptions by advertisements, and reliable ones have to reach every broker: "
                "start all brokers without advertisements"
            )
        if self.order_algorithm == "rooted":
            return (
                f"{self.name} has publications put in order by a root, which streams do not pass: start all brokers with "
                "floors for the order algorithm"
            )
        return None

    @property
    def unordered(self) -> str | None:
        """Why nothing can be in the order of all at this broker; None: all can."""
        if self.node is not None:
            return (
                f"{self.name} is one of several brokers of the node {self.node}, and what they pass on need not be in one "
                "order: start a network with one broker for each node"
            )
        return None

    @property
    def unshapeable(self) -> str | None:
        """Why no link of this broker can be replaced by another while it runs; None: all can."""
        if self.node is not None:
            return (
                f"{self.name} is one of several brokers of the node {self.node}, which has more than one link to each of its "
                "neighbours: change the settings of these brokers instead"
            )
        return None

    @property
    def dialled(self) -> list[Address]:
        """The brokers that it is to dial."""
        return [Address.of(link) for link in self.links]

    def broker_config(self) -> BrokerConfig:
        """What the core needs of it. Imports the modules in `imports`, whose names `routing` may use."""
        from sluice.broker.core.config import BrokerConfig
        from sluice.protocol.complete import CacheConfig
        from sluice.protocol.lease import LeaseConfig
        from sluice.protocol.reshape.config import ReshapeConfig
        from sluice.protocol.route.reduce import RoutingOptions, algorithm

        for module in self.imports:
            _import(module)
        algorithm(self.routing)
        if self.advertisements is not None:
            algorithm(self.advertisements)
        cache = lease = None
        if self.cache_notifications:
            cache = CacheConfig(notifications=self.cache_notifications, seconds=self.cache_seconds)
        if self.lease_seconds:
            lease = LeaseConfig(lease_seconds=self.lease_seconds, renew_seconds=self.renew_seconds)
        return BrokerConfig(
            routing=self.routing,
            advertisements=self.advertisements,
            options=RoutingOptions(policy=self._policy()),
            cache=cache,
            lease=lease,
            durable=self.data is not None,
            orders_all=self.order == "total",
            reshape=ReshapeConfig(repairs=self.repair, hold_seconds=self.hold_seconds),
            order_algorithm=self.order_algorithm,
            order_root=self.order_root,
        )

    def _policy(self) -> Policy:
        """What an imperfect merger may waste."""
        from sluice.files import read_statistics
        from sluice.protocol.route.policy import Ratio, Traffic
        from sluice.protocol.route.reduce import algorithm

        if self.statistics is None:
            return Ratio(self.merge_ratio)
        if all(algorithm(name).perfect for name in (self.routing, self.advertisements) if name is not None):
            raise ConfigurationError(
                f"statistics is {self.statistics}, but {self.routing} routing makes no imperfect mergers: set routing to "
                "imperfect, or take statistics out"
            )
        return Traffic(read_statistics(self.statistics), self.merge_budget)


def _problems_of_name(name: str, what: str) -> Iterator[str]:
    """A name is also that of a directory, and stands in front of a slash in the ids of subscriptions."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        yield f"{name!r} is no name of a {what}: write letters, digits, dashes, underscores and dots, no dot in front"
    if len(name) > MAX_NAME:
        yield f"the name {name[:20]}... has {len(name)} characters: {MAX_NAME} are enough"


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"imports has {module}, which cannot be imported: {error}. Install it, or put its folder on PYTHONPATH"
        ) from error
