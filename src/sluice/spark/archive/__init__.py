"""The archive: every notification once, in a Delta table by day; how it is written, tidied up and read."""
