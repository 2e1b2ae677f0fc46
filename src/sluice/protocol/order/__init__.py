"""Everybody sees the same order: pairwise total order for what is asked for by content.

`algorithm` says what a way to put publications in order has to do, and there are two. With `floors`, the usual one, there is no
place that all pass through: every broker stamps what it takes in, links carry promises of what can no longer come, and what
nothing can precede any more is released. With `rooted` one broker stamps what all publish. `queue` holds back what is for one
client; `ordering` is all that a broker does about it.
"""
