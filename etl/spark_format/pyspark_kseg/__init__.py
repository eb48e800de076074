"""Where Spark finds `spark.read.format("kseg")` by itself: it looks into top-level modules named `pyspark_*`."""

from kseg.etl.spark_format.datasource import KsegDataSource as DefaultSource

__all__ = ["DefaultSource"]
