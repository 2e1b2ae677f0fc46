"""How brokers agree: pure state machines, `step(event, now) -> effects`, that know no socket, clock or chance.

`messages` is the language between peers, `export` the versioned table that all of it rests on, `route` decides what each
neighbour should know, `complete` when a subscription misses nothing any more, `lease` how long a table is believed and
`interest` who wants what. `order` puts publications in one order for all, `reliable` delivers them without gaps, `reshape`
replaces links while all of this goes on. `batch` is what is published, `wire` how messages are bytes.
"""
