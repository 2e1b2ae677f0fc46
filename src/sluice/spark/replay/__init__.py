"""Histories: services that replay the past to subscribers who wish for it. None of this needs Spark to run."""
