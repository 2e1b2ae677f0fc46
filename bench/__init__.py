"""Measurements: Sluice beside the tools that people would otherwise use, on the same data, machine and run."""
