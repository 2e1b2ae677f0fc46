"""Where everything lies in the heap of the index: one array of 64-bit words that can be saved, mapped and shared as it is.

The heap holds a hash table from *access keys* to *groups*, the groups with their *leaves*, and the leaves with their rows
column by column. Addresses are word offsets into the heap, 0 meaning none. `heap.py`,
`access.py`, `groups.py`, `whole.py` and `rows.py` write here; the others only read.
"""

from __future__ import annotations

#: The smallest word: "this record has no such value". No bound of a test is that low, so every test on it fails.
MISSING = -(2**63)
#: The largest word.
LARGEST = 2**63 - 1

# Header: one word each.
TOP = 0  # first free word at the end
ROWS = 1  # rows stored
SINGLES = 2  # address, capacity and length of the list of fields that equality keys use: (field, keys) each
PAIRS = 5  # likewise for pairs of fields: (field, field, keys) each
RANGES = 8  # likewise for fields that lead to groups by interval: (field, rows) each
FREE = 16  # heads of the free lists, one per size class
CLASSES = 200
PARTITIONS = 64
TABLE = FREE + CLASSES  # address, capacity and length of each partition of the hash table
HEADER = TABLE + 3 * PARTITIONS

# Hash table slot: key (tag, first, second), first group or group of a signature, count.
SLOT = 5
S_TAG, S_FIRST, S_SECOND, S_GROUP, S_COUNT = range(SLOT)
# What a tag says is in its low bits: an equality key, a pair of them, a field's intervals, or a signature within a bucket.
KEY_SINGLE, KEY_PAIR, KEY_RANGE, KEY_SIGNATURE = 1, 2, 3, 4

# Group: the rows of one bucket that have the same columns, or that are stored whole. What every look needs comes first.
G_NEXT = 0  # next group of the bucket
G_PENDING = 1  # 1: its matches are candidates that Python must confirm or count once
G_WHOLE = 2  # 1: rows are stored whole, one behind the other, each with tests on fields of its own
G_REST = 3  # 1: rows have further tests in a list
G_LEAVES, G_DIRECTORY = 4, 5  # directory of leaves: (lowest low end, highest high end, address) each
G_INLINE = 6  # the directory itself while it has one leaf
G_SORTED = 9  # 1: leaves are ordered by the low ends of the first column, with zone maps
G_CAPACITY, G_ROWS = 10, 11  # of the directory; of the group
G_TAG, G_FIRST, G_SECOND = 12, 13, 14  # the bucket's key
G_SIGNATURE = 15  # hash of the fields of its columns
G_COLUMNS = 16  # number of columns, then their test words
G_FIELDS = 17

# Leaf: header, then rows column by column: slot and entry as 32-bit numbers, low ends, high ends, ..., and last the core of
# each column: its highest low end and its lowest high end, between which every row holds.
L_GROUP, L_ROWS, L_CAPACITY = 0, 1, 2
L_USED = 3  # of a leaf of whole rows, whose capacity is in words too: how many words they take
LEAF = 4
LEAF_ROWS = 1024
#: Words that a leaf of whole rows may take; a row that is longer has a leaf of its own. No row is that far from its leaf.
PAGE = 2048
#: Rows that are tested in one step. A whole step is read where fewer rows are left, so as many words follow the last leaf.
STEP = 16
FIRST_ROWS = 4

#: Rows a bucket has before it looks for those that test the same fields.
MIXED_ROWS = 64
#: Such rows, from which on they get a group of their own: each group is a few cache lines to visit, however small.
COLUMN_ROWS = 128
#: Clauses that share an equality before the second equality of a clause joins its key.
CROWDED = 64
#: Pairs of fields that may serve as keys: each is one more look-up for every record that has both.
MAX_PAIRS = 128

# A test word is field * 4 + one of these.
RANGE, MASK, LIST = 0, 1, 2

#: Words that one insertion may need, beyond what its own clause takes.
RESERVE = 64 * 1024
