"""A broker that runs: the cores of `sluice.protocol` put together, and the server, the log and the processes around them."""

from typing import TYPE_CHECKING

from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.broker.config import ServerConfig
    from sluice.broker.core.broker import Broker
    from sluice.broker.core.config import BrokerConfig

__all__ = ["Broker", "BrokerConfig", "ServerConfig"]

__getattr__ = imported_when_asked(
    __name__,
    {
        "Broker": "sluice.broker.core.broker",
        "BrokerConfig": "sluice.broker.core.config",
        "ServerConfig": "sluice.broker.config",
    },
)
