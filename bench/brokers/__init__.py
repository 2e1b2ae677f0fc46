"""Message brokers side by side, each client in a process of its own.

A module per system (`nats`, `rabbitmq`, `activemq`, `ours`) says which version is installed (`version`), starts a broker
(`serve`) and has the roles of its clients: coroutines that connect, then carry out one order after the other.
"""
