"""Writes a DataFrame exactly once in a process of its own, in which something dies. Prints one line of JSON, if it can.

Run by test_transactional.py: `local[1,4]` runs failed tasks again, which the tests' shared session does not. A driver
that is killed may have been given the tests' JVM.

    task    a worker is killed in the midst of a task; then shuffle files are lost, so that a stage runs again; then the
            same is written once more, undisturbed
    error   nothing dies: a task's row is larger than the topic allows
    before  the driver is killed when it is about to end the transaction
    after   the driver is killed when the transaction has ended, before it could tell
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import shared_jvm
from kseg.client import Transaction
from kseg.etl.kafka_writer import transactional
from kseg.etl.kafka_writer.attempts import TaskRepeated
from kseg.etl.kafka_writer.transactional import write_kafka
from kseg.etl.spark.jvm import light_options
from kseg.jobs.broker.java import use_java

what, servers, topic, rows, folder = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]


def own_session() -> SparkSession:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1,4]" if what in ("task", "error") else "local[2]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.local.dir", str(Path(folder, "spark")))
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    # As in the shared session: a short life takes less of a processor so.
    session = builder.config("spark.driver.extraJavaOptions", " ".join(light_options())).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


spark = SparkSession(shared_jvm.adopt()) if shared_jvm.given() else own_session()


def frame() -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr("CAST(id % 50 AS STRING) AS key", "CAST(id AS STRING) AS value")


def write(run_id: str) -> Any:
    options = {"bootstrap.servers": servers, "batch.size": "1000"}
    return write_kafka(frame(), transactional_id=f"tx-{topic}", topic=topic, options=options, run_id=run_id)


def die(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def await_records() -> None:
    """Until something of what a producer has been given stands in the topic."""
    from confluent_kafka import Consumer, TopicPartition

    level = {"isolation.level": "read_uncommitted"}  # under the other the log ends in front of the transaction
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "looks-on", "log_level": 0, **level})
    places = [TopicPartition(topic, number) for number in consumer.list_topics(topic, 60).topics[topic].partitions]
    while not any(consumer.get_watermark_offsets(place, 60)[1] for place in places):
        time.sleep(0.05)
    consumer.close()


if what == "task":
    plain = transactional._write_partitions

    def dying(plan: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def watched() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                mark = Path(folder, "died")
                if not mark.exists():
                    mark.touch()
                    await_records()
                    die(None)

        yield from plain(plan, watched())

    transactional._write_partitions = dying
    told: dict[str, Any] = {}
    try:
        write("run")
    except TaskRepeated as error:
        told["error"] = str(error)
    told["died"] = Path(folder, "died").exists()

    def losing(plan: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The first task writes its rows, then all shuffle files are gone: the tasks after it cannot read theirs."""
        first = not Path(folder, "lost").exists()
        Path(folder, "lost").touch()
        yield from plain(plan, batches)
        if first:
            for file in Path(folder, "spark").rglob("shuffle_*"):
                file.unlink(missing_ok=True)

    transactional._write_partitions = losing
    try:
        write("run")
    except TaskRepeated as error:
        told["stage_error"] = str(error)
    told["lost"] = Path(folder, "lost").exists()
    transactional._write_partitions = plain
    written = write("run")
    told["rows"], told["already_done"] = written.rows, written.already_done
    print(json.dumps(told))
elif what == "error":
    large = spark.range(1).selectExpr("repeat('x', 2000000) AS value")  # the default of max.message.bytes is 1 MiB
    try:
        write_kafka(large, transactional_id=f"tx-{topic}", topic=topic, options={"bootstrap.servers": servers})
    except Exception as error:
        print(json.dumps({"kind": type(error).__name__, "text": str(error)}))
elif what == "before":
    Transaction.commit = die  # type: ignore[method-assign]
    write("run")
elif what == "after":
    commit = Transaction.commit

    def commit_and_die(transaction: Transaction) -> None:
        commit(transaction)
        die(None)

    Transaction.commit = commit_and_die  # type: ignore[method-assign]
    write("run")
spark.stop()
