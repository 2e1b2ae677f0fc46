"""The deterministic simulator: brokers and clients in one process, virtual time, faults, and the specification as checks."""
