"""How a client connects and what it holds, checked when it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sluice.client.gap import Gap
from sluice.errors import ConfigurationError
from sluice.limits import MAX_NAME, MAX_TOKEN
from sluice.protocol.wire.link import Policy

#: What a broker does when this subscriber is too slow, by the names that people write.
POLICIES = {"drop-oldest": Policy.DROP_OLDEST, "block": Policy.BLOCK, "disconnect": Policy.DISCONNECT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be said beside the address."""

    #: Under which name to publish and subscribe; None: one that nobody else has. Durable publishers need one.
    name: str | None = None
    #: What the broker does when more waits for this client than it may hold: `drop-oldest`, `block` or `disconnect`.
    policy: str = "drop-oldest"
    #: How many notifications may wait in this process before the program takes them.
    prefetch: int = 65_536
    #: Called with every `Gap`.
    on_gap: Callable[[Gap], None] | None = None
    #: Whether to connect again when the link breaks.
    reconnect: bool = True
    #: How long the first connection, and each handshake, may take.
    connect_seconds: float = 5.0
    #: How long to try again after a link broke; None: for ever.
    give_up_seconds: float | None = None
    #: How long to try the same broker after a link broke before others are tried; None: always. What a durable broker had not
    #: accepted is then sent to the other one, and may be in both logs, under the same number.
    move_seconds: float | None = 10.0
    #: How long the end of a `with` block waits for what was published to be accepted.
    close_seconds: float = 5.0
    #: What to show the broker; None: nothing. It is a secret, and never shown to anybody else.
    token: str | None = field(default=None, repr=False)
    #: A PEM file with the authority that has signed the broker's certificate; None: those that the system trusts.
    tls_authority: Path | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigurationError(f"{self.policy!r} is no policy: choose one of {', '.join(POLICIES)}")
        if self.prefetch < 1:
            raise ConfigurationError(f"prefetch is {self.prefetch}: at least 1 notification must be able to wait")
        if self.name is not None and not 1 <= len(self.name) <= MAX_NAME:
            raise ConfigurationError(f"a name has 1 to {MAX_NAME} characters, not {len(self.name)}")
        if self.name is not None and "/" in self.name:
            raise ConfigurationError(f"the name {self.name!r} has a slash in it, which separates names from numbers")
        if self.token is not None and not 1 <= len(self.token) <= MAX_TOKEN:
            raise ConfigurationError(f"the token has {len(self.token)} characters: it is one of 1 to {MAX_TOKEN:,}")
        if self.move_seconds is not None and not self.move_seconds >= 0:
            raise ConfigurationError(f"move_seconds is {self.move_seconds}: it is not below 0")
        for name in ("connect_seconds", "give_up_seconds", "close_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigurationError(f"{name} is {seconds}: it must be more than 0")
