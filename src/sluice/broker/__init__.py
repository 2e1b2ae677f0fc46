"""A broker that runs: the cores of `sluice.protocol` put together, and the server, the log and the processes around them."""

from typing import TYPE_CHECKING

from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.broker.broker import Broker
    from sluice.broker.brokerconfig import BrokerConfig
    from sluice.broker.config import ServerConfig

__all__ = ["Broker", "BrokerConfig", "ServerConfig"]

__getattr__ = imported_when_asked(
    __name__,
    {
        "Broker": "sluice.broker.broker",
        "BrokerConfig": "sluice.broker.brokerconfig",
        "ServerConfig": "sluice.broker.config",
    },
)
