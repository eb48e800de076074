"""The Spark session of a run: the job file's words first, defaults that suit a batch job where it is silent."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from etl.config import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# snapshotPartitions: a table of this size does not need 50 tasks to read its own log; measured, it halves the first
# append with an app transaction. The web UI costs start-up time and a port; `spark.conf` turns it on.
LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

JAR_KEYS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def open_session(job: Job) -> SparkSession:
    """The session for this job.

    Under spark-submit the master and everything that was submitted stand; the job file fills in what is missing.
    Delta's extensions are switched on where a jar with them can be there; direct landing does not need them.
    """
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or SparkSession.getActiveSession() is not None
    builder = SparkSession.builder
    given = job.spark_conf()
    conf = dict(ALWAYS)
    if any(key in given for key in JAR_KEYS):
        # Spark fails at its first query when it is told of extensions whose jar it does not have.
        conf |= DELTA
    if not submitted:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.appName(f"kseg {job.name}").master(job.spark.master)
        if job.spark.master.startswith("local"):
            conf = LOCAL_DEFAULTS | conf
    for key, value in (conf | dict(given)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(given.get("spark.log.level", "ERROR"))
    return session
