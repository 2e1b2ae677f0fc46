"""A network of brokers on one machine, from a file: which brokers there are, how they are linked, how each is set.

Whatever its shape, a network is a tree of nodes, hung up at its first one, and a node is a broker, or several that stand in for
each other. Every broker dials all brokers of the node above its own, and those of its own node that come before it. Brokers are
kept in an order in which each comes after those that it dials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.broker.config import ServerConfig
from sluice.broker.settings import SETTINGS, read_named, read_toml, unknown_key
from sluice.errors import ConfigurationError
from sluice.net.address import DEFAULT_PORT

SHAPES = ("line", "star", "tree", "links")
HOST = "127.0.0.1"

EXAMPLE = f"""\
# A network of brokers on this machine, for: sluice up topology.toml

[network]
shape = "tree"            # or "line", "star", or "links" with links = [["b1", "b2"], ["b1", "b3"]]
brokers = 7               # how many, or their names: ["amsterdam", "berlin", "cairo"]
children = 2              # of each broker of a tree
port = {DEFAULT_PORT}               # of the first broker; the others count up. 0: the kernel picks them all
# data = "data"           # makes the brokers durable: each keeps its log in a directory of its own below this one
# brokers_per_node = 2    # so many instead of each broker between others: b2-1 and b2-2 are the node b2

# [nodes]                 # or by name: these brokers are linked to each other, and each to all that their node is linked to
# berlin = ["berlin-east", "berlin-west"]

[broker]                  # settings of every broker, as in the file of a single one
routing = "covering"

[brokers.b1]              # and of a single one
log_level = "warning"
"""

_TABLES = ("network", "nodes", "broker", "brokers")
#: What is said in [network], and where else a setting of a broker would be in its place.
_NETWORK_KEYS = ("shape", "brokers", "brokers_per_node", "children", "links", "port", "data")
_ELSEWHERE = {
    "name": "names stand in brokers of [network]",
    "node": "nodes stand in [nodes], each with the names of its brokers",
    "links": "links stand in [network]",
    "listen": "port stands in [network], and listen of one broker in [brokers.NAME]",
    "data": "data stands in [network], with a directory below it for each broker",
}


@dataclass(frozen=True, slots=True)
class Topology:
    """Brokers by name, each after those that it dials; they are in `above`, and the first broker dials nobody.

    The addresses that are dialled are not in the settings of a broker: a port may be known only when it is taken.
    """

    brokers: Mapping[str, ServerConfig]
    above: Mapping[str, tuple[str, ...]]


def topology(
    shape: str = "tree",
    brokers: int | Sequence[str] = 7,
    *,
    children: int = 2,
    links: Sequence[Sequence[str]] = (),
    brokers_per_node: int = 1,
    nodes: Mapping[str, Sequence[str]] | None = None,
    port: int = 0,
    data: Path | None = None,
    settings: Mapping[str, object] | None = None,
    overrides: Mapping[str, Mapping[str, object]] | None = None,
) -> Topology:
    """A network of the given shape; `settings` are those of every broker, `overrides` of single ones.

    Each name in `brokers` and `links` is that of a broker, or of one of the `nodes`. Where there are several
    `brokers_per_node`, every other name that has two neighbours or more is a node of so many.

    >>> net = topology("line", ["a", "b", "c"], settings={"routing": "simple"}, brokers_per_node=2)
    >>> list(net.brokers), net.brokers["b-2"].node, net.brokers["c"].routing
    (['a', 'b-1', 'b-2', 'c'], 'b', 'simple')
    >>> net.above
    {'b-1': ('a',), 'b-2': ('a', 'b-1'), 'c': ('b-1', 'b-2')}
    """
    names = _names(brokers)
    if len(set(names)) < len(names):
        raise ConfigurationError("two brokers have the same name: give each its own")
    pairs = _links(shape, names, children, links)
    above_node = _hang_up(names, pairs)
    members = _members(names, pairs, brokers_per_node, nodes or {})
    node_of = {broker: name for name, several in members.items() for broker in several}
    if not 0 <= port <= 65_536 - len(node_of):
        raise ConfigurationError(f"port is {port}: {len(node_of)} brokers need as many ports from there up to 65535")
    overrides = overrides or {}
    for name in overrides:
        if name not in node_of:
            raise unknown_key(name, "[brokers]", node_of)
    ports = {name: port + number if port else 0 for number, name in enumerate(node_of)}
    configs: dict[str, ServerConfig] = {}
    above: dict[str, tuple[str, ...]] = {}
    for node in (names[0], *above_node):
        higher = members[above_node[node]] if node in above_node else []
        for number, name in enumerate(members[node]):
            values = {"listen": f"{HOST}:{ports[name]}", **(settings or {}), **overrides.get(name, {})}
            if data is not None:
                values.setdefault("data", data / name)
            if members[node] != [node]:
                values["node"] = node
            configs[name] = ServerConfig(name=name, **values)  # type: ignore[arg-type] # of types that settings have
            if dialled := (*higher, *members[node][:number]):
                above[name] = dialled
    for config in configs.values():
        if config.order_root is not None and config.order_root not in configs:
            raise unknown_key(config.order_root, f"order_root of {config.name}", configs)
    return Topology(configs, above)


def read_topology(file: Path) -> Topology:
    """The network that a TOML file describes."""
    tables = read_toml(file)
    for key in tables:
        if key not in _TABLES:
            raise unknown_key(key, str(file), _TABLES)
    for key in _TABLES:
        _check_table(tables.setdefault(key, {}), f"[{key}]", file)
    network = tables["network"]
    for key in network:
        if key not in _NETWORK_KEYS:
            raise unknown_key(key, f"{file}, [network]", _NETWORK_KEYS)
    _check_network(network, file)
    for name, several in tables["nodes"].items():
        if not _is_texts(several) or not several:
            raise ConfigurationError(f"{file}, [nodes]: {name} is {several!r}: write the names of its brokers")
    links = network.get("links", ())
    if "brokers" not in network and not links:
        raise ConfigurationError(f"{file}: [network] has no brokers: say how many, or give their names or links")
    overrides = {
        name: _read_settings(_check_table(table, f"[brokers.{name}]", file), f"{file}, [brokers.{name}]", own=True)
        for name, table in tables["brokers"].items()
    }
    try:
        return topology(
            network.get("shape", "links" if links else "tree"),
            network.get("brokers", _named_in(links)),
            children=network.get("children", 2),
            links=links,
            brokers_per_node=network.get("brokers_per_node", 1),
            nodes=tables["nodes"],
            port=network.get("port", DEFAULT_PORT),
            data=Path(network["data"]) if "data" in network else None,
            settings=_read_settings(tables["broker"], f"{file}, [broker]", own=False),
            overrides=overrides,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _names(brokers: int | Sequence[str]) -> list[str]:
    names = [f"b{number}" for number in range(1, brokers + 1)] if isinstance(brokers, int) else list(brokers)
    if not names:
        raise ConfigurationError("a network has at least one broker")
    return names


def _named_in(links: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for link in links for name in link))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _links(shape: str, names: Sequence[str], children: int, links: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """The links of a network, as pairs of names."""
    if shape not in SHAPES:
        raise ConfigurationError(f"no shape is called {shape!r}: take one of {', '.join(SHAPES)}")
    if shape == "links":
        return links
    if links:
        raise ConfigurationError(f'links are given, but the shape is {shape!r}: take links out, or shape = "links"')
    fan_out = {"line": 1, "star": len(names), "tree": children}[shape]
    if fan_out < 1:
        raise ConfigurationError(f"children is {children}: a broker of a tree has at least 1")
    return [(names[(number - 1) // fan_out], names[number]) for number in range(1, len(names))]


def _members(
    names: Sequence[str], links: Sequence[Sequence[str]], per_node: int, nodes: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """The brokers of each node, by its name; a broker that is a node by itself has the same name."""
    if per_node < 1:
        raise ConfigurationError(f"brokers_per_node is {per_node}: a node has at least 1")
    for node in nodes:
        if node not in names:
            raise unknown_key(node, "[nodes]", names)
    degrees = Counter(name for link in links for name in link)
    members = {
        name: [*nodes[name]]
        if name in nodes
        else [f"{name}-{number}" for number in range(1, per_node + 1)]
        if per_node > 1 and degrees[name] > 1
        else [name]
        for name in names
    }
    node_of: dict[str, str] = {}
    for node, several in members.items():
        for broker in several:
            if broker in node_of:
                raise ConfigurationError(
                    f"two brokers are called {broker}, of {node_of[broker]} and {node}: rename one"
                )
            node_of[broker] = node
    for node in members:
        if node_of.get(node, node) != node:
            raise ConfigurationError(
                f"{node} is the name of a node, and of a broker of the node {node_of[node]}: rename one of them"
            )
    return members


def _hang_up(names: Sequence[str], links: Sequence[Sequence[str]]) -> dict[str, str]:
    """Who is above whom when the tree hangs from its first broker, those near it first."""
    neighbours: dict[str, list[str]] = {name: [] for name in names}
    for a, b in links:
        for name in (a, b):
            if name not in neighbours:
                raise unknown_key(name, f"the link {a} - {b}", names)
        if _reached_from(a, neighbours).keys() & {b}:
            raise ConfigurationError(f"the link {a} - {b} closes a cycle, and nodes form a tree: take one link out")
        neighbours[a].append(b)
        neighbours[b].append(a)
    above = _reached_from(names[0], neighbours)
    for name in names:
        if name not in above:
            raise ConfigurationError(f"no links lead from {names[0]} to {name}, and brokers form one tree: link them")
    del above[names[0]]
    return above


def _reached_from(start: str, neighbours: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Everybody whom links lead to, the near ones first, each with the one before it on the way."""
    found = {start: start}
    queue = [start]
    for name in queue:
        for neighbour in neighbours[name]:
            if neighbour not in found:
                found[neighbour] = name
                queue.append(neighbour)
    return found


# --- what a file may say ----------------------------------------------------------------------------------------------


def _check_table(table: Any, what: str, file: Path) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file}: {what} should be a table, not {table!r}")
    return table


def _check_network(network: Mapping[str, Any], file: Path) -> None:
    """That the values in [network] have the types they should."""
    brokers, links = network.get("brokers", 1), network.get("links", [])
    for key, is_right, form in (
        ("shape", isinstance(network.get("shape", ""), str), "a text"),
        ("brokers", type(brokers) is int or _is_texts(brokers), "a number, or a list of names"),
        ("children", type(network.get("children", 1)) is int, "a number"),
        ("brokers_per_node", type(network.get("brokers_per_node", 1)) is int, "a number"),
        ("port", type(network.get("port", 1)) is int, "a number"),
        ("data", isinstance(network.get("data", ""), str) and network.get("data") != "", "the path of a directory"),
        (
            "links",
            isinstance(links, list) and all(_is_texts(link) and len(link) == 2 for link in links),
            'pairs of names: [["a", "b"]]',
        ),
    ):
        if not is_right:
            raise ConfigurationError(f"{file}, [network]: {key} is {network[key]!r}: write {form}")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _read_settings(table: Mapping[str, object], source: str, *, own: bool) -> dict[str, object]:
    """The settings in a table, of one broker (`own`) or of all."""
    values = {}
    for name, value in table.items():
        if name in _ELSEWHERE and not (own and name in ("listen", "data")):
            raise ConfigurationError(f"{source}: {name} has no place here: {_ELSEWHERE[name]}")
        if name not in SETTINGS:
            raise unknown_key(name, source, SETTINGS)
        values[name] = read_named(name, value, source)
    return values
