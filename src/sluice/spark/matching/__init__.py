"""Matching at scale: notifications in DataFrames, streams and files against millions of subscriptions."""
