"""`format("sluice")`: what Spark asks for a reader or a writer.

Spark makes one of these whenever it needs one, in whatever process; it is nothing but the options it was given.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from sluice.errors import ConfigurationError
from sluice.spark.options import SinkOptions, SourceOptions
from sluice.spark.sink import BatchWriter, StreamWriter
from sluice.spark.source import BatchReader, StreamReader, inferred


class SluiceFormat(DataSource):
    """The brokers as a source and a sink of DataFrames."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "sluice"

    def schema(self) -> StructType:
        """The schema of those who declare none."""
        return inferred(SourceOptions.of(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        return BatchReader(SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """For `spark.readStream`."""
        return StreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        if overwrite:
            raise ConfigurationError('what was published cannot be overwritten: write with mode("append")')
        return BatchWriter(SinkOptions.of(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        if overwrite:
            raise ConfigurationError('what was published cannot be overwritten: write with outputMode("append")')
        return StreamWriter(SinkOptions.of(self.options))
