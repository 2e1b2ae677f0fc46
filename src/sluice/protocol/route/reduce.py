"""The routing algorithms: what is left of a set of filters when a neighbour is told about it (section 3.5).

Each is a `Reducer`, kept up to date change by change. Whatever an algorithm leaves out is covered by what it tells, so the
neighbour always holds a cover of what lies behind this broker; that one argument makes every one of them correct. A new
algorithm is one class and one registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

from sluice.errors import ConfigurationError
from sluice.limits import MAX_MERGED_ATTRIBUTES
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.export import Delta
from sluice.protocol.messages import Entry
from sluice.protocol.route.policy import Policy, Ratio, Traffic
from sluice.protocol.route.stages import Counted, Distinct, Filters, Loosened, Maximal, Merged


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """What an algorithm may be told: how much an imperfect merger may waste."""

    policy: Policy = field(default_factory=Ratio)


class Reducer(Protocol):
    """Keeps `reduce(entries)` for one neighbour while the entries change."""

    #: Whether a neighbour is told of nothing that nobody asked for.
    perfect: ClassVar[bool]

    def __init__(self, options: RoutingOptions) -> None: ...

    def start(self) -> list[Entry]:
        """What a neighbour is told before there are any entries."""

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Follows a change of the entries; returns what changes for the neighbour."""


ALGORITHMS: dict[str, type[Reducer]] = {}

R = TypeVar("R", bound=type[Reducer])


def register_routing(name: str) -> Callable[[R], R]:
    """Makes a class known as a routing algorithm, under a name that configurations use."""

    def register(algorithm: R) -> R:
        ALGORITHMS[name] = algorithm
        return algorithm

    return register


def algorithm(name: str) -> type[Reducer]:
    """The algorithm with a name."""
    if name not in ALGORITHMS:
        raise ConfigurationError(f"no routing algorithm is called {name!r}: take one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


@register_routing("flooding")
class Flooding:
    """Everything goes everywhere: each neighbour is told TRUE, once and for all (section 3.5.1)."""

    perfect: ClassVar[bool] = False

    def __init__(self, options: RoutingOptions) -> None:
        pass

    def start(self) -> list[Entry]:
        """TRUE."""
        return [Entry(Subscription([EVERYTHING]))]

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Nothing ever changes."""
        return [], []


@register_routing("simple")
class Simple:
    """Every filter goes everywhere, under the id of who asked (section 3.5.2)."""

    perfect: ClassVar[bool] = True

    def __init__(self, options: RoutingOptions) -> None:
        self._counted: Counted[Entry] = Counted()

    def start(self) -> list[Entry]:
        """Nothing."""
        return []

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Passes the change on. An entry that comes from two sides for a moment is still one."""
        return self._counted.update(added, removed)


class Chain:
    """A reducer made of stages: who asked is forgotten, and each stage follows the one before it."""

    perfect: ClassVar[bool] = True
    #: Whether unions are taken apart into boxes.
    split: ClassVar[bool] = True

    def __init__(self, options: RoutingOptions) -> None:
        self._options = options
        self._distinct = Distinct(self.split)

    def start(self) -> list[Entry]:
        """Nothing."""
        return []

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Sends the change through all stages."""
        come, go = self.reduce(*self._distinct.update(added, removed))
        return [Entry(where) for where in come], [Entry(where) for where in go]

    def reduce(self, added: list[Subscription], removed: list[Subscription]) -> Filters:
        """Follows a change of the distinct filters."""
        return added, removed


@register_routing("identity")
class Identity(Chain):
    """One of each class of equal filters (section 3.5.3)."""

    split = False


@register_routing("covering")
class Covering(Chain):
    """Only the filters that no other one covers (section 3.5.4)."""

    def __init__(self, options: RoutingOptions) -> None:
        super().__init__(options)
        self._maximal = Maximal()

    def reduce(self, added: list[Subscription], removed: list[Subscription]) -> Filters:
        """Keeps the maximal ones."""
        return self._maximal.update(added, removed)


@register_routing("merging")
class Merging(Chain):
    """The maximal filters, those that differ in one attribute made one, and of the result the maximal ones (section 3.5.5)."""

    def __init__(self, options: RoutingOptions) -> None:
        super().__init__(options)
        self._parts = Maximal()
        self._passes: list[Merged | Loosened] = [*self._round()]
        self._result = Maximal()

    def policy(self) -> Policy | None:
        """Perfect mergers only."""
        return None

    def _round(self) -> Iterator[Merged]:
        return (Merged(position, self.policy()) for position in range(MAX_MERGED_ATTRIBUTES))

    def reduce(self, added: list[Subscription], removed: list[Subscription]) -> Filters:
        """Merges along the first attribute, then along the second, and so on."""
        added, removed = self._parts.update(added, removed)
        for each in self._passes:
            added, removed = each.update(added, removed)
        return self._result.update(added, removed)


@register_routing("imperfect")
class Imperfect(Merging):
    """Merging that may close gaps, as far as a policy allows (section 6.5.2)."""

    perfect = False

    def __init__(self, options: RoutingOptions) -> None:
        super().__init__(options)
        if isinstance(options.policy, Traffic):
            # Without sides that keep out little, filters are alike that were not: they become one in a second round.
            self._passes += [Loosened(options.policy), *self._round()]

    def policy(self) -> Policy | None:
        """The configured one."""
        return self._options.policy
