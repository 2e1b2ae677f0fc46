"""The data pipeline on Apache Spark, through PySpark; installed with the extra `spark`."""
