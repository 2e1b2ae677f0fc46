"""A broker that runs: the cores of `sluice.protocol` put together."""

from sluice.broker.broker import Broker, BrokerConfig

__all__ = ["Broker", "BrokerConfig"]
