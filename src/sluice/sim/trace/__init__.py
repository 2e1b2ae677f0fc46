"""What happened, as the specification sees it: `trace` and the kinds of events that it is made of."""
