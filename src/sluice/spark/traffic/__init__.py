"""What traffic looks like: `statistics` counts it with Spark, for brokers that judge mergers by it; `command` is the verb."""
