"""Reshaping the tree of brokers while traffic flows: a link is replaced by another, and only the chain between is touched."""
