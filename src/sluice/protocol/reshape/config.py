"""How long a broker waits when the tree is reshaped, and for how long it believes in a link that broke."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeConfig:
    """How a broker takes part in jobs, and whether it repairs its links by itself."""

    #: After this time a job that is not over is given up.
    patience_seconds: float = 30.0
    #: Whether a link that broke is replaced by another one if there is one; all brokers of a network should say the same.
    repairs: bool = False
    #: For so long what came over a link that broke is believed, while it may come back or be replaced.
    hold_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.patience_seconds > 0 or not self.hold_seconds >= 0:
            raise ConfigurationError(
                f"a job cannot wait {self.patience_seconds} s, or a link be held for {self.hold_seconds} s: both are times"
            )
