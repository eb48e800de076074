"""The Spark session in which both sides run: with Delta, Spark's Kafka connector and decoders, and two tasks at a time.

`from_avro` is in a jar set. `from_protobuf` is not: not every repository has spark-protobuf for Scala 2.13. The
environment variable KSEG_SPARK_PROTOBUF names a jar with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kseg.etl.spark.session import ALWAYS, DELTA_EXTENSIONS, LOCAL_DEFAULTS
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "spark-kafka-4.2.0"
"""Spark's own Kafka connector and its dependencies, in mixed versions (`kseg.jobs.broker.lock`)."""

AVRO = "spark-avro-4.1.1"

JAR_SETS = (jars.KAFKA, "delta-4.4.0", CONNECTOR, AVRO)

PROTOBUF_JAR = "KSEG_SPARK_PROTOBUF"

MASTER = "local[2]"


def _class_path() -> Iterator[str]:
    yield from (jars.class_path(name) for name in JAR_SETS[1:])
    if own := os.environ.get(PROTOBUF_JAR):
        yield own


@contextmanager
def bench_session(folder: Path) -> Iterator[SparkSession]:
    """A session for the duration of a benchmark. folder: for Spark's files."""
    from pyspark.sql import SparkSession

    use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    own = {
        "spark.driver.extraClassPath": os.pathsep.join(_class_path()),
        # The connector's pool keeps consumers and the data that they have fetched after their session has ended: those
        # of earlier sections filled a heap of 2 GiB.
        "spark.driver.memory": "4g",
        "spark.kafka.consumer.cache.timeout": "1m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("kseg bench").master(MASTER)
    for key, value in (LOCAL_DEFAULTS | ALWAYS | DELTA_EXTENSIONS | own).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
