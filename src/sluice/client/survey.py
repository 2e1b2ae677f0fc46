"""How all brokers of a network are, asked for over one connection: each gives an account of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sluice.client.bus import Bus
from sluice.errors import RequestError

#: What a broker says about itself; one that does not answer has a name and an error.
Report = Mapping[str, Any]


async def survey(bus: Bus) -> list[Report]:
    """The accounts of all brokers that the one at the other end knows, by name."""
    home = await bus.describe()
    others = sorted(set(home["brokers"]) - {home["name"]})
    reports = await asyncio.gather(*(_account(bus, name) for name in others))
    return sorted([home, *reports], key=lambda report: str(report["name"]))


async def _account(bus: Bus, name: str) -> Report:
    try:
        return await bus.describe(name)
    except RequestError as error:  # it has just gone: the others are still worth showing
        return {"name": name, "error": str(error)}
