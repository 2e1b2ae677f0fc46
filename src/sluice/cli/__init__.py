"""The command line, `main`, and the verbs that are a face of no room alone."""

from sluice.cli.main import main

__all__ = ["main"]
