"""How long a test waits for what should happen: far longer than it takes on a slow machine; only what hangs meets it."""

PATIENCE_SECONDS = 300.0
