"""Registers `spark.read.format("kseg")`: Spark imports top-level modules named `pyspark_*` to find data sources."""

from kseg.etl.spark_format.datasource import KsegDataSource as DefaultSource

__all__ = ["DefaultSource"]
