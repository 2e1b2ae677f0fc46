"""Everybody sees the same order: pairwise total order for what is asked for by content, without a place that all pass through.

`algorithm` says what a way to put publications in order has to do; `floors` is the one that runs: every publication has a
stamp, links carry promises of what can no longer come, and what nothing can precede any more is released. `queue` holds back
what is for one client until then; `ordering` is all that a broker does about it.
"""
