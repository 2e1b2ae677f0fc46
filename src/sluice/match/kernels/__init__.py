"""The index itself, compiled by numba: `layout` says where everything lies in its heap, which all other modules read or write.

In: `access` picks the key of a clause, `groups` and `rows` store it as a row, in what `heap` hands out. Out: `scan` goes from
the keys of a record to leaves, `tiles` does so for large groups of a whole batch, `leaves` tests the rows with `vectors` (or
`plain`); `tally` only counts, and `cover` asks with boxes in place of records.
"""
