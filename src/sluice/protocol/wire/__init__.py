"""Messages as bytes and back: what travels on a connection between two processes.

`frames` cuts the bytes of a stream into frames, `codec` has a form for every message, `tables` and `questions` for what is in
some of them, `vectors` spells clocks out once; `link` is what is said about the link itself. Batches are as they are in logs
(`sluice.protocol.packing`).
"""
