"""A broker that runs: the cores of `sluice.protocol` put together, and the server, the log and the processes around them."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.broker.broker import Broker
    from sluice.broker.brokerconfig import BrokerConfig
    from sluice.broker.config import ServerConfig

__all__ = ["Broker", "BrokerConfig", "ServerConfig"]

#: Imported when somebody asks for them: `sluice --help` reads the settings and needs no compiler.
_HOMES = {
    "Broker": "sluice.broker.broker",
    "BrokerConfig": "sluice.broker.brokerconfig",
    "ServerConfig": "sluice.broker.config",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sluice.broker' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
