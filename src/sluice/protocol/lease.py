"""How long a table is believed: leases, so that from any corrupted state the network is right again after a known time.

Every sender renews a whole export with a digest every `renew_seconds`; a receiver gives an export up that was not renewed for
`lease_seconds` (section 3.7). What is derived from the tables is worked out anew at every renewal, so nothing wrong survives.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """The times of leases, and what is known about the network they must fit.

    >>> LeaseConfig(renew_seconds=10, lease_seconds=25, min_delay_seconds=0, max_delay_seconds=1, diameter=5).bound_seconds
    31
    >>> LeaseConfig(renew_seconds=10, lease_seconds=12, min_delay_seconds=0, max_delay_seconds=1, diameter=5)
    Traceback (most recent call last):
    sluice.errors.ConfigurationError: a lease of 12 s is too short: it must be longer than the 10 s between renewals plus
    the jitter of 5 links, 5 x (1 s - 0 s) = 5 s, which makes 15 s. Lengthen lease_seconds or shorten renew_seconds
    """

    #: The time between renewals, the papers' rho.
    renew_seconds: float = 60.0
    #: For how long a renewal counts, pi.
    lease_seconds: float = 180.0
    #: How long a message takes over a link, at least and at most.
    min_delay_seconds: float = 0.0
    max_delay_seconds: float = 1.0
    #: Links on the longest path, d.
    diameter: int = 16

    def __post_init__(self) -> None:
        for name in ("renew_seconds", "lease_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: a lease needs a time above 0")
        if not 0 <= self.min_delay_seconds <= self.max_delay_seconds:
            raise ConfigurationError(
                f"the delays {self.min_delay_seconds} s to {self.max_delay_seconds} s are no range from 0 upwards"
            )
        if self.diameter < 1:
            raise ConfigurationError(f"a diameter of {self.diameter} is no path: it is at least 1")
        if not self.lease_seconds > self.renew_seconds + self.jitter_seconds:
            raise ConfigurationError(
                f"a lease of {self.lease_seconds:g} s is too short: it must be longer than the {self.renew_seconds:g} s "
                f"between renewals plus the jitter of {self.diameter} links, {self.diameter} x "
                f"({self.max_delay_seconds:g} s - {self.min_delay_seconds:g} s) = {self.jitter_seconds:g} s, which makes "
                f"{self.renew_seconds + self.jitter_seconds:g} s. Lengthen lease_seconds or shorten renew_seconds"
            )

    @property
    def jitter_seconds(self) -> float:
        """How much later than another one a message over the longest path may come, d(delta_max - delta_min)."""
        return self.diameter * (self.max_delay_seconds - self.min_delay_seconds)

    @property
    def repair_seconds(self) -> float:
        """How long a repair takes at most: a digest, the question, its answer, and the change across the network.

        Twice across, since what steers goes there first, and only then comes back what it steers.
        """
        return self.renew_seconds + (3 + 2 * self.diameter) * self.max_delay_seconds

    @property
    def bound_seconds(self) -> float:
        """After this time everything is right again, whatever was wrong (section 3.7.5).

        The paper's delta_max + d(delta_max - delta_min) + pi counts the time until what is wrong has gone. What is missing
        must also come back, which takes `repair_seconds`; with a lease too short for that, the bound is that time.
        """
        return max(self.max_delay_seconds + self.jitter_seconds + self.lease_seconds, self.repair_seconds)

    @property
    def silence_seconds(self) -> float:
        """After this time nothing is left of a peer that fell silent while its link seemed to work.

        Its last renewal may just have been sent, its lease runs out, and then the news travels.
        """
        return self.lease_seconds + (1 + self.diameter) * self.max_delay_seconds
