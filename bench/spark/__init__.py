"""The data pipeline on Spark, measured: each part is a module with a `main`; `python -m bench.spark` runs them all."""
