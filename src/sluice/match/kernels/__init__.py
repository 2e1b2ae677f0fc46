"""The index itself, compiled by numba: `layout` says where everything lies in its heap, which all other modules read or write.

In: `access` picks the key of a clause, and `rows` stores it as a row of a group, in columns (`groups`) or whole (`whole`), in
what `heap` hands out; `walk` goes over rows of both kinds. Out, for one record: `scan` goes from its keys to leaves, and
`leaves` tests the rows in them. Out, for a batch, whose columns `columns` turns into keys: `tasks` notes which records lead to
which bucket, `tiles` tests rows that have their fields in common, and `mixed` all others, on records that `laying` lays out.
Both compare many at a time by `vectors` (or `plain`). `tally` only counts, and `cover` asks with boxes in place of records.
"""
