"""The papers' experiments, run on the very brokers that ship, and the figures that the papers give for them.

`topology` is the tree of section 6.2 of the dissertation on content-based routing, `workload` its consumers, `network`
the brokers at work, `experiment` what is counted, `closed_form` what should come out and `curves` the plots.
"""
