"""Drivers of their own on the tests' JVM: processes that may be killed, without the ten seconds that a JVM takes.

`gateway(spark)` gives what has to be in such a process' environment, and `adopt` joins there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def gateway(spark: SparkSession) -> dict[str, str]:
    """The environment in which a process finds this session's JVM."""
    java = spark.sparkContext._gateway.java_parameters
    return {"PYSPARK_GATEWAY_PORT": str(java.port), "PYSPARK_GATEWAY_SECRET": java.auth_token}


def given() -> bool:
    """Whether this process has been given a JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def adopt() -> SparkContext:
    """Work in the Spark application of the JVM that the tests have, which outlives this process."""
    gateway = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)
    application = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    return SparkContext(gateway=gateway, jsc=gateway.jvm.JavaSparkContext.fromSparkContext(application))
