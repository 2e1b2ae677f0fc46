"""`sluice broker join`: a broker in this process that becomes a leaf of a network, with the settings that its brokers share.

Importing this is cheap; the client and the broker are loaded when the verb runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluice.broker.command import add_broker_arguments, flags_in, run_broker
from sluice.broker.settings import DEFAULT, SETTINGS, load
from sluice.errors import ConfigurationError
from sluice.verb import Verb

if TYPE_CHECKING:
    from sluice.broker.config import ServerConfig

SUMMARY = "run a broker that becomes a leaf of a network"
DESCRIPTION = """\
Run a broker here that dials the broker at ADDRESS and becomes a leaf of its network. What all brokers of a network have in
common (the routing algorithm, say) it takes over from there; all else is said as for a broker of its own. To put it between
others, replace links by links to it afterwards. To have it come back after a restart, start it the same way, or with a file in
which links has that address."""
EXAMPLES = """\
  sluice broker join 127.0.0.1:7470 --name b8 --listen 127.0.0.1:7478
  sluice broker join 127.0.0.1:7470 --name b8 --listen 127.0.0.1:7478 --data b8.data && sluice status
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `sluice broker join` takes: what a broker takes, and whom to dial."""
    parser.add_argument("address", metavar="ADDRESS", help="of the broker that it dials")
    add_broker_arguments(parser)
    parser.usage = "sluice broker join ADDRESS --name NAME [--SETTING VALUE ...]"
    parser.set_defaults(run=run)


JOIN = Verb("broker join", SUMMARY, DESCRIPTION, EXAMPLES, add_arguments)


def run(arguments: argparse.Namespace) -> int:
    """Runs the broker; 0 when it is stopped."""
    loaded = load(arguments.config, os.environ, flags_in(arguments))
    name = loaded.config.name
    report = asyncio.run(_account_of(arguments.address, loaded.config))
    if name in report["brokers"]:
        raise ConfigurationError(f"{name} is in that network already: choose another name")
    for setting, text in report["settings"].items():
        source = loaded.sources[setting]
        if source != DEFAULT and SETTINGS[setting].show(getattr(loaded.config, setting)) != text:
            raise ConfigurationError(f"{setting} (from {source}) is {text} in that network: leave it out")
        setattr(arguments, setting, text)
    arguments.links = [*loaded.config.links, arguments.address]
    return run_broker(arguments)


async def _account_of(address: str, config: ServerConfig) -> Mapping[str, Any]:
    """What the broker at an address tells of itself; it is shown the token that the new one will show, too."""
    from sluice.broker.security import read_token
    from sluice.client.connect import connect

    token = None if config.token_file is None else read_token(config.token_file)
    async with connect(address, token=token, tls_authority=config.tls_authority) as bus:
        return await bus.describe()
