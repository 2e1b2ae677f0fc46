"""See it work: a hundred thousand subscriptions matched against a live stream of stock quotes, in the terminal.

A `Market` makes the quotes, `subscribers` are the people who asked for some of them, a `Feed` brings both together
through a `sluice.Matcher`, a `Meter` counts, and `show.run` puts it all on the screen, or in lines.
"""
