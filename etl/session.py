"""The Spark session of a run: the job file's words first, defaults that suit a batch job where it is silent."""

from __future__ import annotations

import os
import sys
from importlib import resources
from typing import TYPE_CHECKING, Any

from etl.cache import DELTA, jar_folder
from etl.config import Job
from etl.errors import ConfigurationError

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

DELTA_EXTENSIONS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

JAR_KEYS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def open_session(job: Job, *, delta: bool = False) -> SparkSession:
    """The session for this job.

    Under spark-submit the master and everything that was submitted stand; the job file fills in what is missing.
    delta: Spark itself has to read or write Delta tables. Its jars are those that the configuration names, else those
    in the cache (`make setup`); direct landing does without, and starts faster so.
    """
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or SparkSession.getActiveSession() is not None
    builder = SparkSession.builder
    given = job.spark_conf()
    conf = dict(ALWAYS)
    if delta:
        conf |= DELTA_EXTENSIONS
        if not submitted and not any(key in given for key in JAR_KEYS):
            conf["spark.jars"] = ",".join(map(str, sorted(jar_folder(DELTA).glob("*.jar"))))
    if not submitted:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.appName(f"kseg {job.name}").master(job.spark.master)
        if job.spark.master.startswith("local"):
            conf = LOCAL_DEFAULTS | conf
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            quiet = f"-Dlog4j2.configurationFile={resources.files('etl').joinpath('log4j2.properties')}"
            conf["spark.driver.extraJavaOptions"] = quiet
    for key, value in (conf | dict(given)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(given.get("spark.log.level", "ERROR"))
    if delta:
        _refuse_without_delta(session)
    return session


def _refuse_without_delta(session: SparkSession) -> None:
    jvm: Any = session._jvm
    try:
        loader = jvm.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName("io.delta.tables.DeltaTable", False, loader)
    except Exception as error:
        raise ConfigurationError.of(
            "spark.conf",
            "Spark has to read or write Delta tables itself, and has no Delta jars",
            "run `kseg doctor`, or name them: spark.jars.packages: io.delta:delta-spark_4.2_2.13:4.4.0",
        ) from error
