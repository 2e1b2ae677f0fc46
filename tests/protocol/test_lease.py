"""The times of leases: what does not fit together is refused with the numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sluice.errors import ConfigurationError
from sluice.protocol.lease import LeaseConfig

GOOD: dict[str, Any] = {
    "renew_seconds": 10,
    "lease_seconds": 30,
    "min_delay_seconds": 0.5,
    "max_delay_seconds": 2,
    "diameter": 4,
}


def test_the_bounds_of_the_paper() -> None:
    lease = LeaseConfig(**GOOD)
    assert lease.jitter_seconds == 4 * 1.5
    assert lease.bound_seconds == 2 + 6 + 30
    assert lease.repair_seconds == 10 + (3 + 2 * 4) * 2, (
        "a digest, the question, the answer, and the way there and back"
    )
    assert lease.silence_seconds == 30 + (1 + 4) * 2, "the last renewal, the lease, and the way across"


def test_a_short_lease_is_bounded_by_the_repair() -> None:
    lease = LeaseConfig(
        renew_seconds=10, lease_seconds=11, min_delay_seconds=2, max_delay_seconds=2, diameter=4
    )  # fmt: skip
    assert lease.bound_seconds == lease.repair_seconds > 2 + 0 + 11


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lease_seconds": 16}, r"lease of 16 s is too short.*10 s.*4 links, 4 x \(2 s - 0.5 s\) = 6 s.*16 s"),
        ({"lease_seconds": 12}, "lease of 12 s is too short"),
        ({"diameter": 14}, "jitter of 14 links"),
        ({"diameter": 0}, "diameter of 0"),
        ({"renew_seconds": 0}, "renew_seconds is 0"),
        ({"renew_seconds": -1}, "renew_seconds is -1"),
        ({"renew_seconds": math.nan}, "renew_seconds is nan"),
        ({"lease_seconds": 0}, "lease_seconds is 0"),
        ({"lease_seconds": math.nan}, "lease_seconds is nan"),
        ({"min_delay_seconds": -1}, "delays -1 s to 2 s"),
        ({"min_delay_seconds": 3}, "delays 3 s to 2 s"),
        ({"max_delay_seconds": math.nan}, "delays 0.5 s to nan s"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        LeaseConfig(**{**GOOD, **change})


def test_a_lease_just_long_enough_is_accepted() -> None:
    assert LeaseConfig(**{**GOOD, "lease_seconds": 16.001}).lease_seconds == 16.001


def test_the_defaults_fit() -> None:
    assert LeaseConfig().bound_seconds > LeaseConfig().lease_seconds
