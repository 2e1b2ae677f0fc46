"""What a durable broker has on its disk: its log of publications, and how far durable subscriptions are.

`store` is the file, by way of `database`; `journal` writes it from a thread of its own, and `writer` hands over what the core
wants written. `upgrade` brings a file of an earlier release up to this one.
"""
