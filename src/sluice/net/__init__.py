"""What a broker and a client need of the network: addresses, and a connection that carries messages."""
