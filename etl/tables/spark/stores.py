"""Stores in which Spark's commits are put-if-absent, so that two drivers cannot overwrite each other's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kseg.etl.tables.lease import EXCLUSIVE_FOR_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DYNAMODB = "DynamoDB"
_S3 = frozenset({"s3", "s3a", "s3n"})


def unsafe_store(spark: SparkSession, place: str) -> str | None:
    """Why two drivers could overwrite each other's commit at this place; None if they cannot."""
    scheme = urlsplit(place).scheme
    if not scheme and hasattr(spark, "_jvm"):
        default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
        scheme = urlsplit(default).scheme
    scheme = scheme or "file"
    stores = [spark.conf.get(f"spark.delta.logStore.{scheme}.impl", None)]
    stores.append(spark.conf.get("spark.delta.logStore.class", None))
    if scheme in EXCLUSIVE_FOR_SPARK or any(_DYNAMODB in (store or "") for store in stores):
        return None
    if scheme in _S3:
        return "its log store on S3 protects within one driver only"
    return f"its log store for {scheme}: protects within one driver only"
