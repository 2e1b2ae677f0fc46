"""Every limit of Sluice in one place, each with the reason for its size."""

from __future__ import annotations

#: Boxes that one subscription may expand to. More is nearly always an AND of many ORs: several subscriptions.
MAX_FILTERS = 256

#: Length of a filter text in characters: far above what people write, far below what exhausts the parser.
MAX_TEXT = 100_000

#: Nesting of parentheses, functions and NOTs in a filter text, and of records and arrays in a notification.
MAX_DEPTH = 64

#: Intervals that one merged constraint may keep before an imperfect merge closes its smallest gaps.
MAX_INTERVALS = 16

#: Intervals of one attribute in a filter that routing has merged; what does not fit goes into further filters.
MAX_MERGED_INTERVALS = 1_024

#: Attributes of a filter, in the order of their names, along which routing looks for others to merge it with.
MAX_MERGED_ATTRIBUTES = 6

#: Statement shapes kept by the parser: a shape is a few kilobytes, and real programs have a handful.
MAX_SHAPES = 4_096

#: Values in one notification, names of nested records counted at each level: what is larger is data, not an event.
MAX_VALUES = 1_000_000

#: Digits of a whole number in a notification: Python refuses to read longer ones, which takes quadratic time.
MAX_DIGITS = 4_300

#: Length of an XML document in characters; a longer one is NULL to every path. (Nesting is bounded by MAX_DEPTH.)
MAX_XML = 1_000_000

#: Length of the path to an element of an XML document in characters, since every element keeps its own.
MAX_XML_PATH = 1_000

#: Subscriptions that a history remembers having answered, so that none gets its replay twice.
MAX_ANSWERED = 100_000

#: Notifications that a client remembers, so that none comes twice: once for an older and once for a newer subscription, or,
#: for a subscription with a replay, live and replayed.
MAX_SEEN = 10_000

#: Notifications of a replay that says how many it wishes for: a history sorts these out in memory.
MAX_LAST = 100_000

#: Notifications of one stream that a client keeps while it reads the log up to them; when there are more, it reads those too.
MAX_KEPT = 10_000

#: Bytes of one published record: what is larger is data that an event should point to.
MAX_RECORD_BYTES = 1 << 20

#: Publishers whose last number a broker without a log remembers, so that nothing they send again counts twice.
MAX_PUBLISHERS = 100_000

#: Questions on their way through a broker; the oldest is answered with a failure when there are more.
MAX_REQUESTS = 10_000

#: Orders to reshape the network whose outcome a broker remembers.
MAX_ORDERS = 100
#: Jobs that reshaped the tree, or did not, of which a broker remembers what became of them, for those who missed it.
MAX_FATES = 1_000

#: Bytes of one frame on a link: several batches of notifications; a longer message is split into frames.
MAX_FRAME_BYTES = 4 << 20

#: Bytes of one message: a snapshot of a table with millions of entries.
MAX_MESSAGE_BYTES = 512 << 20

#: The same for what a client says: a hundred thousand subscriptions.
MAX_CLIENT_MESSAGE_BYTES = 32 << 20

#: Notifications in one batch, so that its rows are counted in few bytes and no batch keeps a broker busy for long.
MAX_BATCH = 65_536

#: Brokers with reliable subscribers whose clocks a message may name.
MAX_CLOCKS = 10_000

#: Vectors of clocks that both ends of a connection remember by number, for each direction: more than are in use at a time.
MAX_VECTORS = 256

#: Stretches of offsets in one message: as many as one question for what is missing can make.
MAX_RUNS = 4_096

#: Moments that a client may have seen before its broker did, which may have been started again: a batch takes one, and at
#: 10,000 batches a second these are three years.
MAX_AHEAD = 1 << 40

#: Moments that a durable broker writes down at a time as given: one more write for so many batches, and nobody waits for it
#: more often. After a crash it goes on behind them.
MOMENTS_RESERVED = 1 << 20

#: Characters of the name of a broker, a client or a durable subscription.
MAX_NAME = 200

#: Characters of the address of a broker: a name of a host, and a little around it.
MAX_ADDRESS = 300

#: Characters of a token, at least and at most: one that can be guessed is none, and a hello is short.
MIN_TOKEN, MAX_TOKEN = 16, 1_000

#: Attributes with a column of their own in a table: what comes after them is kept in its map of the rest.
MAX_COLUMNS = 1_000

#: Beginnings of a pattern that are kept for one key, in hope of the rest; the oldest is given up and told when there are more.
MAX_PARTIAL = 10_000

#: Events of one key that wait for the watermark of a pattern: an hour of thirty a second.
MAX_WAITING = 100_000
