"""Reads a topic in a session that retries tasks, with Arrow steps that die once. Prints one line of JSON.

Run by test_dataframe.py as a process of its own: a JVM has one Spark session, and the tests' shared one does not retry.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from kseg.client import ClientConfig
from kseg.etl.executors.port import Read
from kseg.etl.executors.spark import SparkExecutor
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.tasks import split
from kseg.etl.spark.dataframe import rows
from kseg.etl.spark.jvm import light_options
from kseg.etl.tasks.packs import TaskAttempt
from kseg.etl.transform.arrow import ArrowStep, Function
from kseg.etl.transform.transform import BatchSteps
from kseg.jobs.broker.java import use_java
from kseg.segment_reader.decode.engine import Limits

servers, topic, count, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]


def dying_once(way: str) -> Function:
    """A step that passes the first batches of each task, and dies in the midst of one: by signal, and by exception."""

    def step(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows and batch.column("offset")[0].as_py() % 100 >= 50:
            partition = batch.column("partition")[0].as_py()
            mark = Path(folder, f"{way}-{'sigkill' if partition else 'raise'}")
            if not mark.exists():
                mark.touch()
                if partition:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("dies once")
        return batch

    return step


def steps_of(function: Function) -> BatchSteps:
    return BatchSteps((ArrowStep(function, "transform[0].arrow"),))


def write(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"rows": sum(batch.num_rows for batch in batches)}])


use_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
# As in the shared session: a short life takes less of a processor so.
spark = builder.config("spark.driver.extraJavaOptions", " ".join(light_options())).getOrCreate()
spark.sparkContext.setLogLevel("OFF")

config = ClientConfig.from_properties({"bootstrap.servers": servers}, client_id="kseg-test")
tasks = split([OffsetRange(topic, partition, 0, count) for partition in (0, 1)], max_records=150)
options = DecodeOptions(limits=Limits(max_rows=10))
frame, range_results = rows(spark, tasks, config, options, steps_of(dying_once("rows")))
read = frame.select("partition", "offset").distinct().count()
counted = sum(range_result.data for range_result in range_results.resolve())
results = SparkExecutor(spark.sparkContext).run(Read(tasks, config, options, write, steps_of(dying_once("fused"))))
told = {
    "died": [path.name for path in Path(folder).iterdir()],
    "rows": read,
    "rows_counted": counted,
    "fused": sum(batch.to_pylist()[0]["rows"] for result in results for batch in result.outputs),
    "fused_counted": sum(range_result.data for result in results for range_result in result.range_results),
}
spark.stop()
print(json.dumps(told))
