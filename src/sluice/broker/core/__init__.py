"""A broker without its surroundings, pure: the cores of `sluice.protocol` put together.

`broker` takes events in and says what is to be done, `links` opens and closes the channels to its peers, and `config` is what
it has to be told.
"""
